//! Summaries as a table with a row for each figure and a column for each contender; for text and HTML.

use std::collections::BTreeSet;

use crate::bound::Kind;
use crate::report::shared::OfBudget;
use crate::report::summary::Summary;

/// Maximum line length of a column's header.
const HEAD_MAX: usize = 18;

/// Row with a name and a cell for each contender.
pub(super) struct Row {
    pub(super) name: String,
    pub(super) cells: Vec<String>,
}

/// Formats the table for a terminal.
pub(super) fn text(sums: &[Summary]) -> String {
    let names = sums.iter().map(|sum| folded(&sum.contender));
    let header = [String::new()].into_iter().chain(names);
    let row = |row: Row| [row.name].into_iter().chain(row.cells);
    weir_draw::table(header, rows(sums).into_iter().map(row))
}

/// Formats the table of the cores of all services for a terminal.
pub(super) fn of_budget(sums: &[OfBudget]) -> String {
    let names = sums.iter().map(|sum| folded(&sum.contender));
    let header = [String::new()].into_iter().chain(names);
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut row = |name: &str, cell: &dyn Fn(&OfBudget) -> String| {
        let cells = sums.iter().map(cell);
        rows.push([name.to_owned()].into_iter().chain(cells).collect());
    };
    row("sent", &|sum| sum.sent.to_string());
    row("on time", &|sum| counted(sum.on_time, sum.sent));
    row("budget, cores", &|sum| sum.budget_cores.to_string());
    row("   actual, mean", &|sum| format!("{:.1}", sum.cores_mean));
    row("   actual, max", &|sum| sum.cores_max.to_string());
    row("   reserved, max", &|sum| sum.reserved_max.to_string());
    row("core-seconds", &|sum| format!("{:.0}", sum.core_seconds));
    row("changes of the parts", &|sum| sum.divisions.to_string());
    let parts = sums.first().map_or(0, |sum| sum.parts.len());
    for at in 0..parts {
        let part = |sum: &OfBudget| sum.parts.get(at).cloned();
        let name = sums.first().and_then(part).map(|part| part.service);
        row(&format!("   {}", name.unwrap_or_default()), &|sum| {
            or_none(part(sum), |part| {
                let (min, mean, max) = (part.min_cores, part.mean_cores, part.max_cores);
                format!("{min} … {mean:.1} … {max}")
            })
        });
    }
    weir_draw::table(header, rows)
}

/// Wraps a name at spaces to about the width of a cell.
fn folded(name: &str) -> String {
    let mut lines = String::new();
    let mut length = 0;
    for word in name.split(' ') {
        let more = word.chars().count() + 1;
        if length > 0 && length + more > HEAD_MAX {
            lines.push('\n');
            length = 0;
        } else if length > 0 {
            lines.push(' ');
        }
        lines.push_str(word);
        length += more;
    }
    lines
}

/// Returns all rows, without optional ones that are empty or zero for every contender.
pub(super) fn rows(sums: &[Summary]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let mut row = |name: &str, cell: &dyn Fn(&Summary) -> String| {
        rows.push(Row {
            name: name.to_owned(),
            cells: sums.iter().map(cell).collect(),
        });
    };
    row("sent", &|sum| sum.sent.to_string());
    row("on time", &|sum| counted(sum.on_time, sum.sent));
    let classes = sums.first().map_or(0, |sum| sum.classes.len());
    for at in 0..classes {
        let class = |sum: &Summary| sum.classes.get(at).cloned();
        let name = sums.first().and_then(class).map(|class| class.name);
        row(&format!("   {}", name.unwrap_or_default()), &|sum| {
            or_none(class(sum), |class| counted(class.on_time, class.sent))
        });
    }
    if sums.iter().any(|sum| sum.bound.is_some()) {
        row("bound: most on time", &|sum| {
            let bound = sum.bound.as_ref().map(|yardstick| &yardstick.bound);
            or_none(bound, |bound| {
                format!("{} {}", sign(bound.kind), counted(bound.on_time, sum.sent))
            })
        });
        row("   reached", &|sum| {
            let reached = sum.bound.as_ref().and_then(|bound| bound.reached_percent);
            or_none(reached, |percent| format!("{percent:.1} %"))
        });
    }
    if sums.iter().any(|sum| sum.too_inaccurate > 0) {
        row("less accurate than requested", &|sum| {
            counted(sum.too_inaccurate, sum.sent)
        });
    }
    row("late", &|sum| counted(sum.late, sum.sent));
    row("refused", &|sum| counted(sum.refused_total(), sum.sent));
    let reasons: BTreeSet<&str> = sums
        .iter()
        .flat_map(|sum| sum.refused.keys().copied())
        .collect();
    for reason in reasons {
        row(&format!("   {reason}"), &|sum| {
            or_none(sum.refused.get(reason), u64::to_string)
        });
    }
    row("refused within 50 ms", &|sum| {
        or_none(sum.refused_at_once_percent, |percent| {
            format!("{percent:.1} %")
        })
    });
    row("client disconnected", &|sum| {
        counted(sum.disconnected, sum.sent)
    });
    row("lost", &|sum| sum.lost.to_string());
    row("p50, end to end", &|sum| ms(sum.p50_ms));
    row("p95", &|sum| ms(sum.p95_ms));
    row("p99", &|sum| ms(sum.p99_ms));
    row("max", &|sum| ms(sum.max_ms));
    row("mean accuracy", &|sum| {
        or_none(sum.mean_accuracy, |percent| format!("{percent:.2} %"))
    });
    row("core-seconds", &|sum| format!("{:.0}", sum.core_seconds));
    if sums.iter().any(|sum| sum.min_core_seconds.is_some()) {
        row("   for as many, at least", &|sum| {
            or_none(sum.min_core_seconds.as_ref(), |min| {
                format!("{:.0}", min.core_seconds)
            })
        });
    }
    if sums.iter().any(|sum| sum.mean_cost.is_some()) {
        row("mean cost", &|sum| {
            or_none(sum.mean_cost, |cost| format!("{cost:.3}"))
        });
    }
    row("plans", &|sum| sum.plans.to_string());
    row("resizes", &|sum| sum.resizes.to_string());
    rows
}

/// Relation sign of a bound's number.
fn sign(kind: Kind) -> &'static str {
    match kind {
        Kind::Exact => "=",
        Kind::Upper => "≤",
        Kind::Estimate => "≲",
    }
}

fn counted(count: u64, of: u64) -> String {
    format!("{count}  {:5.1} %", 100.0 * count as f64 / of.max(1) as f64)
}

fn ms(value: Option<f64>) -> String {
    or_none(value, |ms| format!("{ms:.1} ms"))
}

fn or_none<T>(value: Option<T>, text: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "–".to_owned(), text)
}
