//! Panels of the dashboard and their queries. `tests/rules` checks that each name and label in them is exported.

/// Title, unit and queries with their legends.
pub(super) type Panel = (
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
);

/// Service as a whole: its budget, its demand, its answers.
pub(super) const SERVICE: &[Panel] = &[
    (
        "On time, of the demand",
        "percentunit",
        &[
            (
                "1 - weir:bad_requests:ratio_rate5m{service=\"$service\"}",
                "5 minutes",
            ),
            (
                "1 - weir:bad_requests:ratio_rate1h{service=\"$service\"}",
                "1 hour",
            ),
            ("weir:on_time_target:ratio{service=\"$service\"}", "target"),
        ],
    ),
    (
        "Error budget: burn rate",
        "none",
        &[
            (
                "weir:bad_requests:ratio_rate1h{service=\"$service\"} / (1 - weir:on_time_target:ratio{service=\"$service\"})",
                "1 hour",
            ),
            (
                "weir:bad_requests:ratio_rate6h{service=\"$service\"} / (1 - weir:on_time_target:ratio{service=\"$service\"})",
                "6 hours",
            ),
            (
                "weir:bad_requests:ratio_rate3d{service=\"$service\"} / (1 - weir:on_time_target:ratio{service=\"$service\"})",
                "3 days",
            ),
        ],
    ),
    (
        "Arrivals, demand and capacity",
        "reqps",
        &[
            (
                "sum(rate(weir_arrivals_total{service=\"$service\"}[$__rate_interval]))",
                "arrivals",
            ),
            (
                "max(weir_planner_demand_rps{service=\"$service\"})",
                "demand with headroom",
            ),
            (
                "sum(max by (variant) (weir_planner_capacity_rps{service=\"$service\"}))",
                "capacity, less its reserve",
            ),
        ],
    ),
    (
        "Answers",
        "reqps",
        &[
            (
                "sum(rate(weir_on_time_total{service=\"$service\"}[$__rate_interval]))",
                "on time",
            ),
            (
                "sum(rate(weir_late_total{service=\"$service\"}[$__rate_interval]))",
                "late",
            ),
            (
                "sum(rate(weir_refused_total{service=\"$service\"}[$__rate_interval]))",
                "refused",
            ),
            (
                "sum(rate(weir_client_disconnects_total{service=\"$service\"}[$__rate_interval]))",
                "disconnected",
            ),
        ],
    ),
    (
        "Refusals",
        "reqps",
        &[(
            "sum by (reason) (rate(weir_refused_total{service=\"$service\"}[$__rate_interval]))",
            "{{reason}}",
        )],
    ),
    (
        "Not part of the demand",
        "reqps",
        &[
            (
                "sum(rate(weir_unservable_total{service=\"$service\"}[$__rate_interval]))",
                "servable by no variant",
            ),
            (
                "sum(rate(weir_bypassed_total{service=\"$service\"}[$__rate_interval]))",
                "bypassed",
            ),
            (
                "sum by (header) (rate(weir_invalid_headers_total{service=\"$service\"}[$__rate_interval]))",
                "invalid {{header}}",
            ),
            (
                "sum(rate(weir_skew_clamped_total{service=\"$service\"}[$__rate_interval]))",
                "clocks off",
            ),
        ],
    ),
];

/// Variants of the service.
pub(super) const VARIANTS: &[Panel] = &[
    (
        "Share: planned and as routed",
        "percentunit",
        &[
            (
                "max by (variant) (weir_planner_share{service=\"$service\"})",
                "{{variant}}",
            ),
            (
                "max by (variant) (weir_planner_routed_share{service=\"$service\"})",
                "{{variant}} as routed",
            ),
        ],
    ),
    (
        "Cores: actual and target",
        "none",
        &[
            (
                "max by (variant) (weir_planner_cores_actual{service=\"$service\"})",
                "{{variant}}",
            ),
            (
                "max by (variant) (weir_planner_cores_target{service=\"$service\"})",
                "{{variant}} target",
            ),
        ],
    ),
    (
        "Missing cores, by blocker",
        "none",
        &[(
            "max by (variant, reason) (weir_planner_cores_shortfall{service=\"$service\"})",
            "{{variant}}: {{reason}}",
        )],
    ),
    (
        "Replicas: ready and target",
        "none",
        &[
            (
                "max by (variant) (weir_planner_replicas_ready{service=\"$service\"})",
                "{{variant}}",
            ),
            (
                "max by (variant) (weir_planner_replicas_target{service=\"$service\"})",
                "{{variant}} target",
            ),
        ],
    ),
    (
        "Slots: in use, of all",
        "none",
        &[
            (
                "sum by (variant) (weir_slots_in_use{service=\"$service\"})",
                "{{variant}} in use",
            ),
            (
                "max by (variant) (weir_planner_slots{service=\"$service\"})",
                "{{variant}}",
            ),
        ],
    ),
    (
        "Waiting requests",
        "none",
        &[(
            "sum by (variant) (weir_waiting_requests{service=\"$service\"})",
            "{{variant}}",
        )],
    ),
    (
        "Service time, 99th percentile",
        "ms",
        &[(
            "histogram_quantile(0.99, sum by (variant, le) \
         (rate(weir_service_milliseconds_bucket{service=\"$service\"}[$__rate_interval])))",
            "{{variant}}",
        )],
    ),
    (
        "Service time relative to the profile's",
        "none",
        &[
            (
                "max by (variant) (weir_planner_service_time_ratio{service=\"$service\"})",
                "{{variant}}",
            ),
            (
                "max by (variant) (weir_planner_service_time_correction{service=\"$service\"})",
                "{{variant}} planned with",
            ),
        ],
    ),
    (
        "State",
        "none",
        &[
            (
                "max by (variant, state) (weir_planner_variant_state{service=\"$service\", state!=\"normal\"}) == 1",
                "{{variant}} {{state}}",
            ),
            (
                "max by (variant) (weir_planner_failing{service=\"$service\"}) == 1",
                "{{variant}} fails",
            ),
            (
                "max by (variant) (weir_planner_profile_drift{service=\"$service\"}) == 1",
                "{{variant}} profile drift",
            ),
        ],
    ),
];

