//! Tests of the spreading of lanes over servers, and of the time each change takes effect.

use super::*;

const PER_CORE: Parallelism = Parallelism::PerCore;

fn fixed(lanes: u32) -> Parallelism {
    Parallelism::Fixed(NonZeroU32::new(lanes).unwrap())
}

fn split(cores: f64, parallelism: Parallelism, count: u32) -> Split {
    Split::new(cores, parallelism, NonZeroU32::new(count).unwrap())
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn request(state: &mut State, now: Instant, cores: f64, parallelism: Parallelism) -> Split {
    let requested = split(cores, parallelism, 3);
    state.request(now, requested);
    requested
}

fn actual(state: &State, at: Instant) -> f64 {
    state.actual(at, NonZeroU32::MIN).cores
}

/// Three servers with a load time of 5 s and a change delay of 1 s.
fn state(cores: f64, parallelism: Parallelism) -> (State, Instant) {
    let split = split(cores, parallelism, 3);
    let state = State::new(split, seconds(5.0), [seconds(1.0); 2], 7);
    let begin = state.counted_until;
    (state, begin)
}

#[test]
fn lanes_are_spread_evenly() {
    for (cores, parallelism, count, expected) in [
        (7.0, PER_CORE, 3, vec![(3, 3.0), (2, 2.0), (2, 2.0)]),
        (2.5, PER_CORE, 3, vec![(1, 1.5), (1, 1.0), (0, 0.0)]),
        (0.0, PER_CORE, 2, vec![(0, 0.0), (0, 0.0)]),
        (8.0, fixed(4), 3, vec![(2, 4.0), (1, 2.0), (1, 2.0)]),
        (0.0, fixed(4), 2, vec![(0, 0.0), (0, 0.0)]),
        (6.0, fixed(1), 1, vec![(1, 6.0)]),
    ] {
        let seats = split(cores, parallelism, count).seats();
        let seats: Vec<_> = seats.map(|seat| (seat.lanes, seat.cores)).collect();
        assert_eq!(seats, expected, "{cores} {parallelism:?} {count}");
    }
}

#[test]
fn new_servers_load_together_even_if_more_are_requested() {
    let (mut state, begin) = state(0.0, PER_CORE);
    let requested = request(&mut state, begin, 2.0, PER_CORE);
    assert!(state.advance(begin + seconds(0.9)).begins.is_empty());
    assert!(state.advance(begin + seconds(1.0)).begins.is_empty());
    assert!(!state.is_settled(begin + seconds(1.0)));
    // A request for more does not interrupt the loading.
    let more = request(&mut state, begin + seconds(2.0), 3.0, PER_CORE);
    assert!(state.was_replaced(requested) && !state.was_replaced(more));
    state.advance(begin + seconds(3.0));
    let moved = state.advance(begin + seconds(6.0));
    assert_eq!((moved.begins, moved.endpoints), (vec![0, 1, 2], true));
    let known = begin + seconds(6.0) + TAKE_OVER;
    assert!(!state.is_settled(begin + seconds(6.0)) && state.is_settled(known));
    assert_eq!(actual(&state, begin + seconds(6.0)), 0.0);
    assert_eq!(actual(&state, known), 3.0);
    // Two cores loaded for five seconds, one for three.
    assert!((state.loading_core_seconds(known) - 13.0).abs() < 1e-6);
}

#[test]
fn server_without_lanes_leaves_and_returns_loaded() {
    let (mut state, begin) = state(3.0, PER_CORE);
    request(&mut state, begin, 2.0, PER_CORE);
    let moved = state.advance(begin + seconds(1.0));
    assert_eq!((moved.seats.len(), moved.endpoints), (0, true));
    assert_eq!(state.leaving(), [(2, begin + seconds(1.0))]);
    assert_eq!(state.serving(), [0, 1]);
    request(&mut state, begin + seconds(1.0), 5.0, PER_CORE);
    let moved = state.advance(begin + seconds(2.0));
    assert_eq!((moved.begins, moved.seats.len()), (vec![2], 3));
    assert!(state.leaving().is_empty());
    assert_eq!(state.lanes(), [2, 2, 1]);
}

#[test]
fn fixed_parallelism_loads_each_further_lane() {
    let (mut state, begin) = state(8.0, fixed(2));
    request(&mut state, begin, 6.0, fixed(6));
    let moved = state.advance(begin + seconds(1.0));
    // Two lanes go on with a core each. Four load: one on each of the two ready servers, two on the third.
    let one = Seat {
        lanes: 1,
        cores: 1.0,
    };
    assert_eq!(moved.seats, [(0, one), (1, one)]);
    request(&mut state, begin + seconds(2.0), 5.0, fixed(5));
    state.advance(begin + seconds(3.0));
    let moved = state.advance(begin + seconds(6.0));
    assert_eq!((moved.seats.len(), moved.begins), (3, vec![2]));
    assert!(moved.endpoints);
    assert_eq!(state.lanes(), [2, 2, 1]);
}

#[test]
fn reverted_request_changes_nothing() {
    let (mut state, begin) = state(3.0, PER_CORE);
    let more = request(&mut state, begin, 6.0, PER_CORE);
    let same = request(&mut state, begin + seconds(0.5), 3.0, PER_CORE);
    assert!(state.was_replaced(more) && !state.was_replaced(same));
    assert!(state.advance(begin + seconds(2.0)).seats.is_empty());
    assert!(state.is_settled(begin + seconds(2.0)));
}

#[test]
fn ready_servers_keep_their_cores_while_others_load() {
    let (mut state, begin) = state(4.0, fixed(1));
    let requested = Split {
        each: Some(4.0),
        ..split(6.0, fixed(3), 3)
    };
    state.request(begin, requested);
    assert!(state.advance(begin + seconds(1.0)).seats.is_empty());
    assert_eq!(actual(&state, begin + seconds(1.0)), 4.0);
    let moved = state.advance(begin + seconds(6.0));
    assert_eq!(moved.begins, [1, 2]);
    assert!(moved.seats.iter().all(|(_, seat)| seat.cores == 2.0));
    assert!((state.loading_core_seconds(begin + seconds(6.0)) - 10.0).abs() < 1e-6);
}
