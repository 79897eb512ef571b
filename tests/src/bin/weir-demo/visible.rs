//! How long plans took from the planner to every worker, as Envoy's own histogram says.

use anyhow::Result;
use serde::Serialize;
use serde_json::Value;
use weir_api::metrics::{Metric, encode};

use crate::system::System;

/// A median and a greatest value, in ms; `None` where nothing was measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(crate) struct Spread {
    /// Median.
    pub(crate) p50: Option<f64>,
    /// Greatest.
    pub(crate) max: Option<f64>,
}

/// From publishing to taking over, over all plans and workers.
pub(crate) type Visible = Spread;

impl Spread {
    /// Of these values.
    pub(crate) fn of(values: impl Iterator<Item = f64>) -> Spread {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        Spread {
            p50: values.get(values.len() / 2).copied(),
            max: values.last().copied(),
        }
    }
}

/// Reads the histogram from Envoy's admin interface.
pub(crate) async fn read(system: &System) -> Result<Visible> {
    let name = encode(Metric::PlanVisibleMs, system.planner.service(), "");
    let url = format!(
        "http://{}/stats?format=json&filter={name}",
        system.envoy.admin()
    );
    let answer: Value = reqwest::get(url).await?.error_for_status()?.json().await?;
    Ok(spread(&answer, &name).unwrap_or_default())
}

/// From `{"stats": [{"histograms": {"supported_quantiles": [0, 25, …], "computed_quantiles":
/// [{"name", "values": [{"cumulative"}, …]}]}}]}`.
fn spread(answer: &Value, name: &str) -> Option<Visible> {
    let stats = answer.get("stats")?.as_array()?;
    let histograms = stats.iter().find_map(|stat| stat.get("histograms"))?;
    let quantiles = histograms.get("supported_quantiles")?.as_array()?;
    let computed = histograms.get("computed_quantiles")?.as_array()?;
    let ours = |histogram: &&Value| {
        histogram
            .get("name")
            .and_then(Value::as_str)
            .is_some_and(|found| found.ends_with(name))
    };
    let values = computed.iter().find(ours)?.get("values")?.as_array()?;
    let at = |wanted: f64| {
        let index = quantiles
            .iter()
            .position(|quantile| quantile.as_f64() == Some(wanted))?;
        values.get(index)?.get("cumulative")?.as_f64()
    };
    Some(Spread {
        p50: at(50.0),
        max: at(100.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_and_greatest_are_read_from_envoys_answer() {
        let answer = serde_json::json!({"stats": [{"histograms": {
        "supported_quantiles": [0.0, 50.0, 100.0],
        "computed_quantiles": [
            {"name": "cluster.x", "values": [{"cumulative": 9}, {"cumulative": 9}, {"cumulative": 9}]},
            {"name": "wasmcustom.visible", "values": [
                {"interval": null, "cumulative": 0.1}, {"cumulative": 3.05}, {"cumulative": 41}]},
        ]}}]});
        let expected = Spread {
            p50: Some(3.05),
            max: Some(41.0),
        };
        assert_eq!(spread(&answer, "visible"), Some(expected));
        assert_eq!(spread(&serde_json::json!({"stats": []}), "visible"), None);
    }

    #[test]
    fn nothing_measured_has_no_spread() {
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
