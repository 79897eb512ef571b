//! Checks of a planner and of its services.

use weir_planner::telemetry::heartbeat::LATE_MAX;

use super::Answer;
use super::check::Section;
use crate::inspect::view::{CycleView, StatusView, VariantView};
use crate::inspect::{Failure, Samples};

/// Version of this command.
const VERSION: &str = env!("CARGO_PKG_VERSION");

const ANSWERS: &str = "start the planner, or give its address with --url; on Kubernetes: \
    kubectl -n weir-system port-forward deploy/weir-planner 8080";
const CYCLES: &str = "read the planner's log; a cycle that does not come back is a bug: please report it with the log";
const READY: &str = "read the reason; a planner without a plan sees no backend, and one without a leader no API server or \
    no other planner (a NetworkPolicy, strict mTLS, TLS on one planner alone)";
const SAME_VERSION: &str =
    "install the same version of planner, filter and command: see docs/how-to/upgrade.md";
const SERVICES: &str =
    "name services that the planner plans for, or create an SloService (kubectl get slo -A)";
const KEY: &str = "give a key of this service with --key-file FILE or --key-env NAME: see docs/reference/rest.md, Keys";
const PUBLISHED: &str =
    "read the planner's log: its backends do not answer, or no variant is ready";
const RECENT: &str =
    "read the planner's log, and compare the clocks of this machine and the planner's";
const SCRAPES: &str = "open the proxies' statistics to the planner (15090 in Istio, /stats/prometheus of an admin interface): \
    a NetworkPolicy, or wrong addresses in proxies";
const WITHOUT_WEIR: &str =
    "give these proxies the filter, or leave them out of proxies: the planner's log names them";
const POLLS: &str = "check the filter's planner.cluster and planner.key, and the filter's log, which says once why a poll failed";
const FITS: &str =
    "upgrade the filter, or the planner, to one minor version: see docs/how-to/upgrade.md";
const SLOTS: &str =
    "take fewer proxies than slots, or give the gates of the overlay `sidecar` the slots";
const DEMAND: &str = "raise budget.cores, or accept less accuracy (accuracyMin, a faster variant): weir why shows the limit";
const CORES: &str =
    "read the blocker's reason in docs/reference/conditions.md: each says what it needs";
const HEALTHY: &str = "read the logs of the variant's servers: they refuse connections, or answer 404 or 5xx of their own";
const PROFILE: &str = "measure the variant again with weir profile: see docs/how-to/profile.md";

/// Answers of a planner without a key.
#[derive(Debug)]
pub(super) struct PlannerAnswers {
    pub(super) health: Result<String, Failure>,
    pub(super) readiness: Result<String, Failure>,
    pub(super) metrics: Result<String, Failure>,
}

/// Returns the checks of a planner.
pub(super) fn checks(url: &str, answers: &PlannerAnswers) -> Section {
    let mut section = Section::new(format!("planner {url}"));
    let passes = |answer: &Result<String, Failure>| match answer {
        Ok(_) => Ok(()),
        Err(failure) => Err(failure.to_string()),
    };
    let reached = match &answers.health {
        Err(failure) if failure.status() == 0 => Err(failure.to_string()),
        _ => Ok(()),
    };
    if !section.check("it answers", reached, ANSWERS) {
        return section;
    }
    section.check("its cycles come back", passes(&answers.health), CYCLES);
    section.check("it answers polls", passes(&answers.readiness), READY);
    let metrics = match &answers.metrics {
        Ok(metrics) => Samples::new(metrics),
        Err(failure) => {
            section.check(
                "its metrics are readable",
                Err(failure.to_string()),
                ANSWERS,
            );
            return section;
        }
    };
    let version = match version(&metrics) {
        Some(version) if version == VERSION => Ok(()),
        Some(version) => Err(format!(
            "the planner's is {version}, this command's {VERSION}"
        )),
        None => Err(format!(
            "the planner names none, this command's is {VERSION}"
        )),
    };
    section.check("its version is this command's", version, SAME_VERSION);
    let services = match crate::inspect::services(&metrics).is_empty() {
        true => Err("it plans for none".to_owned()),
        false => Ok(()),
    };
    section.check("it plans for services", services, SERVICES);
    section
}

/// Returns the version of a planner by its metrics.
pub(super) fn version<'a>(metrics: &Samples<'a>) -> Option<&'a str> {
    let build = metrics.labels("weir_planner_build_info", "version");
    build.first().map(|(version, _)| *version)
}

/// Returns the checks of a service of a planner with that version. `now_ms` is Unix time.
pub(super) fn service_checks(
    name: &str,
    answer: &Answer,
    planner: Option<&str>,
    now_ms: u64,
) -> Section {
    let mut section = Section::new(format!("service {name}"));
    let status = match answer {
        Ok(status) => status,
        Err(failure) => {
            let remedy = match failure.status() {
                401 | 403 => KEY,
                404 => SERVICES,
                _ => ANSWERS,
            };
            section.check("its status is readable", Err(failure.to_string()), remedy);
            return section;
        }
    };
    section.check("its key opens its status", Ok(()), KEY);
    let missing: Vec<&str> = status
        .polled()
        .into_iter()
        .filter(|(_, plan, _)| plan.is_none())
        .map(|(name, ..)| name)
        .collect();
    let published = none(&missing, |missing| format!("no plan for {missing}"));
    section.check("a plan is published", published, PUBLISHED);
    if let Some(latest) = &status.latest {
        cycle_checks(&mut section, latest, now_ms);
    } else {
        let none = Err("no cycle has ended yet".to_owned());
        section.check("its latest cycle is recent", none, RECENT);
    }
    proxy_checks(&mut section, status, planner);
    section
}

