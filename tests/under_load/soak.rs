//! Soak test: VMs trap repeatedly under load. Every request must end, and no state may be left behind.
//!
//! This run takes a quarter of a minute with short timeouts; `cargo xtask soak --minutes 10` runs longer,
//! with the shipped timeouts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use weir_api::metrics::Metric;
use weir_bed::envoy::Bootstrap;
use weir_bed::fate::{Fate, Outcome};
use weir_bed::load::{Protocol, Rates, Schedule, Sender, Target, start};
use weir_bed::network::Network;
use weir_bed::scene::{PATIENCE, Scene, Variant, see, taken_by_the_living};
use weir_bed::{built, wait};

/// Duration of the load, set by `cargo xtask soak`.
const SECONDS: &str = "WEIR_SOAK_SECONDS";
const MANAGER: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config";
const WORKERS: u32 = 2;
const SLOTS: u32 = 8;
/// At most 160 requests/s.
const ONE: Variant = Variant {
    name: "one",
    share: 1.0,
    slots: SLOTS,
    service_ms: 50.0,
};
/// Close enough to the capacity that some requests are always held.
const RATE_RPS: f64 = 150.0;
const SLO: Duration = Duration::from_secs(1);
/// Tolerance beyond Envoy's timers on a busy machine.
const SLACK: Duration = Duration::from_secs(1);
/// Minimum fraction of the requests that must be served.
const SERVED_MIN: f64 = 0.5;

/// Settings of a soak.
struct Soak {
    length: Duration,
    trap_every: Duration,
    /// Limits of holds and of streams, if not the shipped ones.
    timeouts: Option<(Duration, Duration)>,
}

#[tokio::test(flavor = "multi_thread")]
async fn it_lasts() {
    let _alone = super::alone().await;
    let soak = match std::env::var(SECONDS) {
        Ok(seconds) => Soak {
            length: Duration::from_secs_f64(seconds.parse().expect(SECONDS)),
            trap_every: Duration::from_secs(20),
            timeouts: None,
        },
        Err(_) => Soak {
            length: Duration::from_secs(12),
            trap_every: Duration::from_millis(1700),
            timeouts: Some((Duration::from_secs(2), Duration::from_secs(3))),
        },
    };
    let scene = scene(&soak).await;
    let bound = soak.timeouts.map_or_else(shipped_idle, |(_, all)| all) + SLACK;
    let (outcomes, traps) = load(&scene, &soak, bound).await;

    let mut fates: BTreeMap<String, usize> = BTreeMap::new();
    for outcome in &outcomes {
        let fate = match &outcome.fate {
            Fate::Answered { .. } => "served".to_owned(),
            Fate::Refused { status, reason } => format!("{status} {reason}"),
            Fate::Disconnected => panic!("{} had no answer for {bound:?}", outcome.id),
            Fate::Lost { error } => panic!("{} was dropped: {error}", outcome.id),
        };
        *fates.entry(fate).or_default() += 1;
    }
    let longest = outcomes.iter().map(Outcome::latency).max().unwrap();
    let reloads = scene.envoy.counter("envoy_wasm_weir_vm_reload_success");
    let reloads = reloads.await.unwrap();
    println!("{traps} traps, {reloads} reloads; longest {longest:.1?}; {fates:?}");
    assert!(reloads >= traps / 2, "{traps} traps, {reloads} reloads");
    let served = fates["served"] as f64 / outcomes.len() as f64;
    assert!(served > SERVED_MIN, "{served}");
    assert_nothing_left(&scene).await;
}

async fn scene(soak: &Soak) -> Scene {
    let module = built::trapping_filter().unwrap();
    Scene::start(&[ONE], WORKERS, |bootstrap, _| {
        let bootstrap = bootstrap.wasm(module);
        let Some((hold, all)) = soak.timeouts else {
            return bootstrap;
        };
        let pointer = format!("{MANAGER}/route_config/virtual_hosts/0/routes/2/route/idle_timeout");
        bootstrap
            .amend(&pointer, json!(format!("{}s", hold.as_secs())))
            .stream_idle_timeout(all)
    })
    .await
    .unwrap()
}

