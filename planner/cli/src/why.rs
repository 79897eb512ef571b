//! `weir why`: the latest decisions of a planner, with their reasons, what limits them and what is in their way. Cycles
//! in a row with the same decision are one.

use weir_planner::telemetry::status::CYCLES_MAX;

use crate::inspect::view::{CycleView, StatusView};
use crate::inspect::{PlannerArguments, screen, status};
use crate::output::print;

/// Maximum number of cycles: what a planner remembers.
const CYCLES: i64 = CYCLES_MAX as i64;

/// Arguments of `weir why`.
#[derive(Debug, clap::Args)]
#[command(after_help = crate::exit::HELP)]
pub(crate) struct Why {
    #[command(flatten)]
    planner: PlannerArguments,
    /// Number of the latest cycles, of which those with the same decision in a row are shown as one.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u16).range(1..=CYCLES))]
    cycles: u16,
}

impl Why {
    /// # Errors
    /// A planner that does not answer, or refuses.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let api = self.planner.api()?;
        let mut text = String::new();
        for service in self.planner.services(&api).await? {
            let view = status(&api, &service, usize::from(self.cycles)).await?;
            let gap = if text.is_empty() { "" } else { "\n" };
            text += &format!("{gap}{}", decisions(&view));
        }
        print(text)
    }
}

/// Returns the decisions, oldest first.
fn decisions(view: &StatusView) -> String {
    let mut text = format!(
        "service {}: {} cycles, times in UTC\n",
        view.service,
        view.cycles.len()
    );
    let same = |a: &CycleView, b: &CycleView| a.is_same_decision(b);
    for run in view.cycles.chunk_by(same) {
        let (Some(first), Some(last)) = (run.first(), run.last()) else {
            continue;
        };
        let since = screen::time_of_day(first.at_ms);
        let time = match run.len() {
            1 => since,
            count => {
                let until = screen::time_of_day(last.at_ms);
                format!("{since} to {until}, {count} cycles")
            }
        };
        let kept = if last.kept {
            ", the actual cores are kept"
        } else {
            ""
        };
        text += &format!("{time}: {}{kept}\n", last.outcome);
        text += &format!("  why: {}\n", last.why);
        let targets = last.variants.iter().map(|(name, variant)| {
            let cores = screen::change(variant.cores_actual, variant.cores_target);
            format!("{name} {cores} cores, {:.1} %", 100.0 * variant.share)
        });
        text += &format!("  plan: {}\n", targets.collect::<Vec<_>>().join("; "));
        text += &format!("  limits: {}\n", screen::limits(view, last));
        for line in screen::blockers(last) {
            text += &format!("  blocked: {line}\n");
        }
        if last.scrapes_failed > 0 {
            let (failed, answered) = (last.scrapes_failed, last.scrapes_answered);
            text += &format!("  scrapes: {failed} failed, {answered} answered\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::inspect::screen::tests::{example, view};

    #[test]
    fn equal_decisions_in_a_row_are_one() {
        let mut status = example();
        let cycle = |at_ms: u64, why: &str, target: f64| {
            let mut cycle = status["latest"].clone();
            cycle["at_ms"] = json!(at_ms);
            cycle["why"] = json!(why);
            cycle["variants"]["a"]["cores_target"] = json!(target);
            cycle
        };
        let cycles = json!([
            cycle(0, "first", 2.0),
            cycle(1000, "second", 2.0),
            cycle(2000, "third", 1.0),
        ]);
        status["cycles"] = cycles;
        status["cycles"][2]["scrapes_failed"] = json!(1);
        let text = decisions(&view(status));
        let expected = "service demo: 3 cycles, times in UTC\n\
            00:00:00 to 00:00:01, 2 cycles: optimal\n  why: second\n  plan: a 2 cores, 50.0 %; b 2 → 6 cores, 50.0 %\n";
        assert!(text.starts_with(expected), "{text}");
        let third = text.split("00:00:02: optimal\n  why: third\n").nth(1);
        let third = third.expect("the third decision");
        for part in [
            "  plan: a 2 → 1 cores, 50.0 %",
            "  limits: cores 7 of 8, memory 3 of 4\n",
            "  blocked: b, cores 2 → 6: Deferred: the node has no room\n",
            "  scrapes: 1 failed, 1 answered\n",
        ] {
            assert!(third.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("first"), "{text}");
    }
}
