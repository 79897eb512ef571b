//! Kinds of servers that are measured, each with its own program of Python.

/// Kind of server. Those of one package differ in how they batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// Triton: batches of what waits when it becomes idle.
    Triton,
    /// Triton that waits for more requests before it executes.
    TritonDelay,
    /// mosec, which waits too.
    Mosec,
    /// MLServer: one request at a time.
    Mlserver,
    /// MLServer with adaptive batching.
    MlserverBatching,
    /// Ray Serve with `@serve.batch`.
    Ray,
    /// KServe's model server: one request at a time.
    Kserve,
}

/// Largest batch of those that batch.
pub(super) const BATCH: u32 = 8;
/// Their wait for more requests, ms.
pub(super) const DELAY_MS: u32 = 5;
/// Time of a batch of b requests: a base, which differs by server, and this for each request, ms.
pub(super) const EACH_MS: u32 = 3;

/// Name of the model where a path has one.
const OPEN_INFERENCE: &str = "/v2/models/sleeper/infer";

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 7] = [
        Kind::Triton,
        Kind::TritonDelay,
        Kind::Mosec,
        Kind::Mlserver,
        Kind::MlserverBatching,
        Kind::Ray,
        Kind::Kserve,
    ];

    /// Name in options and tables.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Triton => "triton",
            Kind::TritonDelay => "triton-delay",
            Kind::Mosec => "mosec",
            Kind::Mlserver => "mlserver",
            Kind::MlserverBatching => "mlserver-batching",
            Kind::Ray => "ray",
            Kind::Kserve => "kserve",
        }
    }

    /// Name of the packages that it is of.
    pub(super) fn package(self) -> &'static str {
        let name = self.name();
        name.split_once('-').map_or(name, |(package, _)| package)
    }

    /// Program that starts it.
    pub(super) fn program(self) -> &'static str {
        match self {
            Kind::Triton | Kind::TritonDelay => include_str!("servers/triton.py"),
            Kind::Mosec => include_str!("servers/mosec.py"),
            Kind::Mlserver | Kind::MlserverBatching => include_str!("servers/mlserver.py"),
            Kind::Ray => include_str!("servers/ray.py"),
            Kind::Kserve => include_str!("servers/kserve.py"),
        }
    }

    /// Largest batch, and the wait for more requests, ms.
    pub(super) fn batches(self) -> (u32, u32) {
        match self {
            Kind::Triton => (BATCH, 0),
            Kind::TritonDelay | Kind::Mosec | Kind::MlserverBatching | Kind::Ray => {
                (BATCH, DELAY_MS)
            }
            Kind::Mlserver | Kind::Kserve => (1, 0),
        }
    }

    fn is_open_inference(self) -> bool {
        !matches!(self, Kind::Mosec | Kind::Ray)
    }

    /// Path of its inference.
    pub(super) fn path(self) -> &'static str {
        match self {
            Kind::Mosec => "/inference",
            Kind::Ray => "/sleeper",
            _ => OPEN_INFERENCE,
        }
    }

    /// Path that a user gives to `weir init`: none where the server lists its models.
    pub(super) fn path_for_init(self) -> &'static str {
        match self.is_open_inference() {
            true => "",
            false => self.path(),
        }
    }

    /// Body of a request.
    pub(super) fn body(self) -> &'static str {
        match self.is_open_inference() {
            true => r#"{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]}]}"#,
            false => r#"{"x":[1,2,3,4]}"#,
        }
    }
}
