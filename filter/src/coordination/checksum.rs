//! The checksum of the slot table's bytes.

/// Checksum of eight bytes a step, in four independent sums. It is computed for each CAS, and a CRC without
/// hardware support takes several times as long. Each step is invertible, so bytes that differ in a single
/// word never have the same sum; others collide with the chance of any 64-bit hash. Protects against
/// accidents, not malice.
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    /// Odd, so that the multiplication is invertible: 2⁶⁴ divided by the golden ratio.
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |sum: u64, word: u64| (sum.rotate_left(29) ^ word).wrapping_mul(FACTOR);
    let (words, rest) = bytes.as_chunks::<8>();
    let (fours, words) = words.as_chunks::<4>();
    let mut sums = [0; 4];
    for four in fours {
        for (sum, word) in sums.iter_mut().zip(four) {
            *sum = mix(*sum, u64::from_le_bytes(*word));
        }
    }
    let sum = sums.into_iter().fold(bytes.len() as u64, mix);
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    let sum = words.fold(sum, mix);
    rest.iter().map(|byte| u64::from(*byte)).fold(sum, mix)
}
