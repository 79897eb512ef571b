//! Sponge (EuroMLSys '24), once a second, for one instance:
//!
//! - as the paper means it: Algorithm 1 with the conditions of its lines 8, 9 and 15 the right way round, which is
//!   Eq. 3: the first (c, b) with which no waiting request fails, counting the greatest network latency of all that
//!   wait, and whose throughput is at least the arrivals of the last second ([`weir_solve::sponge`]);
//! - as its program has it (`optimizer.py`, `dynainf`): R is the mean rate so far (the program is given it); the
//!   first (c, b) with which the R requests of a second, as a queue, are answered within 0.9 · SLO, each with the
//!   network latency of the request that arrived last. Neither waiting requests nor throughput count; latencies are
//!   whole milliseconds.
//!
//! Nothing changes where no (c, b) fits, as in the program.

use std::time::Duration;

use weir_solve::latency_model::Latency;
use weir_solve::sponge::input::{Input, Steps, Waiting};
use weir_solve::sponge::{Problem, WAITING_MAX, solve};
use weir_solve::{Outcome, TimeLimit};

/// Part of the SLO that the program plans with.
const PART_OF_SLO: f64 = 0.9;
/// Weight of a request of the batch, in cores: too small to decide against a core.
const DELTA: f64 = 1e-4;

/// Instance to choose for.
#[derive(Debug, Clone)]
pub(super) struct Instance<'a> {
    /// Latency l(b, c), in ms.
    pub(super) latency: &'a Latency,
    pub(super) cores_max: u32,
    pub(super) batch_max: u32,
    /// Requests/s.
    pub(super) rate_rps: f64,
    pub(super) slo_ms: f64,
}

/// Cores and batch.
pub(super) type Choice = (u32, u32);

/// Returns the choice of the paper's algorithm, for the requests that wait.
pub(super) fn as_published(instance: &Instance<'_>, waiting: Vec<Waiting>) -> Option<Choice> {
    let waiting: Vec<Waiting> = waiting.into_iter().take(WAITING_MAX).collect();
    if waiting.is_empty() && instance.rate_rps <= 0.0 {
        return None;
    }
    let input = Input {
        latency: instance.latency.clone(),
        cores: Steps::UpTo(instance.cores_max),
        batches: Steps::UpTo(instance.batch_max),
        delta: DELTA,
        rate_rps: instance.rate_rps,
        peak: None,
        waiting,
        arriving: None,
    };
    let problem = Problem::try_from(input).ok()?;
    // It tries all pairs, which takes no time worth a limit.
    let limit = TimeLimit::new(Duration::MAX, &|| Duration::ZERO);
    match solve(&problem, &limit) {
        Outcome::Optimal(plan) => Some((plan.cores, plan.batch)),
        _ => None,
    }
}

/// Returns the choice of the published program. `network_ms` is that of the request that arrived last.
pub(super) fn as_programmed(instance: &Instance<'_>, network_ms: f64) -> Option<Choice> {
    let limit = PART_OF_SLO * instance.slo_ms - network_ms;
    let pairs = (1..=instance.cores_max)
        .flat_map(|cores| (1..=instance.batch_max).map(move |batch| (cores, batch)));
    let mut answered = pairs.filter(|(cores, batch)| {
        let latency_ms = instance.latency.ms(*batch, f64::from(*cores)).trunc();
        let batches = (instance.rate_rps.round() / f64::from(*batch)).ceil();
        batches * latency_ms <= limit
    });
    answered.next()
}

