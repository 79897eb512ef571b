//! No request is refused or late because of a resize: a real Envoy with the filter before model servers that have what
//! kubelets have actuated, an open-loop load that grows, stays and goes, and a planner that follows it with the cores
//! of two deployments. API server and kubelets are emulated; filter, planner and all that goes between them are real.

#[path = "../kubernetes/operate/bed.rs"]
#[allow(dead_code, reason = "what the tests of `operate` share, and more")]
mod bed;
mod mesh;
mod seen;

use mesh::{Mesh, Restarts};
use weir_bed::wait;

/// From one rate to another in equal steps, one a second, in requests/s.
fn ramp(from: f64, to: f64, seconds: u32) -> impl Iterator<Item = f64> {
    let step = (to - from) / f64::from(seconds);
    (0..seconds).map(move |second| from + step * f64::from(second))
}

#[tokio::test]
async fn cores_grow_shrink_and_change_sides_under_load_and_no_request_is_refused_or_late() {
    let _alone = super::alone().await;
    let mesh = Mesh::start(Restarts::Never).await;
    let before = mesh.pods();
    // What the accurate variant carries with what the other leaves it of the budget is passed on the way.
    let rates = ramp(5.0, 52.0, 10)
        .chain([52.0; 3])
        .chain(ramp(52.0, 5.0, 10))
        .chain([5.0; 2]);
    let seen = mesh.play(rates.collect()).await;
    println!("{}", seen.sum());
    assert!(seen.unwell().is_empty(), "{}", seen.told());
    assert!(seen.miscounted().is_empty(), "{:?}", seen.miscounted());

    assert!(
        seen.resized().iter().all(|times| *times >= 3),
        "{}",
        seen.told()
    );
    // Of the budget the accurate variant gives cores up for the quick one, and has them back when the load has gone.
    assert!(
        seen.gave("large", "small") && seen.gave("small", "large"),
        "{}",
        seen.told()
    );
    let done = seen.patches.iter().filter(|status| **status == 200).count();
    assert!(done >= seen.resizes.len(), "{:?}", seen.patches);

    // In place: the same pods, and no container anew.
    assert_eq!(mesh.pods(), before);
    assert!(seen.resizes.iter().all(|(_, one)| !one.restarted));
    // Slots go before cores and come after them: no core went that executed anything, and nothing waited for one.
    assert!(
        seen.cut.is_empty() && seen.waited().is_empty(),
        "{}",
        seen.told()
    );
}

#[tokio::test]
async fn containers_that_a_resize_restarts_are_seen() {
    let _alone = super::alone().await;
    let mesh = Mesh::start(Restarts::AtEachResize).await;
    let seen = mesh.play(ramp(40.0, 60.0, 5).collect()).await;
    println!("{}", seen.sum());
    assert!(
        seen.resizes.iter().any(|(_, one)| one.restarted),
        "{}",
        seen.told()
    );
    assert!(!seen.unwell().is_empty(), "{}", seen.told());
}

#[tokio::test]
async fn cores_that_go_before_their_slots_are_seen() {
    let _alone = super::alone().await;
    let mesh = Mesh::start(Restarts::Never).await;
    let rates = ramp(8.0, 48.0, 5).chain([48.0; 3]);
    let servers = &mesh.servers;
    let taken = async {
        let taken = async || servers.take_cores_at_work("large").await;
        let waited = wait::until_async("work", bed::LIMIT, taken).await;
        waited.unwrap();
    };
    let (seen, ()) = tokio::join!(mesh.play(rates.collect()), taken);
    println!("{}", seen.sum());
    assert!(!seen.cut.is_empty(), "{}", seen.told());
    assert!(!seen.waited().is_empty(), "{}", seen.told());
}
