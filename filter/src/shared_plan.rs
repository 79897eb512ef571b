//! Latest answer of the planner, shared by the VMs of a proxy: a plan, or that this proxy gets no slot.
//!
//! It only moves forward. A poller may stall between an answer and its write, and another VM may poll
//! meanwhile. The planner then assumes the newer answer, and has given the slots of the older one to
//! others. So an answer replaces only an older one, by compare-and-swap.
//!
//! Bytes: `received u64 · revision u64 · plan`, little-endian. Without a plan, this proxy gets no slot, and
//! the revision is the one that the poll named.

use weir_api::Revision;

use crate::plan;
use crate::time::Mono;

/// Number of CAS attempts. After that the VM polls again and gets the same answer.
pub const TRIES_MAX: u32 = 8;
/// Bytes before the plan.
const HEAD_BYTES: usize = 16;

/// Bytes that all VMs of a proxy can read and swap.
pub trait SharedBytes {
    /// Loads the bytes and their version; `None` if there never were any.
    fn load(&mut self) -> (Option<Vec<u8>>, Option<u32>);
    /// Replaces the bytes if their version is `version` (`None`: there are none yet); returns whether it did.
    fn swap(&mut self, bytes: &[u8], version: Option<u32>) -> bool;
}

/// Answer of the planner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedPlan<'a> {
    /// Time of receipt.
    pub received: Mono,
    /// Revision of the plan; without a plan, the revision that the poll named.
    pub revision: Revision,
    /// Plan as received; `None`: this proxy gets no slot.
    pub plan: Option<&'a [u8]>,
}

impl<'a> SharedPlan<'a> {
    /// Reads shared bytes. `None` if they are not ours: any program may write shared data.
    #[must_use]
    pub fn read(bytes: &'a [u8]) -> Option<SharedPlan<'a>> {
        let (received, rest) = bytes.split_first_chunk::<8>()?;
        let (revision, plan) = rest.split_first_chunk::<8>()?;
        Some(SharedPlan {
            received: Mono(u64::from_le_bytes(*received)),
            revision: Revision(u64::from_le_bytes(*revision)),
            plan: Some(plan).filter(|plan| !plan.is_empty()),
        })
    }

    fn bytes(&self) -> Vec<u8> {
        let plan = self.plan.unwrap_or_default();
        let mut bytes = Vec::with_capacity(HEAD_BYTES + plan.len());
        bytes.extend_from_slice(&self.received.0.to_le_bytes());
        bytes.extend_from_slice(&self.revision.0.to_le_bytes());
        bytes.extend_from_slice(plan);
        bytes
    }

    /// Shares it with all VMs, unless their answer is as new; returns whether it is stored now.
    pub fn put(&self, shared: &mut impl SharedBytes, service: &str) -> bool {
        for _ in 0..TRIES_MAX {
            let (current, version) = shared.load();
            let current = current.as_deref().and_then(SharedPlan::read);
            if current.is_some_and(|current| current.is_sound(service) && !self.replaces(&current))
            {
                return false;
            }
            if shared.swap(&self.bytes(), version) {
                return true;
            }
        }
        false
    }

    /// Whether it is newer. A plan is newer than any of a lower revision, and than an answer without a plan
    /// after the same or a lower revision. An answer without a plan is newer than the plans that its poll knew.
    fn replaces(&self, current: &SharedPlan<'_>) -> bool {
        match (self.plan, current.plan) {
            (None, Some(_)) => self.revision >= current.revision,
            _ => self.revision > current.revision,
        }
    }

    /// Whether it is valid: an invalid plan must not keep others out.
    fn is_sound(&self, service: &str) -> bool {
        let Some(bytes) = self.plan else {
            return self.revision <= Revision::MAX;
        };
        let read = plan::read(bytes, service, Revision(0));
        read.is_ok_and(|plan| plan.revision == self.revision)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SERVICE: &str = "demo";

    fn plan(revision: u64) -> Vec<u8> {
        format!(
            r#"{{"format":1,"service":"demo","revision":{revision},"max_age_ms":1000,
            "variants":[{{"name":"a","cluster":"a","share":1,"slots":1}}]}}"#
        )
        .into_bytes()
    }

    /// Shared data; `meanwhile` holds what others write between a load and the swap after it.
    #[derive(Default)]
    struct Data {
        bytes: Option<Vec<u8>>,
        version: u32,
        meanwhile: Vec<Vec<u8>>,
    }

    impl Data {
        fn write(&mut self, bytes: Vec<u8>) {
            self.bytes = Some(bytes);
            self.version += 1;
        }
    }

