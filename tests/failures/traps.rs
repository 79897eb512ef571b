//! Envoy's behavior when the filter's VM traps, under each failure policy: for the trapping request, for
//! requests held and in flight, and for later ones.
//!
//! The assertions record the current behavior, so that a change in Envoy shows. The module is built with the
//! feature `trap`.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use weir_api::metrics::Metric;
use weir_bed::envoy::Bootstrap;
use weir_bed::scene::{PATIENCE, Scene, Seen, Variant, see};
use weir_bed::{built, wait};

const MANAGER: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config";
/// Header that makes the module trap.
const HEADER: &str = "x-weir-trap";
/// Memory limit of a VM, in wasm pages of 64 KiB: 64 MiB.
const PAGES_MAX: u64 = 1024;
/// Longest hold in these tests; 11 s as shipped.
const HOLD_MAX: Duration = Duration::from_secs(3);
/// Twice the shipped backoff of `reload_config`: an older VM is replaced at once.
const BACKOFF_MAX: Duration = Duration::from_millis(400);
/// Amount by which Envoy's timers may fire early.
const TIMER: Duration = Duration::from_millis(50);
const SLOTS: u32 = 2;
const HELD: u64 = 2;
const SMALL: Variant = Variant {
    name: "small",
    share: 1.0,
    slots: SLOTS,
    service_ms: 800.0,
};
/// Serves requests that bypass the filter.
const FALLBACK: Variant = Variant {
    name: "fallback",
    share: 0.0,
    slots: 0,
    service_ms: 1.0,
};

type Answer = JoinHandle<(anyhow::Result<Seen>, Instant)>;

/// Starts Envoy with the trapping module and this policy, and waits until a reload is allowed at once.
async fn scene(policy: &str, workers: u32, slots: u32) -> Scene {
    let module = built::trapping_filter().unwrap();
    let small = Variant { slots, ..SMALL };
    let scene = Scene::start(&[small, FALLBACK], workers, |bootstrap, _| {
        let policy_at = format!("{MANAGER}/http_filters/0/typed_config/config/failure_policy");
        with_hold_max(bootstrap, HOLD_MAX)
            .wasm(module)
            .fallback(FALLBACK.name)
            .amend(&policy_at, json!(policy))
    })
    .await
    .unwrap();
    let loaded = Instant::now();
    wait::until("reloads to be allowed", PATIENCE, || {
        loaded.elapsed() > BACKOFF_MAX
    })
    .await
    .unwrap();
    scene
}

fn with_hold_max(bootstrap: Bootstrap, limit: Duration) -> Bootstrap {
    let pointer = format!("{MANAGER}/route_config/virtual_hosts/0/routes/2/route/idle_timeout");
    bootstrap.amend(&pointer, json!(format!("{}s", limit.as_secs_f64())))
}

fn call(scene: &Scene, id: &str) -> Answer {
    let request = scene.infer_within(9000).header("x-request-id", id);
    tokio::spawn(async move { (see(request).await, Instant::now()) })
}

async fn trap(scene: &Scene, at: &str) -> Seen {
    let request = scene.infer_within(9000).header(HEADER, at);
    see(request.header("x-request-id", "trapping"))
        .await
        .unwrap()
}

/// Fills all slots of the only worker and queues [`HELD`] requests.
async fn busy(scene: &Scene) -> (Vec<Answer>, Vec<Answer>, Instant) {
    let running: Vec<_> = (0..SLOTS)
        .map(|i| call(scene, &format!("running-{i}")))
        .collect();
    scene
        .until(Metric::SlotsInUse, "small", u64::from(SLOTS))
        .await
        .unwrap();
    let since = Instant::now();
    let held: Vec<_> = (0..HELD)
        .map(|i| call(scene, &format!("held-{i}")))
        .collect();
    scene.until(Metric::HeldRequests, "", HELD).await.unwrap();
    (running, held, since)
}

