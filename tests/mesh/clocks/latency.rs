//! Network latency and remaining time, from clients with a clock.

use super::*;

/// Only accepted stamps are measured: a stamp minutes off says nothing about the network.
#[tokio::test]
async fn network_latency_is_measured_from_accepted_stamps() {
    let scene = clock(json!({ "estimate": false }), json!({})).await;
    let stamps = [
        Some(epoch_ms() - 120),
        None,
        Some(epoch_ms() - 100),
        Some(epoch_ms() + 60_000),
        Some(epoch_ms() - 600_000),
    ];
    for stamp in stamps {
        let request = scene.infer_within(BUDGET);
        served(match stamp {
            Some(stamp) => request.header("x-slo-start", stamp),
            None => request,
        })
        .await;
    }
    let histogram = async || {
        let histogram = scene.envoy.histogram(Metric::NetworkLatencyMs, SERVICE);
        histogram.await.unwrap()
    };
    let flushed = async || histogram().await.0 >= 2;
    wait::until_async("the histogram", PATIENCE, flushed)
        .await
        .unwrap();
    let (count, sum) = histogram().await;
    assert_eq!(count, 2);
    assert!((200.0..=220.0 + 3.0 * SLACK as f64).contains(&sum), "{sum}");
}

/// Requests of all ages from 27 ms to 1.5 s; the remaining time of each on arrival is known within a few ms.
#[tokio::test]
async fn planner_reads_percentiles_of_the_remaining_time() {
    const REQUESTS: u64 = 150;
    /// Error from rounding to whole ms and from the filter's reading of the wall clock.
    const ROUNDED_MS: f64 = 2.0;
    const PROMISED_MS: u64 = 1650;
    const RESERVE_MS: u64 = 30;
    // Each request comes from its own client, because the filter records only a few per second and client.
    let scene = clock(
        json!({ "source_header": CLIENT }),
        json!({ "reserve_ms": RESERVE_MS }),
    )
    .await;
    let stats = format!("http://{}/stats/prometheus", scene.envoy.admin());
    let scraper = Scraper::new(
        reqwest::Client::builder().no_proxy().build().unwrap(),
        Clock::start(),
        &[SERVICE],
        ScrapeTargets::Fixed(vec![stats.parse().unwrap()]),
        Duration::from_secs(10),
    );
    let mut slack = Slack::new();
    // The filter has metrics once Envoy has loaded it.
    let mut seen: Vec<Scrape> = Vec::new();
    let loaded = async || {
        seen = scraper.scrape().await;
        seen[0].counts.is_ok()
    };
    wait::until_async("the filter's metrics", PATIENCE, loaded)
        .await
        .unwrap();
    slack.observe(Duration::ZERO, &seen);
    let (mut min, mut most) = (Vec::new(), Vec::new());
    for request in 0..REQUESTS {
        let stamp = epoch() - Duration::from_millis(27 + request * 10);
        let all_ms = (PROMISED_MS - RESERVE_MS) as f64;
        let left_ms = || all_ms - (epoch() - stamp).as_secs_f64() * 1000.0;
        most.push(left_ms() + ROUNDED_MS);
        let from = scene.infer_within(PROMISED_MS).header(CLIENT, request);
        served(from.header("x-slo-start", stamp.as_micros().to_string())).await;
        min.push(left_ms() - ROUNDED_MS);
    }
    let counted = async || {
        seen = scraper.scrape().await;
        let counts = seen[0].counts.as_ref().unwrap();
        counts.slack.last() == Some(&(f64::INFINITY, REQUESTS as f64))
    };
    wait::until_async("the histogram", PATIENCE, counted)
        .await
        .unwrap();
    let buckets: &Buckets = &seen[0].counts.as_ref().unwrap().slack;
    let edges: Vec<f64> = EDGES_MS.map(f64::from).to_vec();
    assert_eq!(
        buckets.iter().map(|(edge, _)| *edge).collect::<Vec<f64>>(),
        [&edges[..], &[f64::INFINITY]].concat()
    );
    let up_to = |left: &[f64], edge: f64| left.iter().filter(|ms| **ms <= edge).count() as f64;
    for (edge, count) in buckets {
        let expected = up_to(&most, *edge)..=up_to(&min, *edge);
        assert!(expected.contains(count), "{edge}: {count}, {expected:?}");
    }

    slack.observe(Duration::from_secs(1), &seen);
    for percent in [50.0, 90.0, 99.0_f64] {
        let rank = (REQUESTS as f64 * (1.0 - percent / 100.0)).ceil() as usize - 1;
        let of = |left: &[f64]| {
            let mut sorted = left.to_vec();
            sorted.sort_by(f64::total_cmp);
            sorted[rank]
        };
        let below = edges.iter().rfind(|edge| **edge < of(&min)).unwrap();
        let above = edges.iter().find(|edge| **edge >= of(&most)).unwrap();
        let read = slack.percentile(percent, 0.0).unwrap();
        assert!((*below..=*above).contains(&read), "{percent} %: {read} ms");
        println!(
            "{percent} %: {read:.0} ms of {:.0} to {:.0}, in {below} to {above}",
            of(&min),
            of(&most)
        );
    }
}
