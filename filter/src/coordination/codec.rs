//! Encoding of the slot table. Little-endian, no padding:
//!
//! ```text
//! header   magic and layout version 14 · checksum u64 · resets u32 · columns u16 · rows u16
//!          runs u16 · quarantine_until u64 · process_id u64 · poller u64 · poller_until u64
//! column   key u64 · idle_since u64 (0: not) · full_since u64 (0: not) · used_at u64
//!          open u32 · sent u32 · begun u32
//!          2 healths
//!          planned u64 · early_wait u64 · recent_wait u64 · confirmed u8 · 2 means
//!          limit · curve                                                                × columns
//! health   failure u8 (0: none) · since u64 · next_trial u64 · errors u16 · rounds u8 · serves u8
//!          sources u32 (0: nobody, 1: several)
//! mean     mean u64 · scatter u64 · last u64 · count u16 · at u64
//! limit    planned u32 · found u32 · trial u32 · phase u8 · samples u16 · cut_off u16 · slow u16 · sum u64 · base u32
//!          left u32 · since u64 · ended_at u64 · lost u32 · next_trial u64 · fruitless u8 · halvings u8 · falls, late u8
//! curve    turned u64 · answered u64 · most u32 · latest u32 · under_way u32 · sent u32 · until u64 · 16 points
//! point    mean u32 · scatter u32 · from_end mean u32 · scatter u32 · count u16 · at_ms u32 · completed_at_ms u32
//! row      incarnation u64 · lease u64 · notified_at u64 · serving u8 · held u32        × rows
//! usage    taken u32 · waiting_count u32 · until u64 · head u64 (0: none) · uploads u32 × columns × rows
//! run      column u16 · first u32 · present u32 · began u64                             × runs
//! ```
//!
//! The checksum covers everything after it. Bytes of another version, too short, too long or changed by
//! another program are [`Unreadable`]. Nothing here panics on any bytes.

mod reader;
mod writer;

pub(super) use self::reader::Reader;
use self::writer::Writer;
use super::checksum::checksum;
use super::{
    COLUMNS_MAX, ROWS_MAX, RUNS_MAX, Run, Runs, SlotTable, Usage, VariantColumn, WorkerRow,
};
use crate::coordination::curve::POINTS;
use crate::health::Healths;
use crate::priority::Urgency;
use crate::time::Mono;
use crate::variant::VariantKey;

/// Version of the layout. Another layout needs another number; it is also part of the key in the store.
pub const LAYOUT: u8 = 14;
/// First bytes of a slot table.
const MAGIC: [u8; 8] = [b'w', b'e', b'i', b'r', b's', b'l', b't', LAYOUT];
/// Length of magic and checksum, which the checksum does not cover.
const UNSUMMED: usize = 16;
/// Lengths in bytes of the header, a column, a health, a limit, a curve, a point, a lead, a mean, a row, a usage and a run.
const HEADER: usize = UNSUMMED + 42;
const COLUMN: usize = 44 + 2 * HEALTH + LEAD + LIMIT + CURVE;
const HEALTH: usize = 25;
const LIMIT: usize = 66;
const CURVE: usize = 40 + POINTS * POINT;
const POINT: usize = 26;
const LEAD: usize = 25 + 2 * MEAN;
const MEAN: usize = 34;
const ENTRY: usize = 29;
const CELL: usize = 28;
const RUN: usize = 18;

/// The bytes are not a slot table of this layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a slot table of this layout")]
pub struct Unreadable;

impl SlotTable {
    /// Reads a table into this one, reusing its buffers.
    ///
    /// # Errors
    /// [`Unreadable`]; this table is then empty.
    pub fn read(&mut self, bytes: &[u8]) -> Result<(), Unreadable> {
        self.clear();
        let read = self.fill(bytes);
        if read.is_none() {
            *self = SlotTable::default();
        }
        read.ok_or(Unreadable)
    }

    /// Writes the table to `out`, replacing its contents.
    pub fn write(&self, out: &mut Vec<u8>) {
        let rows = self.columns.len() * COLUMN + self.rows.len() * ENTRY;
        let rows = rows + self.runs_len() * RUN;
        out.resize(HEADER + rows + self.usages.len() * CELL, 0);
        let Some((unsummed, summed)) = out.split_first_chunk_mut::<UNSUMMED>() else {
            return;
        };
        self.fill_in(summed);
        let sum = checksum(summed);
        let mut writer = Writer(unsummed);
        writer.put(MAGIC);
        writer.u64(sum);
    }

