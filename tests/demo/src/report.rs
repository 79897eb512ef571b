//! The run in figures: a table for people, JSON for programs, and the checks whether the run is
//! valid.

use serde::Serialize;
use weir_bed::fate::Summary;
use weir_draw::table;

use crate::drive::Results;
use crate::scenario::{Field, PATIENCE, Policy, Scenario};
use crate::system::LISTENERS;
use crate::visible::Spread;

/// Maximum delay of 99 % of the generator's requests, in ms: a twentieth of the SLO. Beyond it the
/// run measures this machine rather than the setups.
const LAG_P99_MAX_MS: f64 = 50.0;

/// The whole report.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    plain: Summary,
    careful: Summary,
    weir: Summary,
    /// Duration of the planner's cycles, from observation to publication.
    cycle_ms: Spread,
    /// Time from publishing a plan until each worker adopts it.
    plan_visible_ms: Spread,
    /// Plans published during the run.
    plans: u64,
    /// Parameters of the run, and the generator's lag.
    run: RunParameters,
}

/// Parameters fixed before the run, and the generator's lag.
#[derive(Debug, Serialize)]
struct RunParameters {
    policy: Policy,
    seconds: usize,
    seed: u64,
    load: String,
    network: String,
    field: Field,
    slo_ms: u64,
    timeout_ms: u128,
    payload_bytes: u64,
    cores: u32,
    static_capacity_rps: f64,
    generator_late_ms_p99: f64,
    generator_late_ms_max: f64,
}

/// Parameters from the command line.
#[derive(Debug, Clone)]
pub(crate) struct RunOptions {
    pub(crate) seconds: usize,
    pub(crate) seed: u64,
    pub(crate) load: String,
    pub(crate) network: String,
    pub(crate) field: Field,
}

impl Report {
    pub(crate) fn new(
        scenario: &Scenario,
        chosen: RunOptions,
        results: &Results,
    ) -> anyhow::Result<Report> {
        let [plain, careful, weir] = results.summaries.as_slice() else {
            anyhow::bail!("{} summaries, not 3", results.summaries.len());
        };
        let RunOptions {
            seconds,
            seed,
            load,
            network,
            field,
        } = chosen;
        let run = RunParameters {
            policy: scenario.policy,
            seconds,
            seed,
            load,
            network,
            field,
            slo_ms: scenario.slo_ms,
            timeout_ms: PATIENCE.as_millis(),
            payload_bytes: scenario.load().payload_bytes,
            cores: scenario.budget.cores,
            static_capacity_rps: scenario.static_capacity_rps(),
            generator_late_ms_p99: results.lag.p99_ms,
            generator_late_ms_max: results.lag.max_ms,
        };
        Ok(Report {
            plain: plain.clone(),
            careful: careful.clone(),
            weir: weir.clone(),
            cycle_ms: Spread::of(results.cycles.iter().map(|(_, cycle)| cycle.cycle_ms)),
            plan_visible_ms: results.visible,
            plans: results
                .cycles
                .iter()
                .map(|(_, cycle)| cycle.plans_published)
                .sum(),
            run,
        })
    }

    /// Reasons why the run is invalid; empty if it is valid.
    pub(crate) fn problems(&self) -> Vec<String> {
        let sets = LISTENERS
            .into_iter()
            .zip([&self.plain, &self.careful, &self.weir]);
        let books = |(name, sum): (&str, &Summary)| Some(format!("{name}: {}", sum.check().err()?));
        let mut problems: Vec<String> = sets.filter_map(books).collect();
        let late = self.run.generator_late_ms_p99;
        if late > LAG_P99_MAX_MS {
            problems.push(format!(
                "the load generator sent 1 % of the requests more than {late:.0} ms late (at most \
                 {LAG_P99_MAX_MS:.0} ms): this machine is too busy for a valid run"
            ));
        }
        problems
    }

