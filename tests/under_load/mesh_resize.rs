//! No request is refused or late because of a resize. A real Envoy with the filter runs before model servers
//! with exactly the cores that kubelets have actuated. An open-loop load rises, stays and falls, and the
//! planner follows it with the cores of two deployments. API server and kubelets are emulated; filter,
//! planner and everything between them are real.

#[path = "../kubernetes/operator/bed.rs"]
#[allow(dead_code, reason = "what the tests of `operate` share, and more")]
mod bed;
mod mesh;
mod results;

use mesh::{Mesh, Restarts};
use weir_bed::wait;

/// Rates in requests/s, from one to another in equal steps of a second.
fn ramp(from: f64, to: f64, seconds: u32) -> impl Iterator<Item = f64> {
    let step = (to - from) / f64::from(seconds);
    (0..seconds).map(move |second| from + step * f64::from(second))
}

#[tokio::test]
async fn resizes_under_load_refuse_or_delay_no_request() {
    let _alone = super::alone().await;
    let mesh = Mesh::start(Restarts::Never).await;
    let before = mesh.pods();
    // The peak exceeds the accurate variant's capacity with the cores that the other leaves it, for longer than the
    // planner's mean of the demand.
    let rates = ramp(5.0, 52.0, 10)
        .chain([52.0; 6])
        .chain(ramp(52.0, 5.0, 10))
        .chain([5.0; 2]);
    let results = mesh.run_load(rates.collect()).await;
    println!("{}", results.summary());
    assert!(results.failed().is_empty(), "{}", results.details());
    assert!(
        results.not_executed_once().is_empty(),
        "{:?}",
        results.not_executed_once()
    );

    assert!(
        results.resized().iter().all(|times| *times >= 3),
        "{}",
        results.details()
    );
    // The accurate variant gives cores to the quick one, and gets them back when the load falls.
    assert!(
        results.moved_cores("large", "small") && results.moved_cores("small", "large"),
        "{}",
        results.details()
    );
    let done = results
        .patches
        .iter()
        .filter(|status| **status == 200)
        .count();
    assert!(done >= results.resizes.len(), "{:?}", results.patches);

    // In place: the same pods, and no container was restarted.
    assert_eq!(mesh.pods(), before);
    assert!(results.resizes.iter().all(|(_, one)| !one.restarted));
    // Slots are removed before cores and added after them: no core was removed while it executed a request,
    // and no request waited for a core.
    assert!(
        results.cut.is_empty() && results.waited().is_empty(),
        "{}",
        results.details()
    );
}

#[tokio::test]
async fn restart_by_a_resize_is_detected() {
    let _alone = super::alone().await;
    let mesh = Mesh::start(Restarts::AtEachResize).await;
    let results = mesh.run_load(ramp(40.0, 60.0, 5).collect()).await;
    println!("{}", results.summary());
    assert!(
        results.resizes.iter().any(|(_, one)| one.restarted),
        "{}",
        results.details()
    );
    assert!(!results.failed().is_empty(), "{}", results.details());
}

#[tokio::test]
async fn cores_removed_before_their_slots_are_detected() {
    let _alone = super::alone().await;
    let mesh = Mesh::start(Restarts::Never).await;
    let rates = ramp(8.0, 48.0, 5).chain([48.0; 3]);
    let servers = &mesh.servers;
    let taken = async {
        let taken = async || servers.take_cores_at_work("large").await;
        let waited = wait::until_async("work", bed::LIMIT, taken).await;
        waited.unwrap();
    };
    let (results, ()) = tokio::join!(mesh.run_load(rates.collect()), taken);
    println!("{}", results.summary());
    assert!(!results.cut.is_empty(), "{}", results.details());
    assert!(!results.waited().is_empty(), "{}", results.details());
}
