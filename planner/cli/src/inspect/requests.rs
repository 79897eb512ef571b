//! Requests of a service by outcome, as lines: the share on time with its error budget, refusals, waits, accuracy.

use super::view::{DistributionView, RequestsView, WindowView};

/// Returns the lines about requests; none if the planner does not report them.
pub(crate) fn lines(view: &RequestsView) -> Vec<String> {
    let mut lines = Vec::new();
    let windows = view.windows.iter().filter(|window| window.arrivals > 0);
    let shares: Vec<String> = windows
        .clone()
        .map(|window| format!("{} of {}", on_time(window), duration(window.window_s)))
        .collect();
    let target = target(view.on_time_target);
    match shares.is_empty() {
        true => lines.push(format!("on time (target {target}): no arrivals yet")),
        false => lines.push(format!("on time (target {target}): {}", shares.join(", "))),
    }
    if let Some(window) = windows.clone().next_back() {
        let (left, time) = (percent(window.error_budget_left), duration(window.window_s));
        lines.push(format!("error budget left: {left} of {time}"));
    }
    let waiting = waiting(view);
    if let Some(window) = view.windows.first().filter(|window| window.ended > 0) {
        lines.push(format!(
            "in {}: {}; waiting: {waiting}",
            duration(window.window_s),
            outcomes(window)
        ));
        let times = [
            ("latency", &window.latency_ms),
            ("wait", &window.wait_ms),
            ("time left at dispatch", &window.dispatch_slack_ms),
        ];
        let times = times.into_iter().filter_map(|(name, of)| {
            let DistributionView { p50, p90, p99 } = of.as_ref()?;
            Some(format!("{name} {p50:.0}, {p90:.0}, {p99:.0} ms"))
        });
        let times: Vec<String> = times.collect();
        if !times.is_empty() {
            lines.push(format!("median, 90 %, 99 %: {}", times.join("; ")));
        }
    } else {
        lines.push(format!("waiting: {waiting}"));
    }
    lines
}

/// Returns the requests as a part of one line.
pub(crate) fn short(view: &RequestsView) -> String {
    let Some(window) = view.windows.first() else {
        return String::new();
    };
    let latency = window.latency_ms.map_or_else(String::new, |latency| {
        format!(", latency {:.0}, {:.0} ms", latency.p50, latency.p99)
    });
    format!(
        "on time {}{latency}, budget left {}, refused {}, waiting {}",
        percent(window.on_time_share),
        percent(view.windows.last().and_then(|it| it.error_budget_left)),
        window.refused.values().sum::<u64>(),
        waiting(view)
    )
}

fn on_time(window: &WindowView) -> String {
    percent(window.on_time_share)
}

fn waiting(view: &RequestsView) -> String {
    let unknown = || "unknown".to_owned();
    view.waiting.map_or_else(unknown, |count| count.to_string())
}

/// Returns the outcomes that occurred, and the accuracy of the answers.
fn outcomes(window: &WindowView) -> String {
    let answers = [
        (window.on_time, "on time"),
        (window.late, "late"),
        (window.failed, "failed"),
        (window.client_disconnects, "disconnected"),
    ];
    let answers = answers.into_iter().filter(|(count, _)| *count > 0);
    let mut parts: Vec<String> = answers
        .map(|(count, name)| format!("{count} {name}"))
        .collect();
    if !window.refused.is_empty() {
        let all: u64 = window.refused.values().sum();
        let each = window.refused.iter();
        let each: Vec<String> = each
            .map(|(reason, count)| format!("{reason} {count}"))
            .collect();
        parts.push(format!("{all} refused ({})", each.join(", ")));
    }
    if let Some(accuracy) = window.accuracy_percent {
        parts.push(format!("accuracy {accuracy:.2} %"));
    }
    parts.join(", ")
}

