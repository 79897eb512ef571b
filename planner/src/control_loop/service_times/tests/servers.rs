//! Simulated servers in virtual time: the corrected capacity, with and without the rate of the time in which all slots are
//! taken.

use weir_api::Cores;

use super::super::*;
use super::Bed;
use crate::observe::FullTime;

/// Servers of a variant, and the requests that come.
#[derive(Debug, Clone, Copy)]
struct Servers {
    /// Batches executed at the same time.
    at_once: usize,
    /// Largest batch that the server makes of single requests.
    largest: usize,
    /// Whether it begins a batch as soon as one request is there, as with dynamic batching. Else it has those that are
    /// sent at the same time.
    is_eager: bool,
    slots: usize,
    /// Time of a single request by the profile, alone at the server, in ms.
    single_ms: f64,
    per_request_ms: f64,
    /// Coefficient of variation of lognormal times.
    noise: f64,
    /// Actual time relative to the profile's at the begin, and after 240 s of a steady drift.
    factor: (f64, f64),
    /// Arrivals relative to the actual capacity.
    load: f64,
}

const SERIAL: Servers = Servers {
    at_once: 1,
    largest: 1,
    is_eager: false,
    slots: 2,
    single_ms: 20.0,
    per_request_ms: 0.0,
    noise: 0.0,
    factor: (1.0, 1.0),
    load: 1.5,
};
const PARALLEL: Servers = Servers {
    at_once: 4,
    slots: 4,
    ..SERIAL
};
const BATCHING: Servers = Servers {
    largest: 8,
    slots: 8,
    per_request_ms: 5.0,
    ..SERIAL
};

impl Servers {
    fn factor(&self, ms: f64) -> f64 {
        let (begin, end) = self.factor;
        begin + (end - begin) * (ms / 240e3).min(1.0)
    }

    fn batch_ms(&self, batch: usize) -> f64 {
        self.single_ms + (batch - 1) as f64 * self.per_request_ms
    }

    /// Capacity by the profile.
    fn profile_rps(&self) -> f64 {
        (self.at_once * self.largest) as f64 * 1e3 / self.batch_ms(self.largest)
    }

    fn present(&self) -> Present {
        let rps = self.profile_rps();
        // A profile is measured with all slots taken.
        let waits = (self.slots / (self.at_once * self.largest)) as f64;
        let expected = Expected {
            millis: 1000,
            slots: self.slots as u32,
            sustained_rps: rps,
            executed_rps: rps,
            longest_ms: 0.0,
            single_ms: waits * self.single_ms,
            per_request_ms: waits * self.per_request_ms,
            largest: self.largest as u32,
            by_server: self.largest > 1,
            delay_ms: 0.0,
        };
        Present {
            allocation: Allocation::new(1, Cores::whole(1)),
            expected: Some(expected),
            fails: false,
        }
    }
}

/// Random numbers that repeat.
struct Random(u64);

impl Random {
    /// Number above 0 and at most 1.
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    fn exponential(&mut self) -> f64 {
        -libm::log(self.next())
    }

    /// Lognormal factor of mean 1.
    fn lognormal(&mut self, variation: f64) -> f64 {
        let variance = libm::log(1.0 + variation * variation);
        let radius = libm::sqrt(2.0 * self.exponential());
        let normal = radius * libm::cos(std::f64::consts::TAU * self.next());
        libm::exp(libm::sqrt(variance) * normal - variance / 2.0)
    }
}

/// Proxy with servers, and the counts of the present second.
struct Play {
    servers: Servers,
    random: Random,
    arrives_ms: f64,
    waiting: u32,
    /// Times at which the requests at the servers were sent.
    queued: Vec<f64>,
    /// Batches by their ends, with the times at which their requests were sent.
    running: Vec<(f64, Vec<f64>)>,
    full_since: Option<f64>,
    executions: Executions,
    full: FullTime,
}

impl Play {
    fn new(servers: Servers, seed: u64) -> Play {
        Play {
            servers,
            random: Random(seed),
            arrives_ms: 0.0,
            waiting: 0,
            queued: Vec::new(),
            running: Vec::new(),
            full_since: None,
            executions: Executions::default(),
            full: FullTime::default(),
        }
    }

