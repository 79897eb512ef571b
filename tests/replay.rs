//! Replay against reality: the lightest of the three loads that `cargo xtask validate` compares, which
//! depends least on how busy the machine is with other things.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

use std::path::Path;

use weir_tests::validate::{LOADS, compare};

#[tokio::test]
async fn replay_agrees_with_a_real_envoy() {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../planner/scenarios/validate.yaml"
    );
    let comparison = compare(Path::new(file), LOADS[0]).await.unwrap();
    println!("{comparison:?}");
    comparison.check().unwrap();
}
