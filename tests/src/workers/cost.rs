//! What the filter costs Envoy: processor time per request of a single worker, with plenty of slots,
//! with the shared queue, with a queue per worker, and without the filter. Closed loop over loopback;
//! the three take turns, so that what else the machine does falls on all alike.
//!
//! One Envoy differs from the next by some µs, which is as much as the board costs. That is therefore
//! measured alone as well: claims and releases one after the other in the VM, by the module that traps.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde::Serialize;
use serde_json::json;
use tokio::task::JoinSet;

use super::Scope;
use super::gauges::processor_time;
use crate::emulator::{Emulator, Law, ServerConfig};
use crate::envoy::{Bootstrap, Envoy};
use crate::scene::{Scene, Variant, see};

/// What claiming and releasing a slot may cost, µs.
pub const BOARD_MAX_US: f64 = 5.0;
/// Requests under way at once: far fewer than there are slots.
const AT_ONCE: u32 = 8;

/// One turn of the three, µs of processor time per request.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Turn {
    /// With the shared queue.
    pub proxy_us: f64,
    /// With a queue per worker.
    pub worker_us: f64,
    /// Without the filter.
    pub bare_us: f64,
}

/// What a claim and a release together take in the VM, µs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Board {
    /// Where one worker serves.
    pub alone_us: f64,
    /// Where others do too, so that the board has to be read each time.
    pub among_others_us: f64,
}

/// All turns.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cost {
    /// Requests of each of the three in a turn.
    pub requests: u32,
    /// As measured.
    pub turns: Vec<Turn>,
    /// The medians of each.
    pub median: Turn,
    /// Claim and release alone.
    pub board: Board,
    /// The median of the turns' differences between the shared queue and a queue per worker.
    pub board_us: f64,
    /// Requests/s, over all.
    pub rps: f64,
}

/// Weighs in so many turns.
///
/// # Errors
/// Something does not start, or a request is not answered 200.
pub async fn weigh(turns: u32, requests: u32) -> Result<Cost> {
    let mut config = ServerConfig::new("small", Law::constant(0.0));
    config.cores = 1000.0;
    let emulator = Emulator::start(config).await?;
    let with = |scope: Scope| {
        let plugin = json!({
            "service": "cost", "queue": { "scope": scope.name() },
            "plan": { "variants": [{ "name": "small", "cluster": "small", "share": 1.0,
                                     "slots": 1000, "service_ms": 1.0, "accuracy": 70.0 }] },
        });
        Ok::<_, anyhow::Error>(Bootstrap::shipped()?.plugin(&plugin))
    };
    let bootstraps = [
        with(Scope::Proxy)?,
        with(Scope::Worker)?,
        Bootstrap::shipped()?.without_filter(),
    ];
    let mut measured = Vec::new();
    let mut took = Duration::ZERO;
    for turn in 0..turns {
        // New ones each time: where memory and compiled code come to lie is worth microseconds.
        let mut envoys = Vec::new();
        for bootstrap in &bootstraps {
            let bootstrap = bootstrap.clone().backend("small", emulator.addr());
            let envoy = Envoy::start(&bootstrap.fallback("small"), 1).await?;
            // Connections, and code that V8 compiles when it is hot.
            one(&envoy, requests / 4).await?;
            envoys.push(envoy);
        }
        let began = Instant::now();
        let mut us = [0.0; 3];
        // Who goes first rotates.
        for step in 0..3 {
            let which = (turn as usize + step) % 3;
            if let (Some(envoy), Some(us)) = (envoys.get(which), us.get_mut(which)) {
                *us = one(envoy, requests).await?;
            }
            emulator.reset();
        }
        took += began.elapsed();
        let [proxy_us, worker_us, bare_us] = us;
        measured.push(Turn {
            proxy_us,
            worker_us,
            bare_us,
        });
    }
    let rps = f64::from(turns) * 3.0 * f64::from(requests) / took.as_secs_f64();
    let of = |part: fn(&Turn) -> f64| median(measured.iter().map(part).collect());
    Ok(Cost {
        requests,
        median: Turn {
            proxy_us: of(|turn| turn.proxy_us),
            worker_us: of(|turn| turn.worker_us),
            bare_us: of(|turn| turn.bare_us),
        },
        board: in_the_vm().await?,
        board_us: of(|turn| turn.proxy_us - turn.worker_us),
        turns: measured,
        rps,
    })
}

/// Claims and releases in a VM of their own, twenty thousand at a time; the median of five times.
async fn in_the_vm() -> Result<Board> {
    const TIMES: u32 = 5;
    let one = Variant {
        name: "small",
        share: 1.0,
        slots: 1,
        service_ms: 1.0,
    };
    let module = crate::built::trapping_filter()?;
    let scene = Scene::start(&[one], 1, |bootstrap, _| bootstrap.wasm(module)).await?;
    let mut figures = [Vec::new(), Vec::new()];
    for _ in 0..TIMES {
        for (what, figures) in ["cost", "cost-among-others"].iter().zip(&mut figures) {
            let seen = see(scene.infer().header("x-weir-trap", *what)).await?;
            let ns: f64 = String::from_utf8(seen.body)?.parse()?;
            figures.push(ns / 1e3);
        }
    }
    let [alone, among_others] = figures;
    Ok(Board {
        alone_us: median(alone),
        among_others_us: median(among_others),
    })
}

/// µs of Envoy's processor time per request.
async fn one(envoy: &Envoy, requests: u32) -> Result<f64> {
    let url = format!("http://{}/v2/models/small/infer", envoy.listener("weir")?);
    let client = reqwest::Client::builder()
        .http1_only()
        .no_proxy()
        .timeout(Duration::from_secs(10))
        .build()?;
    let before = processor_time(envoy)?;
    let each = requests / AT_ONCE;
    let mut tasks: JoinSet<Result<()>> = JoinSet::new();
    for _ in 0..AT_ONCE {
        let (client, url) = (client.clone(), url.clone());
        tasks.spawn(async move {
            for _ in 0..each {
                let request = client.post(&url).header("x-slo-ms", "1000").body("{}");
                let answer = request.send().await?;
                let status = answer.status();
                ensure!(status == 200, "status {status}");
                answer.bytes().await?;
            }
            Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    let spent = processor_time(envoy)?.saturating_sub(before);
    Ok(spent.as_secs_f64() * 1e6 / f64::from(each * AT_ONCE))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    let at = |index: usize| values.get(index).copied().unwrap_or_default();
    if values.len() % 2 == 1 {
        at(middle)
    } else {
        (at(middle.saturating_sub(1)) + at(middle)) / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(Vec::new()), 0.0);
    }
}