/// Returns a share as a percentage that is not rounded up to 100.
fn percent(share: Option<f64>) -> String {
    let Some(share) = share else {
        return "unknown".to_owned();
    };
    let hundredths = (share * 1e4).floor();
    let exact = (share * 1e4).round();
    // A rounding error is no part of a request.
    let hundredths = if (share * 1e4 - exact).abs() < 1e-6 {
        exact
    } else {
        hundredths
    };
    let text = format!("{:.2}", hundredths / 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Returns the part that must be on time as a percentage, with all the digits that it may have.
fn target(share: f64) -> String {
    let text = format!("{:.4}", share * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Returns `5 min` or `6 h`.
fn duration(seconds: f64) -> String {
    match seconds {
        hours if hours >= 3600.0 => format!("{:.0} h", hours / 3600.0),
        minutes if minutes >= 60.0 => format!("{:.0} min", minutes / 60.0),
        seconds => format!("{seconds:.0} s"),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    /// Requests of five minutes and six hours, of which many are refused of late.
    pub(crate) fn example() -> serde_json::Value {
        let window = |window_s: u32, arrivals: u32, share: f64, left: f64| {
            json!({
                "window_s": window_s, "covered_s": 240.0, "arrivals": arrivals, "unservable": 1,
                "ended": arrivals, "on_time": 4000, "late": 3, "failed": 0, "client_disconnects": 2,
                "refused": { "expired": 40, "queue-full": 5 }, "on_time_share": share,
                "error_budget_left": left, "accuracy_percent": 76.25,
                "wait_ms": { "count": 4003, "p50": 4.0, "p90": 20.0, "p99": 80.0, "buckets": [] },
                "latency_ms": { "count": 4003, "p50": 61.5, "p90": 90.0, "p99": 140.0, "buckets": [] },
                "arrival_slack_ms": null, "dispatch_slack_ms": null, "variants": {},
            })
        };
        json!({
            "on_time_target": 0.99, "waiting": 7, "waiting_by_variant": { "a": 7 }, "latest": null,
            "windows": [window(300, 4050, 0.98765, -0.235), window(21_600, 90_000, 0.99999, 0.9989)],
            "proxies": {},
        })
    }

    #[test]
    fn shares_budget_refusals_and_waits_are_shown() {
        let view: RequestsView = serde_json::from_value(example()).unwrap();
        let expected = [
            "on time (target 99 %): 98.76 % of 5 min, 99.99 % of 6 h",
            "error budget left: 99.89 % of 6 h",
            "in 5 min: 4000 on time, 3 late, 2 disconnected, 45 refused (expired 40, queue-full 5), \
             accuracy 76.25 %; waiting: 7",
            "median, 90 %, 99 %: latency 62, 90, 140 ms; wait 4, 20, 80 ms",
        ];
        assert_eq!(lines(&view), expected);
        let expected =
            "on time 98.76 %, latency 62, 140 ms, budget left 99.89 %, refused 45, waiting 7";
        assert_eq!(short(&view), expected);
    }

    #[test]
    fn what_is_unknown_is_no_number() {
        let mut example = example();
        example["windows"] = json!([]);
        example["waiting"] = json!(null);
        let view: RequestsView = serde_json::from_value(example).unwrap();
        let expected = ["on time (target 99 %): no arrivals yet", "waiting: unknown"];
        assert_eq!(lines(&view), expected);
        assert_eq!(short(&view), "");
    }

    #[test]
    fn target_is_shown_with_all_its_digits() {
        for (share, expected) in [
            (0.9, "90 %"),
            (0.99, "99 %"),
            (0.999, "99.9 %"),
            (0.999_95, "99.995 %"),
            (0.999_999, "99.9999 %"),
            (0.000_001, "0.0001 %"),
        ] {
            let mut example = example();
            example["on_time_target"] = json!(share);
            let view: RequestsView = serde_json::from_value(example).unwrap();
            let expected = format!("on time (target {expected}): ");
            assert!(lines(&view)[0].starts_with(&expected), "{expected}");
        }
    }

    #[test]
    fn percentages_are_not_rounded_up() {
        for (share, expected) in [
            (1.0, "100 %"),
            (0.999_99, "99.99 %"),
            (0.99, "99 %"),
            (0.57, "57 %"),
            (0.0, "0 %"),
            (-0.5, "-50 %"),
        ] {
            assert_eq!(percent(Some(share)), expected);
        }
    }
}
