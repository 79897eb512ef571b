//! Explanation of a refusal: a sentence for people, and the same facts as fields for programs.
//!
//! Both consist of printable ASCII without `"`, `\` and `%` in any value, so that they stand in JSON and in
//! `grpc-message` as they are. Nothing that a client sent is in them, but what [`Facts::detail`] has made harmless.
//! Times needed are rounded up and times left down: what is needed is always more than what is left.

use std::fmt::{Result, Write};
use std::rc::Rc;

use crate::reason::Reason;
use crate::time::Span;

/// Maximum length of a refusal's body, and of its `grpc-message`, in bytes.
pub const BODY_MAX: usize = 512;
/// End of a sentence that is cut.
const CUT: &str = " ...";

/// Place of a request when it was refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Stage {
    /// It has just come.
    #[default]
    Arrival,
    /// Its body was arriving.
    Receiving,
    /// It waited for a slot.
    Queue,
    /// It was sent to a server.
    Server,
}

/// Limit that a refused request would have exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Requests of a worker, waiting or with incoming bodies.
    Requests,
    /// Waiting requests of a class.
    ClassRequests,
    /// Requests upstream whose bodies are incoming, of a variant.
    Streams,
    /// Bytes of one source.
    SourceBytes,
    /// Bytes in total.
    TotalBytes,
    /// Bytes of one request that waits.
    RequestBytes,
}

/// Accuracies, in hundredths of a percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accuracies {
    /// Highest accuracy of a variant that may serve the request, rounded down.
    pub max: u32,
    /// Accuracy that the request demands, rounded up.
    pub demanded: u32,
}

/// Facts that explain a refusal, as far as they are known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Place of the request.
    pub stage: Stage,
    /// Variant that would have served it, or could have soonest.
    pub variant: Option<Rc<str>>,
    /// Time that this variant, or else the later stages of the pipeline, would have needed.
    pub needed: Option<Span>,
    /// Part of [`Facts::needed`] for which it would have waited.
    pub wait: Span,
    /// Requests before it in the variant's queue.
    pub queued: Option<u32>,
    /// Time left, without that of the later stages.
    pub left: Option<Span>,
    /// Time that the later stages of the pipeline need.
    pub downstream: Span,
    /// Time left when the request arrived.
    pub on_arrival: Option<Span>,
    /// Time for which it waited; `None` where no request waits.
    pub waited: Option<Span>,
    /// Limit that is reached.
    pub limit: Option<Limit>,
    /// Its value, unless variants differ.
    pub limit_value: Option<u64>,
    /// Accuracies that do not go together.
    pub accuracies: Option<Accuracies>,
    /// Text on an error in the request.
    pub detail: Option<Box<str>>,
}

impl Accuracies {
    /// Creates it from percent.
    #[must_use]
    pub fn new(max: f64, demanded: f64) -> Accuracies {
        // What a client reads here it can demand: the error of a product of two decimals is less.
        const ERROR: f64 = 1e-6;
        Accuracies {
            max: (max * 100.0 + ERROR) as u32,
            demanded: (demanded * 100.0 - ERROR).ceil() as u32,
        }
    }
}

impl Limit {
    /// All limits.
    pub const ALL: [Limit; 6] = [
        Limit::Requests,
        Limit::ClassRequests,
        Limit::Streams,
        Limit::SourceBytes,
        Limit::TotalBytes,
        Limit::RequestBytes,
    ];

    /// Reason of a refusal for it.
    #[must_use]
    pub const fn reason(self) -> Reason {
        match self {
            Limit::Requests | Limit::Streams => Reason::QueueFull,
            Limit::ClassRequests => Reason::ClassLimit,
            Limit::SourceBytes => Reason::SourceLimit,
            Limit::TotalBytes | Limit::RequestBytes => Reason::BodyBytesLimit,
        }
    }

    /// Key of the configuration that sets it; that of [`Limit::Streams`] follows from the slots.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Limit::Requests => "queue.max_requests",
            Limit::ClassRequests => "classes[].max_requests",
            Limit::Streams => "streams",
            Limit::SourceBytes => "body.source_max_bytes",
            Limit::TotalBytes => "body.total_max_bytes",
            Limit::RequestBytes => "body.request_max_bytes",
        }
    }
}

impl Facts {
    /// Returns the facts on a request in which `text` is wrong. What could be misread in an answer becomes `?`.
    #[must_use]
    pub fn detail(text: &str) -> Facts {
        let shown = |c: char| match c {
            ' '..='~' if !matches!(c, '"' | '\\' | '%') => c,
            _ => '?',
        };
        Facts {
            detail: Some(text.chars().map(shown).collect()),
            ..Facts::default()
        }
    }

