//! Time to read the statistics of 200 proxies for the 50 services of a planner, of three variants each: the pass over
//! the texts, and with it the fetches from 200 servers on the loopback. In the fetches the servers share the core.
//! `taskset -c 0 cargo bench -p weir-planner --bench scrape`
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use std::fmt::Write;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use weir_api::metrics::{GROUP, Kind, Metric, encode, encode_group};
use weir_planner::clock::Clock;
use weir_planner::observe::buckets::LATENCY_EDGES_MS;
use weir_planner::observe::slack::EDGES_MS;
use weir_planner::observe::{Fetches, Fold, Observe, ScrapeTargets, Scraper, StageNames};

const PROXIES: usize = 200;
const SERVICES: usize = 50;
const VARIANTS: [&str; 3] = ["resnet18", "resnet50", "resnet152"];
/// Groups of requests with executions at each variant.
const GROUPS: [&str; 6] = [
    "class-interactive",
    "class-background",
    "size-16384",
    "size-32768",
    "size-65536",
    "size-131072",
];
/// Upper edges of Envoy's histograms without a setting of their own.
const EDGES: [&str; 19] = [
    "0.5", "1", "5", "10", "25", "50", "100", "250", "500", "1000", "2500", "5000", "10000",
    "30000", "60000", "300000", "600000", "1800000", "3600000",
];

fn services() -> Vec<String> {
    (0..SERVICES)
        .map(|index| format!("image-classifier-{index}"))
        .collect()
}

/// Statistics of a proxy as Envoy writes them: all metrics of the filter, each with its labels in the name or, as by
/// `stats_tags`, as labels.
fn text(labelled: bool, proxy: usize, is_read: impl Fn(Metric) -> bool) -> String {
    let mut text = String::new();
    for metric in Metric::ALL.into_iter().filter(|metric| is_read(*metric)) {
        let values = match metric.label() {
            None => vec![""],
            Some("variant") => VARIANTS.to_vec(),
            Some(_) => vec!["interactive", "background"],
        };
        let mut series = Vec::new();
        for (index, service) in services().iter().enumerate() {
            for value in &values {
                let count = 1_000_000 + 1000 * proxy + index;
                let groups = if metric.has_group() {
                    &GROUPS[..]
                } else {
                    &[""]
                };
                for group in groups {
                    series.push((service.clone(), *value, *group, count));
                }
            }
        }
        if labelled {
            header(&mut text, metric.name(), metric);
        }
        for (service, value, group, count) in series {
            let (name, labels) = if labelled {
                let own = metric.label().map(|label| format!(",{label}=\"{value}\""));
                let mut labels = format!("service=\"{service}\"{}", own.unwrap_or_default());
                if metric.has_group() {
                    write!(labels, ",{GROUP}=\"{group}\"").unwrap();
                }
                (metric.name().to_owned(), labels)
            } else {
                let name = match metric.has_group() {
                    true => encode_group(metric, &service, value, group),
                    false => encode(metric, &service, value),
                };
                let name = name.replace('-', "_");
                header(&mut text, &name, metric);
                (name, String::new())
            };
            one(&mut text, metric, &name, &labels, count);
        }
    }
    text
}

fn header(text: &mut String, name: &str, metric: Metric) {
    let kind = match metric.kind() {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
    };
    writeln!(text, "# TYPE {name} {kind}").unwrap();
}

fn one(text: &mut String, metric: Metric, name: &str, labels: &str, count: usize) {
    if metric.kind() != Kind::Histogram {
        return writeln!(text, "{name}{{{labels}}} {count}").unwrap();
    }
    let own = match metric {
        Metric::LatencyMs => &LATENCY_EDGES_MS[..],
        _ => &EDGES_MS,
    };
    let own: Vec<String> = own.iter().map(u32::to_string).collect();
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    let edges = match metric {
        Metric::DemandSlackMs | Metric::LatencyMs => &own[..],
        _ => &EDGES[..],
    };
    let comma = if labels.is_empty() { "" } else { "," };
    for (place, edge) in edges.iter().chain(&["+Inf"]).enumerate() {
        let below = count * (place + 1) / (edges.len() + 1);
        writeln!(
            text,
            "{name}_bucket{{{labels}{comma}le=\"{edge}\"}} {below}"
        )
        .unwrap();
    }
    writeln!(text, "{name}_sum{{{labels}}} {}", count * 37).unwrap();
    writeln!(text, "{name}_count{{{labels}}} {count}").unwrap();
}

