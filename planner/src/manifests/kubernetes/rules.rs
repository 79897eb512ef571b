//! Rules for Prometheus: the burn rate of each service's error budget over several windows, and alerts on the planner,
//! the plans, the resizes, the clocks and refused configurations. One list makes the plain file and the resource.
//!
//! A request is bad unless it was answered in time: the demand of a window less what was on time in it. What no variant
//! could serve is no part of the demand.
//!
//! Each service has its own target, by the planner's metric. While no planner is scraped its last value holds, for
//! [`TARGET_HOLDS`]; without any, the default does. Series of filters have a stage's name as `service`.

use serde_json::{Value, json};

use crate::service::ON_TIME_TARGET;

/// Target of each service, as the rules record it.
const TARGET: &str = "weir:on_time_target:ratio";
/// Time for which a target is remembered after the planner was scraped last.
const TARGET_HOLDS: &str = "1d";
/// Windows over which the share of bad requests is recorded.
const WINDOWS: [&str; 7] = ["5m", "30m", "1h", "2h", "6h", "1d", "3d"];

/// Burn rates that raise an alert, by the long and the short window: the budget of 30 days would be spent by 2 % in an
/// hour, 5 % in six hours, 10 % in a day or three (Google's workbook of site reliability).
const BURNS: [(&str, &str, &str, &str); 4] = [
    ("1h", "5m", "14.4", CRITICAL),
    ("6h", "30m", "6", CRITICAL),
    ("1d", "2h", "3", WARNING),
    ("3d", "6h", "1", WARNING),
];

const CRITICAL: &str = "critical";
const WARNING: &str = "warning";

/// One alert.
struct Alert {
    name: &'static str,
    expr: &'static str,
    lasts: &'static str,
    severity: &'static str,
    summary: &'static str,
    remedy: &'static str,
}

const PLANNER: [Alert; 7] = [
    Alert {
        name: "WeirPlannerAbsent",
        expr: "absent(weir_planner_build_info)",
        lasts: "5m",
        severity: CRITICAL,
        summary: "No planner is scraped",
        remedy: "Proxies keep their plans until planMaxAge. Read the planner's pods and the scrape's errors.",
    },
    Alert {
        name: "WeirPlannerStale",
        expr: "sum by (service) (increase(weir_planner_cycles_total[5m])) == 0",
        lasts: "1m",
        severity: CRITICAL,
        summary: "No planner runs cycles for {{ $labels.service }}",
        remedy: "Read /healthz of the planner, and its log.",
    },
    Alert {
        name: "WeirPlannerWithoutLeader",
        expr: "max(weir_planner_leader) == 0",
        lasts: "2m",
        severity: CRITICAL,
        summary: "No planner leads",
        remedy: "Read /readyz of the planners: the API server, or the Lease, is not reached.",
    },
    Alert {
        name: "WeirPlannerRefusesPolls",
        expr: "weir_planner_leader_reached == 0",
        lasts: "1m",
        severity: WARNING,
        summary: "A planner does not reach the one that leads, and refuses polls",
        remedy: "Read its /readyz: a NetworkPolicy, strict mTLS, or TLS on one planner alone.",
    },
    Alert {
        name: "WeirControllerRestarts",
        expr: "increase(weir_planner_controller_restarts_total[15m]) > 0",
        lasts: "0m",
        severity: WARNING,
        summary: "The controller of {{ $labels.service }} ended unexpectedly and started anew",
        remedy: "Please report it, with the planner's log.",
    },
    Alert {
        name: "WeirScrapesFail",
        expr: "sum by (service) (rate(weir_planner_scrapes_failed_total[5m])) > 0.1",
        lasts: "5m",
        severity: WARNING,
        summary: "The planner does not see all proxies of {{ $labels.service }}",
        remedy: "Open the proxies' statistics to it: a NetworkPolicy, or wrong addresses in proxies.",
    },
    Alert {
        name: "WeirProxiesWithoutWeir",
        expr: "max by (service) (weir_planner_proxies_without_weir) > 0",
        lasts: "5m",
        severity: WARNING,
        summary: "A proxy of {{ $labels.service }} has no Weir, and its requests do not count",
        remedy: "Give it the filter again, or leave it out of proxies. The planner's log names it.",
    },
];

