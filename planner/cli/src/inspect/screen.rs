//! Status of a service as lines and tables.

use std::fmt::Write;

use comfy_table::{Cell, CellAlignment, Table, presets::UTF8_FULL_CONDENSED};

use super::requests;
use super::view::{CycleView, StatusView, VariantView};

/// Maximum number of proxies in a table.
const PROXIES_MAX: usize = 64;

/// Returns the whole status: summary, limits, reason, variants and proxies. `now_ms` is Unix time.
pub(crate) fn status(view: &StatusView, now_ms: u64) -> String {
    let mut text = String::new();
    for line in summary(view, now_ms) {
        text += &format!("{line}\n");
    }
    if let Some(latest) = &view.latest {
        text += &format!("{}\n", variants(latest));
        for line in blockers(latest) {
            text += &format!("{line}\n");
        }
    }
    text + &proxies(view)
}

/// Returns the lines above the tables.
pub(crate) fn summary(view: &StatusView, now_ms: u64) -> Vec<String> {
    let (name, mode) = (&view.service, &view.mode);
    let mut lines = vec![format!(
        "service {name}: mode {mode}, objective {} ms",
        number(view.slo_ms)
    )];
    let leader = match (&view.leader.leads, &view.leader.address) {
        (true, _) => "this planner leads".to_owned(),
        (false, Some(address)) => format!("the planner at {address} leads"),
        (false, None) => "no planner is known to lead".to_owned(),
    };
    let plan = match view.revision {
        Some(revision) => format!("plan {revision}"),
        None => "no plan yet".to_owned(),
    };
    lines.push(format!("{plan}; {leader}"));
    let Some(latest) = &view.latest else {
        lines.push("no cycle yet".to_owned());
        return lines;
    };
    let age_s = now_ms.saturating_sub(latest.at_ms) as f64 / 1e3;
    lines.push(format!(
        "cycle of {age_s:.0} s ago ({}): arrivals {}, demand with headroom {}",
        latest.outcome,
        rate(latest.measured_rps),
        rate(latest.demand_rps)
    ));
    lines.extend(view.requests.iter().flat_map(requests::lines));
    lines.push(format!("limits: {}", limits(view, latest)));
    lines.push(format!("why: {}", latest.why));
    lines
}

/// Returns the budgets, with those that are used up marked.
pub(crate) fn limits(view: &StatusView, cycle: &CycleView) -> String {
    let cores: f64 = cycle.variants.values().map(|it| it.cores_target).sum();
    let cores = ("cores".to_owned(), cores, view.budget_cores);
    let others = cycle.resources.iter();
    let others = others.map(|(name, of)| (name.clone(), of.used, of.budget));
    let shown = std::iter::once(cores).chain(others);
    let shown = shown.map(|(name, used, budget)| {
        let binding = if used >= budget { " (all used)" } else { "" };
        format!("{name} {} of {}{binding}", number(used), number(budget))
    });
    shown.collect::<Vec<_>>().join(", ")
}

fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(header);
    table
}

fn right(text: impl ToString) -> Cell {
    Cell::new(text.to_string()).set_alignment(CellAlignment::Right)
}

fn variants(cycle: &CycleView) -> Table {
    let mut table = table([
        "variant", "cores", "replicas", "share %", "slots", "batch", "capacity", "time", "state",
    ]);
    for (name, variant) in &cycle.variants {
        let times = &variant.service_time;
        let time = match (times.measured_ratio, times.measured_ms()) {
            (Some(_), Some(ms)) if !times.has_profile => format!("{ms:.0} ms"),
            (Some(ratio), _) => format!("× {ratio:.2}"),
            (None, _) => "–".to_owned(),
        };
        table.add_row(vec![
            Cell::new(name),
            right(change(variant.cores_actual, variant.cores_target)),
            right(change(
                variant.replicas_ready as f64,
                variant.replicas_target as f64,
            )),
            right(format!("{:.1}", 100.0 * variant.share)),
            right(variant.slots),
            right(variant.batch),
            right(format!("{:.1}", variant.capacity_rps)),
            right(time),
            Cell::new(state(variant)),
        ]);
    }
    table
}

/// Returns what is wrong with a variant in a word, or its state.
fn state(variant: &VariantView) -> String {
    if let Some(failing) = variant.failing_ms {
        return format!("failing for {:.0} s", failing / 1e3);
    }
    match (&variant.blocker, &variant.service_time.drift_ms) {
        (Some(blocker), _) => blocker.reason.clone(),
        (None, Some(_)) => "profile drift".to_owned(),
        (None, None) => variant.service_time.state.clone(),
    }
}

