//! Checks of a proxy: the filter is loaded, has the planner's plan, and knows the variants' clusters.

use weir_api::metrics::Metric;

use super::check::Section;
use super::envoy::{Configuration, EnvoyAnswers};
use super::planner::none;
use crate::inspect::view::{PlanView, ProxyView, StatusView};
use crate::inspect::{Failure, Samples};

/// Role of a proxy that stands before one server, and needs no cluster of another.
const GATE: &str = "gate";

const ANSWERS: &str = "give the address of Envoy's admin interface; on Kubernetes: kubectl port-forward POD 15000 (Istio) or \
    19000 (Envoy Gateway)";
const LOADED: &str = "attach the filter (weir manifests), or read the proxy's log, lines with `weir:`: its module was not \
    fetched, or its configuration was refused; see docs/how-to/debug.md";
const KNOWN: &str =
    "name the service as the planner does, in the filter's configuration: `service`";
const REFUSED: &str = "correct what the details name; until then the configuration before it holds";
const VMS: &str =
    "read the proxy's log: the filter's VM has trapped; please report it, with the log";
const POLLS: &str = "check the filter's planner.cluster and planner.key, and a NetworkPolicy between proxy and planner; the \
    filter's log says once why a poll failed";
const PLAN: &str = "read the filter's log: polls fail (a key, a cluster, a NetworkPolicy), or plans are refused by a filter of \
    another version";
const AGE: &str =
    "check that the planner is reached; after planMaxAge the filter goes by its fallback";
const FORMAT: &str = "install the same version of filter and planner: see docs/how-to/upgrade.md";
const CLUSTERS: &str = "give the proxy the cluster: a Sidecar resource may hide it, or PILOT_FILTER_GATEWAY_CLUSTER_CONFIG; \
    without Istio, add it to the bootstrap";

/// Returns the checks of a proxy, beside what the planner knows of the services.
pub(super) fn checks(url: &str, answers: &EnvoyAnswers, services: &[StatusView]) -> Section {
    let title = match &answers.node {
        Some(node) => format!("proxy {url} ({node})"),
        None => format!("proxy {url}"),
    };
    let mut section = Section::new(title);
    let stats = match &answers.stats {
        Ok(stats) => Samples::new(stats),
        Err(failure) => {
            section.check("it answers", Err(failure.to_string()), ANSWERS);
            return section;
        }
    };
    section.check("it answers", Ok(()), ANSWERS);
    let filtered = stats.filtered_services();
    let loaded = match (filtered.is_empty(), &answers.config) {
        (false, _) => Ok(()),
        (true, Ok(Configuration { has_wasm: true, .. })) => {
            Err("a module is configured, and exports no metric of Weir's".to_owned())
        }
        (true, _) => Err("no metric of Weir's, and no listener with a module".to_owned()),
    };
    section.check("the filter is loaded", loaded, LOADED);
    let refused = match &answers.config {
        Ok(configuration) => none(&configuration.refused, |details| details),
        Err(failure) => Err(failure.to_string()),
    };
    section.check("no configuration is refused", refused, REFUSED);
    section.check("no VM has trapped", vms(stats), VMS);
    let polled = services.iter().flat_map(StatusView::polled);
    let here: Vec<_> = polled
        .filter(|(name, ..)| filtered.contains(*name))
        .collect();
    if here.is_empty() && !filtered.is_empty() {
        let names = filtered.into_iter().collect::<Vec<_>>().join(", ");
        let problem = format!("it filters for {names}, which the planner does not name");
        section.check("its service is the planner's", Err(problem), KNOWN);
    }
    for (name, plan, proxies) in here {
        let proxy = answers.node.as_ref().and_then(|node| proxies.get(node));
        service_checks(&mut section, (name, plan), proxy, answers, stats);
    }
    section
}

/// Checks that no VM was replaced, or could not be.
fn vms(stats: Samples<'_>) -> Result<(), String> {
    let count = |end| stats.sum_between("envoy_wasm_", end);
    let (reloads, failures) = (count("vm_reload_success"), count("vm_reload_failure"));
    let (waits, failed) = (count("vm_reload_backoff"), count("vm_failed"));
    match reloads + failures + waits + failed == 0.0 {
        true => Ok(()),
        false => Err(format!(
            "{reloads} VMs were replaced, {failures} could not be, {failed} have failed, {waits} requests met one"
        )),
    }
}

fn service_checks(
    section: &mut Section,
    (name, plan): (&str, Option<&PlanView>),
    proxy: Option<&ProxyView>,
    answers: &EnvoyAnswers,
    stats: Samples<'_>,
) {
    let of = |check: &str| format!("{name}: {check}");
    let polls = match (proxy, &answers.node) {
        (Some(_), _) => Ok(()),
        (None, Some(node)) => Err(format!("the planner knows no proxy {node}")),
        (None, None) => Err("its node id is not known".to_owned()),
    };
    section.check(of("it polls the planner"), polls, POLLS);
    let Some(plan) = plan else {
        return;
    };
    let revision = stats.filter(Metric::PlanRevision, name);
    let current = match revision {
        Some(revision) if revision >= plan.revision as f64 => Ok(()),
        Some(revision) => Err(format!(
            "it has plan {revision}, the planner {}",
            plan.revision
        )),
        None => Err(format!(
            "it has no plan of the planner's, which has {}",
            plan.revision
        )),
    };
    section.check(of("it has the planner's plan"), current, PLAN);
    // A filter with its configuration's plan alone exports no age.
    if let Some(age_ms) = stats.filter(Metric::PlanAgeMs, name) {
        let young = match age_ms < plan.max_age_ms {
            true => Ok(()),
            false => Err(format!("{age_ms} ms, more than its {} ms", plan.max_age_ms)),
        };
        section.check(of("its plan is young enough"), young, AGE);
    }
    let refused = match stats.filter(Metric::PlansRefused, name).unwrap_or_default() {
        0.0 => Ok(()),
        refused => Err(format!("{refused} plans were refused")),
    };
    section.check(of("it takes the plans"), refused, FORMAT);
    if proxy.is_some_and(|proxy| proxy.role == GATE) {
        return;
    }
    let clusters = clusters(plan, &answers.clusters);
    section.check(of("it knows every variant's cluster"), clusters, CLUSTERS);
}

