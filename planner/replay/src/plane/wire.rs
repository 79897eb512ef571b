//! Request headers as the client writes them, without allocation.

use std::fmt::Arguments;
use std::io::Write;

use weir_filter::request::wire::{Field, Wire};

use crate::request::Request;
use crate::{EPOCH_MS, nanos};

/// Buffer size of one value; a percentage in full precision is the longest.
const VALUE_BYTES: usize = 32;

/// Header value in a fixed buffer.
#[derive(Debug, Default)]
struct Value {
    bytes: [u8; VALUE_BYTES],
    used: usize,
}

/// Header values of a request.
#[derive(Debug, Default)]
pub(crate) struct Headers {
    budget: Value,
    start: Value,
    accuracy: Value,
    deadline: Value,
}

impl Headers {
    /// Writes a request's headers into `wire`, which has none yet. Omits the client's start time if deadlines count from
    /// receipt, and the class if there are no classes. The stages of a pipeline after the first get the deadline that the
    /// one before has passed on, Unix ms.
    pub(crate) fn write<'a>(
        &'a mut self,
        request: &Request,
        with_start: bool,
        class: Option<&'a str>,
        passed_on: Option<u64>,
        wire: &mut Wire<'a>,
    ) {
        // In 64 bits, which are much faster to write than the 128 of `Duration`.
        let budget_us = nanos(request.budget) / 1000;
        let (ms, us) = (budget_us / 1000, budget_us % 1000);
        // Precision is µs. The start time is in µs, which the filter recognizes by its magnitude.
        if us == 0 {
            self.budget.write_whole(ms);
        } else {
            self.budget.write(format_args!("{ms}.{us:03}"));
        }
        wire.set(Field::SloMs, self.budget.get());
        if with_start {
            let sent_us = EPOCH_MS * 1000 + nanos(request.sent) / 1000;
            let start_us = sent_us.saturating_add_signed(i64::from(request.skew_ms) * 1000);
            self.start.write_whole(start_us);
            wire.set(Field::Start, self.start.get());
        }
        if request.min_accuracy > 0.0 {
            self.accuracy
                .write(format_args!("{}", request.min_accuracy));
            wire.set(Field::MinAccuracy, self.accuracy.get());
        }
        if let Some(class) = class {
            wire.set(Field::Class, class.as_bytes());
        }
        if let Some(deadline_ms) = passed_on {
            self.deadline.write_whole(deadline_ms);
            wire.set(Field::Deadline, self.deadline.get());
        }
    }
}

impl Value {
    fn write(&mut self, text: Arguments<'_>) {
        let mut rest = self.bytes.as_mut_slice();
        // Longer values are cut off; no value here is that long.
        let _ = rest.write_fmt(text);
        self.used = VALUE_BYTES - rest.len();
    }

    /// Writes a whole number, many times faster than by its format.
    fn write_whole(&mut self, number: u64) {
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(number).as_bytes();
        if let Some(into) = self.bytes.get_mut(..digits.len()) {
            into.copy_from_slice(digits);
            self.used = digits.len();
        }
    }

    fn get(&self) -> &[u8] {
        self.bytes.get(..self.used).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use weir_filter::request::deadline::read;
    use weir_filter::time::{Mono, Now, Wall};

    use super::*;

    proptest! {
        /// The filter parses the written values exactly, to the µs.
        #[test]
        fn written_headers_are_parsed_back_exactly(
            budget_us in 10_000_u64..50_000_000,
            sent_us in 0_u64..1_000_000_000,
            skew_ms in -20_000_i32..0,
            min_accuracy in 0.0..100.0_f64,
        ) {
            let sent = Duration::from_micros(sent_us);
            let request = Request {
                skew_ms, min_accuracy, ..Request::new(0, sent, Duration::from_micros(budget_us))
            };
            let mut headers = Headers::default();
            let config = br#"{"service":"s","planner":{"cluster":"p","key":"k"}}"#;
            let policy = weir_filter::config::Config::parse(config).unwrap().deadline;
            let ns = sent_us * 1000;
            let now = Now { mono: Mono(ns), wall: Wall(EPOCH_MS * 1_000_000 + ns) };
            let mut wire = Wire::default();
            headers.write(&request, true, Some("gold"), None, &mut wire);
            prop_assert_eq!(wire.min_accuracy(), Some(min_accuracy));
            let late_us = u64::from(skew_ms.unsigned_abs()) * 1000;
            let left = read(&policy, &wire, now, None).deadline.map(|d| d.at.since(now.mono));
            match left {
                Ok(left) => prop_assert!(left.as_micros().abs_diff(budget_us - late_us) <= 1),
                Err(_) => prop_assert!(budget_us <= late_us + 1),
            }
            prop_assert_eq!(wire.get(Field::Class), Some(&b"gold"[..]));
            let mut wire = Wire::default();
            headers.write(&request, false, None, Some(1_234), &mut wire);
            prop_assert_eq!(wire.get(Field::Start), None);
            prop_assert_eq!(wire.get(Field::Class), None);
            prop_assert_eq!(wire.get(Field::Deadline), Some(&b"1234"[..]));
        }
    }
}
