//! Service times by group that all workers of a proxy measured: a value beside the slot table, because they are many
//! bytes and change by every execution, while the slot table is swapped by every request. Little-endian, no padding:
//!
//! ```text
//! header   magic and layout version 8 · checksum u64 · records u16
//! record   key u64 · window u64 · groups u8                                                    × records
//! group    index u8 · count u32 · completed u32 · sum u64 · completed_sum u64 · squares u64     × groups
//! ```
//!
//! A record is one variant: [`GroupSums`]. Only groups with executions are written, by ascending index; those of the
//! window before follow those of the present one. The checksum covers everything after it. Other bytes are
//! [`Unreadable`]. Nothing here panics on any bytes.

use super::checksum::checksum;
use super::codec::{Reader, Unreadable};
use crate::routing::group_sums::{GROUPS, GroupSums, Sums};
use crate::time::Mono;
use crate::variant::VariantKey;

/// Version of the layout. Another layout needs another number; it is also part of the key in the store.
pub const GROUP_LAYOUT: u8 = 1;
/// Maximum number of variants. Times of a further one are measured by each worker alone.
pub const RECORDS_MAX: usize = 128;
/// First bytes of a table.
const MAGIC: [u8; 8] = [b'w', b'e', b'i', b'r', b'g', b'r', b'p', GROUP_LAYOUT];
/// Length of magic and checksum, which the checksum does not cover.
const UNSUMMED: usize = 16;

const _: () = assert!(2 * GROUPS <= u8::MAX as usize);

/// Measurements of all workers, by variant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupTable {
    records: Vec<(VariantKey, GroupSums)>,
}

impl GroupTable {
    /// Measurements of a variant, if there are any.
    #[must_use]
    pub fn get(&self, key: VariantKey) -> Option<&GroupSums> {
        let record = self.records.iter().find(|(known, _)| *known == key);
        record.map(|(_, sums)| sums)
    }

    /// Adds what a worker has measured of a variant; returns whether that must be written. `None` if the table is full.
    pub fn add(&mut self, key: VariantKey, own: &GroupSums) -> Option<bool> {
        if own.is_empty() {
            return Some(false);
        }
        if let Some((_, sums)) = self.records.iter_mut().find(|(known, _)| *known == key) {
            sums.add(own);
        } else if self.records.len() < RECORDS_MAX {
            self.records.push((key, own.clone()));
        } else {
            return None;
        }
        Some(true)
    }

    /// Drops what is too old.
    pub fn expire(&mut self, now: Mono) {
        self.records.retain_mut(|(_, sums)| {
            sums.expire(now);
            !sums.is_empty()
        });
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.records.clear();
    }

    /// Reads a table into this one.
    ///
    /// # Errors
    /// [`Unreadable`]; this table is then as it was.
    pub fn read(&mut self, bytes: &[u8]) -> Result<(), Unreadable> {
        let (reader, count) = body(bytes).ok_or(Unreadable)?;
        // First without taking anything, because it stays as it was if any part is not sound.
        each_part((reader, count), |_| {}).ok_or(Unreadable)?;
        self.records.resize_with(count, Default::default);
        let (mut rest, mut record) = (self.records.iter_mut(), None);
        each_part((reader, count), |part| match part {
            Part::Record(key, window) => {
                record = rest.next();
                if let Some((known, sums)) = &mut record {
                    *known = key;
                    sums.begin(window);
                }
            }
            Part::Group(index, group) => {
                if let Some((_, sums)) = &mut record {
                    sums.set(index, group);
                }
            }
        })
        .ok_or(Unreadable)
    }

    /// Writes the table to `out`, replacing its contents.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(&(self.records.len() as u16).to_le_bytes());
        for (key, sums) in &self.records {
            write_record(*key, sums, out);
        }
        if let Some((unsummed, summed)) = out.split_first_chunk_mut::<UNSUMMED>()
            && let Some((_, sum)) = unsummed.split_first_chunk_mut::<8>()
        {
            sum.copy_from_slice(&checksum(summed).to_le_bytes());
        }
    }
}

fn write_record(key: VariantKey, sums: &GroupSums, out: &mut Vec<u8>) {
    let groups = || (0_u8..).zip(sums.windows().iter().flatten());
    let groups = || groups().filter(|(_, sums)| sums.count > 0);
    out.extend_from_slice(&key.0.to_le_bytes());
    out.extend_from_slice(&sums.window().to_le_bytes());
    out.push(groups().count() as u8);
    for (index, sums) in groups() {
        out.push(index);
        out.extend_from_slice(&sums.count.to_le_bytes());
        out.extend_from_slice(&sums.completed.to_le_bytes());
        out.extend_from_slice(&sums.sum.to_le_bytes());
        out.extend_from_slice(&sums.completed_sum.to_le_bytes());
        out.extend_from_slice(&sums.squares.to_le_bytes());
    }
}

/// Part of a table.
enum Part {
    /// Begin of a variant's record, with the number of its present window.
    Record(VariantKey, u64),
    /// Sums of the group with that index.
    Group(usize, Sums),
}

/// Bytes after the header, and the number of records in them.
fn body(bytes: &[u8]) -> Option<(Reader<'_>, usize)> {
    let mut reader = Reader(bytes);
    if reader.take::<8>()? != MAGIC || reader.u64()? != checksum(reader.0) {
        return None;
    }
    let count = usize::from(u16::from_le_bytes(reader.take()?));
    (count <= RECORDS_MAX).then_some((reader, count))
}

/// Reads the records part by part; `None` if they are not sound.
fn each_part((mut reader, records): (Reader<'_>, usize), mut take: impl FnMut(Part)) -> Option<()> {
    for _ in 0..records {
        take(Part::Record(VariantKey(reader.u64()?), reader.u64()?));
        let [groups] = reader.take()?;
        let mut next = 0;
        for _ in 0..groups {
            let [index] = reader.take()?;
            let index = usize::from(index);
            if index < next || index >= 2 * GROUPS {
                return None;
            }
            next = index + 1;
            let sums = Sums {
                count: reader.u32()?,
                completed: reader.u32()?,
                sum: reader.u64()?,
                completed_sum: reader.u64()?,
                squares: reader.u64()?,
            };
            if sums.count == 0 || !sums.is_sound() {
                return None;
            }
            take(Part::Group(index, sums));
        }
    }
    reader.0.is_empty().then_some(())
}
