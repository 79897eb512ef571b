//! Kind of a request, by its method, path and protocol headers: bypassed, gRPC, or a stream.
//!
//! Bypassed are requests that no model computes for: configured methods and paths (health checks), GET of configured
//! paths (metadata and statistics: a model computes for POST), and those that change the protocol of their connection.
//! A method or a GET has no body then, or a client could have servers wait for the rest of one without a slot. Paths
//! are compared as sent, without their query. An unrecognized request is an ordinary one.

use std::fmt;

use crate::request::model::{self, NamePlace};
use crate::request::wire::{Field, Wire};

/// Maximum number of bypassed methods.
pub const METHODS_MAX: usize = 16;
/// Maximum number of bypassed path patterns.
pub const PATHS_MAX: usize = 64;
/// Maximum length of a method or path pattern, in bytes.
pub const PATTERN_BYTES_MAX: usize = 256;

/// Bytes read of a list of protocols; browsers send few.
const LIST_BYTES_MAX: usize = 1024;

/// Bypassed methods by default.
pub const METHODS: [&str; 2] = ["HEAD", "OPTIONS"];
/// Paths that are bypassed with any method by default: health and metadata of the Open Inference Protocol and gRPC.
pub const PATHS: [&str; 11] = [
    "/inference.GRPCInferenceService/ServerLive",
    "/inference.GRPCInferenceService/ServerReady",
    "/inference.GRPCInferenceService/ModelReady",
    "/inference.GRPCInferenceService/ServerMetadata",
    "/inference.GRPCInferenceService/ModelMetadata",
    "/inference.GRPCInferenceService/ModelConfig",
    "/inference.GRPCInferenceService/ModelStatistics",
    "/inference.GRPCInferenceService/RepositoryIndex",
    "/v2/repository/index",
    "/grpc.health.v1.Health/*",
    "/grpc.reflection.*",
];

/// Paths that are bypassed with GET by default: health, metadata and statistics of Kubernetes, the Open Inference
/// Protocol, KServe v1, TensorFlow Serving, TorchServe and servers with OpenAI's API, and metrics.
pub const GET_PATHS: [&str; 10] = [
    "/healthz",
    "/readyz",
    "/livez",
    "/v2",
    "/v2/*",
    "/v1/models",
    "/v1/models/*",
    "/health",
    "/ping",
    "/metrics",
];

/// Paths of answers that stream by default: those of the Open Inference Protocol and of servers of language models. Where
/// a client wants no stream, the first byte is the answer's all the same. No path is one of streaming *requests* by
/// default: their clients hold a slot before they have sent all, so only a service can say that it has some.
pub const STREAMED: [&str; 8] = [
    "/inference.GRPCInferenceService/ModelStreamInfer",
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/messages",
    "/generate_stream",
    "/v2/models/*/generate_stream",
    "/v2/models/*/infer_stream",
];

/// Paths of streams. A client's `accept` header does not make a stream; a server's `content-type` does
/// ([`is_stream`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Streams {
    /// Requests decided by their headers: their bodies may not end before the answer begins.
    pub requests: Vec<Pattern>,
    /// Answers that may continue after the deadline once they have begun.
    pub answers: Vec<Pattern>,
}

/// Requests that pass through untouched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bypass {
    /// Methods.
    pub methods: Vec<String>,
    /// Paths.
    pub paths: Vec<Pattern>,
    /// Paths with GET.
    pub get_paths: Vec<Pattern>,
}

/// A path, or its prefix and suffix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    prefix: String,
    /// Part after the `*`, if there is one.
    suffix: Option<String>,
}

/// Kind of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shape {
    /// Passes through untouched.
    pub bypass: bool,
    /// Changes the protocol of its connection.
    pub upgrade: bool,
    /// Speaks gRPC, and is refused by gRPC status.
    pub grpc: bool,
    /// Speaks gRPC-Web, and is refused by gRPC status too. To servers and Envoy it is plain HTTP.
    pub grpc_web: bool,
    /// Carries a `grpc-timeout`, with any protocol: the next hop obeys it.
    pub grpc_timeout: bool,
    /// Carries an `x-slo-stage-ms`, of another stage or of a client.
    pub stage: bool,
    /// Carries an `x-slo-variants`, which is not for the next hop.
    pub lists_variants: bool,
    /// Its answer is a stream, which may continue after the deadline once it has begun.
    pub stream: bool,
    /// Its body is a stream: its headers decide.
    pub upload: bool,
    /// Place of the model's name, which a variant's own name for it replaces.
    pub model: Option<NamePlace>,
}

