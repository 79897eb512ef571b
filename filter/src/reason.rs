//! Reasons of refusals.

/// Why a request was refused: `x-slo-dropped-reason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// Its deadline was past on arrival, or came while it was held or served.
    Expired,
    /// No allowed variant can finish in time.
    Infeasible,
    /// As many requests are held as may be.
    QueueFull,
    /// Its class holds as many as it may.
    ClassLimit,
    /// Its source holds as many as it may.
    SourceLimit,
    /// As many bytes are held as may be.
    HeldBytes,
    /// The plan gives no slot.
    NoCapacity,
    /// The cluster is unknown, has no healthy host, or cannot be reached.
    NoBackend,
    /// There is no valid plan, and the configuration says to refuse then.
    NoPlan,
    /// This Envoy is shutting down.
    ShuttingDown,
}

impl Reason {
    /// All of them, in the order of the README's table.
    pub const ALL: [Reason; 10] = [
        Reason::Expired,
        Reason::Infeasible,
        Reason::QueueFull,
        Reason::ClassLimit,
        Reason::SourceLimit,
        Reason::HeldBytes,
        Reason::NoCapacity,
        Reason::NoBackend,
        Reason::NoPlan,
        Reason::ShuttingDown,
    ];

    /// HTTP status: 429 shed under contention, 503 no capacity or backend, 504 out of time.
    #[must_use]
    pub const fn status(self) -> u32 {
        match self {
            Reason::Expired | Reason::Infeasible => 504,
            Reason::QueueFull | Reason::ClassLimit | Reason::SourceLimit | Reason::HeldBytes => 429,
            Reason::NoCapacity | Reason::NoBackend | Reason::NoPlan | Reason::ShuttingDown => 503,
        }
    }

    /// The label on the wire and in metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Reason::Expired => "expired",
            Reason::Infeasible => "infeasible",
            Reason::QueueFull => "queue-full",
            Reason::ClassLimit => "class-limit",
            Reason::SourceLimit => "source-limit",
            Reason::HeldBytes => "held-bytes",
            Reason::NoCapacity => "no-capacity",
            Reason::NoBackend => "no-backend",
            Reason::NoPlan => "no-plan",
            Reason::ShuttingDown => "shutting-down",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_distinct_and_can_stand_in_a_metric_name() {
        for (i, reason) in Reason::ALL.iter().enumerate() {
            assert!(weir_api::plan::is_name(reason.label()));
            assert!(
                Reason::ALL[..i]
                    .iter()
                    .all(|other| other.label() != reason.label())
            );
        }
    }
}