fn cycle_checks(section: &mut Section, latest: &CycleView, now_ms: u64) {
    let age_s = now_ms.saturating_sub(latest.at_ms) / 1000;
    let recent = match age_s <= LATE_MAX.as_secs() {
        true => Ok(()),
        false => Err(format!(
            "it began {age_s} s ago, more than the {} s that a cycle may take",
            LATE_MAX.as_secs()
        )),
    };
    section.check("its latest cycle is recent", recent, RECENT);
    let scrapes = match (latest.scrapes_answered, latest.scrapes_failed) {
        (0, 0) if latest.proxies_without_weir == 0 => Err("no proxy is known".to_owned()),
        (_, 0) => Ok(()),
        (answered, failed) => Err(format!("{failed} failed, {answered} answered")),
    };
    section.check("the proxies' statistics are read", scrapes, SCRAPES);
    let without_weir = match latest.proxies_without_weir {
        0 => Ok(()),
        count => Err(format!("{count} answer without any metric of it")),
    };
    section.check("every scraped proxy has Weir", without_weir, WITHOUT_WEIR);
    let carried = match latest.outcome.as_str() {
        "infeasible" => Err(latest.why.clone()),
        _ => Ok(()),
    };
    section.check("the budget carries the demand", carried, DEMAND);
    let variants = latest.variants.iter();
    let blocked: Vec<String> = variants
        .clone()
        .filter_map(|(name, variant)| {
            let blocker = variant.blocker.as_ref()?;
            Some(format!("{name}: {}: {}", blocker.reason, blocker.why))
        })
        .collect();
    let cores = none(&blocked, |blocked| blocked);
    section.check("every variant has its target", cores, CORES);
    let named = |fails: &dyn Fn(&VariantView) -> bool| -> Vec<&str> {
        let failing = variants.clone().filter(|(_, variant)| fails(variant));
        failing.map(|(name, _)| name.as_str()).collect()
    };
    let failing = named(&|variant| variant.failing_ms.is_some());
    let healthy = none(&failing, |failing| format!("the servers of {failing} fail"));
    section.check("every variant's servers answer", healthy, HEALTHY);
    let drifted = named(&|variant| variant.service_time.drift_ms.is_some());
    let profile = none(&drifted, |drifted| {
        format!("the measured times of {drifted} are others")
    });
    let without = variants.filter_map(|(name, variant)| {
        let measured = variant.service_time.without_profile()?;
        Some(format!("; {name}: {measured}"))
    });
    let name = format!("every profile holds{}", without.collect::<String>());
    section.check(name, profile, PROFILE);
}

fn proxy_checks(section: &mut Section, status: &StatusView, planner: Option<&str>) {
    let polled = status.polled();
    let count: usize = polled.iter().map(|(.., proxies)| proxies.len()).sum();
    let polls = match (&status.leader.refuses, count) {
        (Some(why), _) => Err(format!("polls are refused: {why}")),
        // The leader's status has the proxies.
        (None, 0) if status.leader.leads => Err("no proxy polls".to_owned()),
        (None, _) => Ok(()),
    };
    section.check("proxies poll", polls, POLLS);
    let proxies = polled.iter().flat_map(|(.., proxies)| proxies.iter());
    if let Some(planner) = planner {
        let others: Vec<String> = proxies
            .clone()
            .filter_map(|(id, proxy)| match &proxy.version {
                Some(version) if minor(version) == minor(planner) => None,
                Some(version) => Some(format!("{id}: {version}")),
                None => Some(format!("{id}: an earlier one, which does not state it")),
            })
            .collect();
        let fits = none(&others, |others| {
            format!("the planner's is {planner}; {others}")
        });
        section.check("every filter has the planner's version", fits, FITS);
    }
    let refused: Vec<String> = proxies
        .filter_map(|(id, proxy)| Some(format!("{id}: {}", proxy.refused.as_ref()?)))
        .collect();
    section.check(
        "every proxy has slots",
        none(&refused, |refused| refused),
        SLOTS,
    );
}

/// Returns the major and the minor part of a version.
fn minor(version: &str) -> (Option<&str>, Option<&str>) {
    let mut parts = version.split('.');
    (parts.next(), parts.next())
}

/// Succeeds without names; else fails with what the list of them makes.
pub(super) fn none<T: AsRef<str>>(
    names: &[T],
    problem: impl FnOnce(String) -> String,
) -> Result<(), String> {
    let list: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match list.is_empty() {
        true => Ok(()),
        false => Err(problem(list.join("; "))),
    }
}

#[cfg(test)]
mod tests;