    /// Returns the counts until that time.
    fn until(&mut self, end_ms: f64) -> (Executions, Option<FullRate>) {
        loop {
            let ends = self.running.iter().map(|(end, _)| *end);
            let ends = ends.fold(f64::INFINITY, f64::min);
            let now = ends.min(self.arrives_ms);
            if now > end_ms {
                break;
            }
            if ends <= self.arrives_ms {
                self.end(now);
            } else {
                let rps = self.servers.load * self.servers.profile_rps() / self.servers.factor(now);
                self.arrives_ms = now + self.random.exponential() * 1e3 / rps;
                self.waiting += 1;
            }
            self.send(now);
            self.begin(now);
        }
        let (executions, full) = (self.executions, self.full);
        (self.executions, self.full) = Default::default();
        let seconds = full.us / 1e6;
        let rate = FullRate {
            rps: full.executions / seconds,
            executions: full.executions,
            seconds,
        };
        (executions, (seconds > 0.0).then_some(rate))
    }

    fn in_flight(&self) -> usize {
        self.queued.len()
            + self
                .running
                .iter()
                .map(|(_, sent)| sent.len())
                .sum::<usize>()
    }

    fn send(&mut self, now: f64) {
        while self.waiting > 0 && self.in_flight() < self.servers.slots {
            self.waiting -= 1;
            self.queued.push(now);
            if self.servers.is_eager {
                self.begin(now);
            }
        }
    }

    fn begin(&mut self, now: f64) {
        while self.running.len() < self.servers.at_once && !self.queued.is_empty() {
            let batch = self.queued.len().min(self.servers.largest);
            let sent: Vec<f64> = self.queued.drain(..batch).collect();
            let takes_ms = self.servers.batch_ms(batch) * self.servers.factor(now);
            let takes_ms = takes_ms * self.random.lognormal(self.servers.noise);
            self.running.push((now + takes_ms, sent));
        }
    }

    fn end(&mut self, now: f64) {
        let ended = self.running.iter().position(|(end, _)| *end <= now);
        let (_, batch) = self.running.remove(ended.unwrap());
        let mut left = batch.len();
        if self.servers.is_eager {
            self.begin(now);
        }
        for sent in batch {
            self.executions.answered += 1.0;
            self.executions.total_ms += (now - sent).ceil();
            if let Some(since) = self.full_since {
                self.full.us += (now - since) * 1e3;
                self.full.executions += 1.0;
            }
            left -= 1;
            self.send(now);
            let taken = self.in_flight() + left;
            self.full_since = (taken >= self.servers.slots).then_some(now);
        }
    }
}

/// Least and greatest error of the capacity in percent, above 0 if it seems higher than it is.
#[derive(Debug, Clone, Copy, Default)]
struct Errors {
    min: f64,
    max: f64,
}

impl Errors {
    fn add(&mut self, ratio: f64, actual: f64) {
        let error = 100.0 * (1.0 / ratio / actual - 1.0);
        (self.min, self.max) = (self.min.min(error), self.max.max(error));
    }

    fn are_within(self, percent: f64) -> bool {
        self.min > -percent && self.max < percent
    }
}

/// Errors once the window is full, by the measured ratio and by the correction.
fn errors(servers: Servers, with_full: bool) -> (Errors, Errors) {
    let (mut measured, mut corrected) = (Errors::default(), Errors::default());
    for seed in [42, 43, 44] {
        let (mut bed, mut play) = (Bed::default(), Play::new(servers, seed));
        for second in 1..=300_u32 {
            let end_ms = f64::from(second) * 1e3;
            let (new, full) = play.until(end_ms);
            bed.see_full(new, full.filter(|_| with_full), servers.present());
            if second < 40 {
                continue;
            }
            // The window's middle is 7.5 s ago.
            let actual = 1.0 / servers.factor(end_ms - 7.5e3);
            let report = bed.times.report(bed.now(), &bed.rule);
            measured.add(report.measured_ratio.unwrap(), actual);
            corrected.add(report.correction, actual);
        }
    }
    (measured, corrected)
}