/// Returns a line for each variant whose actual state is not its target, whose profile is corrected, or that has none.
pub(crate) fn blockers(cycle: &CycleView) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, variant) in &cycle.variants {
        if let Some(blocker) = &variant.blocker {
            let (reason, why) = (&blocker.reason, &blocker.why);
            let cores = change(variant.cores_actual, variant.cores_target);
            lines.push(format!("{name}, cores {cores}: {reason}: {why}"));
        }
        if let Some(measured) = variant.service_time.without_profile() {
            lines.push(format!("{name}: {measured}"));
            continue;
        }
        let correction = variant.service_time.correction;
        if (correction - 1.0).abs() > 0.005 {
            lines.push(format!(
                "{name} is planned with {correction:.2} times its profile's time"
            ));
        }
    }
    lines
}

fn proxies(view: &StatusView) -> String {
    let mut table = table([
        "proxy",
        "role",
        "version",
        "plan",
        "last poll",
        "slots",
        "state",
    ]);
    let (mut count, mut polled) = (0, view.polled());
    polled.sort_by_key(|(name, ..)| *name);
    for (stage, plan, proxies) in &polled {
        for (id, proxy) in *proxies {
            count += 1;
            if count > PROXIES_MAX {
                continue;
            }
            let behind = plan.is_some_and(|plan| proxy.revision < plan.revision);
            let state = match (&proxy.refused, proxy.confirmed && !behind) {
                (Some(why), _) => why.clone(),
                (None, true) => "has the plan".to_owned(),
                (None, false) => "has an earlier plan".to_owned(),
            };
            let mut slots = String::new();
            for (variant, count) in &proxy.slots {
                let gap = if slots.is_empty() { "" } else { ", " };
                // Writing to a string does not fail.
                let _ = write!(slots, "{gap}{variant} {count}");
            }
            let role = match (&proxy.variant, polled.len()) {
                (Some(variant), _) => format!("{} of {variant}", proxy.role),
                (None, 1) => proxy.role.clone(),
                (None, _) => format!("{} of {stage}", proxy.role),
            };
            let last = match proxy.waiting {
                true => "waits".to_owned(),
                false => format!("{:.1} s ago", proxy.age_ms / 1e3),
            };
            table.add_row(vec![
                Cell::new(id),
                Cell::new(role),
                Cell::new(proxy.version.as_deref().unwrap_or("unknown")),
                right(proxy.revision),
                right(last),
                Cell::new(slots),
                Cell::new(state),
            ]);
        }
    }
    match count {
        0 => "no proxy polls\n".to_owned(),
        1..=PROXIES_MAX => format!("{table}\n"),
        _ => format!("{table}\nand {} more proxies\n", count - PROXIES_MAX),
    }
}

/// Returns a cycle's time of day, UTC.
pub(crate) fn time_of_day(at_ms: u64) -> String {
    let second = at_ms / 1000 % 86_400;
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{hour:02}:{minute:02}:{:02}", second % 60)
}

pub(crate) fn rate(rps: Option<f64>) -> String {
    rps.map_or("unknown".to_owned(), |rps| format!("{rps:.1}/s"))
}

/// Returns `2`, or `2 → 5` where the target differs.
pub(crate) fn change(actual: f64, target: f64) -> String {
    match actual == target {
        true => number(actual),
        false => format!("{} → {}", number(actual), number(target)),
    }
}

