//! Autoscalers after Kubernetes' own: they know utilisation and not latency. They set each variant's
//! cores, within its bounds and the budget, in steps of the budget.

use std::collections::VecDeque;
use std::time::Duration;

use weir_api::{Cores, Plan};

use super::kubelet::Kubelet;
use crate::EPOCH_MS;
use weir_planner::capacity::Allocation;
use weir_planner::clock::Now;
use weir_planner::distribution::Publisher;
use weir_planner::service::Service;

/// Cycle of both autoscalers.
pub(crate) const PERIOD: Duration = Duration::from_secs(15);
/// Target utilisation of the HPA.
const UTILISATION: f64 = 0.7;
/// HPA's default tolerance: a ratio this near to 1 changes nothing.
const TOLERANCE: f64 = 0.1;
/// HPA's default scale-down stabilization window of five minutes, in periods.
const WINDOW: usize = 300 / 15;
/// VPA recommender: percentile of usage.
const PERCENTILE: f64 = 0.9;
/// VPA recommender: safety margin above the percentile.
const MARGIN: f64 = 1.15;
/// Maximum number of usage samples kept: one day.
const SAMPLES_MAX: usize = 24 * 3600 / 15;

/// Scaling rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Towards 70 % utilisation, with five minutes of scale-down stabilization.
    Hpa,
    /// The 90th percentile of usage plus 15 %.
    Vpa,
}

/// Utilisation-based autoscaler.
pub(crate) struct Autoscaler {
    rule: Rule,
    service: Service,
    /// Simulated backends.
    pub(crate) kubelet: Kubelet,
    publisher: Publisher,
    variants: Vec<UsageHistory>,
    /// Target cores of each variant.
    pub(crate) target: Vec<Cores>,
}

/// History of a variant.
#[derive(Debug, Clone, Default)]
struct UsageHistory {
    busy_core_seconds: f64,
    core_seconds: f64,
    /// Recommendations of the HPA, or usage samples of the VPA, in steps of cores.
    past: VecDeque<f64>,
}

/// Counters of a variant: core-seconds available and used so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    pub(crate) core_seconds: f64,
    pub(crate) busy_core_seconds: f64,
}

impl Autoscaler {
    pub(crate) fn new(rule: Rule, service: &Service, kubelet: Kubelet) -> Autoscaler {
        Autoscaler {
            rule,
            service: service.clone(),
            publisher: Publisher::new(service),
            variants: vec![UsageHistory::default(); kubelet.confirmed().len()],
            target: kubelet.confirmed().to_vec(),
            kubelet,
        }
    }

    /// Reads the counters, computes the target cores and requests them.
    pub(crate) fn run_cycle(&mut self, now: u64, counters: &[Usage]) {
        let mut left = self.service.budget;
        let step = self.service.step;
        let lists = self
            .service
            .variants
            .iter()
            .zip(&mut self.variants)
            .zip(counters)
            .enumerate();
        for (index, ((variant, history), counter)) in lists {
            let has = self
                .kubelet
                .confirmed()
                .get(index)
                .copied()
                .unwrap_or_default();
            let has_steps = f64::from(has.millis()) / f64::from(step.millis());
            let recommended = match history.sample(*counter) {
                // It had no cores: neither autoscaler scales up from zero.
                None => has_steps,
                Some((used, had)) => match self.rule {
                    Rule::Hpa => history.hpa(has_steps, used / had),
                    Rule::Vpa => history.vpa(used / step.as_f64()),
                },
            };
            let most = variant.max.min(left);
            let steps = (recommended.ceil() as u32).clamp(variant.min.min(most), most);
            left -= steps;
            if let Some(target) = self.target.get_mut(index) {
                *target = variant.cores(steps);
            }
        }
        // Scale-downs first, so that the total stays within the budget.
        for grows in [false, true] {
            for (index, cores) in self.target.iter().enumerate() {
                let has = self
                    .kubelet
                    .confirmed()
                    .get(index)
                    .copied()
                    .unwrap_or_default();
                if *cores != has && (*cores > has) == grows {
                    self.kubelet.request(now, index, *cores);
                }
            }
        }
    }

    /// Returns the plan for the confirmed cores, if it is new to the filters.
    pub(crate) fn plan(&mut self, at: Duration) -> Option<Plan> {
        let actual = Allocation::ones(self.kubelet.confirmed());
        let draft = weir_planner::plan::draft(&self.service, &actual, None)?;
        let ms = u64::try_from(at.as_millis()).unwrap_or(u64::MAX);
        let now = Now {
            at,
            unix_ms: EPOCH_MS.saturating_add(ms),
        };
        let receipt = self.publisher.publish(draft, now).ok()?;
        let newest = self.publisher.newest().filter(|_| receipt.new > 0)?;
        Some(newest.plan.clone())
    }
}

impl UsageHistory {
    /// Returns the mean cores used and available since the last call; `None` if none were available.
    fn sample(&mut self, counter: Usage) -> Option<(f64, f64)> {
        let used = counter.busy_core_seconds - self.busy_core_seconds;
        let had = counter.core_seconds - self.core_seconds;
        (self.busy_core_seconds, self.core_seconds) =
            (counter.busy_core_seconds, counter.core_seconds);
        let period = PERIOD.as_secs_f64();
        (had > 0.0).then_some((used / period, had / period))
    }

    fn hpa(&mut self, has: f64, utilisation: f64) -> f64 {
        let ratio = utilisation / UTILISATION;
        let recommended = if (ratio - 1.0).abs() <= TOLERANCE {
            has
        } else {
            (has * ratio).ceil()
        };
        self.remember(recommended, WINDOW);
        if recommended >= has {
            return recommended;
        }
        self.past
            .iter()
            .copied()
            .fold(recommended, f64::max)
            .min(has)
    }

    fn vpa(&mut self, used: f64) -> f64 {
        self.remember(used, SAMPLES_MAX);
        let mut sorted: Vec<f64> = self.past.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        let rank = (PERCENTILE * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.saturating_sub(1)).copied().unwrap_or(used) * MARGIN
    }

    fn remember(&mut self, value: f64, most: usize) {
        self.past.push_back(value);
        if self.past.len() > most {
            self.past.pop_front();
        }
    }
}
