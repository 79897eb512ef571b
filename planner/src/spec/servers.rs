//! Validation of the keys that name a variant's servers: their clusters in Envoy, their name for the model, their path, and
//! the place where their cores are changed.

use weir_api::plan::{CLUSTER_MAX, MODEL_RIGHT, PATH_RIGHT, is_cluster, is_model, is_path};

use super::raw::{RawVariant, ServiceSpec};
use crate::service::ConfigError;
use crate::service::rule::{refusal, rule, url};

/// Validates the names of the servers of the variant at that path.
pub(super) fn names(at: &str, raw: &RawVariant) -> Result<(), ConfigError> {
    let right = format!("1 to {CLUSTER_MAX} printable ASCII characters without spaces");
    let (cluster, grpc) = (&raw.cluster, raw.grpc_cluster.as_ref());
    for (key, cluster) in [("cluster", Some(cluster)), ("grpcCluster", grpc)] {
        if let Some(cluster) = cluster {
            rule(is_cluster(cluster), format!("{at}.{key}"), cluster, &right)?;
        }
    }
    let right = "another name than cluster, or left out: gRPC requests go to cluster then";
    let path = format!("{at}.grpcCluster");
    rule(grpc != Some(cluster), path, cluster, right)?;
    if let Some(model) = &raw.model {
        rule(is_model(model), format!("{at}.model"), model, MODEL_RIGHT)?;
    }
    match &raw.path {
        Some(path) => rule(is_path(path), format!("{at}.path"), path, PATH_RIGHT),
        None => Ok(()),
    }
}

/// Maximum length of a control group's name, or of a unit's, as of a file's name in the kernel.
const GROUP_MAX: usize = 255;
/// Ends of the names of units that have a control group of their own.
const UNITS: [&str; 3] = [".service", ".scope", ".slice"];

/// Place where a variant's cores are changed, other than a workload.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// Address that takes them.
    pub resize: Option<url::Url>,
    /// Control group, by its name below `/sys/fs/cgroup`.
    pub cgroup: Option<String>,
}

/// Validates the place where the cores of the variant at that path are changed.
///
/// # Errors
/// Fails if it is not valid, or if there are several.
pub fn place(at: &str, raw: &RawVariant) -> Result<Place, ConfigError> {
    let given = [
        ("resize", raw.resize.is_some()),
        ("cgroup", raw.cgroup.is_some()),
        ("systemd", raw.systemd.is_some()),
        ("workload", raw.workload.is_some()),
    ];
    let mut given = given.iter().filter(|(_, given)| *given);
    if let (Some((one, _)), Some((other, _))) = (given.next(), given.next()) {
        let right = "at most one of: resize (an address), cgroup or systemd (of the planner's host), workload (of \
            Kubernetes)";
        let path = format!("{at}.{one}, {other}");
        return Err(refusal(path, "both given", right));
    }
    let resize = raw.resize.as_deref();
    let resize = resize.map(|text| url(format!("{at}.resize"), text));
    let cgroup = match (&raw.cgroup, &raw.systemd) {
        (Some(name), _) => {
            let right = format!(
                "a name below /sys/fs/cgroup, such as system.slice/mlserver.service: 1 to {GROUP_MAX} printable ASCII \
                 characters without spaces, no / at an end, no . or .. as a part"
            );
            rule(is_group(name), format!("{at}.cgroup"), name, &right)?;
            Some(name.clone())
        }
        (None, Some(unit)) => {
            let right = format!(
                "a unit such as mlserver.service: 1 to {GROUP_MAX} printable ASCII characters without / and spaces, \
                 with {} at the end",
                UNITS.join(" or ")
            );
            let group = unit_group(unit);
            let group = group.ok_or_else(|| refusal(format!("{at}.systemd"), unit, &right))?;
            Some(group)
        }
        (None, None) => None,
    };
    Ok(Place {
        resize: resize.transpose()?,
        cgroup,
    })
}

/// Refuses control groups in a resource: they would be those of the planner's pod or node, which are nobody's to name.
pub(super) fn refuse_groups(raw: &ServiceSpec) -> Result<(), ConfigError> {
    let single = raw.variants.iter().map(|all| (String::new(), all));
    let stages = raw.stages.iter().flatten().enumerate();
    let stages = stages.map(|(index, stage)| (format!("stages[{index}]."), &stage.variants));
    for (stage, variants) in single.chain(stages) {
        for (index, variant) in variants.iter().enumerate() {
            for (key, name) in [("cgroup", &variant.cgroup), ("systemd", &variant.systemd)] {
                if let Some(name) = name {
                    let path = format!("{stage}variants[{index}].{key}");
                    let right = "left out: it is for files, a resource has workload";
                    return Err(refusal(path, name, right));
                }
            }
        }
    }
    Ok(())
}

