//! Replay against reality: one load of the three that `cargo xtask validate` compares.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;

use weir_tests::validate::compare;

#[tokio::test]
async fn replay_agrees_with_a_real_envoy_in_overload() {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../planner/scenarios/validate.yaml"
    );
    let comparison = compare(Path::new(file), 1.5).await.unwrap();
    println!("{comparison:?}");
    comparison.check().unwrap();
}
