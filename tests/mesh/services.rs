//! Several services on one gateway, on a real Envoy: one filter with all of them, or one filter for each in the
//! same chain. Each request goes by its own service's plan, and one that is no service's passes untouched.

mod nobodys;

use std::time::{Duration, Instant};

use futures_util::stream;
use reqwest::{Body, RequestBuilder};
use serde_json::{Value, json};
use weir_api::metrics::Metric;
use weir_bed::emulator::Emulator;
use weir_bed::envoy::{Bootstrap, Envoy};
use weir_bed::path::server;
use weir_bed::scene::{
    KEY, PATIENCE, Scene, ScriptedPlanner, Seen, Variant, epoch_ms, planned, see,
};
use weir_bed::wait;

use nobodys::Nobodys;

const MANAGER: &str =
    "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/http_filters";
const WORKERS: u32 = 2;
/// VMs of one Envoy: its workers' and the main thread's.
const VMS: u64 = WORKERS as u64 + 1;
const SERVICE_MS: f64 = 5.0;
/// Headers of a client of nobody's, all of which a filter could change.
const CLIENT_HEADERS: [(&str, &str); 6] = [
    ("x-slo-ms", "1000"),
    ("x-slo-variant", "mine"),
    ("x-slo-deadline", "123"),
    ("x-slo-stage-ms", "7"),
    ("x-slo-class", "gold"),
    ("grpc-timeout", "9S"),
];
/// Configurations of the same two services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// One filter with both.
    List,
    /// A filter for each.
    Chain,
}

const FORMS: [Form; 2] = [Form::List, Form::Chain];

/// A variant of a service with this number of slots.
const fn variant(name: &'static str, slots: u32) -> Variant {
    Variant {
        name,
        share: 1.0,
        slots,
        service_ms: SERVICE_MS,
    }
}

fn plan(service: &str, variant: Variant) -> Value {
    json!({ "format": 1, "service": service, "revision": 10, "published_ms": epoch_ms(),
            "max_age_ms": 60_000, "variants": planned(&[variant]) })
}

/// Envoy with two services, each with a planner and a server, and a server of nobody's.
struct Gateway {
    envoy: Envoy,
    a: Emulator,
    b: Emulator,
    nobodys: Nobodys,
    client: reqwest::Client,
    url: String,
    _planners: [ScriptedPlanner; 2],
}

impl Gateway {
    /// Starts it with plans that give `a` and `b` this number of slots, and waits until all VMs obey them.
    async fn start(form: Form, a_slots: u32, b_slots: u32) -> Gateway {
        let planners = [
            ScriptedPlanner::start().await.unwrap(),
            ScriptedPlanner::start().await.unwrap(),
        ];
        let servers = [("a-model", a_slots), ("b-model", b_slots)];
        let a = server("a-model", SERVICE_MS).await.unwrap();
        let b = server("b-model", SERVICE_MS).await.unwrap();
        let nobodys = Nobodys::default();
        let bootstrap = Bootstrap::shipped()
            .unwrap()
            .backend("a-model", a.addr())
            .backend("b-model", b.addr())
            .backend("nobodys", nobodys.start().await)
            .backend("planner-a", planners[0].addr())
            .backend("planner-b", planners[1].addr())
            .fallback("nobodys");
        let envoy = Envoy::start(&configured(bootstrap, form), WORKERS)
            .await
            .unwrap();
        for ((planner, (model, slots)), service) in planners.iter().zip(servers).zip(["a", "b"]) {
            planner.respond(10, 200, plan(service, variant(model, slots)));
        }
        let gateway = Gateway {
            url: format!("http://{}", envoy.listener("weir").unwrap()),
            envoy,
            a,
            b,
            nobodys,
            client: reqwest::Client::builder()
                .timeout(PATIENCE)
                .build()
                .unwrap(),
            _planners: planners,
        };
        for service in ["a", "b"] {
            gateway.until(service, Metric::PlansAccepted, VMS).await;
        }
        gateway
    }

    /// A request to a host on a path.
    fn request(&self, host: &str, path: &str) -> RequestBuilder {
        let request = self.client.post(format!("{}{path}", self.url));
        request.header("host", host).body("{}")
    }

    fn to_a(&self) -> RequestBuilder {
        self.request("a.example", "/v2/models/model/infer")
    }

    fn to_b(&self) -> RequestBuilder {
        self.request("b.example", "/v2/models/model/infer")
    }

    async fn until(&self, service: &str, metric: Metric, value: u64) {
        let what = format!("{} of {service} = {value}", metric.name());
        let reached = async || {
            let now = self.envoy.metric(metric, service, "").await;
            now.is_ok_and(|now| now == value)
        };
        wait::until_async(&what, PATIENCE, reached).await.unwrap();
    }
}

