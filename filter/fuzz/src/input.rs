//! Bytes as a source of choices: each takes one or two of them, and none is left at the end.

/// Bytes not used yet.
#[derive(Debug)]
pub(crate) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Input<'a> {
        Input(data)
    }

    /// Next byte; `None` at the end.
    pub(crate) fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// A number below `below`, of one byte; 0 at the end.
    pub(crate) fn below(&mut self, below: usize) -> usize {
        usize::from(self.next().unwrap_or_default()) % below.max(1)
    }

    /// A number below 65,536, of two bytes.
    pub(crate) fn wide(&mut self) -> u64 {
        let [high, low] = [self.below(256), self.below(256)];
        (high * 256 + low) as u64
    }

    /// Yes or no.
    pub(crate) fn flag(&mut self) -> bool {
        self.below(2) == 1
    }

    /// One of these.
    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        if from.is_empty() {
            return None;
        }
        from.get(self.below(from.len())).copied()
    }

    /// The next bytes, as many as the next byte says, or all that there are.
    pub(crate) fn bytes(&mut self) -> &'a [u8] {
        let length = self.below(256).min(self.0.len());
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        taken
    }

    /// All bytes that are left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}
