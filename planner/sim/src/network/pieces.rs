//! Pieces in which a payload arrives over a link: the proxy's view of an unfinished upload.
//!
//! A payload of `n` bytes has `k` pieces: piece `i` has arrived when the link has carried `n·i/k` bytes.
//! The last piece arrives exactly when [`Network::upload`] ends.

use std::time::Duration;

use super::Network;

/// Maximum number of pieces of one payload; larger payloads have larger pieces.
pub const PIECES_MAX: u32 = 1000;

/// End of one piece of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Time from sending the request to the arrival of the piece's last byte.
    pub after: Duration,
    /// Bytes of the payload that have arrived by then.
    pub arrived: u64,
}

impl Network {
    /// Transfer time to the proxy of the head of a request sent at `at`.
    pub fn one_way(&self, at: Duration) -> Duration {
        self.round_trip(at) / 2
    }

    /// Returns the pieces of a payload sent at `at`, all of one size, one per `every` on average; none for
    /// an empty payload.
    pub fn pieces(
        &self,
        at: Duration,
        bytes: u64,
        every: Duration,
    ) -> impl Iterator<Item = Piece> + '_ {
        let seconds = self.transfer(at, bytes).as_secs_f64();
        let required = (seconds / every.as_secs_f64()).ceil();
        let most = bytes.min(u64::from(PIECES_MAX));
        // A number out of range becomes the nearest in range.
        let count = (required as u64).clamp(most.min(1), most);
        let one_way = self.one_way(at);
        (1..=count).map(move |piece| {
            let arrived = u128::from(bytes) * u128::from(piece) / u128::from(count);
            let arrived = u64::try_from(arrived).unwrap_or(bytes);
            Piece {
                after: one_way + self.transfer(at, arrived),
                arrived,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Segment;
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn pieces_follow_the_rate_after_half_a_round_trip() {
        let link = Network::constant(100_000.0, ms(40));
        let pieces: Vec<Piece> = link.pieces(ms(7), 1000, ms(5)).collect();
        let expected = [(25, 500), (30, 1000)].map(|(after, arrived)| Piece {
            after: ms(after),
            arrived,
        });
        assert_eq!(pieces, expected);
        assert_eq!(link.one_way(ms(7)), ms(20));
    }

    #[test]
    fn empty_payload_has_no_pieces_and_infinite_link_has_one() {
        let piece = |network: Network, bytes| network.pieces(ms(0), bytes, ms(10)).count();
        assert_eq!(piece(Network::constant(1e6, ms(40)), 0), 0);
        assert_eq!(piece(Network::none(), 200_000), 1);
        assert_eq!(piece(Network::none(), 0), 0);
    }

    proptest! {
        /// The last piece ends with the upload, bytes only grow, no piece arrives before the link has
        /// carried it, and there are at most as many pieces as requested.
        #[test]
        fn last_piece_ends_with_the_upload(
            parts in prop::collection::vec((1u64..2000, 0f64..1e6), 1..20),
            at in 0u64..100_000,
            bytes in 1u64..2_000_000,
            every in 1u64..100,
        ) {
            prop_assume!(parts.iter().any(|(_, bytes_per_s)| *bytes_per_s > 1e3));
            let segment = |(ms, bytes_per_s): &(u64, f64)| Segment {
                duration: Duration::from_millis(*ms),
                bytes_per_s: *bytes_per_s,
                round_trip: Duration::from_millis(*ms % 100),
            };
            let link = Network::new(parts.iter().map(segment).collect()).unwrap();
            let (at, every) = (ms(at), ms(every));
            let whole = link.upload(at, bytes);
            let pieces: Vec<Piece> = link.pieces(at, bytes, every).collect();
            let last = Piece { after: whole, arrived: bytes };
            prop_assert_eq!(pieces.last(), Some(&last));
            let transfer = whole.saturating_sub(link.one_way(at));
            let most = (transfer.as_secs_f64() / every.as_secs_f64()).ceil().max(1.0);
            prop_assert!(pieces.len() as f64 <= most.min(f64::from(PIECES_MAX)));
            let mut before = Piece { after: link.one_way(at), arrived: 0 };
            for piece in pieces {
                prop_assert!(piece.arrived > before.arrived, "{before:?} {piece:?}");
                prop_assert!(piece.after >= before.after, "{before:?} {piece:?}");
                prop_assert_eq!(piece.after, link.upload(at, piece.arrived));
                before = piece;
            }
        }
    }
}
