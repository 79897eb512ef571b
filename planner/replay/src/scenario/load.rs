//! Sending times of requests: written rates, generated rates, rates from a file, or records. All become
//! arrivals here.

use std::path::Path;
use std::time::Duration;

use weir_sim::load::{Pulse, REQUESTS_MAX, Rates, SECONDS_MAX, UnnamedTrace, read_trace};

use super::raw::{Budgets, Generator, RawLoad};
use super::refused::{ScenarioError, within};
use crate::input::records::{self, Rule};
use crate::input::seed::{Draw, seed};
use crate::input::{Arrival, rounded_up};

/// Maximum factor on a load.
const FACTOR_MAX: f64 = 1000.0;
/// Default limit on a silence in records or a trace, in seconds: a longer one is probably a recording gap.
const SILENCE_S: f64 = 60.0;

/// Context of a load.
pub(super) struct LoadContext<'a> {
    pub(super) length_s: Option<u64>,
    pub(super) folder: &'a Path,
    pub(super) classes: &'a [String],
    /// Throughput of the servers with their initial cores, requests/s.
    pub(super) capacity_rps: f64,
    pub(super) seed: u64,
    /// Maximum number of requests.
    pub(super) requests_max: usize,
}

/// Checked load.
pub(super) struct Load {
    /// Arrivals, in order.
    pub(super) arrivals: Vec<Arrival>,
    /// Seconds that they span.
    pub(super) length_s: u64,
    /// Records that arrive after those seconds, and are not sent.
    pub(super) left_out: usize,
}

/// Returns the load as it is sent.
pub(super) fn load(raw: &RawLoad, context: &LoadContext<'_>) -> Result<Load, ScenarioError> {
    let sources = [
        raw.rates.is_some(),
        raw.generator.is_some(),
        raw.file.is_some(),
        raw.records.is_some(),
    ];
    let count = sources.iter().filter(|given| **given).count();
    if count != 1 {
        let right = "exactly one of rates, generator, file and records";
        return Err(ScenarioError::value(
            "load",
            format!("{count} of them"),
            right,
        ));
    }
    if let Some(length_s) = context.length_s {
        within("length_s", length_s, 1..=SECONDS_MAX as u64, "s")?;
    }
    only(raw)?;
    if let Some(path) = &raw.records {
        return from_records(raw, path, context);
    }
    let rates = match (&raw.rates, raw.generator, &raw.file) {
        (_, Some(generator), _) => generated(raw, generator, context)?,
        (_, _, Some(path)) => {
            let path = context.folder.join(path);
            let trace = read_trace(&path, raw.key.as_deref());
            let trace = trace.map_err(|error| {
                let by = if error.is::<UnnamedTrace>() {
                    " with load.key"
                } else {
                    ""
                };
                ScenarioError::about("load.file", format!("{error:#}{by}"))
            })?;
            let rates = part(raw, "load.file", &trace, context)?;
            no_gap(raw, rates.rps())?;
            rates
        }
        (rates, ..) => part(
            raw,
            "load.rates",
            rates.as_deref().unwrap_or_default(),
            context,
        )?,
    };
    let rates = scaled(raw, rates, context)?;
    let expected: f64 = rates.rps().iter().sum();
    let most = context.requests_max.min(REQUESTS_MAX);
    if expected > most as f64 || expected <= 0.0 {
        let right = format!("1 to {most}: change the rates or length_s");
        return Err(ScenarioError::value(
            "load",
            format!("{expected:.0} requests"),
            right,
        ));
    }
    let sent = rates
        .arrivals(seed(context.seed, Draw::Arrivals))
        .map_err(|error| ScenarioError::about("load", format!("{error:#}")))?;
    let arrivals = sent.into_iter().take(REQUESTS_MAX).map(Arrival::at);
    Ok(Load {
        arrivals: arrivals.collect(),
        length_s: rates.rps().len() as u64,
        left_out: 0,
    })
}