fn is_group(name: &str) -> bool {
    let part = |part: &str| !matches!(part, "" | "." | "..");
    (1..=GROUP_MAX).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_graphic())
        && name.split('/').all(part)
}

/// Control group in which systemd runs a unit without a slice of its own. Units of a template share a slice.
fn unit_group(unit: &str) -> Option<String> {
    let ends = UNITS
        .iter()
        .any(|end| unit.len() > end.len() && unit.ends_with(end));
    if !is_group(unit) || unit.contains('/') || !ends {
        return None;
    }
    let slice = match unit.split_once('@') {
        Some((template, _)) => format!("system-{}.slice/", template.replace('-', "\\x2d")),
        None => String::new(),
    };
    Some(format!("system.slice/{slice}{unit}"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::small;
    use crate::service::Service;

    /// The second variant's `resize`, and what replaces it.
    fn with(keys: &str) -> Result<Service, String> {
        let text = small().replace("resize: http://127.0.0.1:3/cores", keys);
        let text = text.replace("min: 0, max: 4", "max: 4");
        Service::from_yaml(&text).map_err(|error| error.to_string())
    }

    #[test]
    fn control_group_is_named_or_that_of_a_unit() {
        for (keys, group) in [
            ("cgroup: small", "small"),
            (
                "cgroup: system.slice/docker-0a1b.scope",
                "system.slice/docker-0a1b.scope",
            ),
            ("systemd: mlserver.service", "system.slice/mlserver.service"),
            (
                "systemd: ml-server@small.service",
                "system.slice/system-ml\\x2dserver.slice/ml-server@small.service",
            ),
        ] {
            let service = with(keys).unwrap();
            assert_eq!(service.variants[1].cgroup.as_deref(), Some(group), "{keys}");
        }
    }

    #[test]
    fn wrong_place_is_refused_with_its_key() {
        let long = format!("cgroup: {}", "g".repeat(256));
        for (keys, message) in [
            (
                "cgroup: /sys/fs/cgroup/small",
                "variants[1].cgroup: /sys/fs/cgroup/small; it must be a name below",
            ),
            ("cgroup: ../small", "variants[1].cgroup: ../small"),
            ("cgroup: a//b", "variants[1].cgroup: a//b"),
            ("cgroup: ''", "variants[1].cgroup: ;"),
            (&long, "variants[1].cgroup: ggg"),
            (
                "systemd: mlserver",
                "variants[1].systemd: mlserver; it must be a unit such as mlserver.service",
            ),
            ("systemd: a/b.service", "variants[1].systemd: a/b.service"),
            ("systemd: .service", "variants[1].systemd: .service"),
            (
                "systemd: a.service\n  cgroup: a",
                "variants[1].cgroup, systemd: both given; it must be at most one of",
            ),
            (
                "cgroup: a\n  resize: http://127.0.0.1:3/",
                "variants[1].resize, cgroup: both given",
            ),
            (
                "cgroup: a\n  replicas: {initial: 2}",
                "variants[1].replicas: given; it must be left out with cgroup",
            ),
            (
                "cgroup: a\n  batch: 2\n  tellBatch: true",
                "variants[1].tellBatch: true; it must be left out",
            ),
        ] {
            let error = with(keys).unwrap_err();
            assert!(error.contains(message), "{keys}: {error}");
        }
        let twice = small().replace(
            "resize: http://127.0.0.1:2/cores",
            "cgroup: system.slice/a.service",
        );
        let twice = twice.replace("min: 0, max: 4", "max: 4");
        let twice = twice.replace("resize: http://127.0.0.1:3/cores", "systemd: a.service");
        let error = Service::from_yaml(&twice).unwrap_err().to_string();
        assert!(
            error.contains("variants[].cgroup: system.slice/a.service; it must be another"),
            "{error}"
        );
        let unloads = small().replace("resize: http://127.0.0.1:3/cores", "cgroup: a");
        let error = Service::from_yaml(&unloads).unwrap_err().to_string();
        assert!(
            error.contains("variants[1].cores.min: 0; it must be above 0 with cgroup"),
            "{error}"
        );
    }
}
