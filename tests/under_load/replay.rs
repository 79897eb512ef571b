//! Replay against reality: the lightest of the three loads that `cargo xtask validate` compares, which
//! depends least on how busy the machine is with other things.

use std::path::Path;

use weir_measure::validate::{LOADS, compare};

#[tokio::test]
async fn replay_agrees_with_a_real_envoy() {
    let _alone = super::alone().await;
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../planner/scenarios/validate.yaml"
    );
    let comparison = compare(Path::new(file), LOADS[0]).await.unwrap();
    println!("{comparison:?}");
    comparison.check().unwrap();
}
