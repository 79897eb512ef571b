//! The counts as another parser reads them.

use std::sync::Arc;

use weir_api::metrics::{Kind, Metric, Series, decode};

use crate::observe::{Counts, Outcomes, VariantOutcomes};

fn variant<'a>(ends: &'a mut Outcomes, series: &Series) -> &'a mut VariantOutcomes {
    ends.variants.entry(series.value.clone()).or_default()
}

/// Counts of one service as the general parser reads them from a whole text.
pub(super) fn reference(text: &str, stages: &[&str]) -> Counts {
    let lines = text.lines().filter(|line| line.starts_with("weir_"));
    // That parser does not accept `name{} 5`.
    let lines = lines.map(|line| Ok(line.replacen("{}", "", 1)));
    let mut counts = Counts::default();
    let mut outcomes = vec![Outcomes::default(); stages.len()];
    let stage = |name: &str| stages.iter().position(|stage| *stage == name);
    for sample in prometheus_parse::Scrape::parse(lines).unwrap().samples {
        let prometheus_parse::Value::Untyped(value) = sample.value else {
            panic!("{sample:?}");
        };
        if !value.is_finite() || value < 0.0 {
            continue;
        }
        let label = |name: &str| sample.labels.get(name);
        let bucket = sample.metric.strip_suffix("_bucket");
        if let Some(series) = bucket.and_then(|name| decode(name, label))
            && series.metric.kind() == Kind::Histogram
        {
            let edge = label("le").and_then(|edge| edge.parse().ok());
            let edge = edge.filter(|edge: &f64| *edge > 0.0);
            let bucket = edge.map(|edge| (edge, value));
            match (series.metric, stage(&series.service)) {
                (Metric::DemandSlackMs, Some(0)) => counts.slack.extend(bucket),
                (
                    Metric::WaitMs
                    | Metric::DispatchSlackMs
                    | Metric::LatencyMs
                    | Metric::ServiceMs,
                    Some(stage),
                ) if bucket.is_some() => {
                    let of = &mut outcomes[stage];
                    let buckets = match series.metric {
                        Metric::WaitMs => &mut of.wait_ms,
                        Metric::DispatchSlackMs => &mut of.dispatch_slack_ms,
                        Metric::LatencyMs => &mut of.latency_ms,
                        _ => &mut of.variants.entry(series.value).or_default().service_ms,
                    };
                    buckets.extend(bucket);
                }
                _ => {}
            }
            continue;
        }
        let ended = ["_count", "_sum"].into_iter().find_map(|ending| {
            let series = decode(sample.metric.strip_suffix(ending)?, label)?;
            let is_read = matches!(
                series.metric,
                Metric::ServiceMs | Metric::CutOffMs | Metric::BatchRequests
            );
            is_read.then_some((ending, series))
        });
        if let Some((ending, series)) = ended {
            if stages.contains(&&*series.service) {
                let executions = counts.executions.entry(series.value).or_default();
                match (series.metric, ending) {
                    (Metric::ServiceMs, "_count") => executions.answered += value,
                    (Metric::ServiceMs, _) => executions.total_ms += value,
                    (Metric::CutOffMs, "_count") => executions.cut_off += value,
                    (Metric::CutOffMs, _) => executions.cut_off_ms += value,
                    (_, "_count") => executions.batches += value,
                    _ => executions.batched += value,
                }
            }
            continue;
        }
        let Some(series) = decode(&sample.metric, label) else {
            continue;
        };
        if !stages.contains(&&*series.service) {
            continue;
        }
        let routes = &mut counts.routes;
        let ends = &mut outcomes[stage(&series.service).unwrap()];
        match series.metric {
            Metric::Served => variant(ends, &series).served += value,
            Metric::OnTime => variant(ends, &series).on_time += value,
            Metric::Late => variant(ends, &series).late += value,
            Metric::WaitingRequests => variant(ends, &series).waiting += value,
            Metric::Unservable => ends.unservable += value,
            Metric::ClientDisconnects => ends.client_disconnects += value,
            Metric::HeldRequests => ends.held += value,
            Metric::Refused => *ends.refused.of(&series.value) += value,
            Metric::Arrivals if series.service == stages[0] => counts.arrivals += value,
            Metric::AccuracyArrivals if series.service == stages[0] => {
                *counts.accuracies.entry(series.value).or_default() += value;
            }
            Metric::Requests => routes.entry(series.value).or_default().routed += value,
            Metric::DowngradedFrom => routes.entry(series.value).or_default().downgraded += value,
            metric if metric.has_group() => {
                let known = Arc::make_mut(&mut counts.groups);
                let sums = known.entry(series.value).or_default();
                let sums = sums.entry(series.group).or_default();
                match metric {
                    Metric::GroupExecutions => sums.count += value,
                    Metric::GroupRatioPermille => sums.sum += value,
                    _ => sums.squares += value,
                }
            }
            Metric::FullUs => counts.full.entry(series.value).or_default().us += value,
            Metric::FullExecutions => {
                counts.full.entry(series.value).or_default().executions += value;
            }
            Metric::Failing => {
                counts.failing.insert(series.value, value > 0.0);
            }
            _ => {}
        }
    }
    counts.slack.sort_by(|a, b| a.0.total_cmp(&b.0));
    outcomes.iter_mut().for_each(Outcomes::sort);
    let mut all = outcomes[0].clone();
    outcomes[1..].iter().for_each(|more| all.add_stage(more));
    counts.outcomes = all.into();
    counts
}
