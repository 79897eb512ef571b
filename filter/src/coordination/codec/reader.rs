//! Reading of the slot table's fields from its bytes.

use crate::coordination::curve::{Curve, Ends, Point, Times};
use crate::coordination::lead::{Lead, Mean};
use crate::coordination::limit::{Limit, Phase};
use crate::health::{ErrorSources, Failure, Health, Outage};
use crate::time::{Mono, Span};

/// Bytes left to read.
#[derive(Clone, Copy)]
pub(in crate::coordination) struct Reader<'a>(pub(in crate::coordination) &'a [u8]);

impl Reader<'_> {
    pub(in crate::coordination) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    pub(in crate::coordination) fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    pub(in crate::coordination) fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    pub(super) fn mono(&mut self) -> Option<Mono> {
        self.u64().map(Mono)
    }

    /// Reads an optional value; 0 stands for `None`.
    pub(super) fn some(&mut self) -> Option<Option<u64>> {
        self.u64().map(|value| (value > 0).then_some(value))
    }

    pub(super) fn health(&mut self) -> Option<Health> {
        let [failure] = self.take()?;
        let (since, next_trial) = (self.mono()?, self.mono()?);
        let failure = match failure {
            0 if (since, next_trial) == (Mono(0), Mono(0)) => None,
            1 => Some(Failure::Unreachable),
            2 => Some(Failure::Errors),
            3 => Some(Failure::Silent),
            _ => return None,
        };
        Some(Health {
            failing: failure.map(|failure| Outage {
                failure,
                since,
                next_trial,
            }),
            errors: u16::from_le_bytes(self.take()?),
            rounds: u8::from_le_bytes(self.take()?),
            serves: self.take::<1>()? != [0],
            sources: ErrorSources::from_code(self.u32()?),
        })
    }

    pub(super) fn lead(&mut self) -> Option<Lead> {
        Some(Lead {
            planned: Span::from_nanos(self.u64()?),
            early_wait: self.u64()?,
            recent_wait: self.u64()?,
            confirmed: self.take::<1>()? != [0],
            idle: self.mean()?,
            early: self.mean()?,
        })
    }

    fn flags(&mut self) -> Option<Limit> {
        let [flags] = self.take()?;
        Some(Limit {
            falls: flags & 1 != 0,
            late: flags & 2 != 0,
            ..Limit::default()
        })
    }

    pub(super) fn limit(&mut self) -> Option<Limit> {
        Some(Limit {
            planned: self.u32()?,
            found: self.u32()?,
            trial: self.u32()?,
            phase: match self.take()? {
                [0] => Phase::Rest,
                [1] => Phase::Base,
                [2] => Phase::Trial,
                _ => return None,
            },
            samples: u16::from_le_bytes(self.take()?),
            cut_off: u16::from_le_bytes(self.take()?),
            slow: u16::from_le_bytes(self.take()?),
            sum: self.u64()?,
            base: self.u32()?,
            left: self.u32()?,
            since: self.mono()?,
            ended_at: self.mono()?,
            lost: self.u32()?,
            next_trial: self.mono()?,
            fruitless: u8::from_le_bytes(self.take()?),
            halvings: u8::from_le_bytes(self.take()?),
            ..self.flags()?
        })
    }

    fn times(&mut self) -> Option<Times> {
        Some(Times {
            mean: self.u32()?,
            scatter: self.u32()?,
        })
    }

    pub(super) fn curve(&mut self) -> Option<Curve> {
        let mut curve = Curve {
            turned: self.mono()?,
            answered: self.mono()?,
            ends: Ends {
                most: self.u32()?,
                latest: self.u32()?,
                under_way: self.u32()?,
                sent: self.u32()?,
                until: self.mono()?,
            },
            ..Curve::default()
        };
        for point in &mut curve.points {
            *point = Point {
                own: self.times()?,
                from_end: self.times()?,
                count: u16::from_le_bytes(self.take()?),
                at_ms: self.u32()?,
                completed_at_ms: self.u32()?,
            };
        }
        Some(curve)
    }

    fn mean(&mut self) -> Option<Mean> {
        Some(Mean {
            mean: self.u64()?,
            scatter: self.u64()?,
            last: self.u64()?,
            count: u16::from_le_bytes(self.take()?),
            at: self.mono()?,
        })
    }
}
