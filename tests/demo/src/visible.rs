//! Delay of plans from the planner to every worker, from the histogram of each stage's Envoy.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use weir_api::metrics::{Metric, encode};

use crate::system::{Stage, System};

/// Median and maximum, in ms; `None` if nothing was measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(crate) struct Spread {
    /// Median.
    pub(crate) p50: Option<f64>,
    /// Maximum.
    pub(crate) max: Option<f64>,
}

impl Spread {
    /// Median and maximum of these values.
    pub(crate) fn of(values: impl Iterator<Item = f64>) -> Spread {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        Spread {
            p50: values.get(values.len() / 2).copied(),
            max: values.last().copied(),
        }
    }
}

/// The histogram's counts by the upper bound of each bucket, in ms: the time from publishing a plan
/// until a worker adopts it, over all plans and workers so far. Envoy's buckets are at most about 3
/// % wide, but at least 1 ms: it counts whole ms.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Visible(BTreeMap<u64, u64>);

#[derive(Deserialize)]
struct Answer {
    stats: Vec<Stat>,
}

#[derive(Deserialize)]
struct Stat {
    histograms: Option<Histograms>,
}

#[derive(Deserialize)]
struct Histograms {
    #[serde(default)]
    details: Vec<Detail>,
}

#[derive(Deserialize)]
struct Detail {
    name: String,
    totals: Vec<Bucket>,
}

#[derive(Deserialize)]
struct Bucket {
    lower_bound: f64,
    width: f64,
    count: u64,
}

impl Visible {
    /// Sum over all stages.
    pub(crate) async fn read(system: &System) -> Result<Visible> {
        let mut all = Visible::default();
        for stage in &system.stages {
            for (bound, count) in Visible::at(stage).await?.0 {
                *all.0.entry(bound).or_default() += count;
            }
        }
        Ok(all)
    }

    /// Reads it from Envoy's admin interface, which shows the state of the last flush, up to a
    /// second ago.
    pub(crate) async fn at(stage: &Stage) -> Result<Visible> {
        let name = encode(Metric::PlanDelayMs, &stage.name, "");
        let query = format!("format=json&histogram_buckets=detailed&filter={name}");
        let url = format!("http://{}/stats?{query}", stage.envoy.admin());
        let answer = reqwest::get(url).await?.error_for_status()?.text().await?;
        Visible::parse(&answer, &name)
    }

    fn parse(answer: &str, name: &str) -> Result<Visible> {
        let answer: Answer = serde_json::from_str(answer).context("Envoy's histogram")?;
        let details = answer.stats.into_iter().filter_map(|stat| stat.histograms);
        let ours = details
            .flat_map(|all| all.details)
            .filter(|detail| detail.name.ends_with(name));
        let bound = |bucket: &Bucket| (bucket.lower_bound + bucket.width).ceil() as u64;
        let mut counts = BTreeMap::new();
        for bucket in ours.flat_map(|detail| detail.totals) {
            *counts.entry(bound(&bucket)).or_default() += bucket.count;
        }
        Ok(Visible(counts))
    }

    /// Whether it has no counts.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The values added since `before`.
    pub(crate) fn since(&self, before: &Visible) -> Spread {
        let earlier = |bound: &u64| before.0.get(bound).copied().unwrap_or(0);
        let new = |(bound, count): (&u64, &u64)| {
            let times = count.saturating_sub(earlier(bound)) as usize;
            std::iter::repeat_n(*bound as f64, times)
        };
        Spread::of(self.0.iter().flat_map(new))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histogram_difference_has_only_new_values() {
        let answer = |totals: &str| {
            let ours =
                format!(r#"{{"name":"wasmcustom.visible","totals":[{totals}],"intervals":[]}}"#);
            let other =
                r#"{"name":"cluster.x","totals":[{"lower_bound":900,"width":10,"count":9}]}"#;
            let text = format!(
                r#"{{"stats":[{{"histograms":{{"supported_percentiles":[50],"details":[{other},{ours}]}}}}]}}"#
            );
            Visible::parse(&text, "visible").unwrap()
        };
        let slow = r#"{"lower_bound":470,"width":10,"count":3}"#;
        let before = answer(slow);
        let after = answer(&format!(
            r#"{slow},{{"lower_bound":4,"width":1,"count":5}},{{"lower_bound":40,"width":1,"count":1}}"#
        ));
        assert_eq!(
            after.since(&before),
            Spread {
                p50: Some(5.0),
                max: Some(41.0)
            }
        );
        assert_eq!(before.since(&before), Spread::default());
        assert!(
            Visible::parse(r#"{"stats":[]}"#, "visible")
                .unwrap()
                .is_empty()
        );
    }

    #[test]
    fn empty_measurement_has_no_spread() {
        assert_eq!(Spread::of(std::iter::empty()), Spread::default());
        let three = Spread::of([3.0, 1.0, 2.0].into_iter());
        assert_eq!(
            three,
            Spread {
                p50: Some(2.0),
                max: Some(3.0)
            }
        );
    }
}