    /// The table for people.
    pub(crate) fn table(&self) -> String {
        let sums = [&self.plain, &self.careful, &self.weir];
        let mut rows: Vec<Vec<String>> = Vec::new();
        let mut row = |name: &str, value: &dyn Fn(&Summary) -> String| {
            let mut cells = vec![name.to_owned()];
            cells.extend(sums.iter().map(|sum| value(sum)));
            rows.push(cells);
        };
        row("sent", &|sum| sum.sent.to_string());
        row("answered on time", &|sum| counted(sum.on_time, sum.sent));
        row("answered late", &|sum| counted(sum.late, sum.sent));
        row("refused", &|sum| counted(sum.refused_total(), sum.sent));
        let reasons: std::collections::BTreeSet<&String> =
            sums.iter().flat_map(|sum| sum.refused.keys()).collect();
        for reason in reasons {
            row(&format!("   {reason}"), &|sum| {
                sum.refused
                    .get(reason)
                    .map_or_else(String::new, u64::to_string)
            });
        }
        row("client disconnected", &|sum| {
            counted(sum.disconnected, sum.sent)
        });
        row("lost", &|sum| sum.lost.to_string());
        row("executed twice", &|sum| sum.doubled.to_string());
        row("p50, end to end", &|sum| ms(sum.p50_ms));
        row("p95", &|sum| ms(sum.p95_ms));
        row("p99", &|sum| ms(sum.p99_ms));
        row("mean accuracy", &|sum| {
            sum.mean_accuracy
                .map_or_else(|| "–".to_owned(), |percent| format!("{percent:.2} %"))
        });
        row("core-seconds", &|sum| format!("{:.0}", sum.core_seconds));
        table([""].into_iter().chain(LISTENERS), rows)
    }

    /// The remaining figures, in sentences.
    pub(crate) fn notes(&self) -> String {
        let spread = |spread: Spread| format!("p50 {}, max {}", ms(spread.p50), ms(spread.max));
        let RunParameters {
            seconds,
            seed,
            load,
            network,
            field,
            slo_ms,
            payload_bytes,
            ..
        } = &self.run;
        format!(
            "{seconds} s, seed {seed}; SLO {slo_ms} ms from the client's send time; {payload_bytes} \
             bytes per request, sent in pieces as the network delivers them; servers are emulated, {field}.\n\
             load: {load}; network: {network}\n\
             planner: {} plans published; cycle {}; plan visible to a worker after {}\n\
             load generator: sent 99 % of the requests within {:.1} ms of their time, all within {:.1} ms",
            self.plans,
            spread(self.cycle_ms),
            spread(self.plan_visible_ms),
            self.run.generator_late_ms_p99,
            self.run.generator_late_ms_max,
        )
    }
}

fn counted(count: u64, of: u64) -> String {
    format!("{count}  {:5.1} %", 100.0 * count as f64 / of.max(1) as f64)
}

fn ms(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), |ms| format!("{ms:.1} ms"))
}

#[cfg(test)]
mod tests {
    use weir_bed::load::Lag;

    use super::*;

    fn report(sums: [Summary; 3], late_ms: f64) -> Report {
        let results = Results {
            summaries: sums.to_vec(),
            outcomes: Vec::new(),
            lag: Lag {
                p99_ms: late_ms,
                max_ms: late_ms,
            },
            cycles: Vec::new(),
            visible: Spread::default(),
        };
        let chosen = RunOptions {
            seconds: 10,
            seed: 1,
            load: "swell".into(),
            network: "synthetic".into(),
            field: Field::default(),
        };
        Report::new(
            &Scenario::shipped(Policy::Infadapter).unwrap(),
            chosen,
            &results,
        )
        .unwrap()
    }

    #[test]
    fn run_with_wrong_counts_or_late_generator_is_invalid() {
        let good = Summary {
            sent: 2,
            on_time: 2,
            ..Summary::default()
        };
        let lost = Summary {
            sent: 2,
            on_time: 1,
            lost: 1,
            ..Summary::default()
        };
        let all = || [good.clone(), good.clone(), good.clone()];
        assert_eq!(report(all(), 5.0).problems(), Vec::<String>::new());
        let problems = report([good.clone(), lost, good.clone()], 5.0).problems();
        assert_eq!(problems, ["careful: 1 of 2 were lost"]);
        assert!(report(all(), 80.0).problems()[0].contains("80 ms late"));
    }

    #[test]
    fn report_json_has_stable_keys() {
        let refused = Summary {
            sent: 1,
            refused: [("expired".into(), 1)].into(),
            ..Summary::default()
        };
        let report = report([refused.clone(), refused.clone(), refused], 1.0);
        let json = serde_json::to_value(&report).unwrap();
        for listener in LISTENERS {
            let keys: Vec<&String> = json[listener].as_object().unwrap().keys().collect();
            for key in [
                "sent",
                "on_time",
                "late",
                "refused",
                "disconnected",
                "lost",
                "doubled",
                "p50_ms",
                "p95_ms",
                "p99_ms",
                "mean_accuracy",
                "core_seconds",
            ] {
                assert!(keys.iter().any(|found| *found == key), "{listener}.{key}");
            }
        }
        assert_eq!(json["weir"]["refused"]["expired"], 1);
        for pointer in [
            "/cycle_ms/p50",
            "/cycle_ms/max",
            "/plan_visible_ms/max",
            "/plans",
        ] {
            assert!(json.pointer(pointer).is_some(), "{pointer}");
        }
        assert!(report.table().contains("expired"));
    }
}