    /// Time in the queue (`server-timing`); `None` where no request waits.
    #[must_use]
    pub fn in_queue(&self) -> Option<Span> {
        match self.stage {
            Stage::Receiving => self.waited.map(|_| Span::ZERO),
            Stage::Arrival | Stage::Queue | Stage::Server => self.waited,
        }
    }

    /// Returns the sentence, at most [`BODY_MAX`] bytes.
    #[must_use]
    pub fn message(&self, reason: Reason) -> String {
        let mut text = String::with_capacity(BODY_MAX);
        let _ = self.write_message(reason, BODY_MAX, &mut text);
        text
    }

    /// Returns the JSON body with its line's end, at most [`BODY_MAX`] bytes.
    #[must_use]
    pub fn body(&self, reason: Reason) -> String {
        let mut text = String::with_capacity(BODY_MAX);
        let _ = self.write_body(reason, &mut text);
        text
    }

    fn write_body(&self, reason: Reason, out: &mut String) -> Result {
        const BEGIN: &str = "{\"error\":\"";
        // The fields first, because they leave the sentence what is left of the bytes.
        out.push('"');
        self.write_fields(reason, out)?;
        out.push_str("}\n");
        let max = BODY_MAX.saturating_sub(BEGIN.len() + out.len());
        let mut text = String::with_capacity(BODY_MAX);
        text.push_str(BEGIN);
        self.write_message(reason, max, &mut text)?;
        out.insert_str(0, &text);
        Ok(())
    }

    fn write_fields(&self, reason: Reason, out: &mut String) -> Result {
        write!(out, ",\"reason\":\"{}\"", reason.label())?;
        if let Some(variant) = &self.variant {
            write!(out, ",\"variant\":\"{variant}\"")?;
        }
        let downstream = (!self.downstream.is_zero()).then_some(self.downstream);
        let wait = self.needed.map(|_| self.wait);
        let numbers = [
            ("needed_ms", self.needed.map(Span::as_millis_up)),
            ("queue_ms", wait.map(Span::as_millis)),
            ("queued", self.queued.map(u64::from)),
            ("left_ms", self.left.map(Span::as_millis)),
            ("later_stages_ms", downstream.map(Span::as_millis_up)),
            ("arrival_left_ms", self.on_arrival.map(Span::as_millis)),
            ("waited_ms", self.waited.map(Span::as_millis)),
        ];
        for (name, number) in numbers {
            if let Some(number) = number {
                write!(out, ",\"{name}\":{number}")?;
            }
        }
        if let Some(limit) = self.limit {
            write!(out, ",\"limit\":\"{}\"", limit.name())?;
        }
        if let Some(value) = self.limit_value {
            write!(out, ",\"limit_value\":{value}")?;
        }
        if let Some(Accuracies { max, .. }) = self.accuracies {
            out.push_str(",\"max_accuracy\":");
            write_percent(max, out)?;
        }
        Ok(())
    }

    fn write_message(&self, reason: Reason, max: usize, out: &mut String) -> Result {
        let begin = out.len();
        write!(out, "refused by weir: {}: ", reason.label())?;
        self.write_sentence(reason, out)?;
        if out.len() - begin > max {
            out.truncate(begin + max.saturating_sub(CUT.len()));
            out.push_str(CUT);
        }
        Ok(())
    }

    fn write_sentence(&self, reason: Reason, out: &mut String) -> Result {
        let variant = self.variant.as_deref();
        match reason {
            Reason::Expired => self.write_expired(out),
            Reason::Infeasible => self.write_infeasible(out),
            Reason::QueueFull
            | Reason::ClassLimit
            | Reason::SourceLimit
            | Reason::BodyBytesLimit => self.write_limit(out),
            Reason::NoCapacity => match variant {
                Some(variant) => write!(out, "the plan gives no slot to {variant}"),
                None => out.write_str("the plan gives no slot to any allowed variant"),
            },
            Reason::NoBackend => match variant {
                Some(variant) => write!(out, "no server of {variant} can be reached"),
                None => out.write_str("no server can be reached"),
            },
            Reason::NoPlan => out.write_str("there is no valid plan"),
            Reason::InvalidVariants => out.write_str(self.detail.as_deref().unwrap_or_default()),
            Reason::Accuracy => self.write_accuracy(out),
        }
    }

