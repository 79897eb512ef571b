//! The filter's cost in Envoy: processor time per request of a single worker, in four setups. With plenty of slots
//! and the shared queue; with a queue per worker; with requests decided by their headers alone; and without the
//! filter. Closed loop over loopback. The four alternate every few hundred requests, so that other load on the
//! machine, which can change its speed by a third within seconds, affects all alike.
//!
//! Envoys differ from each other by some µs, as much as the slot table costs. The slot table is therefore also
//! measured alone: claims and releases one after the other in the VM, by the trapping module.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde::Serialize;
use serde_json::json;
use tokio::task::JoinSet;

use super::Scope;
use super::gauges::processor_time;
use weir_bed::emulator::{Emulator, LatencyModel, ServerConfig};
use weir_bed::envoy::{Bootstrap, Envoy};
use weir_bed::scene::{Scene, Variant, see};

/// Maximum cost of claiming and releasing a slot, µs.
pub const SLOT_TABLE_MAX_US: f64 = 5.0;
/// Maximum cost of a request with the shared queue, as a multiple of its cost without the filter.
pub const RATIO_MAX: f64 = 1.4;
/// Requests in flight: far fewer than there are slots.
const AT_ONCE: u32 = 8;
/// Requests to one Envoy before the next one: about a tenth of a second.
pub const SLICE: u32 = 400;

/// JSON pointer to the setting that makes Envoy pass bodies to the filter.
const BODIES_SETTING: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/http_filters/0\
                     /typed_config/config/allow_on_headers_stop_iteration";

/// One round over the four setups, µs of processor time per request.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Round {
    /// With the shared queue.
    pub proxy_us: f64,
    /// With a queue per worker.
    pub worker_us: f64,
    /// With the shared queue, without bodies passed to the filter.
    pub headers_us: f64,
    /// Without the filter.
    pub bare_us: f64,
}

/// Cost of a request, as a multiple of its cost without the filter.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ratio {
    /// With the shared queue.
    pub proxy: f64,
    /// With a queue per worker.
    pub worker: f64,
    /// Part due to the body: the cost with the shared queue, minus the cost without bodies passed to the filter.
    pub hearing: f64,
}

/// Cost of a claim and a release together in the VM, µs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SlotTableCost {
    /// With one worker.
    pub alone_us: f64,
    /// With several workers, so that the slot table has to be read each time.
    pub among_others_us: f64,
}

/// The results of all rounds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cost {
    /// Requests to each setup in a round.
    pub requests: u32,
    /// The rounds as measured.
    pub rounds: Vec<Round>,
    /// The median of each setup.
    pub median: Round,
    /// The medians of the rounds' ratios.
    pub ratio: Ratio,
    /// Claims and releases alone.
    pub slot_table: SlotTableCost,
    /// The median of the rounds' differences between the shared queue and a queue per worker.
    pub slot_table_us: f64,
    /// Mean rate over all requests, in requests/s.
    pub rps: f64,
}

/// Measures the cost in this many rounds.
///
/// # Errors
///
/// A number is out of its range, a part does not start, or a request is not answered 200.
pub async fn weigh(rounds: u32, requests: u32) -> Result<Cost> {
    ensure!(rounds > 0, "rounds: 0 must be 1 or more");
    ensure!(
        requests >= SLICE && requests.is_multiple_of(SLICE),
        "requests: {requests} must be a multiple of {SLICE}"
    );
    let mut config = ServerConfig::new("small", LatencyModel::constant(0.0));
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
        with(Scope::Proxy)?.amend(BODIES_SETTING, json!(false)),
        Bootstrap::shipped()?.without_filter(),
    ];
    let mut measured = Vec::new();
    let mut took = Duration::ZERO;
    for round in 0..rounds {
        // New Envoys each time: the placement of memory and compiled code affects the cost by microseconds.
        let mut served = Vec::new();
        for bootstrap in &bootstraps {
            let bootstrap = bootstrap.clone().backend("small", emulator.addr());
            let envoy = Envoy::start(&bootstrap.fallback("small"), 1).await?;
            let one = MeasuredEnvoy::new(envoy)?;
            // Opens its connections.
            one.send(SLICE).await?;
            served.push((one, 0.0));
        }
        let began = Instant::now();
        for slice in 0..requests / SLICE {
            // The first of the four rotates.
            for step in 0..4 {
                let which = (round + slice + step) % 4;
                if let Some((one, spent_s)) = served.get_mut(which as usize) {
                    *spent_s += one.send(SLICE).await?.as_secs_f64();
                }
            }
            emulator.reset();
        }
        took += began.elapsed();
        let each = f64::from(requests) / 1e6;
        let mut us = served.iter().map(|(_, spent_s)| spent_s / each);
        let mut next = || us.next().unwrap_or_default();
        let (proxy_us, worker_us) = (next(), next());
        let (headers_us, bare_us) = (next(), next());
        measured.push(Round {
            proxy_us,
            worker_us,
            headers_us,
            bare_us,
        });
    }
    let rps = f64::from(rounds) * 4.0 * f64::from(requests) / took.as_secs_f64();
    let of = |part: fn(&Round) -> f64| median(measured.iter().map(part).collect());
    Ok(Cost {
        requests,
        median: Round {
            proxy_us: of(|round| round.proxy_us),
            worker_us: of(|round| round.worker_us),
            headers_us: of(|round| round.headers_us),
            bare_us: of(|round| round.bare_us),
        },
        ratio: Ratio {
            proxy: of(|round| round.proxy_us / round.bare_us),
            worker: of(|round| round.worker_us / round.bare_us),
            hearing: of(|round| (round.proxy_us - round.headers_us) / round.bare_us),
        },
        slot_table: in_the_vm().await?,
        slot_table_us: of(|round| round.proxy_us - round.worker_us),
        rounds: measured,
        rps,
    })
}

/// Claims and releases in a VM of their own, twenty thousand at a time; the median of five runs.
async fn in_the_vm() -> Result<SlotTableCost> {
    const TIMES: u32 = 5;
    let one = Variant {
        name: "small",
        share: 1.0,
        slots: 1,
        service_ms: 1.0,
    };
    let module = weir_bed::built::trapping_filter()?;
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
    Ok(SlotTableCost {
        alone_us: median(alone),
        among_others_us: median(among_others),
    })
}

/// An Envoy and its client, with connections that stay open.
struct MeasuredEnvoy {
    envoy: Envoy,
    client: reqwest::Client,
    url: String,
}

impl MeasuredEnvoy {
    fn new(envoy: Envoy) -> Result<MeasuredEnvoy> {
        let client = reqwest::Client::builder()
            .http1_only()
            .no_proxy()
            .timeout(Duration::from_secs(10))
            .build()?;
        let url = format!("http://{}/v2/models/small/infer", envoy.listener("weir")?);
        Ok(MeasuredEnvoy { envoy, client, url })
    }

    /// Sends `requests` requests and returns the processor time they cost Envoy.
    async fn send(&self, requests: u32) -> Result<Duration> {
        let before = processor_time(&self.envoy)?;
        let mut tasks: JoinSet<Result<()>> = JoinSet::new();
        for _ in 0..AT_ONCE {
            let (client, url) = (self.client.clone(), self.url.clone());
            tasks.spawn(async move {
                for _ in 0..requests / AT_ONCE {
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
        Ok(processor_time(&self.envoy)?.saturating_sub(before))
    }
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
    fn median_of_even_count_is_mean_of_middle_values() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(Vec::new()), 0.0);
    }
}
