//! Ordered fallback: the first variant of a request's list that can serve it, with the reasons why those
//! before it cannot.
//!
//! Shares do not count for a request that lists variants; slots, deadlines, accuracy and health do. A variant
//! that is not listed never serves it, except by the member for any other (`*`), which chooses among the rest
//! as for requests without a list. A member may expire before the request does: it is not chosen unless its
//! answer is predicted by then.

use crate::time::Span;
use std::fmt::Write;

use super::router::{Candidate, NoRoute, Requirements, ResponseTime, RouteChoice, Router};
use crate::request::variant_list::LISTED_MAX;
use crate::variant::VariantId;

/// Reason why a variant of a list was skipped. Labels are those of refusals where the reason is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Skip {
    /// The plan gives it no slot.
    NoCapacity,
    /// Its servers fail.
    NoBackend,
    /// It is less accurate than the request demands.
    Accuracy,
    /// Its own budget (`within`) is over.
    Expired,
    /// It cannot answer before its own budget, or the deadline, is over.
    Infeasible,
    /// It has its maximum of requests with incoming bodies, of which this is one.
    QueueFull,
}

impl Skip {
    /// All reasons.
    pub const ALL: [Skip; 6] = [
        Skip::NoCapacity,
        Skip::NoBackend,
        Skip::Accuracy,
        Skip::Expired,
        Skip::Infeasible,
        Skip::QueueFull,
    ];

    /// Label on the wire.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Skip::NoCapacity => "no-capacity",
            Skip::NoBackend => "no-backend",
            Skip::Accuracy => "accuracy",
            Skip::Expired => "expired",
            Skip::Infeasible => "infeasible",
            Skip::QueueFull => "queue-full",
        }
    }
}

/// Variants that may serve a request, in order; without any, every variant may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VariantList {
    entries: [Entry; LISTED_MAX],
    len: u8,
    /// Index of the entry that was chosen.
    chosen: Option<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    /// `None`: any variant that is not listed.
    variant: Option<VariantId>,
    /// Time after the arrival at which it expires, µs; [`NEVER`] if it does not.
    expires_us: u32,
    skip: Option<Skip>,
}

/// Length of most texts, so that they are allocated once.
const TEXT_CAPACITY: usize = 96;
/// Beyond the longest budget, an hour.
const NEVER: u32 = u32::MAX;

impl Default for VariantList {
    fn default() -> VariantList {
        VariantList::EMPTY
    }
}

impl VariantList {
    /// List of a request that names no variant.
    pub const EMPTY: VariantList = VariantList {
        entries: [Entry {
            variant: None,
            expires_us: NEVER,
            skip: None,
        }; LISTED_MAX],
        len: 0,
        chosen: None,
    };

    /// Adds a variant, or any other (`None`), which expires that long after the request's arrival. Further than
    /// [`LISTED_MAX`] it has no effect.
    pub fn push(&mut self, variant: Option<VariantId>, expires: Option<Span>) {
        if let Some(entry) = self.entries.get_mut(usize::from(self.len)) {
            let us = |after: Span| u32::try_from(after.as_micros()).unwrap_or(NEVER);
            entry.variant = variant;
            entry.expires_us = expires.map_or(NEVER, us);
            self.len += 1;
        }
    }

    /// Whether it lists none, so that every variant is allowed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Variants listed by name, in order.
    pub fn variants(&self) -> impl Iterator<Item = VariantId> + '_ {
        self.entries().iter().filter_map(|entry| entry.variant)
    }

    /// Whether a variant is listed by name.
    #[must_use]
    pub fn names(&self, variant: VariantId) -> bool {
        self.variants().any(|listed| listed == variant)
    }

    /// First variant, if it is listed by name.
    #[must_use]
    pub fn first(&self) -> Option<VariantId> {
        self.entries().first()?.variant
    }

    /// First variant, if it is listed by name and another one was chosen.
    #[must_use]
    pub fn passed_over(&self) -> Option<VariantId> {
        self.first().filter(|_| self.chosen > Some(0))
    }

    /// Time that a variant has left for its answer, `after` the request's arrival; [`Span::MAX`] if it does
    /// not expire. `None` if it is not allowed, or has expired.
    #[must_use]
    pub fn left(&self, variant: VariantId, after: Span) -> Option<Span> {
        if self.is_empty() {
            return Some(Span::MAX);
        }
        let entry = self.entries().get(self.place(variant)?)?;
        entry.left(after)
    }

    /// Time after the arrival at which a variant expires; `None` if it does not.
    #[must_use]
    pub fn expiry(&self, variant: VariantId) -> Option<Span> {
        let entry = self.entries().get(self.place(variant)?)?;
        let us = entry.expires_us;
        (us != NEVER).then(|| Span::from_micros(u64::from(us)))
    }

    /// Whether a variant is allowed for as long as the request lives.
    #[must_use]
    pub fn allows_always(&self, variant: VariantId) -> bool {
        self.is_empty() || self.left(variant, Span::ZERO) == Some(Span::MAX)
    }

    /// Variants skipped because their servers fail, in order, before the one that was chosen.
    pub fn failing(&self) -> impl Iterator<Item = VariantId> + '_ {
        let skipped = self.entries().iter();
        let skipped = skipped.filter(|entry| entry.skip == Some(Skip::NoBackend));
        skipped.filter_map(|entry| entry.variant)
    }

    /// Records that a variant serves the request, by a choice that is not this list's.
    pub fn serve_by(&mut self, variant: VariantId) {
        if let Some(place) = self.place(variant) {
            self.choose(place);
        }
    }

    /// Records that another variant served the request because its own could not be reached.
    pub fn fail_over(&mut self, to: VariantId) {
        let Some(place) = self.place(to) else {
            return;
        };
        for entry in self.entries.iter_mut().take(place) {
            entry.skip = entry.skip.or(Some(Skip::NoBackend));
        }
        self.choose(place);
    }

    /// Text for the client: what was skipped, each with its reason, then the chosen one; `None` if nothing was
    /// decided. `name` gives the name of a variant.
    #[must_use]
    pub fn text<'a>(&self, name: impl Fn(VariantId) -> Option<&'a str>) -> Option<String> {
        let decided = match self.chosen {
            Some(chosen) => usize::from(chosen) + 1,
            None => self.entries().len(),
        };
        let decided = self.entries().iter().take(decided);
        let decided = decided.filter(|entry| self.chosen.is_some() || entry.skip.is_some());
        let mut text = String::with_capacity(TEXT_CAPACITY);
        for entry in decided {
            text.push_str(if text.is_empty() { "" } else { ", " });
            let name = entry.variant.map_or(Some("*"), &name).unwrap_or_default();
            // A token of RFC 8941 does not begin with a digit.
            let quote = if name.starts_with(|c: char| c.is_ascii_digit()) {
                "\""
            } else {
                ""
            };
            let _ = write!(text, "{quote}{name}{quote}");
            if let Some(skip) = entry.skip {
                let _ = write!(text, ";skipped={}", skip.label());
            }
        }
        (!text.is_empty()).then_some(text)
    }

    fn entries(&self) -> &[Entry] {
        self.entries
            .get(..usize::from(self.len))
            .unwrap_or_default()
    }

    /// Index of the entry that allows a variant.
    fn place(&self, variant: VariantId) -> Option<usize> {
        let mut entries = self.entries().iter();
        let named = entries.position(|entry| entry.variant == Some(variant));
        // Any other is the last.
        let any = |last: &Entry| last.variant.is_none();
        named.or_else(|| {
            let last = self.entries().last().is_some_and(any);
            last.then(|| usize::from(self.len) - 1)
        })
    }

    fn choose(&mut self, place: usize) {
        if let Some(entry) = self.entries.get_mut(place) {
            entry.skip = None;
            self.chosen = u8::try_from(place).ok();
        }
    }

    fn skip(&mut self, place: usize, skip: Skip) {
        if let Some(entry) = self.entries.get_mut(place) {
            entry.skip = Some(skip);
        }
    }
}