    impl SharedBytes for Data {
        fn load(&mut self) -> (Option<Vec<u8>>, Option<u32>) {
            let loaded = (
                self.bytes.clone(),
                self.bytes.as_ref().map(|_| self.version),
            );
            if let Some(bytes) = self.meanwhile.pop() {
                self.write(bytes);
            }
            loaded
        }

        fn swap(&mut self, bytes: &[u8], version: Option<u32>) -> bool {
            let current = self.bytes.as_ref().map(|_| self.version);
            if current == version {
                self.write(bytes.to_vec());
            }
            current == version
        }
    }

    /// Puts a plan of that revision, or an answer without a plan after it.
    fn put(data: &mut Data, revision: u64, has_plan: bool) -> bool {
        let bytes = plan(revision);
        let answer = SharedPlan {
            received: Mono(revision),
            revision: Revision(revision),
            plan: has_plan.then_some(bytes.as_slice()),
        };
        answer.put(data, SERVICE)
    }

    fn current(data: &Data) -> (u64, bool) {
        let current = SharedPlan::read(data.bytes.as_deref().unwrap()).unwrap();
        assert_eq!(current.received, Mono(current.revision.0));
        (current.revision.0, current.plan.is_some())
    }

    #[test]
    fn only_an_older_answer_is_replaced() {
        for (before, new, replaced) in [
            ((5, true), (6, true), true),
            ((6, true), (5, true), false),
            ((6, true), (6, true), false),
            // No slot any more for a proxy that knows revision 6.
            ((6, true), (6, false), true),
            ((6, true), (5, false), false),
            ((6, false), (6, true), false),
            ((6, false), (7, true), true),
            ((6, false), (6, false), false),
            ((6, false), (7, false), true),
            ((0, false), (1, true), true),
        ] {
            let mut data = Data::default();
            assert!(put(&mut data, before.0, before.1), "nothing was there yet");
            let done = put(&mut data, new.0, new.1);
            let expected = if replaced { new } else { before };
            assert_eq!(
                (done, current(&data)),
                (replaced, expected),
                "{before:?}, {new:?}"
            );
        }
    }

    /// A poller stalls between its load and its swap; another is faster.
    #[test]
    fn stalled_writer_does_not_replace_a_newer_word() {
        let newer = |revision: u64| {
            let mut data = Data::default();
            put(&mut data, revision, true);
            data.bytes.unwrap()
        };
        for (others, done, expected) in [(6, false, 6), (4, true, 5)] {
            let mut data = Data::default();
            put(&mut data, 3, true);
            data.meanwhile = vec![newer(others)];
            assert_eq!(put(&mut data, 5, true), done);
            assert_eq!(current(&data), (expected, true));
        }
        // Attempts are bounded.
        let mut data = Data {
            meanwhile: vec![newer(1); 2 * TRIES_MAX as usize],
            ..Data::default()
        };
        assert!(!put(&mut data, 5, true));
        assert_eq!(current(&data), (1, true));
    }

    #[test]
    fn invalid_answer_is_replaced() {
        let answer = |revision: u64, plan: &[u8]| {
            [&9_u64.to_le_bytes(), &revision.to_le_bytes(), plan].concat()
        };
        for spoilt in [
            Vec::new(),
            b"x".to_vec(),
            answer(99, b"{}"),
            answer(99, &plan(98)),
            answer(
                99,
                &String::from_utf8(plan(99))
                    .unwrap()
                    .replace("demo", "other")
                    .into_bytes(),
            ),
            answer(u64::MAX, b""),
        ] {
            let mut data = Data::default();
            data.write(spoilt);
            assert!(put(&mut data, 5, true));
            assert_eq!(current(&data), (5, true));
        }
    }

    proptest! {
        /// The stored revision never falls, whichever of two concurrent writers is faster.
        #[test]
        fn revision_never_falls(
            pairs in prop::collection::vec([(0..20_u64, any::<bool>()), (0..20_u64, any::<bool>())], 1..30),
        ) {
            let mut data = Data::default();
            let mut max = 0;
            for [(quick, quick_has_plan), (slow, slow_has_plan)] in pairs {
                let before = (data.bytes.clone(), data.version);
                if put(&mut data, quick, quick_has_plan) {
                    let written = data.bytes.take().unwrap();
                    (data.bytes, data.version) = before;
                    data.meanwhile = vec![written];
                }
                put(&mut data, slow, slow_has_plan);
                let (now, _) = current(&data);
                prop_assert!(now >= max.max(quick), "{now} < {max}, {quick}");
                max = now;
            }
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let read = SharedPlan::read(&bytes);
            prop_assert_eq!(read.is_some(), bytes.len() >= HEAD_BYTES);
            if let Some(answer) = read {
                prop_assert_eq!(answer.bytes(), bytes);
            }
        }
    }
}
