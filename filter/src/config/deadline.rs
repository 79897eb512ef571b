//! Configuration of deadlines: bounds, and the headers that carry a budget.

use serde::Deserialize;
use weir_api::plan::HOUR_MS;

use super::ConfigError;
use super::error::wrong;
use crate::request::budget::{BudgetHeader, Source, Unit};
use crate::request::deadline::Policy;
use crate::request::wire::{BUDGETS_MAX, Field};
use crate::time::Span;

/// Maximum length of a header's name.
const NAME_MAX: usize = 64;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawDeadline {
    default_ms: u64,
    min_ms: u64,
    max_ms: u64,
    max_age_ms: u64,
    skew_allowance_ms: u64,
    reserve_ms: u64,
    finish_ms: u64,
    trust_deadline: bool,
    budget_headers: Option<Vec<RawBudget>>,
}

/// Header with a budget.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBudget {
    name: String,
    unit: RawUnit,
    #[serde(default)]
    caps: bool,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum RawUnit {
    Ms,
    S,
    Go,
    Grpc,
    Epoch,
}

impl Default for RawDeadline {
    fn default() -> RawDeadline {
        RawDeadline {
            default_ms: 1000,
            min_ms: 10,
            max_ms: 60_000,
            // Longer than any reasonable upload, shorter than the minutes by which phone clocks are off.
            max_age_ms: 30_000,
            // Offset within which NTP keeps clocks, with a margin.
            skew_allowance_ms: 50,
            reserve_ms: 0,
            // Longer than an honest client takes to read an answer that has begun.
            finish_ms: 10_000,
            trust_deadline: false,
            budget_headers: None,
        }
    }
}

impl RawDeadline {
    /// Returns the checked policy, and the names of the headers with budgets that are not known to the filter.
    pub(super) fn check(
        &self,
        delay_allowance: Span,
    ) -> Result<(Policy, Vec<String>), ConfigError> {
        let hour = format!("1 to {HOUR_MS}");
        for (path, value) in [
            ("deadline.default_ms", self.default_ms),
            ("deadline.min_ms", self.min_ms),
            ("deadline.max_ms", self.max_ms),
        ] {
            if !(1..=HOUR_MS).contains(&value) {
                return Err(wrong(path, value, hour.clone()));
            }
        }
        if self.min_ms > self.max_ms {
            let right = format!("at most deadline.max_ms ({})", self.max_ms);
            return Err(wrong("deadline.min_ms", self.min_ms, right));
        }
        if !(self.min_ms..=self.max_ms).contains(&self.default_ms) {
            let right = format!("min_ms to max_ms ({} to {})", self.min_ms, self.max_ms);
            return Err(wrong("deadline.default_ms", self.default_ms, right));
        }
        for (path, value) in [
            ("deadline.max_age_ms", self.max_age_ms),
            ("deadline.skew_allowance_ms", self.skew_allowance_ms),
            ("deadline.finish_ms", self.finish_ms),
        ] {
            if value > HOUR_MS {
                return Err(wrong(path, value, format!("0 to {HOUR_MS}")));
            }
        }
        if self.reserve_ms >= self.max_ms {
            let right = format!("less than deadline.max_ms ({})", self.max_ms);
            return Err(wrong("deadline.reserve_ms", self.reserve_ms, right));
        }
        let (budgets, names) = match &self.budget_headers {
            None => (BudgetHeader::KNOWN.to_vec(), Vec::new()),
            Some(headers) => check_budgets(headers)?,
        };
        let ms = Span::from_millis;
        let policy = Policy {
            default: ms(self.default_ms),
            min: ms(self.min_ms),
            max: ms(self.max_ms),
            max_age: ms(self.max_age_ms),
            skew_allowance: ms(self.skew_allowance_ms),
            delay_allowance,
            reserve: ms(self.reserve_ms),
            finish: ms(self.finish_ms),
            trust_deadline: self.trust_deadline,
            budgets,
        };
        Ok((policy, names))
    }
}

