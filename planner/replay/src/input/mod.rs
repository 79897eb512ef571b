//! Creation of requests from arrivals: their sending times, arrival times and attributes. Scenario and
//! seed determine everything.

pub mod records;
pub mod seed;

use std::time::Duration;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use weir_filter::engine::ANSWER_BUFFERED;
use weir_sim::chance::standard_normal;
use weir_sim::network::Network;

use super::request::{Reading, Request};
use seed::{Draw, rng};

/// Maximum size of a payload or answer: 1 GiB.
pub const BYTES_MAX: u64 = 1 << 30;
/// Default timeout of a client, in budgets, as in the demo.
const TIMEOUT_BUDGETS: u32 = 5;
/// Maximum transfer time of a body or an answer.
const SLOWEST: Duration = Duration::from_secs(86_400);

/// Load of a scenario: arrivals, clients and network.
#[derive(Debug, Clone, PartialEq)]
pub struct Sending {
    /// Arrivals in order; at most [`weir_sim::load::REQUESTS_MAX`].
    pub arrivals: Vec<Arrival>,
    /// Number of records that are not sent, because they arrive after the load's length.
    pub left_out: usize,
    /// Network between clients and proxy.
    pub network: Network,
    /// Size of a request without a size of its own.
    pub payload_bytes: u64,
    /// Size of every answer.
    pub answer_bytes: u64,
    /// Clients of all requests.
    pub clients: Clients,
    /// Classes, the default one first; names as in [`super::scenario::Scenario::classes`].
    pub classes: Vec<Class>,
}

/// Arrival of a request; `None` values default to its class's, or the clients'.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Arrival {
    /// Sending time, from the scenario's start.
    pub sent: Duration,
    /// Latency objective.
    pub budget: Option<Duration>,
    /// Size in bytes.
    pub bytes: Option<u64>,
    /// Index of its class.
    pub class: Option<u16>,
    /// Minimum accuracy, percent.
    pub min_accuracy: Option<f64>,
}

/// Attributes of all clients.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clients {
    /// Latency objective if neither the request nor its class has one.
    pub budget: Duration,
    /// Timeout; `None` for five budgets.
    pub timeout: Option<Duration>,
    /// Number of retries after a 429 or 503.
    pub retries: u8,
    /// Offsets of their clocks.
    pub clocks: Clocks,
    /// Clients that send their bodies slowly.
    pub slow_uploads: Slow,
    /// Clients that read their answers slowly.
    pub slow_readers: Slow,
}

/// Clients that send or read more slowly than the network.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slow {
    /// Fraction of all clients, 0 to 1.
    pub share: f64,
    /// Rate of one client.
    pub bytes_per_s: f64,
}

impl Slow {
    /// No slow clients.
    pub const NOBODY: Slow = Slow {
        share: 0.0,
        bytes_per_s: 1.0,
    };

    /// Draws whether the next client is slow.
    fn is_next(&self, rng: &mut ChaCha8Rng) -> bool {
        rng.random::<f64>() < self.share
    }

    /// Time that a slow client takes for that many bytes.
    fn takes(&self, bytes: u64) -> Duration {
        Duration::try_from_secs_f64(bytes as f64 / self.bytes_per_s).unwrap_or(SLOWEST)
    }
}

/// Distribution of the clients' clock offsets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clocks {
    /// Distribution for most clients.
    pub spread: Spread,
    /// Offset of the other clients, ahead or behind, ms.
    pub far_off_ms: f64,
    /// Fraction of those other clients, 0 to 1.
    pub far_off_share: f64,
}

/// Distribution around 0, in ms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Spread {
    /// Normal, with that standard deviation.
    Normal(f64),
    /// Uniform, at most this far from 0.
    Uniform(f64),
}

/// Class of requests.
#[derive(Debug, Clone, PartialEq)]
pub struct Class {
    /// Name.
    pub name: String,
    /// Weight among arrivals that name no class.
    pub share: f64,
    /// Latency objective, instead of the clients'.
    pub budget: Option<Duration>,
    /// Minimum accuracy, percent.
    pub min_accuracy: f64,
}

impl Arrival {
    /// Creates an arrival with only a sending time.
    #[must_use]
    pub fn at(sent: Duration) -> Arrival {
        Arrival {
            sent,
            budget: None,
            bytes: None,
            class: None,
            min_accuracy: None,
        }
    }
}