/// Metrics that the planner reads, which a filter of Envoy's can select.
fn is_read(metric: Metric) -> bool {
    use Metric::{Arrivals, DemandSlackMs, DowngradedFrom, Failing, PredictedServiceMs, Requests};
    let read = [
        Arrivals,
        Requests,
        DowngradedFrom,
        Failing,
        PredictedServiceMs,
        DemandSlackMs,
    ];
    read.contains(&metric)
}

/// Texts of eight proxies, for all to share.
fn texts(labelled: bool, is_read: fn(Metric) -> bool) -> Vec<Arc<str>> {
    (0..8)
        .map(|proxy| text(labelled, proxy, is_read).into())
        .collect()
}

/// Form of a text: its name, whether labels are labels, and the metrics in it.
type Form = (&'static str, bool, fn(Metric) -> bool);

const FORMS: [Form; 3] = [
    ("all metrics, labels in names", false, |_| true),
    ("all metrics, labels", true, |_| true),
    ("metrics that are read, labels in names", false, is_read),
];

fn fold(criterion: &mut Criterion) {
    let services = services();
    let names = Arc::new(StageNames::new(services.iter().map(String::as_str)));
    let mut group = criterion.benchmark_group("fold");
    group.sample_size(10);
    for (form, labelled, is_read) in FORMS {
        let texts = texts(labelled, is_read);
        let first = texts.first().unwrap();
        let (bytes, lines) = (first.len(), first.lines().count());
        println!("{form}: {bytes} bytes, {lines} lines of a proxy");
        group.throughput(Throughput::Bytes((PROXIES * bytes) as u64));
        group.bench_function(form, |bencher| {
            bencher.iter(|| {
                for text in texts.iter().cycle().take(PROXIES) {
                    let mut fold = Fold::new(Arc::clone(&names));
                    for piece in text.as_bytes().chunks(64 * 1024) {
                        fold.push(piece).unwrap();
                    }
                    let folded = fold.finish().unwrap();
                    for service in &services {
                        let counts = folded.of(std::slice::from_ref(service)).unwrap();
                        assert!(counts.arrivals > 0.0 && counts.routes.len() == VARIANTS.len());
                        black_box(counts);
                    }
                }
            });
        });
    }
    group.finish();
}

/// Answers every request on a connection with the same text.
async fn answer(mut connection: TcpStream, text: Arc<str>) {
    let mut request = Vec::new();
    while let Ok(1..) = connection.read_buf(&mut request).await {
        if !request.ends_with(b"\r\n\r\n") {
            continue;
        }
        request.clear();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", text.len());
        connection.write_all(head.as_bytes()).await.unwrap();
        connection.write_all(text.as_bytes()).await.unwrap();
    }
}

/// Starts the servers; returns their addresses.
async fn servers(texts: &[Arc<str>]) -> Vec<reqwest::Url> {
    let mut urls = Vec::new();
    for text in texts.iter().cycle().take(PROXIES) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        urls.push(format!("http://{address}/stats").parse().unwrap());
        let text = Arc::clone(text);
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(answer(connection, Arc::clone(&text)));
            }
        });
    }
    urls
}

fn scrape(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("scrape");
    group.sample_size(10);
    for (form, labelled, is_read) in FORMS {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        let urls = runtime.block_on(servers(&texts(labelled, is_read)));
        let http = weir_planner::app::client().unwrap();
        let fetches = Fetches::new(http, Clock::start());
        let long = Duration::from_secs(60);
        let scraper = |service: &String| {
            let targets = ScrapeTargets::Fixed(urls.clone());
            Scraper::sharing(&fetches, &[service], targets, long, long)
        };
        let scrapers: Vec<Scraper> = services().iter().map(scraper).collect();
        group.bench_function(form, |bencher| {
            // Each iteration fetches from every server once: no service takes an answer twice.
            bencher.iter(|| {
                runtime.block_on(async {
                    for scraper in &scrapers {
                        let scrapes = scraper.scrape().await;
                        assert!(scrapes.iter().all(|scrape| scrape.counts.is_ok()));
                        black_box(scrapes);
                    }
                });
            });
        });
    }
    group.finish();
}

criterion_group!(benches, fold, scrape);
criterion_main!(benches);
