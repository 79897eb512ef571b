//! Slowly read answers: the client has them late, and the server's slot is free once the proxy's buffer
//! has its part.

use super::*;

const CAREFUL: Contender = Contender {
    plane: Plane::FifoTimeout,
    control: Control::Static,
    breaker: None,
};

/// Makes the client take `longer` ms more; for the first `at_proxy` of them the proxy waits too.
fn reads(request: &mut Request, longer: u64, at_proxy: u64) {
    request.reading = Reading {
        longer: ms(longer),
        at_proxy: ms(at_proxy),
    };
}

#[test]
fn small_answer_delays_only_its_slow_reader() {
    let mut all = requests(&[(0, 1000), (10, 1000)]);
    reads(&mut all[0], 300, 0);
    assert_eq!(played(&scenario([1, 0]), &all, WEIR), [(A, 350), (A, 100)]);
    assert_eq!(all[0].due(), ms(700));
}

#[test]
fn slowly_read_large_answer_does_not_block_the_server() {
    let mut all = requests(&[(0, 1000), (10, 1000), (600, 1000)]);
    reads(&mut all[0], 500, 400);
    let ends = [(A, 550), (A, 100), (A, 650)];
    assert_eq!(played(&scenario([1, 0]), &all, WEIR), ends);
    // Not even past its deadline: an answer that has begun may finish.
    all[0].budget = ms(100);
    assert_eq!(played(&scenario([1, 0]), &all, WEIR), ends);
}

#[test]
fn slow_reader_counts_as_in_flight_at_gateway_without_weir() {
    let mut scenario = scenario([1, 0]);
    scenario.service.slo = ms(120);
    // The breaker admits two at once; the route's timeout cuts off an answer that is still being read.
    let mut all = requests(&[(0, 1000), (0, 1000), (110, 1000), (170, 1000)]);
    reads(&mut all[0], 500, 400);
    reads(&mut all[1], 500, 400);
    let cut = Fate::Refused("timeout");
    let overflow = Fate::Refused("overflow");
    assert_eq!(
        played(&scenario, &all, CAREFUL),
        [(cut, 120), (cut, 120), (overflow, 110), (A, 220)]
    );
    assert_eq!(
        played(&scenario, &all, WEIR)[2..],
        [(A, 160), (A, 220)],
        "beside the same readers"
    );
}

#[test]
fn disconnect_while_reading_leaks_nothing() {
    let mut all = requests(&[(0, 1000), (10, 1000), (300, 1000)]);
    reads(&mut all[0], 900, 900);
    all[0].timeout = ms(200);
    assert_eq!(
        played(&scenario([1, 0]), &all, WEIR),
        [(Fate::Disconnected, 200), (A, 100), (A, 350)]
    );
}

#[test]
fn restart_loses_answers_that_are_still_read() {
    let mut all = requests(&[(0, 1000), (200, 1000)]);
    reads(&mut all[0], 900, 900);
    let mut scenario = scenario([1, 0]);
    scenario.faults = vec![Fault {
        at: ms(100),
        what: FaultKind::ProxyRestart { proxy: 0 },
    }];
    for contender in [WEIR, CAREFUL] {
        assert_eq!(
            played(&scenario, &all, contender),
            [(Fate::Lost, 100), (A, 250)]
        );
    }
}
