//! What manifests depend on besides the service: names and images. Checked before anything is rendered.

use weir_api::plan::is_name;

use super::{ManifestError, refused};

/// Where the planner runs, unless told otherwise.
pub const NAMESPACE: &str = "weir-system";
/// The planner's image; `.example` is nobody's, so it has to be replaced.
pub const IMAGE: &str = "registry.example/weir-planner:0.1.0";
/// The filter's.
pub const FILTER_IMAGE: &str = "registry.example/weir-filter:0.1.0";
/// Longest image reference: what registries take of a name, and a digest.
const IMAGE_MAX: usize = 255 + 72;

/// Names and images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The planner's namespace.
    pub namespace: String,
    /// The planner's image.
    pub image: String,
    /// The filter's image.
    pub filter_image: String,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            namespace: NAMESPACE.to_owned(),
            image: IMAGE.to_owned(),
            filter_image: FILTER_IMAGE.to_owned(),
        }
    }
}

impl Options {
    pub(super) fn check(&self) -> Result<(), ManifestError> {
        if !is_name(&self.namespace) {
            let right = "1 to 63 of a-z, 0-9 and single dashes inside";
            return Err(refused("--namespace", &self.namespace, right));
        }
        image("--image", &self.image)?;
        image("--filter-image", &self.filter_image)
    }

    /// The planner's address within the cluster.
    pub(super) fn planner_host(&self) -> String {
        format!("{PLANNER}.{}.svc.cluster.local", self.namespace)
    }

    /// The digest by which the filter's image is named, if it is.
    pub(super) fn filter_digest(&self) -> Option<&str> {
        Some(self.filter_image.split_once("@sha256:")?.1)
    }
}

/// The planner's name: of its Deployment, Service, account and pods.
pub(super) const PLANNER: &str = "weir-planner";
/// Where it answers.
pub(super) const PLANNER_PORT: u16 = 8080;

/// An image reference without a scheme; with a digest that is one.
fn image(path: &str, reference: &str) -> Result<(), ManifestError> {
    let right =
        "an image without a scheme, such as registry.example/weir:1.0 or …@sha256:<64 hex digits>";
    let plain = |c: char| c.is_ascii_alphanumeric() || "./_-:@".contains(c);
    let whole = |digest: &str| {
        digest.len() == 64 && digest.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'))
    };
    let digest = reference.split_once('@').map(|(_, digest)| digest);
    let fits = !reference.is_empty()
        && reference.len() <= IMAGE_MAX
        && !reference.contains("://")
        && reference.chars().all(plain)
        && digest.is_none_or(|digest| digest.strip_prefix("sha256:").is_some_and(whole));
    if fits {
        return Ok(());
    }
    Err(refused(path, reference, right))
}