/// FA2 as Sponge's program has it (`optimizer.py`, `fa2`): the fewest instances of one core, and the smallest
/// batch, that serve `rate_rps` requests within the SLO, with the requests of a second as a queue within 0.9 of it.
/// It is given the SLO, and no network latency.
pub(super) fn fa2(instance: &Instance<'_>) -> Option<Choice> {
    let rate = instance.rate_rps.round();
    let one = |batch| instance.latency.ms(batch, 1.0).trunc();
    let pairs = (1..=instance.cores_max).flat_map(|instances| {
        let batches = (1..=instance.batch_max).take_while(|batch| one(*batch) <= instance.slo_ms);
        batches.map(move |batch| (instances, batch))
    });
    let mut serving = pairs.filter(|(instances, batch)| {
        let (latency_ms, many) = (one(*batch), f64::from(*instances) * f64::from(*batch));
        let served = (instance.slo_ms / latency_ms).floor() * many;
        let queue_ms = (rate / many).ceil() * latency_ms;
        served >= rate && latency_ms + queue_ms < PART_OF_SLO * instance.slo_ms
    });
    serving.next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_solve::latency_model::LatencyModel;

    /// Latencies of 40·b/c + 5·b + 10 ms.
    fn latency() -> Latency {
        LatencyModel {
            gamma_ms: 40.0,
            epsilon_ms: 0.0,
            delta_ms: 5.0,
            eta_ms: 10.0,
        }
        .into()
    }

    fn instance(latency: &Latency, rate_rps: f64) -> Instance<'_> {
        Instance {
            latency,
            cores_max: 16,
            batch_max: 16,
            rate_rps,
            slo_ms: 1000.0,
        }
    }

    /// `dynainf`: l + q + cl > 0.9 · SLO rejects, q growing by l for each batch of the R requests of a second.
    fn programmed(instance: &Instance<'_>, network_ms: f64) -> Option<Choice> {
        for cores in 1..=instance.cores_max {
            for batch in 1..=instance.batch_max {
                let latency_ms = instance.latency.ms(batch, f64::from(cores)).trunc();
                let (mut queue_ms, mut better) = (0.0, true);
                for _ in (0..instance.rate_rps as u32).step_by(batch as usize) {
                    if latency_ms + queue_ms + network_ms > 0.9 * instance.slo_ms {
                        better = false;
                        break;
                    }
                    queue_ms += latency_ms;
                }
                if better {
                    return Some((cores, batch));
                }
            }
        }
        None
    }

    #[test]
    fn program_equals_its_loops() {
        let latency = latency();
        for rate_rps in [1.0, 20.0, 37.0, 100.0, 1000.0] {
            for network_ms in [0.0, 100.0, 450.0, 899.0, 2000.0] {
                let instance = instance(&latency, rate_rps);
                let expected = programmed(&instance, network_ms);
                let got = as_programmed(&instance, network_ms);
                assert_eq!(got, expected, "{rate_rps} {network_ms}");
            }
        }
        // 600 ms for 20 requests: no batch on one core; on two, 10 batches of 2 take 60 ms each.
        assert_eq!(
            as_programmed(&instance(&latency, 20.0), 300.0),
            Some((2, 2))
        );
    }

    /// The paper's Fig. 1 in small: the same load needs more cores where the network was slow. By hand: 8 wait with
    /// 1000 ms − 200 − network left.
    #[test]
    fn paper_counts_the_largest_network_latency_of_all_that_wait() {
        let latency = latency();
        let waiting = |network_ms: f64| {
            let one = |index: u32| Waiting {
                slo_ms: 1000.0,
                network_ms: if index == 0 { network_ms } else { 0.0 },
                waited_ms: 200.0,
            };
            (0..8).map(one).collect::<Vec<_>>()
        };
        let chosen = |network_ms| as_published(&instance(&latency, 20.0), waiting(network_ms));
        // One core sustains 20/s with batches of 2, 100 ms each; four of them take 400 ms.
        assert_eq!(chosen(0.0), Some((1, 2)));
        assert_eq!(chosen(400.0), Some((1, 2)));
        // 380 ms left: two batches of 4, 190 ms each.
        assert_eq!(chosen(420.0), Some((1, 4)));
        // 300 ms left: on two cores eight take 35 ms each.
        assert_eq!(chosen(500.0), Some((2, 1)));
        assert_eq!(chosen(790.0), None);
        let idle = instance(&latency, 0.0);
        assert_eq!(as_published(&idle, Vec::new()), None);
    }

    /// `fa2`: n · (⌊SLO / l⌋ · b) ≥ R and l + q < 0.9 · SLO, where q is l for each n · b of the R requests.
    #[test]
    fn fa2_adds_instances_of_one_core() {
        let latency = latency();
        // Batches of 1 take 55 ms, of 2 100, of 4 190, of 8 370.
        for (rate_rps, expected) in [
            (10.0, Some((1, 1))),
            // 15 at 55 ms are 825 + 55: within 900.
            (15.0, Some((1, 1))),
            // 8 batches of 2 are 800 + 100.
            (16.0, Some((2, 1))),
            (40.0, Some((3, 1))),
            (1000.0, None),
        ] {
            assert_eq!(fa2(&instance(&latency, rate_rps)), expected, "{rate_rps}");
        }
    }
}
