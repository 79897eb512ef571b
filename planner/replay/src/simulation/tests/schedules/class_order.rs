//! Checks of the class scheduler from outside, by the order in which requests were queued and sent. Only
//! with a single variant and a constant plan: a request that is rerouted or moved to another queue
//! counts as new there.

use std::collections::BTreeMap;

use super::*;

/// Observed events, in order.
#[derive(Default)]
pub(super) struct ClassOrder {
    /// Downstream time of every plan.
    pub(super) rest: Duration,
    checked: bool,
    /// Class of each request as the filter sees it; `priorities` by class.
    class_of: Vec<usize>,
    priorities: Vec<u64>,
    max_skips: usize,
    /// Requests sent by each worker, in order.
    sent: BTreeMap<usize, Vec<Sent>>,
    /// Sequence number at which each queued request was queued.
    held: BTreeMap<(usize, StreamId), usize>,
}

struct Sent {
    class: usize,
    deadline: Mono,
}

impl ClassOrder {
    pub(super) fn of(
        scenario: &Scenario,
        requests: &[Request],
        contender: Contender,
    ) -> ClassOrder {
        let plugin = &scenario.proxies.plugin;
        let known = plugin["classes"].as_array();
        let name = |class: &serde_json::Value| class["name"].clone();
        let names: Vec<_> = known.map_or_else(Vec::new, |all| all.iter().map(name).collect());
        let place = |name: &serde_json::Value| names.iter().position(|known| known == name);
        let default = place(&plugin["default_class"]).unwrap_or(0);
        let class = |request: &Request| {
            let name = &scenario.classes[usize::from(request.class)];
            place(&json!(name)).unwrap_or(default)
        };
        let priority = |class: &serde_json::Value| class["priority"].as_u64().unwrap();
        let stays = contender.control == Control::Static && scenario.variants.len() == 1;
        ClassOrder {
            rest: Duration::from_secs_f64(scenario.service.downstream_ms / 1e3),
            checked: stays && contender.plane != Plane::EdfWithoutFeasibility,
            class_of: requests.iter().map(class).collect(),
            priorities: known.map_or(vec![0], |all| all.iter().map(priority).collect()),
            max_skips: plugin["max_skips"].as_u64().unwrap_or(1) as usize,
            ..ClassOrder::default()
        }
    }

    pub(super) fn on_new_engine(&mut self, worker: usize) {
        self.sent.remove(&worker);
        self.held.retain(|(known, _), _| *known != worker);
    }

    /// A request has no place in the order until its body has arrived.
    pub(super) fn on_last_byte(&mut self, worker: usize, stream: StreamId) {
        self.held.remove(&(worker, stream));
    }

    pub(super) fn on_verdicts(
        &mut self,
        worker: usize,
        verdicts: &[(StreamId, Verdict)],
        now: u64,
    ) {
        if !self.checked {
            return;
        }
        for (stream, verdict) in verdicts {
            match verdict {
                Verdict::Park => {
                    let count = self.sent.get(&worker).map_or(0, Vec::len);
                    self.held.insert((worker, *stream), count);
                }
                Verdict::Forward(dispatch) => {
                    let deadline = Mono(now) + dispatch.remaining;
                    self.check_order(worker, *stream, deadline);
                }
                _ => {
                    self.held.remove(&(worker, *stream));
                }
            }
        }
    }

    /// While the request was queued, no request of its class with a later deadline was sent, and no more
    /// requests of higher priority were sent in a row than `max_skips` allows.
    fn check_order(&mut self, worker: usize, stream: StreamId, deadline: Mono) {
        let class = self.class_of[stream as usize];
        let sent = self.sent.entry(worker).or_default();
        let since = self.held.remove(&(worker, stream)).unwrap_or(sent.len());
        let mut in_a_row = 0;
        for other in &sent[since..] {
            if other.class == class {
                assert!(
                    other.deadline <= deadline,
                    "{stream} of class {class} was sent after a later deadline"
                );
                in_a_row = 0;
            } else if self.priorities[other.class] > self.priorities[class] {
                in_a_row += 1;
            }
            let most = self.max_skips + self.priorities.len() - 1;
            assert!(
                in_a_row <= most,
                "class {class} was passed over {in_a_row} times"
            );
        }
        sent.push(Sent { class, deadline });
    }
}
