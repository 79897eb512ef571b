//! The console: a page of static files, part of this program. It needs no key: the page asks a person for one, and
//! sends it with each request for a status.
//!
//! `GET /` returns the page, `GET /console/{file}` its parts. Each has an entity tag, and 304 answers a request that
//! has it. Solver and replay are a module for browsers; a planner that was compiled without it (`cargo xtask console`)
//! answers 404 for it, and the page shows that.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::LazyLock;

use axum::body::Bytes;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::problem::{Problem, ProblemKind};

/// Policy of the page: nothing from elsewhere, no inline code; WebAssembly for the module.
pub const SECURITY_POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; \
    connect-src 'self'; img-src 'self' data:; worker-src 'self'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";

/// A file of the page.
struct File {
    name: &'static str,
    kind: &'static str,
    content: &'static [u8],
    /// Whether the content is packed by gzip.
    packed: bool,
}

macro_rules! page {
    ($name:literal, $kind:expr) => {
        File {
            name: $name,
            kind: $kind,
            content: include_bytes!(concat!("../../console/www/", $name)),
            packed: false,
        }
    };
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The page, then its parts.
static FILES: [File; 11] = [
    page!("index.html", "text/html; charset=utf-8"),
    page!("style.css", "text/css; charset=utf-8"),
    page!("app.js", SCRIPT),
    page!("live.js", SCRIPT),
    page!("module.js", SCRIPT),
    page!("replay.js", SCRIPT),
    page!("view.js", SCRIPT),
    page!("whatif.js", SCRIPT),
    page!("worker.js", SCRIPT),
    File {
        name: "weir_console.js",
        kind: SCRIPT,
        content: include_bytes!(concat!(env!("OUT_DIR"), "/weir_console.js")),
        packed: false,
    },
    File {
        name: "weir_console_bg.wasm",
        kind: "application/wasm",
        content: include_bytes!(concat!(env!("OUT_DIR"), "/weir_console_bg.wasm.gz")),
        packed: true,
    },
];

/// The service that the what-if begins with.
static EXAMPLE: File = File {
    name: "demo.yaml",
    kind: "application/yaml",
    content: include_bytes!("../../../tests/demo/service.yaml"),
    packed: false,
};

/// Entity tags, in the order of [`all`].
static TAGS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let tag = |file: &File| {
        let mut hasher = DefaultHasher::new();
        file.content.hash(&mut hasher);
        format!("\"{:016x}\"", hasher.finish())
    };
    all().map(tag).collect()
});

fn all() -> impl Iterator<Item = &'static File> {
    FILES.iter().chain([&EXAMPLE])
}

/// Whether this program has the module.
pub fn has_module() -> bool {
    let module = all().filter(|file| file.name.starts_with("weir_console"));
    module.into_iter().all(|file| !file.content.is_empty())
}

pub(super) async fn page(headers: HeaderMap) -> Response {
    answer("index.html", &headers)
}

pub(super) async fn part(Path(name): Path<String>, headers: HeaderMap) -> Response {
    answer(&name, &headers)
}

fn answer(name: &str, headers: &HeaderMap) -> Response {
    let found = all()
        .zip(TAGS.iter())
        .find(|(file, _)| file.name == name && !file.content.is_empty());
    let Some((file, tag)) = found else {
        let why = match name.starts_with("weir_console") {
            true => "this planner was compiled without the console's module: `cargo xtask console`",
            false => "no such path",
        };
        return Problem::new(ProblemKind::UnknownPath, why).into_response();
    };
    let known = headers.get(header::IF_NONE_MATCH);
    let known = known.is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut response = match known {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => Bytes::from_static(file.content).into_response(),
    };
    let set = [
        (header::CONTENT_TYPE, file.kind),
        // The names stay while the contents change with the program.
        (header::CACHE_CONTROL, "no-cache"),
        (header::CONTENT_SECURITY_POLICY, SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    let headers = response.headers_mut();
    for (name, value) in set {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if let Ok(tag) = HeaderValue::from_str(tag) {
        headers.insert(header::ETAG, tag);
    }
    if file.packed {
        let packed = HeaderValue::from_static("gzip");
        headers.insert(header::CONTENT_ENCODING, packed);
    }
    response
}
