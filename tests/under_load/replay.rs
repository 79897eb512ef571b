//! The replay compared with a real Envoy, under the lightest of the three loads of `cargo xtask validate`,
//! which depends least on other load on the machine.

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