/// The bootstrap with both services: `a` by its hosts, `b` by host and path.
fn configured(bootstrap: Bootstrap, form: Form) -> Bootstrap {
    let service = |name: &str, matches: Value| {
        json!({
            "service": name, "match": matches, "queue": { "overlap": false, "concurrency_max": 0 },
            "planner": { "cluster": format!("planner-{name}"), "key": KEY },
        })
    };
    let mut services = [
        service("a", json!({ "hosts": ["a.example", "*.a.example"] })),
        service(
            "b",
            json!({ "hosts": ["b.example"], "paths": ["/v2/*", "/predict"] }),
        ),
    ];
    if form == Form::List {
        for service in &mut services {
            let planner = service["planner"].as_object_mut().unwrap();
            planner.remove("key");
        }
        return bootstrap.plugin(&json!({ "planner": { "key": KEY }, "services": services }));
    }
    let mut filters = bootstrap
        .config()
        .unwrap()
        .pointer(MANAGER)
        .unwrap()
        .as_array()
        .unwrap()
        .clone();
    let first = filters.remove(0);
    for (index, service) in services.iter().enumerate() {
        let mut filter = first.clone();
        let plugin = filter.pointer_mut("/typed_config/config").unwrap();
        plugin["name"] = json!(format!("weir-{index}"));
        plugin["configuration"]["value"] = json!(service.to_string());
        filters.insert(index, filter);
    }
    bootstrap.amend(MANAGER, json!(filters))
}

async fn served(request: RequestBuilder) -> Seen {
    let seen = see(request).await.unwrap();
    assert_eq!(seen.refusal(), (200, ""));
    seen
}

#[tokio::test]
async fn each_request_goes_by_its_own_services_plan() {
    for form in FORMS {
        let gateway = Gateway::start(form, 10, 10).await;
        let infer = "/v2/models/model/infer";
        let [mut a_executed, mut b_executed] = [0, 0];
        for (host, path, model) in [
            ("a.example", infer, "a-model"),
            ("b.example", infer, "b-model"),
            ("A.Example:8080", infer, "a-model"),
            ("x.y.a.example", "/predict", "a-model"),
            ("b.example.", "/predict?to=a.example", "b-model"),
            ("B.EXAMPLE:1", infer, "b-model"),
        ] {
            let seen = served(gateway.request(host, path)).await;
            assert_eq!(seen.header("x-slo-variant"), model, "{form:?} {host}{path}");
            let executed = match model {
                "a-model" => {
                    a_executed += 1;
                    gateway.a.executions()
                }
                _ => {
                    b_executed += 1;
                    gateway.b.executions()
                }
            };
            let headers = &executed.last().unwrap().headers;
            assert_eq!(headers["x-slo-variant"], model, "{form:?}");
            for set in ["x-slo-remaining-ms", "x-slo-deadline"] {
                assert!(headers.contains_key(set), "{form:?} {set}: {headers:?}");
            }
            let counts = [&gateway.a, &gateway.b].map(|server| server.executions().len());
            assert_eq!(counts, [a_executed, b_executed], "{form:?} {host}{path}");
        }
        for service in ["a", "b"] {
            gateway.until(service, Metric::Arrivals, 3).await;
        }
    }
}

#[tokio::test]
async fn nobodys_request_and_answer_pass_untouched() {
    for form in FORMS {
        let gateway = Gateway::start(form, 10, 10).await;
        let without_filter = Bootstrap::shipped()
            .unwrap()
            .without_filter()
            .backend("nobodys", gateway.nobodys.start().await);
        let without_filter = Envoy::start(&without_filter, 1).await.unwrap();
        let plain = format!("http://{}", without_filter.listener("weir").unwrap());
        for (host, path) in [
            ("c.example", "/v2/models/model/infer"),
            ("example", "/v2/models/model/infer"),
            ("b.example", "/v1/models/model:predict"),
            ("x.b.example", "/predict"),
        ] {
            let send = async |url: &str| {
                let request = gateway.client.post(format!("{url}{path}"));
                let request = request
                    .header("host", host)
                    .header("x-request-id", "the-same")
                    .body("{}");
                let request = CLIENT_HEADERS
                    .iter()
                    .fold(request, |request, (name, value)| {
                        request.header(*name, *value)
                    });
                let mut seen = see(request).await.unwrap();
                // Envoy's own, which measures; and the time of the answer.
                for varies in ["x-envoy-upstream-service-time", "date"] {
                    assert!(seen.headers.remove(varies).is_some(), "{varies}");
                }
                (
                    seen.status,
                    seen.headers,
                    seen.body,
                    gateway.nobodys.latest(),
                )
            };
            let expected = send(&plain).await;
            assert_eq!(expected.0, 418);
            assert_eq!(send(&gateway.url).await, expected, "{form:?} {host}{path}");
        }
        for service in ["a", "b"] {
            for metric in [Metric::Arrivals, Metric::InvalidHeaders, Metric::Refused] {
                let stats = gateway.envoy.stats(metric.name()).await.unwrap();
                let ours = format!("service=\"{service}\"");
                let counted = stats.lines().filter(|line| line.contains(&ours));
                let nothing = counted.filter(|line| !line.ends_with(" 0"));
                assert_eq!(nothing.collect::<Vec<_>>(), [""; 0], "{form:?} {metric:?}");
            }
        }
    }
}