/// Times of requests, beside the service times.
pub(super) const TIMES: &[Panel] = &[
    (
        "Latency, to the end of the answer",
        "ms",
        &[
            (
                "histogram_quantile(0.5, sum by (le) (rate(weir_latency_milliseconds_bucket{service=\"$service\"}[$__rate_interval])))",
                "50 %",
            ),
            (
                "histogram_quantile(0.9, sum by (le) (rate(weir_latency_milliseconds_bucket{service=\"$service\"}[$__rate_interval])))",
                "90 %",
            ),
            (
                "histogram_quantile(0.99, sum by (le) (rate(weir_latency_milliseconds_bucket{service=\"$service\"}[$__rate_interval])))",
                "99 %",
            ),
        ],
    ),
    (
        "Wait for a slot",
        "ms",
        &[
            (
                "histogram_quantile(0.5, sum by (le) (rate(weir_wait_milliseconds_bucket{service=\"$service\"}[$__rate_interval])))",
                "50 %",
            ),
            (
                "histogram_quantile(0.99, sum by (le) (rate(weir_wait_milliseconds_bucket{service=\"$service\"}[$__rate_interval])))",
                "99 %",
            ),
        ],
    ),
    (
        "Time left at dispatch",
        "ms",
        &[
            (
                "histogram_quantile(0.01, sum by (le) (rate(weir_dispatch_slack_milliseconds_bucket{service=\"$service\"}[$__rate_interval])))",
                "1 %",
            ),
            (
                "histogram_quantile(0.5, sum by (le) (rate(weir_dispatch_slack_milliseconds_bucket{service=\"$service\"}[$__rate_interval])))",
                "50 %",
            ),
        ],
    ),
    (
        "Network latency before the proxy",
        "ms",
        &[
            (
                "histogram_quantile(0.5, sum by (le) (rate(weir_network_latency_milliseconds_bucket{service=\"$service\"}[$__rate_interval])))",
                "50 %",
            ),
            (
                "histogram_quantile(0.99, sum by (le) (rate(weir_network_latency_milliseconds_bucket{service=\"$service\"}[$__rate_interval])))",
                "99 %",
            ),
        ],
    ),
];

/// Planner of the service.
pub(super) const PLANNER: &[Panel] = &[
    (
        "Cycle time, 99th percentile",
        "s",
        &[
            (
                "histogram_quantile(0.99, sum by (le) (rate(weir_planner_cycle_duration_seconds_bucket{service=\"$service\"}[$__rate_interval])))",
                "cycle",
            ),
            (
                "histogram_quantile(0.99, sum by (le, stage) (rate(weir_planner_stage_duration_seconds_bucket{service=\"$service\"}[$__rate_interval])))",
                "{{stage}}",
            ),
        ],
    ),
    (
        "Cycles, by outcome",
        "ops",
        &[(
            "sum by (outcome) (rate(weir_planner_cycles_total{service=\"$service\"}[$__rate_interval]))",
            "{{outcome}}",
        )],
    ),
    (
        "Plan age at the proxies",
        "ms",
        &[(
            "max(weir_plan_age_milliseconds{service=\"$service\"})",
            "oldest",
        )],
    ),
    (
        "Proxies",
        "none",
        &[
            ("max(weir_planner_proxies{service=\"$service\"})", "poll"),
            (
                "max(weir_planner_proxies_owning{service=\"$service\"})",
                "own slots",
            ),
            (
                "max(weir_planner_proxies_refused{service=\"$service\"})",
                "without slots",
            ),
        ],
    ),
    (
        "Resizes and scrapes",
        "ops",
        &[
            (
                "sum(rate(weir_planner_resizes_confirmed_total{service=\"$service\"}[$__rate_interval]))",
                "resizes confirmed",
            ),
            (
                "sum(rate(weir_planner_resizes_failed_total{service=\"$service\"}[$__rate_interval]))",
                "resizes failed",
            ),
            (
                "sum(rate(weir_planner_scrapes_failed_total{service=\"$service\"}[$__rate_interval]))",
                "scrapes failed",
            ),
        ],
    ),
    (
        "Planners, all services",
        "none",
        &[
            (
                "count by (version) (weir_planner_build_info)",
                "version {{version}}",
            ),
            ("sum(weir_planner_leader)", "lead"),
            (
                "sum by (reason) (increase(weir_planner_reconcile_errors_total[$__rate_interval]))",
                "refused: {{reason}}",
            ),
        ],
    ),
];