    /// Writes the part that the checksum covers. A row at a time has a known length, so no number needs a
    /// bounds check.
    fn fill_in(&self, out: &mut [u8]) {
        let Some((header, rows)) = out.split_first_chunk_mut::<{ HEADER - UNSUMMED }>() else {
            return;
        };
        let mut writer = Writer(header);
        writer.u32(self.resets);
        writer.put((self.columns.len() as u16).to_le_bytes());
        writer.put((self.rows.len() as u16).to_le_bytes());
        writer.put((self.runs_len() as u16).to_le_bytes());
        writer.u64(self.quarantine_until.0);
        writer.u64(self.process_id);
        writer.u64(self.poller.0);
        writer.u64(self.poller.1.0);
        let Some((columns, rows)) = rows.split_at_mut_checked(self.columns.len() * COLUMN) else {
            return;
        };
        for (column, row) in self.columns.iter().zip(columns.as_chunks_mut::<COLUMN>().0) {
            let mut writer = Writer(row);
            writer.u64(column.key.0);
            writer.u64(column.idle_since.map_or(0, |at| at.0.max(1)));
            writer.u64(column.full_since.map_or(0, |at| at.0.max(1)));
            writer.u64(column.used_at.0);
            writer.u32(column.open);
            writer.u32(column.sent);
            writer.u32(column.begun);
            writer.health(&column.health.rest);
            writer.health(&column.health.grpc);
            writer.lead(&column.lead);
            writer.limit(&column.limit);
            writer.u64(column.curve.turned.0);
            writer.u64(column.curve.answered.0);
            writer.ends(&column.curve.ends);
            for point in &column.curve.points {
                writer.point(point);
            }
        }
        let Some((rows, usages)) = rows.split_at_mut_checked(self.rows.len() * ENTRY) else {
            return;
        };
        for (worker, row) in self.rows.iter().zip(rows.as_chunks_mut::<ENTRY>().0) {
            let mut writer = Writer(row);
            writer.u64(worker.incarnation);
            writer.u64(worker.lease.0);
            writer.u64(worker.notified_at.0);
            writer.put([u8::from(worker.serving)]);
            writer.u32(worker.held);
        }
        let Some((usages, runs)) = usages.split_at_mut_checked(self.usages.len() * CELL) else {
            return;
        };
        for (usage, row) in self.usages.iter().zip(usages.as_chunks_mut::<CELL>().0) {
            let mut writer = Writer(row);
            writer.u32(usage.taken);
            writer.u32(usage.waiting_count);
            writer.u64(usage.until.0);
            writer.u64(usage.head.map_or(0, |head| head.0.max(1)));
            writer.u32(usage.uploads);
        }
        let mut rows = runs.as_chunks_mut::<RUN>().0.iter_mut();
        for (column, runs) in (0_u16..).zip(&self.runs) {
            for (run, row) in runs.iter().zip(rows.by_ref()) {
                let mut writer = Writer(row);
                writer.put(column.to_le_bytes());
                writer.u32(run.first);
                writer.u32(run.present);
                writer.u64(run.began.0);
            }
        }
    }

    /// Number of runs of all columns.
    fn runs_len(&self) -> usize {
        self.runs.iter().map(|runs| runs.iter().len()).sum()
    }

    /// Makes its values those that its bytes are read as: a time of 0 stands for none, so that 0 is written as 1.
    pub(super) fn round(&mut self) {
        for column in &mut self.columns {
            column.idle_since = column.idle_since.map(|at| at.max(Mono(1)));
            column.full_since = column.full_since.map(|at| at.max(Mono(1)));
        }
        for usage in &mut self.usages {
            usage.head = usage.head.map(|head| head.max(Urgency(1)));
        }
    }

    fn clear(&mut self) {
        self.columns.clear();
        self.rows.clear();
        self.usages.clear();
        for runs in &mut self.runs {
            runs.clear();
        }
        (self.resets, self.quarantine_until) = Default::default();
        (self.process_id, self.poller) = Default::default();
    }

    fn fill(&mut self, bytes: &[u8]) -> Option<()> {
        let mut reader = Reader(bytes);
        if reader.take::<8>()? != MAGIC {
            return None;
        }
        let sum = reader.u64()?;
        if sum != checksum(reader.0) {
            return None;
        }
        self.resets = reader.u32()?;
        let columns = usize::from(u16::from_le_bytes(reader.take()?));
        let rows = usize::from(u16::from_le_bytes(reader.take()?));
        let runs = usize::from(u16::from_le_bytes(reader.take()?));
        if columns > COLUMNS_MAX || rows > ROWS_MAX || runs > columns * RUNS_MAX {
            return None;
        }
        self.quarantine_until = reader.mono()?;
        self.process_id = reader.u64()?;
        self.poller = (reader.u64()?, reader.mono()?);
        for _ in 0..columns {
            self.columns.push(VariantColumn {
                key: VariantKey(reader.u64()?),
                idle_since: reader.some()?.map(Mono),
                full_since: reader.some()?.map(Mono),
                used_at: reader.mono()?,
                open: reader.u32()?,
                sent: reader.u32()?,
                begun: reader.u32()?,
                health: Healths {
                    rest: reader.health()?,
                    grpc: reader.health()?,
                },
                lead: reader.lead()?,
                limit: reader.limit()?,
                curve: reader.curve()?,
            });
        }
        for _ in 0..rows {
            self.rows.push(WorkerRow {
                incarnation: reader.u64()?,
                lease: reader.mono()?,
                notified_at: reader.mono()?,
                serving: reader.take::<1>()? != [0],
                held: reader.u32()?,
            });
        }
        for _ in 0..rows * columns {
            self.usages.push(Usage {
                taken: reader.u32()?,
                waiting_count: reader.u32()?,
                until: reader.mono()?,
                head: reader.some()?.map(Urgency),
                uploads: reader.u32()?,
            });
        }
        // Their buffers are kept.
        self.runs.resize_with(columns, Runs::default);
        let mut before = 0;
        for _ in 0..runs {
            let column = usize::from(u16::from_le_bytes(reader.take()?));
            let run = Run {
                first: reader.u32()?,
                present: reader.u32()?,
                began: reader.mono()?,
            };
            if column < before || !self.runs.get_mut(column)?.push(run) {
                return None;
            }
            before = column;
        }
        reader.0.is_empty().then_some(())
    }
}