/// Asserts that requests in flight are lost when their answers arrive, and held ones when their hold ends.
/// Both get 503 without a reason, because the VM no longer exists. No server executes a held request.
async fn lost(scene: &Scene, running: Vec<Answer>, held: Vec<Answer>, since: Instant) {
    for answer in running {
        let (seen, _) = answer.await.unwrap();
        assert_eq!(seen.unwrap().refusal(), (503, ""));
    }
    for answer in held {
        let (seen, at) = answer.await.unwrap();
        assert_eq!(seen.unwrap().refusal(), (503, ""));
        let lasted = at - since;
        assert!(
            lasted > HOLD_MAX - TIMER && lasted < HOLD_MAX + Duration::from_secs(1),
            "{lasted:?}"
        );
    }
    let executed = executions(scene, 0);
    let of = |prefix: &str| executed.iter().filter(|id| id.starts_with(prefix)).count();
    assert_eq!((of("running"), of("held")), (SLOTS as usize, 0));
    let name = "envoy_http_downstream_rq_idle_timeout";
    assert!(scene.envoy.counter(name).await.unwrap() >= HELD);
}

fn executions(scene: &Scene, backend: usize) -> Vec<String> {
    let executions = scene.backends[backend].executions();
    executions.into_iter().map(|e| e.request_id).collect()
}

async fn reloads(scene: &Scene, outcome: &str) -> u64 {
    let name = format!("envoy_wasm_weir_vm_reload_{outcome}");
    scene.envoy.counter(&name).await.unwrap()
}

/// The shipped policy: one VM's requests are lost, and the next request is served.
#[tokio::test]
async fn reload_policy_serves_the_next_request() {
    let scene = scene("FAIL_RELOAD", 1, SLOTS).await;
    let (running, held, since) = busy(&scene).await;
    let trapping = Instant::now();
    let trapped = trap(&scene, "request").await;
    assert_eq!(trapped.refusal(), (503, ""));
    assert!(trapping.elapsed() < Duration::from_millis(500), "it hung");
    let next = see(scene.infer_within(9000)).await.unwrap();
    assert_eq!(next.refusal(), (200, ""));
    assert_eq!(next.header("x-slo-variant"), "small");
    assert_eq!(
        (
            reloads(&scene, "success").await,
            reloads(&scene, "backoff").await
        ),
        (1, 0)
    );
    lost(&scene, running, held, since).await;

    // Immediately after a reload there is no other: requests get 503 until the backoff has passed.
    trap(&scene, "request").await;
    assert_eq!(trap(&scene, "request").await.refusal(), (503, ""));
    let again = async || see(scene.infer_within(9000)).await.unwrap().status == 200;
    let since = Instant::now();
    wait::until_async("the next reload", PATIENCE, again)
        .await
        .unwrap();
    assert!(since.elapsed() < BACKOFF_MAX + Duration::from_secs(2));
    assert!(executions(&scene, 1).is_empty(), "it went past the filter");
}

/// Later requests bypass the filter for good: without order, deadline or limit.
#[tokio::test]
async fn open_policy_sends_later_requests_by_the_fallback_route() {
    let scene = scene("FAIL_OPEN", 1, SLOTS).await;
    let (running, held, since) = busy(&scene).await;
    assert_eq!(trap(&scene, "request").await.refusal(), (503, ""));
    lost(&scene, running, held, since).await;
    for _ in 0..10 {
        let seen = see(scene.infer_within(9000)).await.unwrap();
        assert_eq!(seen.refusal(), (200, ""));
        assert_eq!(seen.header("x-slo-variant"), "");
    }
    assert_eq!(executions(&scene, 1).len(), 10);
    assert_eq!(reloads(&scene, "success").await, 0);
}