/// The correction itself changes only where the measured ratio is more than a tenth away from it.
#[test]
fn capacity_of_an_overloaded_variant_is_measured_within_5_percent() {
    for servers in [SERIAL, PARALLEL, BATCHING] {
        for single_ms in [4.0, 20.0] {
            for factor in [0.8, 1.0, 1.3] {
                for (noise, within) in [(0.0, 5.0), (0.05, 5.0), (0.3, 10.0)] {
                    let servers = Servers {
                        single_ms,
                        per_request_ms: servers.per_request_ms * single_ms / 20.0,
                        noise,
                        factor: (factor, factor),
                        ..servers
                    };
                    let (measured, corrected) = errors(servers, true);
                    assert!(measured.are_within(within), "{measured:?} of {servers:?}");
                    let is_near = corrected.are_within(11.0);
                    assert!(is_near, "corrected {corrected:?} of {servers:?}");
                }
            }
        }
    }
}

/// Dynamic batching of the review's servers: 43 ms and 3.5 ms for each request of up to 8. A request waits for the batch
/// that is executed, and the eight slots are two batches in turn, which is no interference. Slower servers are.
#[test]
fn own_batches_are_no_interference() {
    let eager = Servers {
        is_eager: true,
        single_ms: 46.5,
        per_request_ms: 3.5,
        ..BATCHING
    };
    // Arrivals relative to what full batches carry, and the time relative to the profile's.
    for (load, factor, is_slow, correction) in [
        (0.2, 1.0, false, 1.0..=1.0),
        (0.4, 1.0, false, 1.0..=1.0),
        (0.5, 1.0, false, 1.0..=1.0),
        // Full. The rate is measured as it is, 1.6 times lower.
        (0.8, 1.0, false, 1.5..=1.7),
        (1.5, 1.0, false, 1.5..=1.7),
        (1.5, 2.0, true, 3.0..=3.4),
    ] {
        let servers = Servers {
            load,
            factor: (factor, factor),
            ..eager
        };
        let (mut bed, mut play) = (Bed::default(), Play::new(servers, 42));
        let mut slow = 0;
        for second in 1..=120_u32 {
            let (new, full) = play.until(f64::from(second) * 1e3);
            bed.see_full(new, full, servers.present());
            slow += u32::from(bed.times.machine.state().is_slow());
        }
        let report = bed.times.report(bed.now(), &bed.rule);
        assert_eq!(slow > 0, is_slow, "{load}, {factor}: {report:?}");
        assert!(
            correction.contains(&report.correction),
            "{load}, {factor}: {report:?}"
        );
    }
}

#[test]
fn drift_is_followed_within_10_percent() {
    for servers in [SERIAL, PARALLEL] {
        let servers = Servers {
            noise: 0.3,
            factor: (1.0, 2.0),
            ..servers
        };
        let (measured, corrected) = errors(servers, true);
        assert!(measured.are_within(10.0), "{measured:?} of {servers:?}");
        let is_near = corrected.are_within(15.0);
        assert!(is_near, "corrected {corrected:?} of {servers:?}");
    }
}

/// Times of executions alone are in whole ms, of which 2 are none; a server's batches agree with any time; and a server
/// that executes one request after another answers faster while a slot is free.
#[test]
fn times_alone_do_not_tell_the_capacity() {
    let four_slots = Servers {
        slots: 4,
        load: 0.9,
        ..SERIAL
    };
    for (servers, single_ms, factor, max, min) in [
        (PARALLEL, 4.0, 1.3, 25.0, 0.0),
        (PARALLEL, 4.0, 0.8, 0.0, -15.0),
        (BATCHING, 20.0, 0.8, 0.0, -15.0),
        (four_slots, 20.0, 1.3, 25.0, 0.0),
    ] {
        let servers = Servers {
            single_ms,
            factor: (factor, factor),
            ..servers
        };
        let (measured, _) = errors(servers, false);
        let are_off = measured.max >= max && measured.min <= min;
        assert!(are_off, "{measured:?} of {servers:?}");
    }
}

#[test]
fn capacity_below_overload_seems_no_higher_than_by_times() {
    for servers in [SERIAL, PARALLEL, BATCHING] {
        for factor in [1.0, 1.3] {
            let servers = Servers {
                noise: 0.3,
                factor: (factor, factor),
                load: 0.9,
                ..servers
            };
            let ((full, _), (by_times, _)) = (errors(servers, true), errors(servers, false));
            let most = by_times.max.max(8.0);
            let is_near = full.max <= most && full.min > -15.0;
            assert!(is_near, "{full:?}, by times {by_times:?} of {servers:?}");
        }
    }
}
