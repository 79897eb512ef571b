//! Guaranteed on-time answers as a percentage of the clairvoyant bound: near capacity and far above it,
//! with one variant and with three, with and without classes, and with a batching server. The
//! scenarios are the shipped `scenarios/reach-*.yaml`, run as a user would.

use std::path::Path;

use serde_json::Value;

use super::replay::contenders;

/// Load as a multiple of capacity, and the guaranteed percentage of the bound there.
const PROMISED: [(&str, f64); 3] = [("0.95", 99.0), ("1.5", 95.0), ("3", 95.0)];
/// Percentage below which a queue has collapsed: most of its executions are late and useless.
const COLLAPSED: f64 = 60.0;

/// Percentage of the bound that each contender of a shipped scenario reached.
fn reached(scenario: &str, of_capacity: &str) -> Vec<(String, f64)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
    let path = folder.join(format!("reach-{scenario}.yaml"));
    let reached = |sum: &Value| {
        let name = sum["contender"].as_str().unwrap().to_owned();
        (name, sum["bound"]["reached_percent"].as_f64().unwrap())
    };
    let contenders = contenders(&path, &["--of-capacity", of_capacity]);
    contenders.iter().map(reached).collect()
}

fn check(scenario: &str) {
    for (of_capacity, promised) in PROMISED {
        for (contender, reached) in reached(scenario, of_capacity) {
            let message = format!("{scenario} at {of_capacity}: {contender} {reached} %");
            if contender.starts_with("weir") {
                assert!(reached >= promised, "{message} of {promised}");
            } else if promised < 99.0 {
                assert!(reached < COLLAPSED, "{message}");
            }
        }
    }
}

#[test]
fn one_variant_reaches_its_guarantee() {
    check("one");
}

#[test]
fn one_variant_with_classes_reaches_its_guarantee() {
    check("one-classes");
}

#[test]
fn three_variants_reach_their_guarantee() {
    check("three");
}

#[test]
fn three_variants_with_classes_reach_their_guarantee() {
    check("three-classes");
}

#[test]
fn batching_server_reaches_its_guarantee() {
    check("batches");
}
