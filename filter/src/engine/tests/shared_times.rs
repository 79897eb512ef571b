//! Service times by size and by class that the workers of a proxy learn together, in virtual time.

use super::*;
use crate::engine::health::Avoid;
use crate::routing::group_times::Group;
use crate::routing::service_time::{ServiceTime, WINDOW};
use crate::size::Size;
use crate::waiting::class::ClassId;
use crate::waiting::queue::Place;

const CLASSES: &str = r#","classes":[{"name":"short","share":0.5},{"name":"long","share":0.5}],"default_class":"short""#;
const RENEWAL_MS: u64 = 50;
const SHORT_MS: u64 = 20;
const LONG_MS: u64 = 60;
const SMALL: u64 = 10_000;
const LARGE: u64 = 1_000_000;

/// Workers of one proxy. Each sees a part of the executions, which come one after the other.
struct Proxy {
    json: String,
    store: Memory,
    engines: Vec<Engine>,
    now_ms: u64,
    stream: StreamId,
}

impl Proxy {
    fn new(workers: u64, rest: &str) -> Proxy {
        let variant = variant("a", 1.0, 8, 40.0);
        let json = format!(r#"{{"service":"demo","plan":{{"variants":[{variant}]}}{rest}}}"#);
        let store = Memory::default();
        let engines = (1..=workers).map(|incarnation| worker(&json, &store, incarnation));
        let mut engines: Vec<Engine> = engines.collect();
        // Twice: the first worker sees the others only on the second pass.
        for _ in 0..2 {
            engines
                .iter_mut()
                .for_each(|engine| engine.serve(at(0).mono));
        }
        Proxy {
            json,
            store,
            engines,
            now_ms: 0,
            stream: 0,
        }
    }

    /// Workers that keep what they measure for themselves.
    fn apart(workers: u64, rest: &str) -> Proxy {
        let proxy = Proxy::new(workers, rest);
        proxy.store.fail_group_swaps(u32::MAX);
        proxy
    }

    /// Advances time; the workers renew one after the other.
    fn pass(&mut self, ms: u64) {
        for _ in 0..ms {
            self.now_ms += 1;
            for (index, engine) in (0..).zip(&mut self.engines) {
                if (self.now_ms + 7 * index).is_multiple_of(RENEWAL_MS) {
                    engine.renew(false, at(self.now_ms).mono);
                }
            }
        }
    }

    /// Executes a request; two in a row come to the same worker.
    fn execute(&mut self, bytes: u64, class: &str, takes_ms: u64) {
        let worker = self.stream as usize / 2 % self.engines.len();
        self.stream += 1;
        let length = bytes.to_string();
        let headers = [
            ("x-slo-ms", b"1000".as_slice()),
            ("x-slo-class", class.as_bytes()),
            ("content-length", length.as_bytes()),
        ];
        let now = at(self.now_ms);
        let verdict = request(&mut self.engines[worker], self.stream, &headers, now);
        assert!(matches!(verdict, Verdict::Forward(_)), "{verdict:?}");
        self.pass(takes_ms);
        let now = at(self.now_ms);
        end(&mut self.engines[worker], self.stream, End::Answered, now);
    }

    fn execute_large(&mut self, is_large: bool) {
        let (bytes, takes_ms) = if is_large {
            (LARGE, LONG_MS)
        } else {
            (SMALL, SHORT_MS)
        };
        self.execute(bytes, "", takes_ms);
    }

    fn predictions(&self, group: Group) -> Vec<Option<ServiceTime>> {
        let first = VariantId(0);
        let each = self.engines.iter();
        each.map(|engine| engine.variants.get(first).unwrap().group_times.of(group))
            .collect()
    }

    /// Whether every worker predicts a group by itself.
    fn knows(&self, group: Group) -> bool {
        self.predictions(group).iter().all(Option::is_some)
    }

    /// Executes small and large requests in turn; returns their number when every worker tells them apart.
    fn learn_sizes(&mut self) -> Option<u32> {
        (1..=400).find(|count| {
            self.execute_large(count % 2 == 0);
            self.knows(large())
        })
    }
}

fn large() -> Group {
    Group {
        size: Size::of(LARGE),
        ..Group::default()
    }
}

fn assert_takes_long(predictions: &[Option<ServiceTime>]) {
    for predicted in predictions {
        let mean = predicted.unwrap().mean.as_millis_f64();
        assert!((mean / LONG_MS as f64 - 1.0).abs() < 0.05, "{predicted:?}");
    }
}

#[test]
fn workers_know_a_size_after_as_many_executions_as_one() {
    let one = Proxy::new(1, "").learn_sizes().unwrap();
    for workers in [2, 4, 8] {
        let mut proxy = Proxy::new(workers, "");
        let together = proxy.learn_sizes().unwrap();
        // The last one is published at a renewal and read at another, while four more are executed.
        assert!(together <= one + 4, "{workers} workers: {together}, {one}");
        assert_takes_long(&proxy.predictions(large()));
    }
    assert_eq!(Proxy::apart(8, "").learn_sizes(), None);
}

#[test]
fn slow_class_is_known_to_eight_workers_after_five_seconds() {
    let group = Group {
        class: ClassId(1),
        ..Group::default()
    };
    // Five long requests and twenty short ones a second.
    let play = |proxy: &mut Proxy, seconds: u64| {
        for _ in 0..5 * seconds {
            proxy.execute(SMALL, "long", LONG_MS);
            for _ in 0..4 {
                proxy.execute(SMALL, "short", SHORT_MS);
            }
            proxy.pass(200 - LONG_MS - 4 * SHORT_MS);
        }
    };
    let mut apart = Proxy::apart(8, CLASSES);
    play(&mut apart, 5);
    assert!(!apart.knows(group));
    let mut proxy = Proxy::new(8, CLASSES);
    for _ in 0..4 {
        play(&mut proxy, 5);
        assert_takes_long(&proxy.predictions(group));
    }
}

#[test]
fn started_worker_knows_what_others_have_measured_until_it_is_too_old() {
    let mut proxy = Proxy::new(4, "");
    proxy.learn_sizes().unwrap();
    proxy.engines[0] = worker(&proxy.json, &proxy.store, 99);
    assert!(!proxy.knows(large()));
    proxy.engines[0].serve(at(proxy.now_ms).mono);
    assert_takes_long(&proxy.predictions(large()));
    proxy.pass(2 * WINDOW.as_millis());
    assert_eq!(proxy.predictions(large()), [None; 4]);
}

#[test]
fn unreadable_measurements_are_replaced_by_those_read_last() {
    for bytes in [Some(b"other bytes".to_vec()), Some(Vec::new()), None] {
        let mut proxy = Proxy::new(4, "");
        proxy.learn_sizes().unwrap();
        proxy.store.overwrite_groups(bytes);
        proxy.execute_large(true);
        proxy.pass(2 * RENEWAL_MS);
        proxy.engines[0] = worker(&proxy.json, &proxy.store, 99);
        proxy.engines[0].serve(at(proxy.now_ms).mono);
        assert_takes_long(&proxy.predictions(large()));
    }
}

#[test]
fn plan_keeps_the_ratios_of_a_variant_and_forgets_another_one() {
    let mut proxy = Proxy::new(2, "");
    proxy.learn_sizes().unwrap();
    // Other classes under the same name do not count for these.
    let mut other = worker(
        &proxy.json.replace("}]}", &format!("}}]}}{CLASSES}")),
        &proxy.store,
        99,
    );
    (0..2).for_each(|_| other.serve(at(proxy.now_ms).mono));
    let first = other.variants.get(VariantId(0)).unwrap();
    assert_eq!(first.group_times.of(large()), None);
    for (name, service_ms, mean_ms) in [("a", 20.0, Some(LONG_MS / 2)), ("b", 20.0, None)] {
        let plan = plan(
            service_ms as u64 + u64::from(mean_ms.is_none()),
            &[variant(name, 1.0, 8, service_ms)],
        );
        let now = at(proxy.now_ms);
        for engine in &mut proxy.engines {
            engine.on_plan(&plan, now.mono, now, &mut Vec::new());
        }
        proxy.pass(2 * RENEWAL_MS);
        let means = proxy.predictions(large()).into_iter();
        let means: Vec<_> = means.map(|of| of.map(|of| of.mean.as_millis())).collect();
        assert_eq!(means, [mean_ms; 2], "{name}");
    }
}

/// A choice counts the wait twice, and so must know which part of a response time is service.
#[test]
fn idle_variant_has_no_wait_for_a_size_that_takes_long() {
    let mut proxy = Proxy::new(1, "");
    // Few are large, so that the common prediction is that of the small ones.
    for count in 1..=400 {
        proxy.execute_large(count % 10 == 0);
    }
    assert!(proxy.knows(large()));
    let now = at(proxy.now_ms).mono;
    let place = Place::new(now, 1, Size::of(LARGE));
    let variants = &proxy.engines[0].variants;
    let variant = variants.get(VariantId(0)).unwrap();
    assert!(variant.predicted.high < Span::from_millis(LONG_MS / 2));
    let candidate = variants
        .candidates(ClassId::default(), place, Avoid::None, now)
        .next();
    let candidate = candidate.unwrap();
    let response = (candidate.response_time)();
    assert!(response.service >= Span::from_millis(LONG_MS));
    let wait = response.total - response.service;
    assert_eq!(wait, variant.lead.known_gap());
}