fn shipped_idle() -> Duration {
    let shipped = Bootstrap::shipped().unwrap();
    let idle = shipped.value().pointer(MANAGER).unwrap()["stream_idle_timeout"].clone();
    let seconds = idle.as_str().and_then(|idle| idle.strip_suffix('s'));
    Duration::from_secs_f64(seconds.unwrap().parse().unwrap())
}

/// Returns the outcome of every request except the trapping ones, and the number of those.
async fn load(scene: &Scene, soak: &Soak, bound: Duration) -> (Vec<Outcome>, u64) {
    let seconds = soak.length.as_secs_f64().ceil() as usize;
    let rates = Rates::constant(RATE_RPS, seconds).unwrap();
    let schedule = Schedule::new(&rates, &Network::none(), 0, 1).unwrap();
    let target = Target {
        name: "weir".to_owned(),
        url: format!(
            "http://{}/v2/models/model/infer",
            scene.envoy.listener("weir").unwrap()
        ),
        then: Vec::new(),
        headers: Vec::new(),
    };
    let sender = Sender {
        slo: SLO,
        timeout: bound,
        body: "{}".into(),
        answer_bytes: 0,
        read_bytes_per_s: None,
        protocol: Protocol::Http1,
    };
    let (schedule, network) = (Arc::new(schedule), Arc::new(Network::none()));
    let run = start(schedule, network, sender, vec![target]).unwrap();
    let mut trapping = Vec::new();
    let mut due = tokio::time::interval(soak.trap_every);
    due.tick().await;
    for at in ["request", "response", "tick", "memory"]
        .into_iter()
        .cycle()
    {
        due.tick().await;
        if run.elapsed() >= soak.length {
            break;
        }
        let request = scene.infer_within(1000).header("x-weir-trap", at);
        trapping.push(Scene::spawn(request.timeout(bound)));
    }
    let traps = trapping.len() as u64;
    for trapped in trapping {
        trapped.await.unwrap().expect("a request that trapped hung");
    }
    let mut record = run.finish().await.unwrap();
    (record.outcomes.remove(0), traps)
}

/// Asserts that nothing is held or in flight, and that all slots are usable: as many requests run at once,
/// and no more.
async fn assert_nothing_left(scene: &Scene) {
    let free = async || {
        let answers: Vec<_> = (0..SLOTS)
            .map(|_| Scene::spawn(scene.infer_within(5000)))
            .collect();
        let mut unheld = 0;
        for answer in answers {
            let seen = answer.await.unwrap().unwrap();
            assert_eq!(seen.refusal(), (200, ""));
            unheld += u32::from(queued_ms(seen.header("server-timing")) < ONE.service_ms / 2.0);
        }
        unheld == SLOTS
    };
    wait::until_async("all slots to be free", PATIENCE, free)
        .await
        .unwrap();
    let slot_table = scene.slot_table().await.unwrap();
    println!(
        "the slot table: {} VMs of {} variants",
        slot_table.rows.len(),
        slot_table.columns.len()
    );
    // Rows are reused: besides the live workers there is one that died a moment ago.
    let entries = slot_table.rows.len();
    assert!(entries <= 2 * WORKERS as usize + 1, "{slot_table:?}");
    assert_eq!((slot_table.columns.len(), slot_table.resets), (1, 0));
    let nothing_taken = async || {
        let slot_table = scene.slot_table().await.unwrap();
        taken_by_the_living(&slot_table, ONE.name) == 0
    };
    wait::until_async(
        "the slot table to say that nothing is taken",
        PATIENCE,
        nothing_taken,
    )
    .await
    .unwrap();
    scene.until(Metric::HeldRequests, "", 0).await.unwrap();
    scene.until(Metric::SlotsInUse, ONE.name, 0).await.unwrap();
    assert_eq!(see(scene.infer_within(5000)).await.unwrap().status, 200);
}

fn queued_ms(timing: &str) -> f64 {
    timing.trim_start_matches("queue;dur=").parse().unwrap()
}