/// Checks the headers with budgets; returns them, and the names of those that are not known to the filter.
fn check_budgets(headers: &[RawBudget]) -> Result<(Vec<BudgetHeader>, Vec<String>), ConfigError> {
    let mut checked: Vec<BudgetHeader> = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for (index, header) in headers.iter().enumerate() {
        let path = || format!("deadline.budget_headers[{index}].name");
        let name = header.name.as_str();
        let token = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        if !name.bytes().all(token) || !(1..=NAME_MAX).contains(&name.len()) {
            let right = format!("a header's name, 1 to {NAME_MAX} of a-z, 0-9 and -");
            return Err(wrong(path(), format!("'{name}'"), right));
        }
        if headers.iter().take(index).any(|before| before.name == name) {
            return Err(wrong(path(), format!("'{name}'"), "named once".to_owned()));
        }
        let of_name = |known: &&BudgetHeader| match known.source {
            Source::Known(field) => field.name() == name,
            Source::Named(_) => false,
        };
        let known = BudgetHeader::KNOWN.iter().find(of_name);
        let is_other = known.is_none() && Field::ALL.iter().any(|field| field.name() == name);
        if is_other {
            let right = "a header that the filter reads for nothing else".to_owned();
            return Err(wrong(path(), format!("'{name}'"), right));
        }
        let source = match known {
            Some(known) => known.source,
            None => {
                names.push(name.to_owned());
                Source::Named(names.len() - 1)
            }
        };
        let unit = match header.unit {
            RawUnit::Ms if source == Source::Known(Field::EnvoyTimeoutMs) => Unit::MsOrNone,
            RawUnit::Ms => Unit::Ms,
            RawUnit::S => Unit::S,
            RawUnit::Go => Unit::Go,
            RawUnit::Grpc => Unit::Grpc,
            RawUnit::Epoch => Unit::Epoch,
        };
        checked.push(BudgetHeader {
            source,
            unit,
            caps: header.caps,
        });
    }
    if names.len() > BUDGETS_MAX {
        let right =
            format!("at most {BUDGETS_MAX} headers that the filter does not know by itself");
        return Err(wrong("deadline.budget_headers", names.len(), right));
    }
    Ok((checked, names))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn parse(headers: &str) -> Result<Config, ConfigError> {
        let plan = r#""plan":{"variants":[{"name":"a","cluster":"a","share":1,"slots":1,"service_ms":1,"accuracy":70}]}"#;
        let deadline = format!(r#""deadline":{{"budget_headers":{headers}}}"#);
        Config::parse(format!(r#"{{"service":"demo",{plan},{deadline}}}"#).as_bytes())
    }

    #[test]
    fn budget_headers_replace_those_that_are_known() {
        let config = parse(
            r#"[{"name":"expect-within","unit":"go"},{"name":"x-slo-ms","unit":"s","caps":true},
                {"name":"x-envoy-expected-rq-timeout-ms","unit":"ms"}]"#,
        );
        let config = config.unwrap();
        assert_eq!(config.budget_headers, ["expect-within"]);
        let header = |source, unit, caps| BudgetHeader { source, unit, caps };
        assert_eq!(
            config.deadline.budgets,
            [
                header(Source::Named(0), Unit::Go, false),
                header(Source::Known(Field::SloMs), Unit::S, true),
                header(Source::Known(Field::EnvoyTimeoutMs), Unit::MsOrNone, false),
            ]
        );
        assert_eq!(parse("[]").unwrap().deadline.budgets, []);
        assert_eq!(parse("null").unwrap().deadline.budgets, BudgetHeader::KNOWN);
    }

    #[test]
    fn wrong_budget_headers_are_refused_with_their_path() {
        let one = |name: &str| format!(r#"{{"name":"{name}","unit":"ms"}}"#);
        let many: Vec<String> = (0..=BUDGETS_MAX).map(|n| one(&format!("h{n}"))).collect();
        for (headers, message) in [
            (
                format!("[{}]", one("X-Budget")),
                "deadline.budget_headers[0].name: 'X-Budget' must be a header's name",
            ),
            (
                format!("[{}]", one("")),
                "deadline.budget_headers[0].name: '' must be",
            ),
            (
                format!("[{0},{0}]", one("x-b")),
                "deadline.budget_headers[1].name: 'x-b' must be named once",
            ),
            (
                format!("[{}]", one("x-slo-class")),
                "deadline.budget_headers[0].name: 'x-slo-class' must be a header that the filter reads for nothing else",
            ),
            (
                format!("[{}]", many.join(",")),
                "deadline.budget_headers: 9 must be at most 8",
            ),
            (
                r#"[{"name":"x-b","unit":"us"}]"#.to_owned(),
                "unknown variant `us`, expected one of `ms`, `s`, `go`, `grpc`, `epoch`",
            ),
            (r#"[{"name":"x-b"}]"#.to_owned(), "missing field `unit`"),
        ] {
            let error = parse(&headers).unwrap_err().to_string();
            assert!(error.contains(message), "{headers}: {error}");
        }
    }
}