impl Entry {
    fn left(&self, after: Span) -> Option<Span> {
        if self.expires_us == NEVER {
            return Some(Span::MAX);
        }
        let expires = Span::from_micros(u64::from(self.expires_us));
        let left = expires.saturating_sub(after);
        (!left.is_zero()).then_some(left)
    }
}

impl Router {
    /// Chooses the first variant of the list of `requirements` that meets them, and records it in `list`, the
    /// same list, with the reasons why those before it do not. `except`: a variant that the request leaves,
    /// because it is late there.
    ///
    /// # Errors
    /// The reason why none fits.
    pub fn choose_listed<I, T>(
        &mut self,
        list: &mut VariantList,
        candidates: I,
        requirements: Requirements<'_>,
        except: Option<VariantId>,
    ) -> Result<VariantId, NoRoute>
    where
        I: Iterator<Item = Candidate<T>> + Clone,
        T: Fn() -> ResponseTime,
    {
        list.chosen = None;
        let (mut any_slots, mut any_full) = (false, false);
        for place in 0..list.entries().len() {
            let found = match list.entries().get(place).and_then(|entry| entry.variant) {
                Some(variant) if except == Some(variant) => {
                    let expired = requirements.left_for(variant).is_none();
                    Err(if expired {
                        Skip::Expired
                    } else {
                        Skip::Infeasible
                    })
                }
                Some(variant) => {
                    let candidate = candidates.clone().nth(usize::from(variant.0));
                    let misfit = candidate.map_or(Some(Skip::NoCapacity), |candidate| {
                        candidate.misfit(variant, requirements)
                    });
                    misfit.map_or(Ok(variant), Err)
                }
                None => self.choose_other(candidates.clone(), requirements, except),
            };
            match found {
                Ok(variant) => {
                    if list.names(variant) {
                        self.record(usize::from(variant.0));
                    }
                    list.choose(place);
                    return Ok(variant);
                }
                Err(skip) => {
                    any_slots |= skip != Skip::NoCapacity;
                    any_full |= skip == Skip::QueueFull;
                    list.skip(place, skip);
                }
            }
        }
        Err(NoRoute::of(any_slots, any_full))
    }

    /// Chooses among the variants that are not listed.
    fn choose_other<T: Fn() -> ResponseTime>(
        &mut self,
        candidates: impl Iterator<Item = Candidate<T>> + Clone,
        requirements: Requirements<'_>,
        except: Option<VariantId>,
    ) -> Result<VariantId, Skip> {
        let others = (0..).map(VariantId).zip(candidates);
        let others = others.map(|(id, mut candidate)| {
            candidate.has_slots &= except != Some(id) && !requirements.list.names(id);
            candidate
        });
        match self.choose(others, requirements) {
            Ok(RouteChoice { variant, .. }) => Ok(VariantId(variant as u16)),
            Err(NoRoute::NoCapacity) => Err(Skip::NoCapacity),
            Err(NoRoute::StreamsFull) => Err(Skip::QueueFull),
            Err(NoRoute::Infeasible) => {
                let last = requirements.list.entries().last();
                let expired = last.is_some_and(|any| any.left(requirements.after).is_none());
                Err(if expired {
                    Skip::Expired
                } else {
                    Skip::Infeasible
                })
            }
        }
    }
}

#[cfg(test)]
mod tests;