#[tokio::test]
async fn closed_policy_refuses_all_later_requests() {
    let scene = scene("FAIL_CLOSED", 1, SLOTS).await;
    let (running, held, since) = busy(&scene).await;
    assert_eq!(trap(&scene, "request").await.refusal(), (503, ""));
    lost(&scene, running, held, since).await;
    for _ in 0..10 {
        let seen = see(scene.infer_within(9000)).await.unwrap();
        assert_eq!(seen.refusal(), (503, ""));
    }
    assert_eq!(reloads(&scene, "success").await, 0);
}

/// Traps on the response path and in a tick.
#[tokio::test]
async fn a_trap_on_an_answer_or_a_tick_is_like_one_on_a_request() {
    for at in ["response", "tick"] {
        let scene = scene("FAIL_RELOAD", 1, SLOTS).await;
        let request = scene.infer_within(9000).header(HEADER, at);
        let request = request.header("x-request-id", "running-t");
        // Both requests are in flight at the trap.
        let (trapping, other) = if at == "tick" {
            let other = call(&scene, "running-o");
            scene.until(Metric::SlotsInUse, "small", 1).await.unwrap();
            (Scene::spawn(request), other)
        } else {
            let trapping = Scene::spawn(request);
            scene.until(Metric::SlotsInUse, "small", 1).await.unwrap();
            (trapping, call(&scene, "running-o"))
        };
        // The request is lost when its answer arrives, although the server has served it.
        assert_eq!(
            trapping.await.unwrap().unwrap().refusal(),
            (503, ""),
            "{at}"
        );
        assert_eq!(other.await.unwrap().0.unwrap().refusal(), (503, ""), "{at}");
        assert_eq!(executions(&scene, 0).len(), 2);
        let next = see(scene.infer_within(9000)).await.unwrap();
        assert_eq!(next.refusal(), (200, ""), "{at}");
    }
}

/// Envoy's other workers have their own VMs.
#[tokio::test]
async fn a_trap_costs_only_the_requests_of_its_worker() {
    const EACH: u32 = 4;
    let scene = scene("FAIL_RELOAD", 2, 4 * EACH).await;
    let running: Vec<_> = (0..2 * EACH)
        .map(|i| call(&scene, &format!("running-{i}")))
        .collect();
    scene
        .until(Metric::SlotsInUse, "small", u64::from(2 * EACH))
        .await
        .unwrap();
    assert_eq!(trap(&scene, "request").await.refusal(), (503, ""));
    let mut served = 0;
    for answer in running {
        match answer.await.unwrap().0.unwrap().refusal() {
            (200, "") => served += 1,
            other => assert_eq!(other, (503, "")),
        }
    }
    assert_eq!(served, EACH, "connections are spread evenly");
    for _ in 0..4 {
        let next = see(scene.infer_within(9000)).await.unwrap();
        assert_eq!(next.refusal(), (200, ""));
    }
}

/// The VM's own limit applies long before the machine's.
#[tokio::test]
async fn a_vm_that_wants_too_much_memory_is_replaced() {
    let scene = scene("FAIL_RELOAD", 1, SLOTS).await;
    let before = peak_bytes(&scene);
    assert_eq!(trap(&scene, "memory").await.refusal(), (503, ""));
    let more = peak_bytes(&scene).saturating_sub(before);
    let limit = PAGES_MAX * 65536;
    assert!(more > limit / 2 && more < limit * 3 / 2, "{more} bytes");
    assert!(scene.envoy.log().contains("memory allocation of"));
    let next = see(scene.infer_within(9000)).await.unwrap();
    assert_eq!(next.refusal(), (200, ""));
}

/// Envoy's peak memory.
fn peak_bytes(scene: &Scene) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", scene.envoy.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    let kb = line.unwrap().split_whitespace().nth(1).unwrap();
    kb.parse::<u64>().unwrap() * 1024
}

