//! Pauses after failures, and what ends them.

use super::*;

#[test]
fn pause_doubles_up_to_maximum_of_its_failure() {
    let why = || "why".to_owned();
    for (failure, most) in [
        (WatchFailure::AbsentKind, ABSENT_AGAIN_MAX),
        (WatchFailure::Forbidden(why()), REFUSED_AGAIN_MAX),
        (WatchFailure::Refused(why()), REFUSED_AGAIN_MAX),
        (WatchFailure::Unreachable(why()), UNREACHABLE_AGAIN_MAX),
        (WatchFailure::Failed(why()), UNREACHABLE_AGAIN_MAX),
    ] {
        assert_eq!(failure.pause(1), RETRY_MIN);
        assert_eq!(failure.pause(2), RETRY_MIN * 2);
        assert!(failure.pause(9) <= most);
        assert_eq!(failure.pause(u32::MAX), most, "{failure}");
    }
}

#[test]
fn next_attempt_resets_nothing_and_complete_list_does() {
    let (mut state, now) = (WatchState::new(), Instant::now());
    let forbidden = WatchFailure::Forbidden("no".to_owned());
    let mut pauses = Vec::new();
    for attempt in 0..4 {
        assert_eq!(state.succeed(&Event::<()>::Init), None);
        let (pause, first) = state.fail(&forbidden, now);
        assert_eq!(first, attempt == 0);
        pauses.push(pause.as_millis());
    }
    assert_eq!(pauses, [800, 1_600, 3_200, 6_400]);
    // Another kind of failure is logged, and counts from its first.
    let lost = WatchFailure::Unreachable("refused".to_owned());
    assert_eq!(state.fail(&lost, now), (RETRY_MIN, true));
    assert_eq!(state.succeed(&Event::<()>::InitDone), Some(lost));
    assert!(state.listed && state.failure.is_none());
    assert_eq!(state.fail(&forbidden, now), (RETRY_MIN, true));
}

#[test]
fn outage_is_logged_once_for_all_watches() {
    let outage = ApiOutage::default();
    assert!(outage.begin("a", "refused"));
    assert!(!outage.begin("b", "refused"));
    assert!(!outage.begin("a", "refused"));
    assert!(!outage.end("a"));
    assert!(!outage.end("c"));
    assert!(outage.end("b"));
    assert!(outage.begin("a", "refused"));
}