/// Refuses keys that belong to another kind of load.
fn only(raw: &RawLoad) -> Result<(), ScenarioError> {
    let (kind, takes): (_, &[&str]) = match raw.generator {
        _ if raw.records.is_some() => ("records", &["ties", "silence_s", "budgets"]),
        _ if raw.rates.is_some() => ("rates", &["loop", "scale", "of_capacity"]),
        _ if raw.file.is_some() => (
            "file",
            &["key", "from_s", "loop", "silence_s", "scale", "of_capacity"],
        ),
        Some(Generator::Poisson) => ("poisson", &["rps", "scale", "of_capacity"]),
        Some(Generator::Diurnal) => (
            "diurnal",
            &["low_rps", "high_rps", "period_s", "scale", "of_capacity"],
        ),
        Some(Generator::Burst | Generator::OnOff) => (
            "burst and on-off",
            &[
                "low_rps",
                "high_rps",
                "low_s",
                "high_s",
                "scale",
                "of_capacity",
            ],
        ),
        Some(Generator::Step) => (
            "step",
            &["low_rps", "high_rps", "at_s", "scale", "of_capacity"],
        ),
        Some(Generator::Ramp | Generator::Swell) | None => (
            "ramp and swell",
            &["low_rps", "high_rps", "scale", "of_capacity"],
        ),
    };
    let given = [
        ("rps", raw.rps.is_some()),
        ("low_rps", raw.low_rps.is_some()),
        ("high_rps", raw.high_rps.is_some()),
        ("period_s", raw.period_s.is_some()),
        ("at_s", raw.at_s.is_some()),
        ("low_s", raw.low_s.is_some()),
        ("high_s", raw.high_s.is_some()),
        ("key", raw.key.is_some()),
        ("from_s", raw.from_s.is_some()),
        ("loop", raw.again.is_some()),
        ("ties", raw.ties.is_some()),
        ("silence_s", raw.silence_s.is_some()),
        ("budgets", raw.budgets.is_some()),
        ("scale", raw.scale.is_some()),
        ("of_capacity", raw.of_capacity.is_some()),
    ];
    for (key, _) in given.iter().filter(|(_, given)| *given) {
        if !takes.contains(key) {
            let right = format!("left out: {kind} takes {}", takes.join(", "));
            return Err(ScenarioError::value(format!("load.{key}"), "given", right));
        }
    }
    if raw.scale.is_some() && raw.of_capacity.is_some() {
        let right = "left out: of_capacity already says how much it is";
        return Err(ScenarioError::value("load.scale", "given", right));
    }
    Ok(())
}

fn generated(
    raw: &RawLoad,
    generator: Generator,
    context: &LoadContext<'_>,
) -> Result<Rates, ScenarioError> {
    let length = context
        .length_s
        .ok_or_else(|| ScenarioError::value("length_s", "missing", "given with a generator"))?;
    let whole = |key: &str, value: Option<u64>| {
        let path = format!("load.{key}");
        let value = value.ok_or_else(|| ScenarioError::value(&path, "missing", "given"))?;
        within(path, value, 1..=SECONDS_MAX as u64, "s").map(|seconds| seconds as usize)
    };
    let rate = |key: &str, value: Option<f64>| {
        value.ok_or_else(|| ScenarioError::value(format!("load.{key}"), "missing", "given"))
    };
    let low = || rate("low_rps", raw.low_rps);
    let high = || rate("high_rps", raw.high_rps);
    let pulse = || {
        Ok::<_, ScenarioError>(Pulse {
            low_rps: low()?,
            high_rps: high()?,
            low_s: whole("low_s", raw.low_s)?,
            high_s: whole("high_s", raw.high_s)?,
        })
    };
    let seconds = length as usize;
    let rates = match generator {
        Generator::Poisson => {
            // A multiple of capacity needs no rate beside it.
            let level = raw.rps.or(raw.of_capacity.map(|_| 1.0));
            Rates::constant(rate("rps", level)?, seconds)
        }
        Generator::Diurnal => {
            Rates::diurnal(low()?, high()?, whole("period_s", raw.period_s)?, seconds)
        }
        Generator::Burst => Rates::bursts(pulse()?, seed(context.seed, Draw::Shape), seconds),
        Generator::Ramp => Rates::ramp(low()?, high()?, seconds),
        Generator::Step => {
            let at = whole("at_s", raw.at_s)?;
            within(
                "load.at_s",
                at as u64,
                1..=length.saturating_sub(1),
                "s, before length_s",
            )?;
            Rates::step(low()?, high()?, at, seconds)
        }
        Generator::OnOff => Rates::on_off(pulse()?, seconds),
        Generator::Swell => Rates::swell(low()?, high()?, seconds),
    };
    rates.map_err(|error| ScenarioError::about("load", format!("{error:#}")))
}