/// Returns the kind of a request; `body_follows`: it goes on after its headers.
#[must_use]
pub fn shape(bypass: &Bypass, streams: &Streams, wire: &Wire<'_>, body_follows: bool) -> Shape {
    let path = wire.get(Field::Path).unwrap_or_default();
    let upgrade = is_upgrade(wire);
    Shape {
        bypass: upgrade || bypass.applies(wire, body_follows),
        upgrade,
        grpc: is_grpc(wire),
        grpc_web: grpc_web_answer(wire).is_some(),
        grpc_timeout: wire.get(Field::GrpcTimeout).is_some(),
        stage: wire.get(Field::Stage).is_some(),
        lists_variants: wire.get(Field::Variants).is_some(),
        stream: covers(&streams.answers, path),
        upload: covers(&streams.requests, path),
        model: model::name_place(path, is_grpc(wire)),
    }
}

impl Bypass {
    fn applies(&self, wire: &Wire<'_>, body_follows: bool) -> bool {
        let method = wire.get(Field::Method).unwrap_or_default();
        let path = wire.get(Field::Path).unwrap_or_default();
        let by_method = || self.methods.iter().any(|other| other.as_bytes() == method);
        let by_get = || method == b"GET" && covers(&self.get_paths, path);
        covers(&self.paths, path)
            || (by_method() || by_get()) && !body_follows && !states_body(wire)
    }
}

/// Whether a request changes the protocol of its connection: a GET without a body that upgrades it, or a CONNECT with a
/// `:protocol` (RFC 8441). Envoy forwards the head of any other that has these headers and withholds its body, for which
/// the server then waits.
fn is_upgrade(wire: &Wire<'_>) -> bool {
    let has = |field| wire.get(field).is_some_and(|value| !value.is_empty());
    let names = |field, name: &[u8]| {
        let value = wire.get(field).unwrap_or_default();
        items(value).any(|item| item.eq_ignore_ascii_case(name))
    };
    match wire.get(Field::Method) {
        Some(b"CONNECT") => has(Field::Protocol),
        Some(b"GET") => {
            wire.get(Field::Upgrade).is_some_and(upgrades)
                && names(Field::Connection, b"upgrade")
                && (has(Field::WebsocketKey) || !names(Field::Upgrade, b"websocket"))
                && !states_body(wire)
        }
        _ => false,
    }
}

/// Whether the headers state a body.
fn states_body(wire: &Wire<'_>) -> bool {
    let length = wire.get(Field::ContentLength);
    length.is_some_and(|length| length != b"0") || wire.get(Field::TransferEncoding).is_some()
}

fn covers(patterns: &[Pattern], path: &[u8]) -> bool {
    patterns.iter().any(|pattern| pattern.matches(path))
}

impl Default for Streams {
    fn default() -> Streams {
        Streams {
            requests: Vec::new(),
            answers: STREAMED.into_iter().filter_map(Pattern::new).collect(),
        }
    }
}

impl Default for Bypass {
    fn default() -> Bypass {
        Bypass {
            methods: METHODS.map(str::to_owned).to_vec(),
            paths: PATHS.into_iter().filter_map(Pattern::new).collect(),
            get_paths: GET_PATHS.into_iter().filter_map(Pattern::new).collect(),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.prefix)?;
        match &self.suffix {
            Some(suffix) => write!(f, "*{suffix}"),
            None => Ok(()),
        }
    }
}

impl Pattern {
    /// Creates a pattern from a path in which one `*` may stand for anything. `None` if it could match no path
    /// (no `/` at the start, `..`, a query, a second `*`, anything but printable ASCII) or every path (`/*`),
    /// or is too long.
    #[must_use]
    pub fn new(pattern: &str) -> Option<Pattern> {
        let (prefix, suffix) = match pattern.split_once('*') {
            Some((prefix, suffix)) => (prefix, Some(suffix)),
            None => (pattern, None),
        };
        let printable = pattern.bytes().all(|b| b.is_ascii_graphic() && b != b'?');
        let once = suffix.is_none_or(|suffix| !suffix.contains('*'));
        let narrow = pattern != "/*" && !pattern.contains("..");
        let fits = pattern.len() <= PATTERN_BYTES_MAX;
        let sound = printable && once && narrow && fits && prefix.starts_with('/');
        sound.then(|| Pattern {
            prefix: prefix.to_owned(),
            suffix: suffix.map(str::to_owned),
        })
    }

    /// Whether it matches a path that every server resolves alike: the `*` stands for no escape or `..`.
    fn matches(&self, path: &[u8]) -> bool {
        self.part(path).is_some_and(|(part, rest)| {
            part.iter().all(is_plain) && !escapes_prefix(&self.prefix, rest)
        })
    }