/// Returns the requests in sending order. An answer's network latency is the latency at its request's
/// arrival, because the time at which the answer will leave is not known yet.
#[must_use]
pub fn requests(seed: u64, sending: &Sending) -> Vec<Request> {
    let mut classes = rng(seed, Draw::Classes);
    let mut clocks = rng(seed, Draw::Clocks);
    let mut uploads = rng(seed, Draw::SlowUploads);
    let mut readers = rng(seed, Draw::SlowReaders);
    let request = |(index, arrival): (usize, &Arrival)| {
        let drawn = sending.class(&mut classes);
        let class = arrival.class.unwrap_or(drawn);
        let of_class = sending.classes.get(usize::from(class));
        let budget = arrival
            .budget
            .or(of_class.and_then(|class| class.budget))
            .unwrap_or(sending.clients.budget);
        let bytes = arrival.bytes.unwrap_or(sending.payload_bytes);
        let head = arrival.sent + sending.network.one_way(arrival.sent);
        let by_link = arrival.sent + sending.network.upload(arrival.sent, bytes);
        let (slow_uploads, slow_readers) =
            (sending.clients.slow_uploads, sending.clients.slow_readers);
        let arrives = if slow_uploads.is_next(&mut uploads) {
            by_link.max(head + slow_uploads.takes(bytes))
        } else {
            by_link
        };
        let way_back = sending.network.download(arrives, sending.answer_bytes);
        let reading = if slow_readers.is_next(&mut readers) {
            let unread = sending.answer_bytes.saturating_sub(ANSWER_BUFFERED as u64);
            let alone = sending.network.one_way(arrives) + slow_readers.takes(sending.answer_bytes);
            Reading {
                longer: alone.saturating_sub(way_back),
                at_proxy: slow_readers.takes(unread),
            }
        } else {
            Reading::default()
        };
        let timeout = sending.clients.timeout;
        Request {
            id: u32::try_from(index).unwrap_or(u32::MAX),
            sent: arrival.sent,
            head,
            arrives,
            bytes,
            budget,
            way_back,
            reading,
            skew_ms: sending.clients.clocks.skew_ms(&mut clocks),
            min_accuracy: arrival
                .min_accuracy
                .unwrap_or(of_class.map_or(0.0, |class| class.min_accuracy)),
            class,
            timeout: timeout.unwrap_or(budget * TIMEOUT_BUDGETS),
            retries: sending.clients.retries,
        }
    };
    sending.arrivals.iter().enumerate().map(request).collect()
}

impl Sending {
    /// Draws a class by the shares.
    fn class(&self, rng: &mut ChaCha8Rng) -> u16 {
        let whole: f64 = self.classes.iter().map(|class| class.share).sum();
        let mut left = rng.random::<f64>() * whole;
        let chosen = self.classes.iter().position(|class| {
            left -= class.share;
            left < 0.0
        });
        chosen
            .and_then(|index| u16::try_from(index).ok())
            .unwrap_or(0)
    }
}

impl Clocks {
    fn skew_ms(&self, rng: &mut ChaCha8Rng) -> i32 {
        let (far, ahead) = (
            rng.random::<f64>() < self.far_off_share,
            rng.random::<bool>(),
        );
        let near = match self.spread {
            Spread::Normal(sigma) => sigma * standard_normal(rng),
            Spread::Uniform(most) => most * (2.0 * rng.random::<f64>() - 1.0),
        };
        let skew = match (far, ahead) {
            (false, _) => near,
            (true, true) => self.far_off_ms,
            (true, false) => -self.far_off_ms,
        };
        // Saturates far beyond the limits of a scenario.
        skew.round() as i32
    }
}

