//! Tests of several planners: polls go to the one that leads, and nobody else answers them.

use super::*;
use crate::distribution::slot_allocation::tests::whole;
use crate::plan::Draft;

/// A planner whose leadership the test sets.
struct Planner {
    endpoints: Endpoints,
    leader: watch::Sender<Leader>,
    term: watch::Sender<Option<Term>>,
}

impl Planner {
    async fn start() -> Planner {
        let (leader, leader_seen) = watch::channel(Leader::Nobody);
        let (term, term_seen) = watch::channel(None);
        let leadership = Leadership {
            leader: leader_seen,
            term: term_seen,
        };
        let endpoints = Endpoints::with(Setup {
            leadership,
            ..Setup::default()
        })
        .await;
        tokio::spawn(run_probes(Arc::clone(&endpoints.app)));
        let variants = whole(&[(0.5, 4), (0.5, 1)]).variants;
        let draft = Draft {
            variants,
            downstream_ms: 0.0,
        };
        let publisher = endpoints.handle.publishers.entry();
        let now = endpoints.app.clock.now();
        publisher.publish(draft, now).unwrap();
        Planner {
            endpoints,
            leader,
            term,
        }
    }

    fn lead(&self) {
        self.term.send_replace(Some(Term::ALONE));
        self.leader.send_replace(Leader::Us);
    }

    fn follow(&self, address: &str) {
        self.term.send_replace(None);
        self.leader.send_replace(Leader::At(address.to_owned()));
    }

    fn address(&self) -> String {
        format!("http://{}", self.endpoints.address)
    }

    async fn poll(&self, proxy: &str) -> Response {
        self.endpoints
            .poll(&format!("?proxy={proxy}&incarnation=1"))
            .await
    }

    /// Waits until it is ready, or says why not in these words.
    async fn until_ready(&self, expected: Result<(), &str>) {
        let what = format!("{expected:?} of /readyz");
        until(&what, async || {
            let answer = self.endpoints.get("/readyz").await;
            match expected {
                Ok(()) => answer.status() == 200,
                Err(why) => answer.status() == 503 && answer.text().await.unwrap().contains(why),
            }
        })
        .await;
    }
}

fn slots(plan: &Plan) -> u32 {
    plan.variants.iter().map(|variant| variant.slots).sum()
}

#[tokio::test]
async fn planner_without_lease_answers_no_poll_and_is_not_ready() {
    let planner = Planner::start().await;
    for query in ["", "?proxy=a&incarnation=1"] {
        let refused = planner.endpoints.poll(query).await;
        assert_eq!(refused.headers()["retry-after"], "1");
        // The next connection may reach the leader.
        assert_eq!(refused.headers()["connection"], "close");
        assert_eq!(error(refused, 503).await, "no planner is known to lead");
    }
    planner
        .until_ready(Err("no planner is known to lead"))
        .await;
    let shown: Value = planner.endpoints.status("").await.json().await.unwrap();
    assert_eq!(shown["leader"]["leads"], false);
    assert_eq!(shown["leader"]["refuses"], "no planner is known to lead");
    let text = planner
        .endpoints
        .get("/metrics")
        .await
        .text()
        .await
        .unwrap();
    for line in [
        "weir_planner_leader_reached 0",
        "weir_planner_polls_total{answer=\"no-leader\",service=\"demo\"} 2",
    ] {
        assert!(text.contains(line), "no '{line}' in\n{text}");
    }
    planner.lead();
    assert_eq!(slots(&plan(planner.poll("a").await).await), 5);
    planner.until_ready(Ok(())).await;
}

#[tokio::test]
async fn standby_forwards_to_leader_and_refuses_when_it_is_lost() {
    let (first, second) = (Planner::start().await, Planner::start().await);
    first.lead();
    second.follow(&first.address());
    second.until_ready(Ok(())).await;
    // The proxy at the standby is known to the leader alone, and gets its slots there.
    let shared = plan(second.poll("a").await).await;
    assert_eq!(slots(&shared), 5);
    let proxies = async |planner: &Planner| -> Vec<String> {
        let shown: Value = planner.endpoints.status("").await.json().await.unwrap();
        shown["proxies"]
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect()
    };
    assert_eq!(proxies(&first).await, ["a"]);
    assert!(proxies(&second).await.is_empty());

    let begin = tokio::time::Instant::now();
    let Endpoints { stop, serving, .. } = first.endpoints;
    stop.send_replace(true);
    serving.await.unwrap();
    second.until_ready(Err("leads and is not reached")).await;
    assert!(
        begin.elapsed() < Duration::from_secs(4),
        "{:?}",
        begin.elapsed()
    );
    let refused = error(second.poll("b").await, 503).await;
    assert!(refused.contains("leads and is not reached"), "{refused}");
    let text = second.endpoints.get("/metrics").await.text().await.unwrap();
    assert!(text.contains("weir_planner_leader_reached 0"), "{text}");
    assert!(
        !text.contains("weir_planner_leader_probes_failed_total 0"),
        "{text}"
    );
}

#[tokio::test]
async fn poll_held_when_term_ends_is_refused() {
    let planner = Planner::start().await;
    planner.lead();
    let first = plan(planner.poll("a").await).await.revision;
    let held = planner
        .endpoints
        .poll_beside(format!("?proxy=a&incarnation=1&after={first}"));
    planner.endpoints.until_held(1).await;
    planner.follow("http://127.0.0.1:1");
    let refused = error(held.await.unwrap(), 503).await;
    assert_eq!(refused, "this planner no longer leads");
}

#[tokio::test]
async fn allocation_of_earlier_term_gives_no_slots() {
    let planner = Planner::start().await;
    let since = planner.endpoints.app.clock.now().at + Duration::from_millis(1);
    let until = Duration::MAX;
    planner.term.send_replace(Some(Term { since, until }));
    planner.leader.send_replace(Leader::Us);
    assert_eq!(planner.poll("a").await.status(), 204);
}
