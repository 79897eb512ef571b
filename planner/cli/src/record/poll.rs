//! Polls of the proxies' statistics, and the growth of their counters from answer to answer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::Context;
use reqwest::{Client, Url};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use weir_planner::observe::exposition::Sample;

use super::counters::{Counter, Growth, service, whole};

/// Maximum size of an answer, in bytes.
const ANSWER_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Maximum number of failures that are named one by one.
const NAMED_MAX: usize = 20;
/// Beginnings of the lines that are read.
const READ: [&str; 2] = ["weir_arrivals_total", "weir_class_arrivals_total"];

/// Values of a proxy's counters, by class.
type Values = BTreeMap<Option<String>, u64>;

/// Result of the polls.
#[derive(Debug, Default)]
pub(super) struct Polled {
    pub(super) growth: Growth,
    /// Number of answers.
    pub(super) answers: u64,
    /// Number of polls without an answer, over which arrivals are spread.
    pub(super) failed: u64,
    /// The first failures.
    pub(super) failures: Vec<String>,
}

/// Proxy that is polled, with its latest values and their time in µs.
struct Proxy {
    url: Url,
    last: Option<(i64, Values)>,
}

/// Polls all proxies at each interval, until `length` has passed or the recording is stopped.
///
/// # Errors
/// A proxy that does not answer the first poll, a service that is not there, or more than can be recorded.
pub(super) async fn poll(
    urls: &[Url],
    named: Option<&str>,
    (interval, length): (Duration, Option<Duration>),
    mut stop: watch::Receiver<bool>,
) -> anyhow::Result<Polled> {
    let client = Client::builder()
        .timeout(interval.max(Duration::from_secs(1)))
        .build()?;
    let mut polled = Polled::default();
    let proxies = urls.iter().cloned().map(|url| Proxy { url, last: None });
    let mut proxies: Vec<Proxy> = proxies.collect();
    let mut first = Vec::with_capacity(proxies.len());
    let mut services = BTreeSet::new();
    for proxy in &proxies {
        let about = || format!("--stats {}", proxy.url);
        let (at_us, counters) = fetch(&client, &proxy.url).await.with_context(about)?;
        services.extend(counters.keys().map(|counter| counter.service.clone()));
        first.push((at_us, counters));
    }
    let service = service(&services, named).map_err(anyhow::Error::msg)?;
    for (proxy, (at_us, counters)) in proxies.iter_mut().zip(first) {
        proxy.last = Some((at_us, of(&service, counters)));
        polled.answers += 1;
    }
    let begin = Instant::now();
    let mut ticks = interval_at(begin + interval, interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The last poll ends the last interval.
    let end = length.map(|length| begin + length + interval / 2);
    loop {
        let at = tokio::select! {
            at = ticks.tick() => at,
            _ = stop.wait_for(|stopped| *stopped) => return Ok(polled),
        };
        if end.is_some_and(|end| at > end) {
            return Ok(polled);
        }
        let mut fetches = tokio::task::JoinSet::new();
        for (index, proxy) in proxies.iter().enumerate() {
            let (client, url) = (client.clone(), proxy.url.clone());
            fetches.spawn(async move { (index, fetch(&client, &url).await) });
        }
        while let Some(fetched) = fetches.join_next().await {
            let (index, fetched) = fetched?;
            let Some(proxy) = proxies.get_mut(index) else {
                continue;
            };
            match fetched {
                Ok((at_us, counters)) => {
                    let now = of(&service, counters);
                    polled.answers += 1;
                    proxy.grow(&mut polled.growth, at_us, now)?;
                }
                Err(error) => polled.fail(&proxy.url, &error),
            }
        }
    }
}

impl Proxy {
    /// Adds the growth since the last answer. A counter that was not there counted nothing.
    fn grow(&mut self, growth: &mut Growth, at_us: i64, now: Values) -> anyhow::Result<()> {
        if let Some((last_us, last)) = &self.last {
            // The clock may have been set back.
            let to_us = at_us.max(last_us + 1);
            for (class, count) in &now {
                let before = last.get(class).copied().unwrap_or_default();
                let span = (*last_us, to_us);
                let grown = growth.add(class.as_deref(), span, (before, *count));
                grown.map_err(anyhow::Error::msg)?;
            }
            self.last = Some((to_us, now));
        } else {
            self.last = Some((at_us, now));
        }
        Ok(())
    }
}

impl Polled {
    fn fail(&mut self, url: &Url, error: &anyhow::Error) {
        self.failed += 1;
        if self.failures.len() < NAMED_MAX {
            self.failures.push(format!("{url}: {error:#}"));
        }
    }
}

/// Counters of one service, by class.
fn of(service: &str, counters: BTreeMap<Counter, u64>) -> Values {
    let ours = counters
        .into_iter()
        .filter(|(counter, _)| counter.service == service);
    ours.map(|(counter, count)| (counter.class, count))
        .collect()
}

async fn fetch(client: &Client, url: &Url) -> anyhow::Result<(i64, BTreeMap<Counter, u64>)> {
    let mut answer = client.get(url.clone()).send().await?.error_for_status()?;
    let at_us = jiff::Timestamp::now().as_microsecond();
    let mut text = Vec::new();
    while let Some(chunk) = answer.chunk().await? {
        anyhow::ensure!(
            text.len() + chunk.len() <= ANSWER_BYTES_MAX,
            "more than {ANSWER_BYTES_MAX} bytes"
        );
        text.extend_from_slice(&chunk);
    }
    let text = std::str::from_utf8(&text).context("not UTF-8 text")?;
    Ok((at_us, counters(text).map_err(anyhow::Error::msg)?))
}

/// Counters of a text in Prometheus' format.
///
/// # Errors
/// The line that cannot be read.
fn counters(text: &str) -> Result<BTreeMap<Counter, u64>, String> {
    let mut counters = BTreeMap::new();
    for (line, at) in text.lines().zip(1..) {
        if !READ.iter().any(|name| line.starts_with(name)) {
            continue;
        }
        let shown: String = line.chars().take(80).collect();
        let sample = Sample::parse_strictly(line).ok_or_else(|| {
            format!("line {at}: {shown}; it must be a name with labels, and a value")
        })?;
        let Some(counter) = Counter::of(sample.name, |name| sample.label(name)) else {
            continue;
        };
        let count = whole(sample.value).map_err(|error| format!("line {at}: value: {error}"))?;
        *counters.entry(counter).or_default() += count;
    }
    Ok(counters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_both_forms_are_read() {
        let text = "# TYPE weir_arrivals_total counter\nweir_arrivals_total__service__demo{} 12\n\
            weir_class_arrivals_total{service=\"demo\",class=\"gold\"} 5\nweir_held_requests{service=\"demo\"} x\n\
            weir_class_arrivals_total__service__demo__class__bulk_two{} 7 1700000000000\n";
        let values = of("demo", counters(text).unwrap());
        let expected = [(None, 12), (Some("bulk-two"), 7), (Some("gold"), 5)];
        let expected = expected.map(|(class, count)| (class.map(str::to_owned), count));
        assert_eq!(values, expected.into());
        assert!(of("other", counters(text).unwrap()).is_empty());
    }

    #[test]
    fn wrong_line_is_named() {
        for (line, part) in [
            (
                "weir_arrivals_total{service=\"demo\" 5",
                "line 2: weir_arrivals_total{service",
            ),
            (
                "weir_arrivals_total{service=\"demo\"} 1.5",
                "line 2: value: 1.5; it must be a whole",
            ),
            (
                "weir_arrivals_total{service=\"demo\"} -1",
                "line 2: value: -1",
            ),
        ] {
            let refused = counters(&format!("a 1\n{line}\n")).unwrap_err();
            assert!(refused.contains(part), "{refused}");
        }
    }

    #[test]
    fn class_that_appears_counted_nothing_before() {
        let value = |class: &str, count| (Some(class.to_owned()), count);
        let mut proxy = Proxy {
            url: "http://127.0.0.1/".parse().unwrap(),
            last: None,
        };
        let mut growth = Growth::default();
        for (at_us, values) in [
            (1_000_000, vec![value("gold", 100)]),
            (2_000_000, vec![value("gold", 103), value("bulk", 4)]),
            // The clock was set back, and the proxy restarted.
            (1_500_000, vec![value("gold", 2)]),
        ] {
            proxy
                .grow(&mut growth, at_us, values.into_iter().collect())
                .unwrap();
        }
        let arrivals = growth.arrivals(1).unwrap();
        assert_eq!(arrivals.times.len(), 3 + 4 + 2);
    }
}
