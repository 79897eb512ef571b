//! Publication of a worker's usage of a variant of which no slot is free.

use std::rc::Rc;

use super::{OtherWorkers, Usage, Worker};
use crate::coordination::SlotTable;
use crate::time::{Mono, Span};
use crate::variant::VariantKey;

/// Usage that a worker publishes of one variant if no slot is free.
#[derive(Debug, Clone, Copy)]
pub struct Publication {
    /// Variant.
    pub variant: VariantKey,
    /// Slots that the plan gives this proxy.
    pub slots: u32,
    /// Usage.
    pub usage: Usage,
    /// Time from the start of an execution after which the next request may be sent; [`Span::MAX`]: never.
    pub after: Span,
    /// Mean service time.
    pub mean: Span,
}

impl Worker {
    /// Publishes this worker's usage of a variant of which all slots are taken, and none will be free soon. An acquisition
    /// ([`Worker::acquire`]) would do no more then. Returns the usage of the others; `None` if a slot may be free, if
    /// anything else must be written too, or if another worker was quicker: then it must acquire.
    pub fn publish_if_full(&mut self, publication: Publication, now: Mono) -> Option<OtherWorkers> {
        if !self.load() {
            return None;
        }
        let tables = Rc::clone(&self.tables);
        let table = &mut tables.borrow_mut().slots;
        let (own, column) = table.place(self.incarnation, publication.variant)?;
        let others = table.full(own, column, &publication, now)?;
        let mut changed = table.renew_row(own, now, &self.timeouts);
        changed |= table.touch_column(column, now, &self.timeouts);
        changed |= table.clear_notification(own);
        changed |= table.set_usage(own, column, publication.usage, true);
        if changed {
            let version = self.known.take();
            if !self.store.swap_table(table, &mut self.bytes, version) {
                self.lost_swaps += 1;
                return None;
            }
            self.known = self.store.guess();
        }
        self.note_published(publication.variant, publication.usage);
        Some(others)
    }
}

impl SlotTable {
    /// Usage of the other workers if all slots of a variant are taken and none will be free soon; else `None`. A slot that
    /// was free until now must be recorded by an acquisition.
    fn full(
        &self,
        own: usize,
        column: usize,
        publication: &Publication,
        now: Mono,
    ) -> Option<OtherWorkers> {
        let was_free = self.columns.get(column)?.idle_since.is_some();
        if was_free || now < self.quarantine_until {
            return None;
        }
        let others = self.other_workers(own, column, now);
        let taken = publication.usage.taken.saturating_add(others.taken);
        let ending = || self.ending(column, publication.mean, publication.after, now);
        let slots = self.columns.get(column)?.limit.now(publication.slots);
        let is_full = taken >= slots && taken >= slots.saturating_add(ending());
        is_full.then_some(others)
    }
}
