//! Invariants, checked over the emulator's log and over every change of every pod. All functions are pure;
//! only [`Meter`] listens to an API server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weir_apiserver::{ApiServer, Entry, Happening, PodNow, Request, Verb, What};
use weir_planner::operator::lease::DURATION;

use super::resizes::{requested_spec, taken};

/// Cores below this are rounding errors.
const EPSILON: f64 = 1e-9;

/// Maximum of the pods' total cores over time. A pod counts with the largest of its requested, allocated and
/// actual cores.
#[derive(Clone, Default)]
pub(crate) struct Meter(Arc<Mutex<MeterState>>);

#[derive(Default)]
struct MeterState {
    pods: BTreeMap<String, PodNow>,
    most: f64,
    most_pods: usize,
    then: String,
}

impl Meter {
    /// Starts to follow an API server.
    pub(crate) fn of(server: &ApiServer) -> Meter {
        let meter = Meter::default();
        let (mut changes, own) = (server.subscribe(), meter.clone());
        tokio::spawn(async move {
            while let Ok(change) = changes.recv().await {
                own.see(change.happening, change.pod);
            }
        });
        meter
    }

    fn see(&self, happening: Happening, pod: PodNow) {
        let mut metered = self.0.lock().unwrap();
        match happening {
            Happening::Deleted => metered.pods.remove(&pod.uid),
            _ => metered.pods.insert(pod.uid.clone(), pod),
        };
        metered.most_pods = metered.most_pods.max(metered.pods.len());
        let sum: f64 = metered.pods.values().map(PodNow::cores_at_most).sum();
        if sum > metered.most + EPSILON {
            metered.most = sum;
            let of = |pod: &PodNow| {
                let (requested, allotted) = (pod.requests.cpu_m, pod.allotted.cpu_m);
                let has = pod.cores();
                format!(
                    "{}: asks {requested}m, allotted {allotted}m, has {has}",
                    pod.key
                )
            };
            let pods: Vec<String> = metered.pods.values().map(of).collect();
            metered.then = pods.join("\n  ");
        }
    }

    pub(crate) fn most(&self) -> f64 {
        self.0.lock().unwrap().most
    }

    pub(crate) fn most_pods(&self) -> usize {
        self.0.lock().unwrap().most_pods
    }

    /// Checks the number of pods.
    pub(crate) fn within_pods(&self, bound: usize) -> Result<(), String> {
        let most = self.most_pods();
        let error = || format!("{most} pods of {bound}");
        (most <= bound).then_some(()).ok_or_else(error)
    }

    /// Checks the core budget.
    pub(crate) fn within(&self, budget: f64) -> Result<(), String> {
        let metered = self.0.lock().unwrap();
        match metered.most <= budget + EPSILON {
            true => Ok(()),
            false => Err(format!(
                "{} cores of {budget}:\n  {}",
                metered.most, metered.then
            )),
        }
    }
}

/// Whether the request changes cores.
pub(crate) fn acts(request: &Request) -> bool {
    matches!(
        (request.resource.as_str(), request.verb),
        ("pods/resize" | "deployments/scale", Verb::Patch) | ("pods/eviction", Verb::Create)
    )
}

fn claims(request: &Request) -> bool {
    request.resource == "leases" && request.verb.writes()
}

/// Checks that changes of cores are sent only by the planner that wrote the Lease last, and within its duration: two
/// planners never act at once. A change may take effect later than it arrives.
pub(crate) fn only_the_holder_acts(log: &[Entry]) -> Result<(), String> {
    let requests = log.iter().filter_map(taken);
    let claims: Vec<(&str, Duration)> = log
        .iter()
        .filter_map(|entry| Some((taken(entry).filter(|one| claims(one))?, entry.at)))
        .map(|(request, at)| (request.subject.as_str(), at))
        .collect();
    for request in requests {
        let (who, at) = (request.subject.as_str(), request.arrived);
        let before = claims.partition_point(|(_, since)| *since <= at);
        let holder = before.checked_sub(1).map(|latest| claims[latest]);
        let leads = |(holder, since): (&str, Duration)| holder == who && at <= since + DURATION;
        if acts(request) && !holder.is_some_and(leads) {
            let (resource, key) = (&request.resource, &request.key);
            return Err(format!(
                "{who} patches {resource} of {key} at {at:?}; the Lease was written last by {holder:?}"
            ));
        }
    }
    Ok(())
}