fn clusters(
    plan: &PlanView,
    known: &Result<std::collections::BTreeSet<String>, Failure>,
) -> Result<(), String> {
    let known = known.as_ref().map_err(Failure::to_string)?;
    let mut missing = Vec::new();
    for variant in &plan.variants {
        let both = std::iter::once(&variant.cluster).chain(&variant.grpc_cluster);
        let unknown = both.filter(|cluster| !known.contains(*cluster));
        missing.extend(unknown.map(|cluster| format!("{} of variant {}", cluster, variant.name)));
    }
    none(&missing, |missing| format!("it knows no cluster {missing}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::inspect::screen::tests::{example, view};

    const STATS: &str = "envoy_wasm_weir_vm_reload_success{} 0\nweir_plan_revision{service=\"demo\"} 7\n\
        weir_plan_age_milliseconds{service=\"demo\"} 300\nweir_slots{service=\"demo\",variant=\"a\"} 2\n";

    fn healthy() -> EnvoyAnswers {
        let clusters = ["a", "b", "b-grpc", "planner"].map(str::to_owned);
        let config = Configuration {
            has_wasm: true,
            refused: Vec::new(),
        };
        EnvoyAnswers {
            stats: Ok(STATS.to_owned()),
            node: Some("envoy-1".to_owned()),
            clusters: Ok(BTreeSet::from(clusters)),
            config: Ok(config),
        }
    }

    fn failed(section: &Section) -> Vec<(&str, &str)> {
        let checks = section.checks.iter();
        checks
            .filter_map(|check| Some((check.name.as_str(), check.problem.as_deref()?)))
            .collect()
    }

    fn stats(from: &str, to: &str) -> EnvoyAnswers {
        assert!(STATS.contains(from));
        EnvoyAnswers {
            stats: Ok(STATS.replace(from, to)),
            ..healthy()
        }
    }

    #[test]
    fn each_fault_of_a_proxy_fails_its_check() {
        let services = [view(example())];
        let section = checks("http://a", &healthy(), &services);
        assert_eq!(failed(&section), []);
        assert_eq!(section.checks.len(), 9);
        let config = |has_wasm, refused: &[&str]| EnvoyAnswers {
            config: Ok(Configuration {
                has_wasm,
                refused: refused.iter().map(|it| (*it).to_owned()).collect(),
            }),
            ..healthy()
        };
        let without_stats = |answers: EnvoyAnswers| EnvoyAnswers {
            stats: Ok("a 1\n".to_owned()),
            ..answers
        };
        let away = Failure::Unreached("refused".to_owned());
        let no_answer = EnvoyAnswers {
            stats: Err(away.clone()),
            ..healthy()
        };
        let other_node = EnvoyAnswers {
            node: Some("envoy-2".to_owned()),
            ..healthy()
        };
        let few_clusters = EnvoyAnswers {
            clusters: Ok(BTreeSet::from(["a".to_owned()])),
            ..healthy()
        };
        for (answers, name, part) in [
            (no_answer, "it answers", "no answer: refused"),
            (
                without_stats(config(true, &[])),
                "the filter is loaded",
                "exports no metric",
            ),
            (
                without_stats(config(false, &[])),
                "the filter is loaded",
                "no listener",
            ),
            (
                config(true, &["bad plugin"]),
                "no configuration is refused",
                "bad plugin",
            ),
            (
                stats("success{} 0", "success{} 2"),
                "no VM has trapped",
                "2 VMs were replaced",
            ),
            (
                stats("success{} 0", "backoff{} 3"),
                "no VM has trapped",
                "3 requests met one",
            ),
            (
                stats("\"demo\"", "\"other\""),
                "its service is the planner's",
                "filters for other",
            ),
            (other_node, "demo: it polls the planner", "no proxy envoy-2"),
            (
                stats("} 7", "} 6"),
                "demo: it has the planner's plan",
                "plan 6, the planner 7",
            ),
            (
                stats("plan_revision", "held_requests"),
                "demo: it has the planner's plan",
                "no plan",
            ),
            (
                stats("} 300", "} 60000"),
                "demo: its plan is young enough",
                "60000 ms, more",
            ),
            (
                stats(
                    "\"a\"} 2\n",
                    "\"a\"} 2\nweir_plans_refused_total{service=\"demo\"} 4\n",
                ),
                "demo: it takes the plans",
                "4 plans",
            ),
            (
                few_clusters,
                "demo: it knows every variant's cluster",
                "b of variant b; b-grpc of variant b",
            ),
        ] {
            let section = checks("http://a", &answers, &services);
            match failed(&section).as_slice() {
                [(failed, problem)] => {
                    assert_eq!(*failed, name);
                    assert!(problem.contains(part), "{name}: {problem}");
                }
                others => panic!("{name}: {others:?}"),
            }
        }
    }

    #[test]
    fn gate_needs_no_clusters() {
        let mut status = example();
        status["proxies"]["envoy-1"]["role"] = GATE.into();
        let answers = EnvoyAnswers {
            clusters: Ok(BTreeSet::new()),
            ..healthy()
        };
        let section = checks("http://a", &answers, &[view(status)]);
        assert_eq!(failed(&section), []);
    }
}