/// The fallback route's idle timeout limits a hold: until it is forwarded, a request has only that route. An
/// answer may take longer.
#[tokio::test]
async fn fallback_routes_idle_timeout_bounds_only_a_hold() {
    let short = Duration::from_millis(500);
    let one = Variant { slots: 1, ..SMALL };
    let scene = Scene::start(&[one], 1, |bootstrap, _| with_hold_max(bootstrap, short))
        .await
        .unwrap();
    scene.backends[0].slow_by(2.0).unwrap();
    let running = call(&scene, "running");
    scene.until(Metric::SlotsInUse, "small", 1).await.unwrap();
    let since = Instant::now();
    let held = see(scene.infer_within(9000)).await.unwrap();
    assert_eq!(held.status, 504, "{:?}", held.headers);
    let lasted = since.elapsed();
    assert!(lasted > short - TIMER && lasted < 3 * short, "{lasted:?}");
    let (seen, _) = running.await.unwrap();
    assert_eq!(seen.unwrap().refusal(), (200, ""), "it ended too");
}

/// The timeouts that these tests shorten are in the right order in the shipped file.
#[test]
fn shipped_timeouts_are_in_order() {
    let shipped = Bootstrap::shipped().unwrap();
    let manager = shipped.value().pointer(MANAGER).unwrap();
    let seconds = |pointer: &str| -> f64 {
        let text = manager.pointer(pointer).and_then(Value::as_str);
        let text = text.unwrap_or_else(|| panic!("nothing at {pointer}"));
        text.trim_end_matches('s').parse().unwrap()
    };
    let route = |i: u32, key: &str| {
        seconds(&format!(
            "/route_config/virtual_hosts/0/routes/{i}/route/{key}"
        ))
    };
    let plugin = manager
        .pointer("/http_filters/0/typed_config/config/configuration/value")
        .and_then(Value::as_str);
    let plugin: Value = serde_json::from_str(plugin.unwrap()).unwrap();
    let max = plugin["deadline"]["max_ms"].as_f64().unwrap() / 1e3;
    let hold = route(2, "idle_timeout");
    assert!(max < hold, "a hold ends before its deadline");
    assert!(hold < seconds("/stream_idle_timeout"));
    assert!(route(0, "timeout") <= seconds("/stream_idle_timeout"));
    assert_eq!(
        manager.pointer("/http_filters/0/typed_config/config/failure_policy"),
        Some(&json!("FAIL_RELOAD"))
    );
}

/// No client can stop the shipped module.
#[test]
fn shipped_module_has_no_trap() {
    let knows = |module: &std::path::Path| {
        let bytes = std::fs::read(module).unwrap();
        bytes.windows(HEADER.len()).any(|w| w == HEADER.as_bytes())
    };
    assert!(knows(&built::trapping_filter().unwrap()));
    assert!(!knows(&built::filter().unwrap()));
}

#[test]
fn every_module_declares_a_memory_maximum() {
    for module in [built::filter().unwrap(), built::trapping_filter().unwrap()] {
        let bytes = std::fs::read(&module).unwrap();
        assert_eq!(memory_max(&bytes), Some(PAGES_MAX), "{}", module.display());
    }
}

/// Maximum of a module's memory section, in pages.
fn memory_max(module: &[u8]) -> Option<u64> {
    const MEMORY: u8 = 5;
    let mut rest = module.strip_prefix(b"\0asm\x01\0\0\0")?;
    loop {
        let (&id, after) = rest.split_first()?;
        rest = after;
        let length = usize::try_from(leb(&mut rest)?).ok()?;
        let (mut section, after) = rest.split_at_checked(length)?;
        rest = after;
        if id == MEMORY {
            let (_count, flags, _min) =
                (leb(&mut section)?, leb(&mut section)?, leb(&mut section)?);
            return if flags & 1 == 1 {
                leb(&mut section)
            } else {
                None
            };
        }
    }
}

/// Reads a LEB128 number.
fn leb(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..35).step_by(7) {
        let (&byte, after) = bytes.split_first()?;
        *bytes = after;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}
