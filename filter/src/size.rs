//! Size of a request's body, to the power of two: enough to tell short executions from long ones, and few enough that
//! each size is measured soon.

/// Number of sizes, the unknown one included; they fit into [`SIZE_BITS`].
pub const SIZES: usize = 1 << SIZE_BITS;
/// Bits of a size.
pub const SIZE_BITS: u32 = 4;
/// Bodies of fewer than two to this power are of one size: 512 bytes.
const SMALLEST_LOG2: u32 = 9;

/// Size of a body: unknown, below 512 bytes, a doubling, or 4 MiB and more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Size(u8);

impl Size {
    /// Size of a body whose length is unknown.
    pub const UNKNOWN: Size = Size(0);

    /// Returns the size of a body of this many bytes.
    #[must_use]
    pub fn of(bytes: u64) -> Size {
        let doublings = (bytes >> (SMALLEST_LOG2 - 1)).max(1).ilog2();
        let largest = SIZES as u32 - 2;
        Size(doublings.min(largest) as u8 + 1)
    }

    /// Returns the size that a request states by its `content-length`.
    #[must_use]
    pub fn stated(content_length: Option<&[u8]>) -> Size {
        let text = content_length.and_then(|value| std::str::from_utf8(value).ok());
        let bytes = text.and_then(|text| text.parse().ok());
        bytes.map_or(Size::UNKNOWN, Size::of)
    }

    /// Returns the size in the lowest bits of a number.
    #[must_use]
    pub fn in_low_bits(number: u64) -> Size {
        Size((number % SIZES as u64) as u8)
    }

    /// Least number of bytes of a body of the size with that number; `None` for the unknown one.
    #[must_use]
    pub fn min_bytes_of(index: usize) -> Option<u64> {
        match index {
            0 => None,
            1 => Some(0),
            index => Some(1 << (SMALLEST_LOG2 as usize + index - 2)),
        }
    }

    /// Number of the size; 0 if unknown.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_double_from_512_bytes_to_4_mib() {
        for (bytes, index) in [
            (0, 1),
            (511, 1),
            (512, 2),
            (1023, 2),
            (1024, 3),
            (100_000, 9),
            (500_000, 11),
            ((4 << 20) - 1, 14),
            (4 << 20, 15),
            (u64::MAX, 15),
        ] {
            let size = Size::of(bytes);
            assert_eq!(size.index(), index, "{bytes}");
            let least = Size::min_bytes_of(index).unwrap();
            assert!(least <= bytes, "{bytes}");
            assert_eq!(Size::of(least), size, "{bytes}");
            assert_eq!(Size::in_low_bits(7 << SIZE_BITS | index as u64), size);
        }
    }

    #[test]
    fn only_a_number_states_a_size() {
        for (value, bytes) in [
            (Some(b"10240".as_slice()), Some(10_240)),
            (Some(b"0"), Some(0)),
            (Some(b""), None),
            (Some(b"-1"), None),
            (Some(b"1e3"), None),
            (Some(b"10240, 10240"), None),
            (Some(b"99999999999999999999999"), None),
            (Some(b"\xff"), None),
            (None, None),
        ] {
            let expected = bytes.map_or(Size::UNKNOWN, Size::of);
            assert_eq!(Size::stated(value), expected, "{value:?}");
        }
    }
}
