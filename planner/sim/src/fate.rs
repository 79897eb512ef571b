//! Outcome of each request, as the client saw it, and the sums over a run.
//!
//! Every request sent has exactly one [`Fate`]; [`Summary::check`] verifies this. The client judges
//! here whether an answer was on time, from its own send time and with the network in both directions.
//! The reports of proxies and servers do not count.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// End of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// Status 200.
    Answered {
        /// Variant that answered: the `model_name` in the answer, else its `x-slo-variant` header.
        variant: Option<String>,
        /// Time left when the answer passed the proxy, in whole ms: the answer's `x-slo-remaining-ms`.
        remaining_ms: Option<u64>,
    },
    /// Any other status.
    Refused {
        /// HTTP status.
        status: u16,
        /// Reason; see [`reason`].
        reason: String,
    },
    /// The client timed out and disconnected before an answer came.
    Disconnected,
    /// The connection failed, so the outcome is unknown.
    Lost {
        /// Error of the client's HTTP stack.
        error: String,
    },
}

/// Returns the label of a refusal: its `x-slo-dropped-reason`; without one `timeout` for 504,
/// `overflow` for Envoy's circuit breakers (503 with `x-envoy-overloaded`), else `status-NNN`.
pub fn reason(status: u16, dropped_reason: Option<&str>, overloaded: bool) -> String {
    match (dropped_reason, status) {
        (Some(reason), _) => reason.to_owned(),
        (None, 504) => "timeout".to_owned(),
        (None, 503) if overloaded => "overflow".to_owned(),
        (None, _) => format!("status-{status}"),
    }
}

/// A request and its fate. Times count from the start of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Its `x-request-id`.
    pub id: String,
    /// Time at which the client sent it.
    pub sent_at: Duration,
    /// Time at which it ended for the client, after the answer's way back.
    pub ended_at: Duration,
    /// Its fate.
    pub fate: Fate,
}

impl Outcome {
    /// Time from the client's send to the end, as the client sees it.
    pub fn latency(&self) -> Duration {
        self.ended_at.saturating_sub(self.sent_at)
    }

    /// Whether it was answered.
    pub fn answered(&self) -> bool {
        matches!(self.fate, Fate::Answered { .. })
    }

    /// Whether it was answered within `slo` of being sent.
    pub fn on_time(&self, slo: Duration) -> bool {
        self.answered() && self.latency() <= slo
    }
}

/// Sums of one run through one target.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Requests sent.
    pub sent: u64,
    /// Requests answered within the SLO.
    pub on_time: u64,
    /// Requests answered after the SLO.
    pub late: u64,
    /// Requests refused, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Requests whose client timed out and disconnected.
    pub disconnected: u64,
    /// Requests neither answered nor refused.
    pub lost: u64,
    /// Requests that the backends executed more than once.
    pub doubled: u64,
    /// Median end-to-end latency of the answered requests, in ms; `None` if none was answered.
    pub p50_ms: Option<f64>,
    /// 95th percentile of the same latency.
    pub p95_ms: Option<f64>,
    /// 99th percentile of the same latency.
    pub p99_ms: Option<f64>,
    /// Mean accuracy of the answers, late ones included, in percent.
    pub mean_accuracy: Option<f64>,
    /// Core-seconds provided to the backends during the run.
    pub core_seconds: f64,
}

impl Summary {
    /// Sums the outcomes. `accuracy` returns a variant's accuracy in percent.
    ///
    /// # Errors
    /// The histogram cannot be created.
    pub fn of(
        outcomes: &[Outcome],
        slo: Duration,
        accuracy: impl Fn(&str) -> Option<f64>,
    ) -> anyhow::Result<Summary> {
        let mut sum = Summary {
            sent: outcomes.len() as u64,
            ..Summary::default()
        };
        let mut latency = Histogram::<u64>::new(3)?;
        let (mut accuracies, mut known) = (0.0, 0.0);
        for outcome in outcomes {
            match &outcome.fate {
                Fate::Answered { variant, .. } => {
                    if outcome.on_time(slo) {
                        sum.on_time += 1
                    } else {
                        sum.late += 1
                    }
                    latency.record(u64::try_from(outcome.latency().as_micros())?)?;
                    if let Some(accuracy) = variant.as_deref().and_then(&accuracy) {
                        accuracies += accuracy;
                        known += 1.0;
                    }
                }
                Fate::Refused { reason, .. } => {
                    *sum.refused.entry(reason.clone()).or_default() += 1
                }
                Fate::Disconnected => sum.disconnected += 1,
                Fate::Lost { .. } => sum.lost += 1,
            }
        }
        let quantile = |q| (!latency.is_empty()).then(|| latency.value_at_quantile(q) as f64 / 1e3);
        sum.p50_ms = quantile(0.50);
        sum.p95_ms = quantile(0.95);
        sum.p99_ms = quantile(0.99);
        sum.mean_accuracy = (known > 0.0).then(|| accuracies / known);
        Ok(sum)
    }

