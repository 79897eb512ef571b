//! A table for each of the three properties, and invariants for any path.

use super::*;

mod upgrades;

use proptest::prelude::*;

fn shape_of(headers: &[(&str, &str)]) -> Shape {
    let headers = headers
        .iter()
        .map(|(name, value)| (*name, value.as_bytes()));
    shape(
        &Bypass::default(),
        &Streams::default(),
        &Wire::pick(headers),
        false,
    )
}

#[track_caller]
fn check(header: &str, value: &str, expected: Shape) {
    let found = shape_of(&[(":method", "POST"), (":path", "/infer"), (header, value)]);
    assert_eq!(found, expected, "{header}: {value}");
}

const ORDINARY: Shape = Shape {
    stage: false,
    lists_variants: false,
    bypass: false,
    upgrade: false,
    grpc: false,
    grpc_web: false,
    grpc_timeout: false,
    stream: false,
    upload: false,
    model: None,
};

#[test]
fn configured_methods_and_paths_are_bypassed() {
    let bypass =
        |method: &str, path: &str| shape_of(&[(":method", method), (":path", path)]).bypass;
    for (method, expected) in [
        ("POST", false),
        ("GET", false),
        ("HEAD", true),
        ("OPTIONS", true),
        ("CONNECT", false),
        ("head", false),
        ("", false),
    ] {
        assert_eq!(bypass(method, "/infer"), expected, "{method}");
    }
    for (path, expected) in [
        ("/inference.GRPCInferenceService/ServerLive", true),
        ("/inference.GRPCInferenceService/ServerReady", true),
        ("/inference.GRPCInferenceService/ModelReady", true),
        ("/inference.GRPCInferenceService/ServerMetadata", true),
        ("/inference.GRPCInferenceService/ModelMetadata", true),
        ("/inference.GRPCInferenceService/ModelInfer", false),
        ("/inference.GRPCInferenceService/ModelStreamInfer", false),
        ("/grpc.health.v1.Health/Check", true),
        ("/grpc.health.v1.Health/Watch", true),
        (
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
            true,
        ),
        ("", false),
        ("?", false),
        ("*", false),
    ] {
        assert_eq!(bypass("POST", path), expected, "{path}");
    }
    let health = [
        "/healthz",
        "/readyz",
        "/livez",
        "/v2/health/*",
        "/v2/models/*/ready",
    ];
    let configured = Bypass {
        paths: health.into_iter().filter_map(Pattern::new).collect(),
        ..Bypass::default()
    };
    for (path, expected) in [
        ("/healthz", true),
        ("/healthz?verbose", true),
        ("/healthz/", false),
        ("/healthzz", false),
        ("/readyz", true),
        ("/livez", true),
        ("/v2/health/live", true),
        ("/v2/health/", true),
        ("/v2/health", false),
        ("/v2/models/resnet/ready", true),
        ("/v2/models/resnet/versions/2/ready?x=1", true),
        ("/v2/models/resnet/infer", false),
        ("/v2/models/resnet/infer?/ready", false),
        ("/v2/models/ready", false),
        ("/v2/models//ready", true),
        ("/v2/health/../models/resnet/infer", false),
        ("/v2/health/%2e%2e/models/resnet/infer", false),
        ("/v2/models/resnet/infer%3f/ready", false),
        ("/v2/models/resnet/infer;/ready", false),
        ("/v2/models/resnet/infer#/ready", false),
        ("/v2/health/\\..\\models", false),
    ] {
        let wire = Wire::pick([(":method", b"POST".as_slice()), (":path", path.as_bytes())]);
        let found = shape(&configured, &Streams::default(), &wire, true);
        assert_eq!(found.bypass, expected, "{path}");
    }
    assert_eq!(shape_of(&[]), ORDINARY, "neither method nor path");
}

/// A model computes for POST, so GET of the servers' protocols reads metadata, statistics or health.
#[test]
fn metadata_is_bypassed_with_get_alone() {
    let bypass =
        |method: &str, path: &str| shape_of(&[(":method", method), (":path", path)]).bypass;
    for path in [
        "/healthz",
        "/readyz",
        "/livez",
        "/v2/health/live",
        "/v2/models/resnet/ready",
        "/v2",
        "/v2/models",
        "/v2/models/resnet",
        "/v2/models/resnet/config",
        "/v2/models/resnet/versions/2/stats?x",
        "/v1/models",
        "/v1/models/resnet",
        "/v1/models/resnet/metadata",
        "/health",
        "/ping",
        "/metrics",
    ] {
        assert!(bypass("GET", path), "{path}");
        assert!(!bypass("POST", path), "{path}");
        assert!(!bypass("get", path), "{path}");
    }
    for path in [
        "/",
        "/predict",
        "/v2x",
        "/v1",
        "/v1/chat/completions",
        "/v2/%2e%2e/predict",
    ] {
        assert!(!bypass("GET", path), "{path}");
    }
    for path in [
        "/v2/repository/index",
        "/inference.GRPCInferenceService/ModelConfig",
        "/inference.GRPCInferenceService/ModelStatistics",
        "/inference.GRPCInferenceService/RepositoryIndex",
    ] {
        assert!(bypass("POST", path), "{path}");
    }
}

#[test]
fn base64_is_for_those_that_accept_it() {
    for (name, value, expected) in [
        ("accept", "application/grpc-web-text", true),
        ("accept", "application/grpc-web-text+proto", true),
        ("accept", "application/grpc-web", false),
        ("accept-language", "application/grpc-web-text", false),
    ] {
        let headers = [("te".to_owned(), "trailers"), (name.to_owned(), value)];
        assert_eq!(accepts_base64(&headers), expected, "{name}: {value}");
    }
}