/// Smallest number of whole seconds after which `last` has passed.
#[must_use]
pub fn rounded_up(last: Duration) -> u64 {
    last.as_secs() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_values_override_class_and_class_overrides_client() {
        let ms = Duration::from_millis;
        let class = |name: &str, budget, share| Class {
            name: name.to_owned(),
            share,
            budget,
            min_accuracy: 60.0,
        };
        let plain = Arrival::at(Duration::from_secs(1));
        let sending = Sending {
            arrivals: vec![
                plain,
                Arrival {
                    class: Some(1),
                    ..plain
                },
                Arrival {
                    budget: Some(ms(40)),
                    bytes: Some(0),
                    min_accuracy: Some(0.0),
                    class: Some(1),
                    ..plain
                },
            ],
            left_out: 0,
            network: Network::constant(1e6, ms(40)),
            payload_bytes: 100_000,
            answer_bytes: 1000,
            clients: Clients {
                budget: ms(1000),
                timeout: None,
                retries: 2,
                clocks: Clocks {
                    spread: Spread::Uniform(0.0),
                    far_off_ms: 5000.0,
                    far_off_share: 1.0,
                },
                slow_uploads: Slow::NOBODY,
                slow_readers: Slow::NOBODY,
            },
            classes: vec![class("a", None, 1.0), class("b", Some(ms(500)), 0.0)],
        };
        let requests = requests(3, &sending);
        // Half a round trip, and 100 ms for 100 kB.
        let by: Vec<_> = requests.iter().map(|r| r.arrives - r.sent).collect();
        assert_eq!(by, [ms(120), ms(120), ms(20)]);
        assert!(
            requests
                .iter()
                .all(|r| r.way_back == ms(21) && r.retries == 2)
        );
        let budgets: Vec<_> = requests.iter().map(|r| (r.budget, r.timeout)).collect();
        let five = [(ms(1000), ms(5000)), (ms(500), ms(2500)), (ms(40), ms(200))];
        assert_eq!(budgets, five);
        let accuracies: Vec<_> = requests.iter().map(|r| r.min_accuracy).collect();
        assert_eq!(accuracies, [60.0, 60.0, 0.0]);
        assert!(requests.iter().all(|r| r.skew_ms.abs() == 5000));
        let ids: Vec<_> = requests.iter().map(|r| (r.id, r.class)).collect();
        assert_eq!(ids, [(0, 0), (1, 1), (2, 1)]);
    }

    #[test]
    fn slow_clients_send_bodies_and_read_at_their_own_rate() {
        let ms = Duration::from_millis;
        let mut sending = Sending {
            arrivals: vec![Arrival::at(Duration::ZERO); 1000],
            left_out: 0,
            network: Network::constant(1e6, ms(40)),
            payload_bytes: 100_000,
            answer_bytes: 165_536,
            clients: Clients {
                budget: ms(1000),
                timeout: None,
                retries: 0,
                clocks: Clocks {
                    spread: Spread::Uniform(0.0),
                    far_off_ms: 0.0,
                    far_off_share: 0.0,
                },
                slow_uploads: Slow {
                    share: 0.1,
                    bytes_per_s: 100_000.0,
                },
                slow_readers: Slow {
                    share: 0.2,
                    bytes_per_s: 50_000.0,
                },
            },
            classes: Vec::new(),
        };
        let way_back = sending.network.download(Duration::ZERO, 165_536);
        let slow = |sending: &Sending| {
            let requests = requests(1, sending);
            assert!(requests.iter().all(|r| r.head == ms(20)));
            let slow = requests.iter().filter(|r| r.arrives == ms(1020)).count();
            let quick = requests.iter().filter(|r| r.arrives == ms(120)).count();
            assert_eq!(slow + quick, 1000);
            assert!(requests.iter().all(|r| r.way_back == way_back));
            let read_slowly = requests.iter().filter(|r| r.reading != Reading::default());
            let reading = Reading {
                // Half a round trip and 165,536 bytes at its own rate, less the time of a fast client.
                longer: Duration::from_micros(20_000 + 3_310_720) - way_back,
                // All but the proxy's 65,536.
                at_proxy: ms(2000),
            };
            assert!(read_slowly.clone().all(|r| r.reading == reading));
            (slow, read_slowly.count())
        };
        let (uploads, readers) = slow(&sending);
        assert!((70..130).contains(&uploads), "{uploads}");
        assert!((160..240).contains(&readers), "{readers}");
        sending.clients.slow_readers = Slow::NOBODY;
        assert_eq!(slow(&sending), (uploads, 0));
        sending.clients.slow_uploads = Slow::NOBODY;
        assert_eq!(slow(&sending), (0, 0));
    }

    #[test]
    fn clock_offsets_follow_the_configured_spread() {
        let skews = |spread| {
            let clocks = Clocks {
                spread,
                far_off_ms: 0.0,
                far_off_share: 0.0,
            };
            let mut rng = rng(5, Draw::Clocks);
            let mut skews = || f64::from(clocks.skew_ms(&mut rng));
            (0..10_000).map(|_| skews()).collect::<Vec<f64>>()
        };
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let deviation =
            |values: &[f64]| mean(&values.iter().map(|v| v * v).collect::<Vec<f64>>()).sqrt();
        let normal = skews(Spread::Normal(200.0));
        assert!(mean(&normal).abs() < 10.0 && (190.0..210.0).contains(&deviation(&normal)));
        let uniform = skews(Spread::Uniform(300.0));
        assert!(uniform.iter().all(|skew| skew.abs() <= 300.0));
        assert!((165.0..181.0).contains(&deviation(&uniform)), "300/√3");
    }
}