    /// Whether it matches a path as it was sent: the `*` stands for anything.
    #[must_use]
    pub fn matches_as_sent(&self, path: &[u8]) -> bool {
        self.part(path).is_some()
    }

    /// Whether it is equal to `other`, or a prefix (ending in its `*`) of it.
    #[must_use]
    pub fn covers(&self, other: &Pattern) -> bool {
        let open = self.suffix.as_ref().is_some_and(String::is_empty);
        self == other || open && other.prefix.starts_with(&self.prefix)
    }

    /// Returns the part of a path that the `*` stands for, and all after the prefix but the query. `None` if
    /// the path does not match.
    fn part<'a>(&self, path: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
        let prefix = self.prefix.as_bytes();
        // One byte distinguishes most paths without a comparison of slices.
        if path.get(prefix.len().saturating_sub(1)) != prefix.last() {
            return None;
        }
        // A prefix contains no `?`, so it matches before the query.
        let rest = path.strip_prefix(prefix)?;
        let Some(suffix) = &self.suffix else {
            let ends = matches!(rest.first(), None | Some(b'?'));
            return ends.then_some((&[], &[]));
        };
        let query = rest.iter().position(|byte| *byte == b'?');
        let rest = query.and_then(|at| rest.get(..at)).unwrap_or(rest);
        Some((rest.strip_suffix(suffix.as_bytes())?, rest))
    }
}

/// Whether a `*` may match it. A server that resolves escapes or parameters would see another path than the
/// one bypassed.
fn is_plain(byte: &u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'%' | b'\\' | b';' | b'#')
}

/// Whether it may leave the prefix on a server that resolves `..`.
fn escapes_prefix(prefix: &str, rest: &[u8]) -> bool {
    let across = prefix.ends_with('.') && rest.first() == Some(&b'.');
    across || rest.windows(2).any(|two| two == b"..")
}

/// Items of a list, up to the limit read.
fn items(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let value = value.get(..LIST_BYTES_MAX).unwrap_or(value);
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

/// Whether any protocol is named except h2c, which is still HTTP.
fn upgrades(value: &[u8]) -> bool {
    items(value).any(|protocol| !protocol.is_empty() && !protocol.eq_ignore_ascii_case(b"h2c"))
}

/// Whether an answer with this `content-type` is a stream: server-sent events, or JSON line by line, which servers of
/// language models send token by token.
#[must_use]
pub fn is_stream(content_type: &[u8]) -> bool {
    const STREAMS: [&str; 5] = [
        "text/event-stream",
        "application/x-ndjson",
        "application/ndjson",
        "application/jsonl",
        "application/stream+json",
    ];
    let name = content_type.split(|byte| *byte == b';').next();
    let name = name.unwrap_or_default().trim_ascii();
    let is = |stream: &str| name.eq_ignore_ascii_case(stream.as_bytes());
    STREAMS.into_iter().any(is)
}

/// Content type of gRPC.
const GRPC: &[u8] = b"application/grpc";

/// Whether a request speaks gRPC: exactly where Envoy thinks so, `application/grpc` or `application/grpc+…` in lower case
/// and without parameters. Any other gets a plain answer from Envoy, which a gRPC status in it would make an answer
/// without an error.
#[must_use]
pub fn is_grpc(wire: &Wire<'_>) -> bool {
    let rest = after_grpc(wire);
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+')))
}

/// Content type of an answer to a request that speaks gRPC-Web, if no filter before this one has made gRPC of it:
/// `application/grpc-web` and `application/grpc-web-text`, each also with `+…` or parameters.
#[must_use]
pub fn grpc_web_answer(wire: &Wire<'_>) -> Option<&'static str> {
    let rest = after_grpc(wire)?.strip_prefix(b"-web")?;
    let (rest, answer) = match rest.strip_prefix(b"-text") {
        Some(rest) => (rest, "application/grpc-web-text+proto"),
        None => (rest, "application/grpc-web+proto"),
    };
    matches!(rest.first(), None | Some(b'+' | b';' | b' ')).then_some(answer)
}

/// Whether a client of gRPC-Web, of whose request a filter before this one has made gRPC, wants its answer in base64.
#[must_use]
pub fn accepts_base64<V: AsRef<[u8]>>(headers: &[(String, V)]) -> bool {
    const TEXT: &[u8] = b"application/grpc-web-text";
    let accept = headers.iter().find(|(name, _)| name == "accept");
    accept.is_some_and(|(_, value)| value.as_ref().starts_with(TEXT))
}

/// Rest of the content type after that of gRPC.
fn after_grpc<'a>(wire: &Wire<'a>) -> Option<&'a [u8]> {
    wire.get(Field::ContentType)?.strip_prefix(GRPC)
}

#[cfg(test)]
mod tests;
