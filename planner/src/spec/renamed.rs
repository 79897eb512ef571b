//! Keys that a service file, a resource or a profile had before, and what they are now.

use crate::service::ConfigError;

/// A duration in place of a number of ms.
const OF_MS: &str = ", a duration such as 250ms";
/// A duration in place of a number of s.
const OF_S: &str = ", a duration such as 5s";

/// Former key, present key, and what else changed.
const RENAMED: [(&str, &str, &str); 37] = [
    ("accuracy_least", "accuracyMin", ""),
    ("batch_delay_ms", "batchDelay", OF_MS),
    ("bursts_s", "bursts", OF_S),
    ("config_map", "configMap", ""),
    ("cycle_ms", "cycle", OF_MS),
    ("default_class", "defaultClass", ""),
    ("delta_ms", "deltaMs", ""),
    ("epsilon_ms", "epsilonMs", ""),
    ("eta_ms", "etaMs", ""),
    ("gamma_ms", "gammaMs", ""),
    ("greatest", "max", ""),
    ("held", "resources", ""),
    ("held_max", "maxRequests", ""),
    (
        "holds",
        "resources",
        ", the amounts of a replica, such as memory: 6Gi",
    ),
    ("horizontal_cores", "horizontalCores", ""),
    ("intercept_rps", "interceptRps", ""),
    ("interval_ms", "interval", OF_MS),
    ("key_env", "keyEnv", ""),
    ("key_file", "keyFile", ""),
    ("latency_budget", "latencyBudget", ""),
    ("least", "min", ""),
    ("loading_weight_per_s", "loadingWeightPerSecond", ""),
    ("moving_s", "moving", OF_S),
    ("plan_max_age_ms", "planMaxAge", OF_MS),
    ("readiness_s", "readiness", OF_S),
    ("rest_ms", "downstreamTime", OF_MS),
    ("retune", "reconfigure", ""),
    ("scale_down_after_s", "scaleDownStabilization", OF_S),
    ("slack_rps", "slackRps", ""),
    ("slo_ms", "slo", OF_MS),
    ("slope_rps", "slopeRps", ""),
    ("smoothing_s", "smoothing", OF_S),
    ("starvation", "maxSkips", ""),
    ("tell_batch", "tellBatch", ""),
    ("time_limit_ms", "timeLimit", OF_MS),
    ("timeout_ms", "timeout", OF_MS),
    ("window_s", "window", OF_S),
];

/// Rewrites the refusal of a former key: it names the present one.
pub(super) fn renamed(error: ConfigError) -> ConfigError {
    let ConfigError::Form { path, message } = &error else {
        return error;
    };
    let unknown = message.split_once("unknown field `");
    let Some((key, _)) = unknown.and_then(|(_, rest)| rest.split_once('`')) else {
        return error;
    };
    let Some((_, now, more)) = RENAMED.iter().find(|(old, ..)| *old == key) else {
        return error;
    };
    let last = path.rsplit('.').next();
    let place = message.rsplit_once(" at line ").map(|(_, place)| place);
    let place = place.map(|place| format!(" at line {place}"));
    ConfigError::Form {
        path: match path.as_str() {
            _ if last == Some(key) => path.clone(),
            "service file" | "resource" | "profile" => key.to_owned(),
            path => format!("{path}.{key}"),
        },
        message: format!(
            "no longer a key; it is {now}{more}{}",
            place.unwrap_or_default()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::Service;
    use crate::spec::tests::small;

    /// Parent of each former key: `variant` is the first variant, a name alone a section of the service.
    const PLACES: [(&str, &[&str]); 15] = [
        (
            "",
            &[
                "cycle_ms",
                "default_class",
                "key_env",
                "key_file",
                "latency_budget",
                "plan_max_age_ms",
                "rest_ms",
                "slo_ms",
                "starvation",
            ],
        ),
        ("budget", &["held"]),
        (
            "demand",
            &["bursts_s", "moving_s", "smoothing_s", "window_s"],
        ),
        ("solver", &["time_limit_ms"]),
        ("proxies", &["interval_ms", "timeout_ms"]),
        ("resize", &["scale_down_after_s", "timeout_ms"]),
        (
            "infaas",
            &["accuracy_least", "loading_weight_per_s", "slack_rps"],
        ),
        ("themis", &["horizontal_cores"]),
        (
            "variants[0]",
            &["batch_delay_ms", "holds", "readiness_s", "tell_batch"],
        ),
        ("variants[0].workload", &["retune"]),
        ("variants[0].cores", &["least", "greatest"]),
        ("variants[0].capacity", &["slope_rps", "intercept_rps"]),
        (
            "variants[0].latency",
            &["gamma_ms", "epsilon_ms", "delta_ms", "eta_ms"],
        ),
        ("variants[0].profile", &["config_map"]),
        ("classes[0]", &["held_max"]),
    ];

    fn with_key(place: &str, key: &str) -> String {
        let mut file: serde_json::Value = serde_saphyr::from_str(&small()).unwrap();
        if place.starts_with("classes") {
            file["classes"] = serde_json::json!([{}]);
        }
        let steps = place.split(['.', '[', ']']).filter(|step| !step.is_empty());
        let mut here = &mut file;
        for step in steps {
            here = match step.parse::<usize>() {
                Ok(index) => &mut here[index],
                Err(_) => &mut here[step],
            };
        }
        here[key] = 1.into();
        file.to_string()
    }

    #[test]
    fn old_key_is_refused_with_the_present_one() {
        let mut tried: Vec<&str> = Vec::new();
        for (place, keys) in PLACES {
            for key in keys {
                let error = Service::from_yaml(&with_key(place, key)).expect_err(key);
                let error = error.to_string();
                let row = RENAMED.iter().find(|(old, ..)| old == key);
                let (_, now, more) = row.unwrap();
                let dot = if place.is_empty() { "" } else { "." };
                let expected = format!("{place}{dot}{key}: no longer a key; it is {now}{more} at ");
                assert!(error.starts_with(&expected), "{error}, not {expected}");
                tried.push(key);
            }
        }
        tried.sort_unstable();
        tried.dedup();
        let all: Vec<&str> = RENAMED.iter().map(|(old, ..)| *old).collect();
        assert_eq!(tried, all, "each row is tried, and the rows are in order");
    }

    #[test]
    fn present_key_is_what_the_reader_knows() {
        for (place, keys) in PLACES {
            for key in keys {
                let (_, now, _) = RENAMED.iter().find(|(old, ..)| old == key).unwrap();
                let error = match Service::from_yaml(&with_key(place, now)) {
                    Ok(_) => continue,
                    Err(error) => error.to_string(),
                };
                assert!(!error.contains("unknown field"), "{place} {now}: {error}");
            }
        }
    }

    #[test]
    fn number_in_place_of_a_duration_is_refused_with_an_example() {
        let text = small().replace("slo: 1s", "slo: 1000");
        let error = Service::from_yaml(&text).unwrap_err().to_string();
        assert!(
            error.starts_with("slo: 1000; it must be a duration such as 250ms or 1s"),
            "{error}"
        );
    }
}
