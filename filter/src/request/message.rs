//! Name of the model in the messages of a gRPC body, by the Open Inference Protocol: the first field of each. A variant's
//! servers may have a name of their own for the model, which replaces the client's as the body passes.
//!
//! Of a message only its length and its first [`SEARCHED_MAX`] bytes are read. A message that is compressed, or whose
//! name is not in these bytes, stays as it is.

use std::rc::Rc;

/// Bytes of a message in which its name is searched.
pub const SEARCHED_MAX: usize = 1024;
/// Length of a message's head: whether it is compressed, and its length.
const HEAD: usize = 5;
/// Tag of the first field, a text.
const NAME_TAG: u8 = 0x0a;

/// Renames the model in the messages of one body, whose bytes come in chunks.
#[derive(Debug, Clone)]
pub struct Renamer {
    name: Rc<str>,
    /// Whether the body is a stream of messages.
    many: bool,
    /// Whether nothing is left to rename.
    done: bool,
    /// Bytes of the present message that have not come.
    left: u64,
}

/// Change of the bytes that have come and not passed on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    /// Number of bytes, from the first, that [`Change::by`] replaces.
    pub replaced: usize,
    /// Bytes in place of them.
    pub by: Vec<u8>,
    /// Whether all bytes must wait for more of the body. Nothing is changed then.
    pub waits: bool,
    /// Messages that stay as they are, because their names were not found.
    pub unnamed: u32,
}

impl Renamer {
    /// Creates a renamer. `many`: the body is a stream of messages.
    #[must_use]
    pub fn new(name: Rc<str>, many: bool) -> Renamer {
        Renamer {
            name,
            many,
            done: false,
            left: 0,
        }
    }

    /// Whether nothing is left to rename.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Returns how many bytes of a chunk of `size` bytes are to be read, from the first on; 0: it passes as it is.
    pub fn required(&mut self, size: usize) -> usize {
        if self.done || size == 0 {
            return 0;
        }
        if size as u64 <= self.left {
            self.left -= size as u64;
            return 0;
        }
        match self.many {
            true => size,
            false => size.min(HEAD + SEARCHED_MAX),
        }
    }

    /// Renames in the bytes that [`Renamer::required`] named. `complete`: the body has no other bytes than them and those
    /// that they are the first of.
    pub fn rename(&mut self, bytes: &[u8], complete: bool) -> Change {
        let mut change = Change::default();
        let mut at = usize::try_from(self.left).unwrap_or(usize::MAX);
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let message = Message::read(rest, &self.name);
            let length = match message {
                Message::Incomplete if complete => break,
                Message::Incomplete => {
                    return Change {
                        waits: true,
                        ..Change::default()
                    };
                }
                Message::Unnamed(length) => {
                    change.unnamed += 1;
                    length
                }
                Message::Renamed { length, first, by } => {
                    let kept = bytes.get(change.replaced..at).unwrap_or_default();
                    change.by.extend_from_slice(kept);
                    change.by.extend_from_slice(&by);
                    change.replaced = at + first;
                    length
                }
            };
            at = at.saturating_add(length);
            if !self.many {
                break;
            }
        }
        self.done = !self.many || complete;
        self.left = (at as u64).saturating_sub(bytes.len() as u64);
        change
    }
}

/// A message that begins.
enum Message {
    /// More of its bytes are needed.
    Incomplete,
    /// Its name was not found; its length with its head.
    Unnamed(usize),
    /// Its first bytes with the new name.
    Renamed {
        /// Length with its head, as it comes.
        length: usize,
        /// Number of its bytes that are replaced.
        first: usize,
        /// Bytes in place of them.
        by: Vec<u8>,
    },
}

impl Message {
    /// Reads the message at the beginning of `bytes`.
    fn read(bytes: &[u8], name: &str) -> Message {
        let Some(([compressed, length @ ..], rest)) = bytes.split_first_chunk::<HEAD>() else {
            return Message::Incomplete;
        };
        let content = u32::from_be_bytes(*length);
        let whole = usize::try_from(content).unwrap_or(usize::MAX);
        let length = whole.saturating_add(HEAD);
        let searched = whole.min(SEARCHED_MAX);
        let rest = rest.get(..searched).unwrap_or(rest);
        if *compressed != 0 {
            return Message::Unnamed(length);
        }
        let Some((before, end)) = find(rest) else {
            return match rest.len() < searched {
                true => Message::Incomplete,
                false => Message::Unnamed(length),
            };
        };
        let mut field = vec![NAME_TAG];
        write_varint(name.len(), &mut field);
        field.extend_from_slice(name.as_bytes());
        let grown = u64::from(content) + field.len() as u64 - (end - before.len()) as u64;
        let Ok(content) = u32::try_from(grown) else {
            return Message::Unnamed(length);
        };
        let head = [&[0][..], &content.to_be_bytes()].concat();
        Message::Renamed {
            length,
            first: HEAD + end,
            by: [&head[..], before, &field].concat(),
        }
    }
}

/// Finds the first field in the beginning of a message: returns the bytes before it, and the place of its end. `None`
/// if these bytes do not have all of it.
fn find(message: &[u8]) -> Option<(&[u8], usize)> {
    let place = |rest: &[u8]| message.len() - rest.len();
    let mut rest = message;
    loop {
        let start = place(rest);
        let (tag, value) = read_varint(rest)?;
        let (skipped, value) = match tag & 7 {
            0 => (0, read_varint(value)?.1),
            1 => (8, value),
            2 => read_varint(value)?,
            5 => (4, value),
            _ => return None,
        };
        rest = value.get(usize::try_from(skipped).ok()?..)?;
        if tag == u64::from(NAME_TAG) {
            return Some((message.get(..start)?, place(rest)));
        }
    }
}

/// Reads a number of seven bits a byte; returns it and the bytes after it.
fn read_varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (index, byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((value, bytes.get(index + 1..)?));
        }
    }
    None
}

fn write_varint(mut value: usize, out: &mut Vec<u8>) {
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests;