const PLANS: [Alert; 4] = [
    Alert {
        name: "WeirPlanOld",
        expr: "max by (service) (weir_plan_age_milliseconds) > 30000",
        lasts: "1m",
        severity: WARNING,
        summary: "A proxy of {{ $labels.service }} has had no newer plan for 30 s",
        remedy: "Read the filter's log, which says why a poll failed. After planMaxAge the filter goes by its fallback.",
    },
    Alert {
        name: "WeirPlanPollsFail",
        expr: "sum by (service) (rate(weir_plan_polls_failed_total[5m])) > 0.1",
        lasts: "5m",
        severity: WARNING,
        summary: "Proxies of {{ $labels.service }} do not get answers from the planner",
        remedy: "Read the filter's log: a cluster, a key or a NetworkPolicy.",
    },
    Alert {
        name: "WeirPlansRefused",
        expr: "sum by (service) (increase(weir_plans_refused_total[10m])) > 0",
        lasts: "0m",
        severity: WARNING,
        summary: "Filters refuse plans of {{ $labels.service }}",
        remedy: "Install the same version of planner and filter.",
    },
    Alert {
        name: "WeirPlansRejected",
        expr: "sum by (service) (increase(weir_planner_plans_rejected_total[10m])) > 0",
        lasts: "0m",
        severity: WARNING,
        summary: "Plans of {{ $labels.service }} do not pass their check and are not published",
        remedy: "Please report it, with the planner's log.",
    },
];

const CAPACITY: [Alert; 5] = [
    Alert {
        name: "WeirDemandAboveCapacity",
        expr: "sum by (service) (increase(weir_planner_cycles_total{outcome=\"infeasible\"}[5m])) / \
            sum by (service) (increase(weir_planner_cycles_total[5m])) > 0.5",
        lasts: "2m",
        severity: WARNING,
        summary: "The budget of {{ $labels.service }} cannot carry its demand",
        remedy: "Raise budget.cores, or accept less accuracy; `weir why` shows the limits.",
    },
    Alert {
        name: "WeirResizeBlocked",
        expr: "max by (service, variant, reason) (weir_planner_cores_shortfall) > 0",
        lasts: "10m",
        severity: WARNING,
        summary: "{{ $labels.variant }} of {{ $labels.service }} lacks cores: {{ $labels.reason }}",
        remedy: "Read the reason in the reference of conditions.",
    },
    Alert {
        name: "WeirReplicasMissing",
        expr: "max by (service, variant) (weir_planner_replicas_target - weir_planner_replicas_ready) > 0",
        lasts: "10m",
        severity: WARNING,
        summary: "{{ $labels.variant }} of {{ $labels.service }} has fewer ready replicas than its target",
        remedy: "Read the events of its pods.",
    },
    Alert {
        name: "WeirVariantFails",
        expr: "max by (service, variant) (weir_planner_failing) == 1",
        lasts: "2m",
        severity: CRITICAL,
        summary: "The servers of {{ $labels.variant }} of {{ $labels.service }} fail, and get no requests",
        remedy: "Read their logs: they refuse connections, or answer 404 or 5xx of their own.",
    },
    Alert {
        name: "WeirProfileDrift",
        expr: "max by (service, variant) (weir_planner_profile_drift) == 1",
        lasts: "15m",
        severity: WARNING,
        summary: "The profile of {{ $labels.variant }} of {{ $labels.service }} no longer holds",
        remedy: "Measure it again with `weir profile`.",
    },
];