/// Time from `from` until a subject other than `without` holds the Lease.
pub(crate) fn takeover(log: &[Entry], from: Duration, without: &[String]) -> Option<Duration> {
    let later = log.iter().filter(|entry| entry.at >= from);
    let mut claims = later.filter(|entry| taken(entry).is_some_and(claims));
    let first = claims.find(|entry| {
        let subject = taken(entry).map(|request| &request.subject);
        subject.is_some_and(|subject| !without.contains(subject))
    });
    first.map(|entry| entry.at - from)
}

/// Formats the log's writes since `from`, one per line.
pub(crate) fn writes(log: &[Entry], from: Duration, most: usize) -> String {
    let write = |entry: &Entry| match &entry.what {
        What::Request(request) if request.verb.writes() => {
            let who = request.subject.rsplit(':').next().unwrap_or_default();
            let (verb, resource, key) = (request.verb, &request.resource, &request.key);
            let body = match acts(request) {
                true => requested_spec(request).to_string(),
                false => String::new(),
            };
            let lost = if request.lost { " (answer lost)" } else { "" };
            let status = request.status;
            Some(format!(
                "{who} {verb:?} {resource} {key}: {status}{lost} {body}"
            ))
        }
        What::Actuated(done) => {
            let (before, after) = (done.before.cores(), done.after.cores());
            Some(format!("actuated {}: {before} → {after}", done.pod))
        }
        What::Request(_) => None,
    };
    let later = log.iter().filter(|entry| entry.at >= from);
    let lines = later.filter_map(|entry| Some(format!("  {:9.3?} {}", entry.at, write(entry)?)));
    lines.take(most).collect::<Vec<_>>().join("\n")
}

mod tests {
    use serde_json::json;
    use weir_apiserver::Key;

    use super::*;
    use crate::resizes::nothing_is_resized_twice;

    fn entry(s: u64, who: &str, resource: &str, cpu: &str, status: u16) -> Entry {
        let verb = match resource {
            "leases" => Verb::Update,
            _ => Verb::Patch,
        };
        let what = What::Request(Request {
            subject: who.to_owned(),
            verb,
            group: String::new(),
            resource: resource.to_owned(),
            key: Key::new("models", "small-1"),
            status,
            reason: String::new(),
            content_type: String::new(),
            body: json!({"spec": {"cpu": cpu}}),
            dry_run: false,
            lost: false,
            arrived: Duration::from_secs(s),
        });
        let at = Duration::from_secs(s);
        Entry { order: s, at, what }
    }

    #[test]
    fn repeated_resize_is_found_unless_another_is_in_between() {
        let resize = |s, cpu, status| entry(s, "a", "pods/resize", cpu, status);
        let well = [
            resize(1, "1", 200),
            resize(2, "2", 200),
            resize(3, "1", 200),
        ];
        assert_eq!(nothing_is_resized_twice(&well), Ok(()));
        let refused = [resize(1, "1", 409), resize(2, "1", 200)];
        assert_eq!(nothing_is_resized_twice(&refused), Ok(()));
        let wrong = [resize(1, "1", 200), resize(2, "1", 200)];
        assert!(nothing_is_resized_twice(&wrong).is_err());
    }

    #[test]
    fn act_without_lease_is_found() {
        let lease = |s, who| entry(s, who, "leases", "", 200);
        let act = |s, who| entry(s, who, "deployments/scale", "", 200);
        let well = [lease(1, "a"), act(2, "a"), lease(20, "b"), act(21, "b")];
        assert_eq!(only_the_holder_acts(&well), Ok(()));
        for wrong in [
            vec![act(1, "a")],
            vec![lease(1, "a"), act(2, "b")],
            vec![lease(1, "a"), lease(2, "b"), act(3, "a")],
            vec![lease(1, "a"), act(12, "a")],
        ] {
            assert!(only_the_holder_acts(&wrong).is_err(), "{wrong:?}");
        }
        let ended = ["a".to_owned()];
        let from = Duration::from_secs(2);
        assert_eq!(takeover(&well, from, &ended), Some(Duration::from_secs(18)));
        assert_eq!(takeover(&well[..2], from, &ended), None);
    }

    #[tokio::test]
    async fn requested_cores_beyond_budget_are_found() {
        let cluster = crate::bed::Cluster::start().await;
        let meter = Meter::of(&cluster.server);
        cluster.deploy("small", 2, 3);
        let seen = || meter.most() >= 6.0;
        weir_bed::wait::until("two pods", crate::bed::LIMIT, seen)
            .await
            .unwrap();
        assert_eq!(meter.within(6.0), Ok(()));
        assert!(meter.within(5.0).is_err());
        assert_eq!(meter.within_pods(2), Ok(()));
        assert!(meter.within_pods(1).is_err());
    }
}