/// A filter that waited for the body would hold it until its end, which never comes.
#[tokio::test]
async fn nobodys_body_is_not_waited_for() {
    for form in FORMS {
        let gateway = Gateway::start(form, 10, 10).await;
        let endless = || Body::wrap_stream(stream::pending::<Result<Vec<u8>, std::io::Error>>());
        let request = gateway.request("c.example", "/upload").body(endless());
        assert_eq!(see(request).await.unwrap().status, 418, "{form:?}");
        // The same body of a service's request is waited for.
        let request = gateway.to_b().body(endless());
        let waits = tokio::spawn(see(request.header("x-slo-ms", "300")));
        let seen = waits.await.unwrap().unwrap();
        assert!(seen.status != 200 && seen.status != 418, "{form:?}");
    }
}

/// Both services' requests wait at once, in the wait queue of their own, and each is resumed or refused in time.
#[tokio::test]
async fn slots_of_one_service_do_not_hold_the_other() {
    const WAITING: u64 = 12;
    for form in FORMS {
        let gateway = Gateway::start(form, 1, 1).await;
        gateway.a.slow_by(200.0).unwrap();
        let to_a = || gateway.to_a().header("x-slo-ms", "20000");
        let waiting: Vec<_> = (0..=WAITING).map(|_| Scene::spawn(to_a())).collect();
        gateway.until("a", Metric::HeldRequests, WAITING).await;
        for _ in 0..20 {
            let seen = served(gateway.to_b().header("x-slo-ms", "20000")).await;
            assert_eq!(seen.header("x-slo-variant"), "b-model", "{form:?}");
            assert_eq!(seen.header("server-timing"), "queue;dur=0.0", "{form:?}");
        }
        // Now b waits too. Its second request is refused at its own deadline, while a is held.
        gateway.b.slow_by(400.0).unwrap();
        let executing = Scene::spawn(gateway.to_b().header("x-slo-ms", "20000"));
        let begun = || gateway.b.load().1 == 1;
        wait::until("b's execution", PATIENCE, begun).await.unwrap();
        let start = Instant::now();
        let late = see(gateway.to_b().header("x-slo-ms", "150")).await.unwrap();
        assert_eq!(late.status, 504, "{form:?} {:?}", late.refusal());
        let after = start.elapsed();
        assert!(after < Duration::from_millis(1000), "{form:?} {after:?}");
        executing.await.unwrap().unwrap();
        gateway.a.slow_by(1.0).unwrap();
        for answer in waiting {
            let seen = answer.await.unwrap().unwrap();
            assert_eq!(seen.refusal(), (200, ""), "{form:?}");
            assert_eq!(seen.header("x-slo-variant"), "a-model", "{form:?}");
        }
        for service in ["a", "b"] {
            gateway.until(service, Metric::HeldRequests, 0).await;
        }
    }
}

/// Workers hand the freed slots of either service to one another.
#[tokio::test]
async fn both_services_share_their_slots_among_workers() {
    const EACH: usize = 60;
    for form in FORMS {
        let gateway = Gateway::start(form, 1, 2).await;
        let within = |request: RequestBuilder| request.header("x-slo-ms", "20000");
        let start = Instant::now();
        let sent: Vec<_> = (0..EACH)
            .flat_map(|_| [within(gateway.to_a()), within(gateway.to_b())])
            .map(Scene::spawn)
            .collect();
        for answer in sent {
            let seen = answer.await.unwrap().unwrap();
            assert_eq!(seen.refusal(), (200, ""), "{form:?}");
        }
        let took = start.elapsed();
        for (server, slots) in [(&gateway.a, 1), (&gateway.b, 2)] {
            let executions = server.executions();
            assert_eq!(executions.len(), EACH, "{form:?}");
            let overlap = |at: f64| {
                let runs = executions.iter();
                let runs = runs.filter(|run| run.started_ms <= at && at < run.ended_ms);
                runs.count()
            };
            let most = executions.iter().map(|run| overlap(run.started_ms)).max();
            assert_eq!(most, Some(slots), "{form:?}");
        }
        assert!(took < Duration::from_secs(5), "{form:?} {took:?}");
    }
}