#[test]
fn grpc_is_recognized_by_content_type() {
    let grpc = Shape {
        grpc: true,
        ..ORDINARY
    };
    let web = Shape {
        grpc_web: true,
        ..ORDINARY
    };
    for (kind, expected) in [
        ("application/grpc", grpc),
        ("application/grpc+proto", grpc),
        ("application/grpc+json", grpc),
        ("application/grpc+", grpc),
        // Envoy takes none of these for gRPC.
        ("application/grpc; charset=utf-8", ORDINARY),
        ("application/grpc ;x", ORDINARY),
        ("Application/GRPC", ORDINARY),
        (" application/grpc", ORDINARY),
        ("application/grpc-web", web),
        ("application/grpc-web+proto", web),
        ("application/grpc-web; charset=utf-8", web),
        ("application/grpc-web-text", web),
        ("application/grpc-web-text+proto", web),
        ("application/grpc-webx", ORDINARY),
        ("application/grpc-", ORDINARY),
        ("application/grpcx", ORDINARY),
        ("application/json", ORDINARY),
        ("text/plain, application/grpc", ORDINARY),
        ("application/grp", ORDINARY),
        ("", ORDINARY),
    ] {
        check("content-type", kind, expected);
    }
    let timed = Shape {
        grpc_timeout: true,
        ..ORDINARY
    };
    check("grpc-timeout", "nonsense", timed);
}

#[test]
fn stream_is_recognized_by_path_not_by_accept() {
    check("accept", "text/event-stream", ORDINARY);
    let streams = Streams {
        requests: Pattern::new("/up*").into_iter().collect(),
        answers: Pattern::new("/chat*").into_iter().collect(),
    };
    for (path, upload, stream) in [
        ("/upload", true, false),
        ("/chat/completions?x", false, true),
        ("/infer", false, false),
        (
            "/inference.GRPCInferenceService/ModelStreamInfer",
            false,
            false,
        ),
    ] {
        let found = shape(
            &Bypass::default(),
            &streams,
            &Wire::pick([(":path", path.as_bytes())]),
            false,
        );
        assert_eq!((found.upload, found.stream), (upload, stream), "{path}");
    }
    for path in STREAMED.map(|path| path.replace('*', "m")) {
        let by_default = shape_of(&[(":path", &path)]);
        assert!(by_default.stream && !by_default.upload, "{path}");
    }
    assert_eq!(Bypass::default().get_paths.len(), GET_PATHS.len());
}

#[test]
fn pattern_matching_nothing_or_everything_is_invalid() {
    let long = format!("/{}", "a".repeat(PATTERN_BYTES_MAX));
    for pattern in [
        "", "*", "/*", "healthz", "/a*b*", "/a?b", "/a b", "/a/..", "/a..*", "/é", "*/a", &long,
    ] {
        assert_eq!(Pattern::new(pattern), None, "{pattern}");
    }
    for pattern in ["/", "/a", "/a*", "/*a", "/a*b", &long[..PATTERN_BYTES_MAX]] {
        assert!(Pattern::new(pattern).is_some(), "{pattern}");
    }
    assert_eq!(
        Bypass::default().paths.len(),
        PATHS.len(),
        "each default is one"
    );
    assert_eq!(Bypass::default().get_paths.len(), GET_PATHS.len());
}

proptest! {
    /// A pattern without a `*` matches only itself. With one it matches its prefix and suffix, which do not
    /// overlap, and never leaves the prefix.
    #[test]
    fn pattern_matches_prefix_and_suffix(
        prefix in "/[ab/.]{0,3}", suffix in "[ab/]{0,3}", path in "/[ab/.%]{0,6}", query in "(\\?[ab/]{0,3})?",
    ) {
        let bypass = |pattern: String| Bypass {
            methods: Vec::new(),
            paths: Pattern::new(&pattern).into_iter().collect(),
            get_paths: Vec::new(),
        };
        prop_assume!(!prefix.contains(".."));
        let requested = format!("{path}{query}");
        let headers = [(":method", b"POST".as_slice()), (":path", requested.as_bytes())];
        let wire = Wire::pick(headers);
        prop_assert_eq!(bypass(prefix.clone()).applies(&wire, false), path == prefix);
        let pattern = format!("{prefix}*{suffix}");
        if pattern == "/*" {
            return Ok(());
        }
        let within = (prefix.len() + suffix.len() <= path.len()).then(|| &path[prefix.len()..path.len() - suffix.len()]);
        let expected = path.starts_with(&prefix) && path.ends_with(&suffix)
            && within.is_some_and(|part| !part.contains('%')) && !path.contains("..");
        prop_assert_eq!(bypass(pattern.clone()).applies(&wire, false), expected, "{} {}", pattern, path);
    }

    /// No bytes panic, and without configured patterns no path is bypassed.
    #[test]
    fn empty_patterns_bypass_no_path(path in prop::collection::vec(any::<u8>(), 0..65_536)) {
        let none = Bypass { methods: Vec::new(), paths: Vec::new(), get_paths: Vec::new() };
        let wire = Wire::pick([(":path", path.as_slice()), ("content-type", &path)]);
        prop_assert!(!none.applies(&wire, false));
    }
}

#[test]
fn dots_around_the_star_do_not_escape_the_prefix() {
    let matches =
        |pattern: &str, path: &str| Pattern::new(pattern).unwrap().matches(path.as_bytes());
    assert!(matches("/a/.*", "/a/.well-known"));
    assert!(!matches("/a/.*", "/a/../infer"));
    assert!(!matches("/a/*", "/a/../infer"));
    assert!(!matches("/a/*./b", "/a/../b"));
}
