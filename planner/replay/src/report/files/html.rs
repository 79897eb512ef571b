//! HTML page: sums, bounds and figures in one file without scripts or external fonts and images. Names
//! from the scenario are escaped.

use super::figures::Figure;
use super::table::{Row, rows};
use crate::report::ScenarioInfo;
use crate::report::summary::Summary;
use weir_draw::Stroke;

const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:16px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.6rem}h2{font-size:1.2rem;margin:2.2rem 0 .3rem}\
p,li{max-width:48rem}.note{opacity:.75;font-size:.9rem;margin:.2rem 0 .6rem}\
.wide{overflow-x:auto;position:relative;left:50%;transform:translateX(-50%);width:max-content;min-width:100%;\
max-width:96vw}table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums}\
th,td{padding:.15rem .7rem;border-bottom:1px solid #8884;text-align:right;white-space:pre}\
th:first-child,td:first-child{text-align:left}thead th{white-space:normal;vertical-align:bottom}\
figure{margin:0}svg{width:100%;height:auto}\
.key{display:flex;flex-wrap:wrap;gap:.1rem 1.2rem;list-style:none;padding:0;margin:.2rem 0;font-size:.9rem}\
.key i{display:inline-block;width:1.4rem;margin-right:.4rem;vertical-align:middle}";

/// Returns the whole file.
pub(super) fn page(scenario: &ScenarioInfo, sums: &[Summary], figures: &[Figure]) -> String {
    let title = format!("Replay: {}", escaped(&scenario.name));
    let figures: String = figures.iter().map(figure).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{}{}{}{figures}</body>\n</html>\n",
        stated(scenario),
        table(sums),
        bounds(sums),
    )
}

fn stated(scenario: &ScenarioInfo) -> String {
    let ScenarioInfo {
        name: _,
        seed,
        length_s,
        requests,
        offered_rps,
        variants,
        proxies,
        workers,
        faults,
    } = scenario;
    format!(
        "<p>{requests} requests in {length_s} s ({offered_rps:.1}/s), seed {seed}; variants {}; \
         proxies: {proxies}, workers of each: {workers}; faults: {faults}. In virtual time, with modelled \
         clients, networks and servers.</p>\n",
        escaped(&variants.join(", ")),
    )
}

fn table(sums: &[Summary]) -> String {
    let heads: String = sums
        .iter()
        .map(|sum| format!("<th>{}</th>", escaped(&sum.contender)))
        .collect();
    let line = |row: Row| {
        let cells: String = row
            .cells
            .iter()
            .map(|cell| format!("<td>{}</td>", escaped(cell)))
            .collect();
        format!("<tr><td>{}</td>{cells}</tr>\n", escaped(&row.name))
    };
    let lines: String = rows(sums).into_iter().map(line).collect();
    format!(
        "<div class=\"wide\"><table>\n<thead><tr><th></th>{heads}</tr></thead>\n<tbody>\n{lines}</tbody>\n\
         </table></div>\n<p class=\"note\">Latencies and accuracy are of all answers, late ones included.</p>\n"
    )
}

/// Explanations of the bounds, without repetition.
fn bounds(sums: &[Summary]) -> String {
    let mut explanations: Vec<String> = Vec::new();
    for yardstick in sums.iter().filter_map(|sum| sum.bound.as_ref()) {
        let bound = &yardstick.bound;
        let kind = match bound.kind {
            crate::bound::Kind::Exact => "the optimum (=)",
            crate::bound::Kind::Upper => "an upper bound (≤)",
            crate::bound::Kind::Estimate => "an upper bound but for luck (≲)",
        };
        explanations.push(format!(
            "Most on time, {kind}, by {}: {}.",
            bound.method, bound.why
        ));
    }
    for min in sums.iter().filter_map(|sum| sum.min_core_seconds.as_ref()) {
        explanations.push(format!(
            "Least core-seconds, a lower bound, by {}: {}.",
            min.method, min.why
        ));
    }
    let mut once: Vec<String> = Vec::new();
    for line in explanations {
        if !once.contains(&line) {
            once.push(line);
        }
    }
    let lines: String = once
        .iter()
        .map(|line| format!("<li>{}</li>\n", escaped(line)))
        .collect();
    if lines.is_empty() {
        return String::new();
    }
    format!("<h2>What nobody could have beaten</h2>\n<ul class=\"note\">\n{lines}</ul>\n")
}

fn figure(figure: &Figure) -> String {
    let entry = |(name, stroke): &(String, Stroke)| {
        let line = match stroke {
            Stroke::Solid(_) => format!("border-top:3px solid {}", stroke.html()),
            Stroke::Dashed(_) => format!("border-top:3px dashed {}", stroke.html()),
            Stroke::Area(_) => format!("height:.8rem;background:{}", stroke.html()),
            Stroke::Marks(_) => {
                format!(
                    "height:.6rem;width:.6rem;border-radius:50%;background:{}",
                    stroke.html()
                )
            }
        };
        format!("<li><i style=\"{line}\"></i>{}</li>", escaped(name))
    };
    let key: String = figure.key.iter().map(entry).collect();
    let title = escaped(&figure.title);
    let label = format!("<svg role=\"img\" aria-label=\"{title}\" ");
    let svg = figure.svg.replacen("<svg ", &label, 1);
    let caption = escaped(&figure.caption);
    format!(
        "<h2>{title}</h2>\n<figure>\n<figcaption class=\"note\">{caption}</figcaption>\n\
         <ul class=\"key\">{key}</ul>\n{svg}</figure>\n"
    )
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}
