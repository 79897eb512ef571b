//! Options of manifests beside the service: names and images. They are validated before anything is
//! rendered.

use weir_api::plan::is_name;

use super::{ManifestError, refused};

/// Default namespace of the planner.
pub const NAMESPACE: &str = "weir-system";
/// Default image of the planner; `.example` belongs to nobody, so it has to be replaced.
pub const IMAGE: &str = "registry.example/weir-planner:0.1.0";
/// Default image of the filter.
pub const FILTER_IMAGE: &str = "registry.example/weir-filter:0.1.0";
/// Maximum length of an image reference: a registry's limit for a name, and a digest.
const IMAGE_MAX: usize = 255 + 72;

/// Names and images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Namespace of the planner.
    pub namespace: String,
    /// Image of the planner.
    pub image: String,
    /// Image of the filter.
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

    /// Returns the planner's host name within the cluster.
    pub(super) fn planner_host(&self) -> String {
        format!("{PLANNER}.{}.svc.cluster.local", self.namespace)
    }

    /// Returns the digest of the filter's image, if the reference has one.
    pub(super) fn filter_digest(&self) -> Option<&str> {
        Some(self.filter_image.split_once("@sha256:")?.1)
    }
}

/// Name of the planner's Deployment, Service, account and pods.
pub(super) const PLANNER: &str = "weir-planner";
/// Port of the planner.
pub(super) const PLANNER_PORT: u16 = 8080;

/// Validates an image reference: no scheme, and a well-formed digest if there is one.
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
