//! Workers that change one table in place do what those do that read and write its bytes.

use proptest::prelude::*;

use super::lanes::Vm;
use super::*;

/// Three workers, and the ordinals of the executions that each has under way.
struct Workers<S> {
    store: S,
    vms: [Vm; 3],
    running: [Vec<u32>; 3],
}

impl<S: Store + Clone + Default + 'static> Workers<S> {
    fn new(slots: u32) -> Workers<S> {
        let store = S::default();
        let vms = [1, 2, 3].map(|incarnation| Vm::of(&store, incarnation, slots));
        let running = Default::default();
        Workers {
            store,
            vms,
            running,
        }
    }

    /// Ends up to `ends` executions of a worker, for which then `waiting` requests wait.
    fn acquire(&mut self, vm: usize, waiting: u32, ends: usize, ms: u64) -> SyncResult {
        let running = &mut self.running[vm];
        let ended: Vec<u32> = running.drain(..ends.min(running.len())).collect();
        let outcome = self.vms[vm].acquire(&ended, &[], waiting, ms);
        let first = outcome.lanes.first;
        running.extend((0..outcome.granted).map(|place| first.wrapping_add(place)));
        outcome
    }

    fn renew(&mut self, vm: usize, ms: u64) -> (Option<Membership>, SyncResult) {
        self.vms[vm].worker.renew(true, at(ms))
    }

    /// Publishes `waiting` requests, if no slot is free.
    fn publish(&mut self, vm: usize, slots: u32, waiting: u32, ms: u64) -> Option<OtherWorkers> {
        let taken = self.running[vm].len() as u32;
        let publication = Publication {
            variant: VARIANT,
            slots,
            usage: Usage {
                uploads: 0,
                taken,
                waiting_count: waiting,
                until: at(ms),
                head: (waiting > 0).then(|| due_at(0)),
            },
            after: lanes::AFTER,
            mean: lanes::SERVICE,
        };
        self.vms[vm].worker.publish_if_full(publication, at(ms))
    }
}

proptest! {
    #[test]
    fn table_changed_in_place_is_the_table_read_from_bytes(
        slots in 1..4_u32,
        steps in prop::collection::vec((0..3_usize, 0..4_u32, 0..3_usize, 0..400_u64), 1..60),
        restart in 0..60_usize,
    ) {
        let (mut bytes, mut in_place) = (Workers::<Memory>::new(slots), Workers::<InPlace>::new(slots));
        let mut ms = 0;
        for (step, (vm, waiting, ends, later)) in steps.into_iter().enumerate() {
            // Most steps follow each other closely; some come after a lease has ended.
            ms += if later < 380 { later / 20 } else { later * 4 };
            if step == restart {
                bytes.store.clear();
                in_place.store.clear();
            }
            match (waiting, ends) {
                (3, 0) => prop_assert_eq!(bytes.renew(vm, ms), in_place.renew(vm, ms)),
                (waiting, 2) => prop_assert_eq!(
                    bytes.publish(vm, slots, waiting, ms),
                    in_place.publish(vm, slots, waiting, ms)
                ),
                _ => prop_assert_eq!(
                    bytes.acquire(vm, waiting, ends, ms),
                    in_place.acquire(vm, waiting, ends, ms)
                ),
            }
            let mut table = SlotTable::default();
            if let Some(bytes) = bytes.store.bytes() {
                prop_assert_eq!(table.read(&bytes), Ok(()));
            }
            prop_assert_eq!(table, in_place.store.slots());
            let mut notifies = Vec::new();
            in_place.store.swap_notifications(&mut notifies);
            prop_assert_eq!(bytes.store.take_notifications(), notifies);
            let claimed = bytes.store.take_claimed_rows().last().copied();
            prop_assert_eq!(claimed, in_place.store.take_claimed_row());
        }
    }
}