const REQUESTS: [Alert; 5] = [
    Alert {
        name: "WeirClockSkew",
        expr: "sum by (service) (rate(weir_skew_clamped_total[10m])) / \
            sum by (service) (rate(weir_arrivals_total[10m])) > 0.05",
        lasts: "10m",
        severity: WARNING,
        summary: "More than 5 % of the requests of {{ $labels.service }} come from clocks too far off",
        remedy: "Synchronise the clocks of clients and proxies, or raise deadline.skew_allowance_ms.",
    },
    Alert {
        name: "WeirInvalidHeaders",
        expr: "sum by (service, header) (rate(weir_invalid_headers_total[10m])) > 0.1",
        lasts: "10m",
        severity: WARNING,
        summary: "Clients of {{ $labels.service }} send values of {{ $labels.header }} that are not valid",
        remedy: "Correct them; a send time older than deadline.max_age_ms is one too.",
    },
    Alert {
        name: "WeirResourceRefused",
        expr: "sum by (reason) (increase(weir_planner_reconcile_errors_total[5m])) > 0",
        lasts: "5m",
        severity: WARNING,
        summary: "An SloService is refused or cannot be reconciled: {{ $labels.reason }}",
        remedy: "Its conditions say why: kubectl get slo -A.",
    },
    Alert {
        name: "WeirConfigurationRefused",
        expr: "increase(envoy_listener_manager_lds_update_rejected[10m]) > 0",
        lasts: "0m",
        severity: WARNING,
        summary: "An Envoy refused a listener's configuration, and goes on with the one before",
        remedy: "Read its log, lines with `weir:`.",
    },
    Alert {
        name: "WeirFilterTrapped",
        expr: "increase(envoy_wasm_weir_vm_reload_success[10m]) > 0",
        lasts: "0m",
        severity: WARNING,
        summary: "A VM of the filter trapped and was replaced",
        remedy: "Please report it, with the proxy's log.",
    },
];

/// Returns the groups of the rules.
pub(super) fn groups() -> Value {
    let mut slo = vec![json!({ "record": TARGET, "expr": target() })];
    slo.extend(WINDOWS.map(|window| json!({ "record": bad(window), "expr": bad_share(window) })));
    let burns = [CRITICAL, WARNING].map(burn);
    let alerts = |alerts: &[Alert]| alerts.iter().map(Alert::rule).collect::<Vec<Value>>();
    json!([
        { "name": "weir.slo", "rules": slo },
        { "name": "weir.burn", "rules": burns },
        { "name": "weir.planner", "rules": alerts(&PLANNER) },
        { "name": "weir.plans", "rules": alerts(&PLANS) },
        { "name": "weir.capacity", "rules": alerts(&CAPACITY) },
        { "name": "weir.requests", "rules": alerts(&REQUESTS) },
    ])
}

/// Returns the target of each service whose filters or planner are scraped.
fn target() -> String {
    let metric = "weir_planner_on_time_target_ratio";
    let by_stage = |series: &str| {
        format!(
            "max by (service) (label_replace({series}, \"service\", \"$1\", \"stage\", \"(.+)\"))"
        )
    };
    let (now, last) = (
        by_stage(metric),
        by_stage(&format!("last_over_time({metric}[{TARGET_HOLDS}])")),
    );
    format!("{now} or {last} or 0 * max by (service) (weir_arrivals_total) + {ON_TIME_TARGET}")
}

/// Returns the name of the recorded share of bad requests.
fn bad(window: &str) -> String {
    format!("weir:bad_requests:ratio_rate{window}")
}

/// Returns the share of the demand that was not on time. Without a request on time there may be no such series.
fn bad_share(window: &str) -> String {
    let sum = |metric: &str| format!("sum by (service) (rate({metric}[{window}]))");
    let (on_time, demand) = (sum("weir_on_time_total"), sum("weir_arrivals_total"));
    format!("1 - ({on_time} or 0 * {demand}) / ({demand} > 0)")
}

/// Returns the alert of a severity: the budget burns over a long window, and still does over a short one.
fn burn(severity: &str) -> Value {
    let pairs = BURNS.iter().filter(|(.., of)| *of == severity);
    let above = |window: &str, factor: &str| format!("{} > {factor} * (1 - {TARGET})", bad(window));
    let pairs = pairs.map(|(long, short, factor, _)| {
        format!("({} and {})", above(long, factor), above(short, factor))
    });
    json!({
        "alert": "WeirErrorBudgetBurns",
        "expr": pairs.collect::<Vec<_>>().join(" or "),
        "for": "2m",
        "labels": { "severity": severity },
        "annotations": {
            "summary": "{{ $labels.service }} answers too few requests in time: {{ $value | humanizePercentage }} are bad",
            "description": "Read `weir why`, and the alerts beside this one: demand above the budget, a resize that is \
                blocked, a variant that fails or takes longer than its profile says.",
        },
    })
}

impl Alert {
    fn rule(&self) -> Value {
        json!({
            "alert": self.name, "expr": self.expr, "for": self.lasts, "labels": { "severity": self.severity },
            "annotations": { "summary": self.summary, "description": self.remedy },
        })
    }
}
