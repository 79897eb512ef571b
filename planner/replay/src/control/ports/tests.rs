//! Cached decisions.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use weir_api::Rps;

use super::*;
use crate::simulation::tests::planner_cycle::closed_loop;

/// Returns the decision; nothing in it waits.
fn decided(ports: &SimulatedPorts, service: &Arc<Service>, inputs: Option<Inputs>) -> Decision {
    let actual = ports.state().kubelet.confirmed().len();
    let actual = (0..actual).map(|variant| ports.state().kubelet.actual(variant));
    let deciding = ports.decide(service, actual.collect(), inputs);
    match pin!(deciding).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(decision) => decision,
        Poll::Pending => panic!("it waits"),
    }
}

fn ports() -> (SimulatedPorts, Arc<Service>) {
    let scenario = closed_loop();
    let cores = [Cores::whole(2); 2];
    let kubelet = Kubelet::new(&scenario.variants, &cores);
    let service = Arc::new(scenario.service);
    (SimulatedPorts::new(&service, kubelet, 1), service)
}

#[test]
fn inputs_that_differ_share_no_decision() {
    let (ports, service) = ports();
    let cached = || ports.memo.lock().unwrap().len();
    let steady = Inputs::steady(Rps(20.0));
    let changes: [fn(&mut Inputs); 7] = [
        |inputs| inputs.forecast.demand = Rps(21.0),
        |inputs| inputs.forecast.present = Rps(19.0),
        |inputs| inputs.forecast.arriving = Rps(19.0),
        |inputs| inputs.forecast.rises = true,
        |inputs| inputs.forecast.window_full = false,
        |inputs| inputs.forecast.lasted = Some(Rps(20.0)),
        |inputs| inputs.left_ms = Some(500.0),
    ];
    decided(&ports, &service, None);
    decided(&ports, &service, Some(steady));
    for (place, change) in changes.iter().enumerate() {
        let mut inputs = steady;
        change(&mut inputs);
        decided(&ports, &service, Some(inputs));
        assert_eq!(cached(), place + 3, "change {place}");
        decided(&ports, &service, Some(inputs));
        assert_eq!(cached(), place + 3, "change {place}, again");
    }
}

#[test]
fn full_nodes_are_part_of_the_problem() {
    let (ports, service) = ports();
    let inputs = Some(Inputs::steady(Rps(20.0)));
    let usual = decided(&ports, &service, inputs);
    let mut full = Service::clone(&service);
    for variant in &mut full.variants {
        variant.max = variant.min.max(1);
    }
    let limited = decided(&ports, &Arc::new(full), inputs);
    assert_ne!(usual.targets, limited.targets);
}
