//! The board's bytes. Little-endian, no padding:
//!
//! ```text
//! header   magic and layout version 8 · checksum u32 · resets u32 · columns u16 · entries u16
//!          settling_until u64 · founder u64 · poller u64 · poller_until u64
//! column   key u64 · idle_since u64 (0: not) · used_at u64                          × columns
//! entry    incarnation u64 · lease u64 · rung_at u64 · serving u8 · held u32        × entries
//! cell     taken u32 · until u64 · head u64 (0: none)      × entries × columns
//! ```
//!
//! The checksum (CRC-32) is over everything after it. Bytes of another version, too short, too long or
//! changed by somebody else are [`Unreadable`]; nothing here panics on any bytes.

use super::{Board, COLUMNS_MAX, Cell, Column, ENTRIES_MAX, Entry, Key};
use crate::time::Mono;

/// "weirbrd" and the layout's version: another layout, another number, and another key in the store.
const MAGIC: [u8; 8] = *b"weirbrd\x01";
/// Where the checksum ends, and what it is over begins.
const SUMMED_FROM: usize = 12;

/// Not the bytes of a board of this layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a board of this layout")]
pub struct Unreadable;

impl Board {
    /// Reads a board into this one, whose tables are used again.
    ///
    /// # Errors
    /// [`Unreadable`]; this one is then empty.
    pub fn read(&mut self, bytes: &[u8]) -> Result<(), Unreadable> {
        self.clear();
        let read = self.fill(bytes);
        if read.is_none() {
            self.clear();
        }
        read.ok_or(Unreadable)
    }

    /// Writes the board in place of what is in `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[0; 4]);
        put_u32(out, self.resets);
        out.extend_from_slice(&(self.columns.len() as u16).to_le_bytes());
        out.extend_from_slice(&(self.entries.len() as u16).to_le_bytes());
        put_u64(out, self.settling_until.0);
        put_u64(out, self.founder);
        put_u64(out, self.poller.0);
        put_u64(out, self.poller.1.0);
        for column in &self.columns {
            put_u64(out, column.key.0);
            put_u64(out, instant(column.idle_since));
            put_u64(out, column.used_at.0);
        }
        for entry in &self.entries {
            put_u64(out, entry.incarnation);
            put_u64(out, entry.lease.0);
            put_u64(out, entry.rung_at.0);
            out.push(u8::from(entry.serving));
            put_u32(out, entry.held);
        }
        for cell in &self.cells {
            put_u32(out, cell.taken);
            put_u64(out, cell.until.0);
            put_u64(out, instant(cell.head));
        }
        let sum = crc32fast::hash(out.get(SUMMED_FROM..).unwrap_or_default());
        if let Some(place) = out.get_mut(SUMMED_FROM - 4..SUMMED_FROM) {
            place.copy_from_slice(&sum.to_le_bytes());
        }
    }

    fn clear(&mut self) {
        self.columns.clear();
        self.entries.clear();
        self.cells.clear();
        (self.resets, self.settling_until) = Default::default();
        (self.founder, self.poller) = Default::default();
    }

    fn fill(&mut self, bytes: &[u8]) -> Option<()> {
        let mut reader = Reader(bytes);
        if reader.take::<8>()? != MAGIC {
            return None;
        }
        let sum = reader.u32()?;
        if sum != crc32fast::hash(reader.0) {
            return None;
        }
        self.resets = reader.u32()?;
        let columns = usize::from(u16::from_le_bytes(reader.take()?));
        let entries = usize::from(u16::from_le_bytes(reader.take()?));
        if columns > COLUMNS_MAX || entries > ENTRIES_MAX {
            return None;
        }
        self.settling_until = reader.mono()?;
        self.founder = reader.u64()?;
        self.poller = (reader.u64()?, reader.mono()?);
        for _ in 0..columns {
            self.columns.push(Column {
                key: Key(reader.u64()?),
                idle_since: reader.instant()?,
                used_at: reader.mono()?,
            });
        }
        for _ in 0..entries {
            self.entries.push(Entry {
                incarnation: reader.u64()?,
                lease: reader.mono()?,
                rung_at: reader.mono()?,
                serving: reader.take::<1>()? != [0],
                held: reader.u32()?,
            });
        }
        for _ in 0..entries * columns {
            self.cells.push(Cell {
                taken: reader.u32()?,
                until: reader.mono()?,
                head: reader.instant()?,
            });
        }
        reader.0.is_empty().then_some(())
    }
}

/// What is left to read.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn mono(&mut self) -> Option<Mono> {
        self.u64().map(Mono)
    }

    fn instant(&mut self) -> Option<Option<Mono>> {
        self.u64().map(|at| (at > 0).then_some(Mono(at)))
    }
}

fn instant(at: Option<Mono>) -> u64 {
    at.map_or(0, |at| at.0.max(1))
}

fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}