/// Returns a number with at most three decimals.
pub(crate) fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    /// Status of a service with variants `a` and `b`, of which `b` cannot grow.
    pub(crate) fn example() -> serde_json::Value {
        let variant = |actual: f64, target: f64, blocker: serde_json::Value| {
            json!({
                "cores_target": target, "cores_actual": actual, "replicas_target": 1, "replicas_ready": 1,
                "share": 0.5, "slots": 2, "batch": 1, "capacity_rps": 18.0, "blocker": blocker, "failing_ms": null,
                "service_time": { "state": "normal", "measured_ratio": 1.25, "correction": 1.25, "drift_ms": null },
            })
        };
        let deferred = json!({ "reason": "Deferred", "why": "the node has no room" });
        let cycle = json!({
            "at_ms": 3_661_000, "measured_rps": 19.0, "demand_rps": null, "scrapes_answered": 1, "scrapes_failed": 0,
            "proxies_without_weir": 0,
            "outcome": "optimal", "why": "optimal for 22 requests/s", "unknown": 1,
            "resources": { "memory": { "used": 3.0, "budget": 4.0 } },
            "variants": { "a": variant(2.0, 2.0, json!(null)), "b": variant(2.0, 6.0, deferred) },
        });
        json!({
            "service": "demo", "mode": "active", "slo_ms": 1000, "budget_cores": 8, "revision": 7,
            "plan": { "revision": 7, "max_age_ms": 60000, "variants": [
                { "name": "a", "cluster": "a" }, { "name": "b", "cluster": "b", "grpc_cluster": "b-grpc" },
            ] },
            "leader": { "leads": true, "address": null, "refuses": null },
            "proxies": { "envoy-1": {
                "role": "both", "variant": null, "version": "1.2.3", "revision": 7, "age_ms": 1200.0, "waiting": false,
                "slots": { "a": 2, "b": 2 }, "confirmed": true, "refused": null,
            } },
            "requests": requests::tests::example(), "latest": cycle, "cycles": [cycle],
        })
    }

    pub(crate) fn view(status: serde_json::Value) -> StatusView {
        serde_json::from_value(status).unwrap()
    }

    #[test]
    fn status_shows_limits_blockers_and_proxies() {
        let text = status(&view(example()), 3_663_000);
        for part in [
            "service demo: mode active, objective 1000 ms\nplan 7; this planner leads\n",
            "cycle of 2 s ago (optimal): arrivals 19.0/s, demand with headroom unknown\n",
            "limits: cores 8 of 8 (all used), memory 3 of 4\n",
            "why: optimal for 22 requests/s\n",
            " 2 → 6 ",
            "b, cores 2 → 6: Deferred: the node has no room\n",
            "a is planned with 1.25 times its profile's time\n",
            "× 1.25",
            "a 2, b 2",
            "has the plan",
        ] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
    }

    /// `WEIR_GOLDEN=renew` writes it anew.
    #[test]
    fn status_is_as_in_the_golden_text() {
        let shown = status(&view(example()), 3_663_000);
        let path = "tests/cli/golden/status.txt";
        if std::env::var("WEIR_GOLDEN").is_ok_and(|it| it == "renew") {
            std::fs::write(path, &shown).unwrap();
        }
        assert_eq!(shown, std::fs::read_to_string(path).unwrap());
    }

    #[test]
    fn proxy_behind_its_plan_and_missing_parts_are_shown() {
        let mut status = example();
        status["proxies"]["envoy-1"]["revision"] = json!(6);
        let text = super::status(&view(status.clone()), 0);
        assert!(text.contains("has an earlier plan"), "{text}");
        status["proxies"]["envoy-1"]["refused"] = json!("2 slots for 3 proxies");
        let text = super::status(&view(status.clone()), 0);
        assert!(text.contains("2 slots for 3 proxies"), "{text}");
        for key in ["latest", "revision", "plan"] {
            status[key] = json!(null);
        }
        status["proxies"] = json!({});
        status["leader"] = json!({ "leads": false, "address": null, "refuses": "nobody" });
        let text = super::status(&view(status), 0);
        let expected = "no plan yet; no planner is known to lead\nno cycle yet\nno proxy polls\n";
        assert!(text.ends_with(expected), "{text}");
    }

    #[test]
    fn variant_without_a_profile_is_shown_with_what_is_measured() {
        let mut status = example();
        let times = &mut status["latest"]["variants"]["a"]["service_time"];
        *times = json!({
            "state": "normal", "measured_ratio": 43.0, "correction": 43.0, "drift_ms": null, "executions": 812,
            "has_profile": false, "profile_ms": 1.0,
        });
        let text = super::status(&view(status.clone()), 0);
        let expected = "a: no profile; measured 43 ms over 812 executions\n";
        assert!(
            text.contains(expected) && text.contains(" 43 ms "),
            "{text}"
        );
        assert!(!text.contains("a is planned with"), "{text}");
        status["latest"]["variants"]["a"]["service_time"]["measured_ratio"] = json!(null);
        let text = super::status(&view(status), 0);
        assert!(
            text.contains("a: no profile; nothing measured of late\n"),
            "{text}"
        );
    }

    #[test]
    fn numbers_are_short() {
        for (value, expected) in [(2.0, "2"), (0.25, "0.25"), (1.0004, "1"), (100.0, "100")] {
            assert_eq!(number(value), expected);
        }
        assert_eq!(time_of_day(3_661_999), "01:01:01");
        assert_eq!(time_of_day(86_399_000 + 86_400_000), "23:59:59");
    }
}