    /// Adds the backends' data: the ids they executed (each execution once) and their core-seconds.
    #[must_use]
    pub fn with_backends<'a>(
        mut self,
        executed: impl IntoIterator<Item = &'a str>,
        core_seconds: f64,
    ) -> Summary {
        let mut times: BTreeMap<&str, u64> = BTreeMap::new();
        for id in executed {
            *times.entry(id).or_default() += 1;
        }
        self.doubled = times.values().filter(|times| **times > 1).count() as u64;
        self.core_seconds = core_seconds;
        self
    }

    /// Requests refused, for any reason.
    pub fn refused_total(&self) -> u64 {
        self.refused.values().sum()
    }

    /// Checks that every request sent has exactly one end, none was lost, and none executed twice.
    ///
    /// # Errors
    /// The first sum that does not balance, with its figures.
    pub fn check(&self) -> Result<(), String> {
        let ended = self.on_time + self.late + self.refused_total() + self.disconnected + self.lost;
        if ended != self.sent {
            return Err(format!("{} were sent but {ended} ended", self.sent));
        }
        if self.lost > 0 {
            return Err(format!("{} of {} were lost", self.lost, self.sent));
        }
        if self.doubled > 0 {
            return Err(format!(
                "{} of {} were executed more than once",
                self.doubled, self.sent
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(ms: u64, fate: Fate) -> Outcome {
        let sent_at = Duration::from_secs(5);
        Outcome {
            id: "r".into(),
            sent_at,
            ended_at: sent_at + Duration::from_millis(ms),
            fate,
        }
    }

    fn answered(ms: u64, variant: &str) -> Outcome {
        outcome(
            ms,
            Fate::Answered {
                variant: Some(variant.into()),
                remaining_ms: None,
            },
        )
    }

    fn refused(reason: &str) -> Outcome {
        outcome(
            1,
            Fate::Refused {
                status: 504,
                reason: reason.into(),
            },
        )
    }

    #[test]
    fn each_fate_is_counted_once_and_on_time_uses_client_latency() {
        let outcomes = [
            answered(1000, "small"),
            answered(1001, "large"),
            answered(200, "large"),
            refused("expired"),
            refused("expired"),
            refused("timeout"),
            outcome(5000, Fate::Disconnected),
            outcome(
                3,
                Fate::Lost {
                    error: "reset".into(),
                },
            ),
        ];
        let accuracy = |variant: &str| Some(if variant == "small" { 70.0 } else { 76.0 });
        let sum = Summary::of(&outcomes, Duration::from_secs(1), accuracy).unwrap();
        let sum = sum.with_backends(["a", "b", "a", "a", "c"], 12.5);
        assert_eq!((sum.sent, sum.on_time, sum.late), (8, 2, 1));
        assert_eq!((sum.disconnected, sum.lost, sum.doubled), (1, 1, 1));
        assert_eq!(
            sum.refused,
            BTreeMap::from([("expired".into(), 2), ("timeout".into(), 1)])
        );
        assert_eq!((sum.mean_accuracy, sum.core_seconds), (Some(74.0), 12.5));
        let p50 = sum.p50_ms.unwrap();
        assert!((999.0..1002.0).contains(&p50), "{p50}");
        assert!(sum.check().unwrap_err().contains("1 of 8 were lost"));
    }

    #[test]
    fn unbalanced_summary_is_refused() {
        let good = Summary {
            sent: 3,
            on_time: 2,
            disconnected: 1,
            ..Summary::default()
        };
        assert_eq!(good.check(), Ok(()));
        for (bad, message) in [
            (
                Summary {
                    sent: 4,
                    ..good.clone()
                },
                "4 were sent but 3 ended",
            ),
            (
                Summary {
                    sent: 4,
                    lost: 1,
                    ..good.clone()
                },
                "1 of 4 were lost",
            ),
            (
                Summary {
                    doubled: 2,
                    ..good.clone()
                },
                "2 of 3 were executed more than once",
            ),
        ] {
            assert_eq!(bad.check().unwrap_err(), message);
        }
    }

    #[test]
    fn no_answers_give_no_percentiles() {
        let sum = Summary::of(&[refused("expired")], Duration::from_secs(1), |_| None).unwrap();
        assert_eq!((sum.p50_ms, sum.mean_accuracy), (None, None));
    }

    #[test]
    fn refusal_reason_comes_from_header_or_status() {
        for (status, dropped, overloaded, label) in [
            (504, Some("expired"), false, "expired"),
            (504, None, false, "timeout"),
            (503, None, true, "overflow"),
            (503, None, false, "status-503"),
            (429, None, false, "status-429"),
        ] {
            assert_eq!(reason(status, dropped, overloaded), label);
        }
    }
}