    fn write_expired(&self, out: &mut String) -> Result {
        let variant = self.variant.as_deref().unwrap_or("the server");
        let had = self.on_arrival.unwrap_or_default().as_millis();
        let waited = self.waited.unwrap_or_default().as_millis();
        match self.stage {
            Stage::Arrival => out.write_str("its time was over on arrival"),
            Stage::Receiving => {
                write!(out, "its body has not ended {waited} ms after its headers")?;
                if self.needed.is_some() {
                    out.write_str(", ")?;
                    self.write_needed(out)?;
                }
                Ok(())
            }
            Stage::Queue => write!(
                out,
                "waited {waited} ms in the queue of {variant}, {had} ms were left on arrival"
            ),
            Stage::Server => {
                write!(
                    out,
                    "{variant} did not answer in the {had} ms left on arrival"
                )?;
                match self.waited {
                    Some(_) => write!(out, ", of which the request waited {waited} ms"),
                    None => Ok(()),
                }
            }
        }
    }

    fn write_infeasible(&self, out: &mut String) -> Result {
        let left = self.left.unwrap_or_default().as_millis();
        match (self.needed, self.variant.as_deref()) {
            (Some(needed), None) => {
                let needed = needed.as_millis_up();
                write!(out, "the later stages need {needed} ms, {left} ms are left")
            }
            (Some(needed), Some(variant)) if self.stage == Stage::Queue => {
                let waited = self.waited.unwrap_or_default().as_millis();
                let needed = needed.as_millis_up();
                write!(
                    out,
                    "waited {waited} ms in the queue of {variant}, which needs {needed} ms"
                )?;
                self.write_left(out)
            }
            (Some(_), Some(_)) => self.write_needed(out),
            (None, _) => write!(
                out,
                "no allowed variant can answer in the {left} ms that are left"
            ),
        }
    }

    fn write_needed(&self, out: &mut String) -> Result {
        let variant = self.variant.as_deref().unwrap_or_default();
        let needed = self.needed.unwrap_or_default().as_millis_up();
        write!(
            out,
            "the fastest allowed variant {variant} needs {needed} ms"
        )?;
        let wait = self.wait.as_millis();
        if wait > 0 {
            write!(out, ", {wait} ms of them in its queue")?;
            if let Some(queued) = self.queued.filter(|queued| *queued > 0) {
                write!(out, " behind {queued} others")?;
            }
        }
        self.write_left(out)
    }

    fn write_left(&self, out: &mut String) -> Result {
        let left = self.left.unwrap_or_default().as_millis();
        write!(out, ", {left} ms are left")?;
        if self.downstream.is_zero() {
            return Ok(());
        }
        let downstream = self.downstream.as_millis_up();
        write!(out, " before the {downstream} ms of the later stages")
    }

    fn write_limit(&self, out: &mut String) -> Result {
        let Some(limit) = self.limit else {
            return out.write_str("a limit is reached");
        };
        let (name, value) = (limit.name(), self.limit_value.unwrap_or_default());
        match limit {
            Limit::Requests => write!(out, "this worker holds {value} requests, its {name}"),
            Limit::ClassRequests => write!(
                out,
                "this worker holds {value} requests of the class, its {name}"
            ),
            Limit::Streams => {
                let variant = self.variant.as_deref().unwrap_or("each allowed variant");
                write!(
                    out,
                    "of {variant} half of the slots have requests whose bodies still arrive"
                )
            }
            Limit::SourceBytes => write!(out, "bodies of its source fill {name}, {value}"),
            Limit::TotalBytes => write!(out, "bodies fill {name}, {value}"),
            Limit::RequestBytes => {
                write!(out, "no slot is free, and its body exceeds {name}, {value}")
            }
        }
    }

    fn write_accuracy(&self, out: &mut String) -> Result {
        let Some(Accuracies { max, demanded }) = self.accuracies else {
            return out.write_str("no allowed variant is as accurate as x-slo-min-accuracy");
        };
        let variant = self.variant.as_deref().unwrap_or_default();
        write!(out, "the most accurate allowed variant {variant} has ")?;
        write_percent(max, out)?;
        out.write_str(" percent, x-slo-min-accuracy is ")?;
        write_percent(demanded, out)
    }
}

/// Writes hundredths as a decimal number, without zeros at its end.
fn write_percent(hundredths: u32, out: &mut String) -> Result {
    let (whole, part) = (hundredths / 100, hundredths % 100);
    match (part, part % 10) {
        (0, _) => write!(out, "{whole}"),
        (_, 0) => write!(out, "{whole}.{}", part / 10),
        _ => write!(out, "{whole}.{part:02}"),
    }
}

#[cfg(test)]
mod tests;