/// Returns the part of `trace` that is played.
fn part(
    raw: &RawLoad,
    path: &str,
    trace: &[f64],
    context: &LoadContext<'_>,
) -> Result<Rates, ScenarioError> {
    let whole = trace.len() as u64;
    let last = whole.saturating_sub(1);
    let from = within("load.from_s", raw.from_s.unwrap_or(0), 0..=last, "s")?;
    let left = whole - from;
    let length = context.length_s.unwrap_or(left);
    if length > left && raw.again != Some(true) {
        let complaint = format!(
            "it has {whole} s, {left} s from second {from} on; length_s is {length} s: \
             shorten it, or say `loop: true` in load"
        );
        return Err(ScenarioError::about(path, complaint));
    }
    if context.length_s.is_none() {
        let unit = format!("s; the trace has {length} s, so say which part of it");
        within("length_s", length, 1..=SECONDS_MAX as u64, &unit)?;
    }
    let rates = trace.iter().copied().cycle().skip(from as usize);
    Rates::new(rates.take(length as usize).collect())
        .map_err(|error| ScenarioError::about(path, format!("{error:#}")))
}

/// Refuses a part of a trace with a gap: more zeros in a row than `silence_s` allows.
fn no_gap(raw: &RawLoad, rates: &[f64]) -> Result<(), ScenarioError> {
    let most = silence(raw)?;
    let from = raw.from_s.unwrap_or(0) as usize;
    let mut begins = 0;
    for (second, rate) in (1..).zip(rates) {
        if *rate > 0.0 {
            begins = second;
        } else if Duration::from_secs((second - begins) as u64) > most {
            let rest = rates.iter().skip(begins);
            let zeros = rest.take_while(|rate| **rate <= 0.0).count();
            let complaint = format!(
                "{}: {zeros} s without a request from second {} on; it must be at most {} s: \
                 choose another part, or say with `silence_s` in load that they are meant",
                raw.file.as_deref().unwrap_or_default(),
                from + begins,
                most.as_secs_f64()
            );
            return Err(ScenarioError::about("load.file", complaint));
        }
    }
    Ok(())
}

fn silence(raw: &RawLoad) -> Result<Duration, ScenarioError> {
    let silence = raw.silence_s.unwrap_or(SILENCE_S);
    within("load.silence_s", silence, 0.001..=SECONDS_MAX as f64, "s").map(Duration::from_secs_f64)
}

fn scaled(raw: &RawLoad, rates: Rates, context: &LoadContext<'_>) -> Result<Rates, ScenarioError> {
    let factor = match (raw.scale, raw.of_capacity) {
        (_, Some(multiple)) => {
            let path = "load.of_capacity";
            let multiple = within(path, multiple, 0.001..=FACTOR_MAX, "times the capacity")?;
            if context.capacity_rps <= 0.0 {
                return Err(ScenarioError::about(
                    path,
                    "the servers have no capacity at the start",
                ));
            }
            let mean = rates.rps().iter().sum::<f64>() / rates.rps().len() as f64;
            if mean <= 0.0 {
                return Err(ScenarioError::about(path, "the rates are 0 throughout"));
            }
            multiple * context.capacity_rps / mean
        }
        (Some(scale), None) => within("load.scale", scale, 0.0..=FACTOR_MAX, "times")?,
        (None, None) => return Ok(rates),
    };
    rates
        .scaled(factor)
        .map_err(|error| ScenarioError::about("load", format!("{error:#}")))
}

fn from_records(
    raw: &RawLoad,
    path: &str,
    context: &LoadContext<'_>,
) -> Result<Load, ScenarioError> {
    let rule = Rule {
        classes: context.classes,
        ties: raw.ties == Some(true),
        silence: silence(raw)?,
    };
    let records = records::read(&context.folder.join(path), &rule);
    let mut arrivals = records.map_err(|error| ScenarioError::in_file("load.records", error))?;
    if raw.budgets == Some(Budgets::Service) {
        arrivals
            .iter_mut()
            .for_each(|arrival| arrival.budget = None);
    }
    let last = arrivals.last().map_or(Duration::ZERO, |last| last.sent);
    let spanned = rounded_up(last);
    let Some(length) = context.length_s else {
        within(
            "length_s",
            spanned,
            1..=SECONDS_MAX as u64,
            "s; the records span that",
        )?;
        return Ok(Load {
            arrivals,
            length_s: spanned,
            left_out: 0,
        });
    };
    let end = Duration::from_secs(length);
    if end > last + rule.silence {
        let complaint = format!(
            "the last arrival is at {} s, length_s is {length} s: shorten it",
            last.as_secs_f64()
        );
        return Err(ScenarioError::about("load.records", complaint));
    }
    let recorded = arrivals.len();
    arrivals.retain(|arrival| arrival.sent < end);
    if arrivals.is_empty() {
        return Err(ScenarioError::about(
            "load.records",
            "no arrival before length_s",
        ));
    }
    Ok(Load {
        left_out: recorded - arrivals.len(),
        arrivals,
        length_s: length,
    })
}
