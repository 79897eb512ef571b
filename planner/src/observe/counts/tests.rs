//! Fold of statistics, beside the general parser.

mod reference;

use std::collections::BTreeMap;

use proptest::prelude::*;
use weir_api::metrics::{Kind, Series, encode, encode_group};

use super::super::{Executions, FullTime, Outcomes, Refusals, VariantOutcomes};
use super::*;
use reference::reference;

#[test]
fn arrivals_are_parsed_from_envoy_statistics() {
    let text = "# TYPE envoy_server_live gauge\nenvoy_server_live{} 1\n\
        # TYPE weir_arrivals_total__service__demo_two counter\nweir_arrivals_total__service__demo_two{} 12\n\
        # TYPE weir_arrivals_total__service__other counter\nweir_arrivals_total__service__other{} 99\n\
        # TYPE weir_served_total__service__demo_two__variant__a counter\n\
        weir_served_total__service__demo_two__variant__a{} 7\n\
        # TYPE weir_wait_milliseconds__service__demo_two histogram\n\
        weir_wait_milliseconds__service__demo_two_bucket{le=\"1\"} 3\n";
    for (service, expected) in [("demo-two", 12.0), ("other", 99.0), ("third", 0.0)] {
        assert_eq!(counts(text, &[service]).arrivals, expected, "{service}");
    }
    assert_eq!(
        counts(
            "weir_arrivals_total__service__demo 3 1700000000000\n",
            &["demo"]
        ),
        Counts::of_arrivals(3.0)
    );
    assert_eq!(
        counts(
            "weir_arrivals_total__service__demo{local_cluster=\"x\"} 3\n",
            &["demo"]
        ),
        Counts::of_arrivals(3.0)
    );
}

/// Series of both forms in one scrape, as of an Envoy that was given `stats_tags` by a hot restart.
#[test]
fn labels_are_read_beside_names_that_contain_them() {
    let text = "# TYPE weir_arrivals_total counter\n\
        weir_arrivals_total{service=\"demo-two\"} 12\n\
        weir_arrivals_total{service=\"other\"} 99\nweir_arrivals_total{} 99\n\
        weir_arrivals_total__service__demo_two{} 3\n\
        weir_requests_total{variant=\"res-net\",service=\"demo-two\"} 7\n\
        weir_requests_total__service__demo_two__variant__b{} 1\n\
        weir_failing{service=\"demo-two\",variant=\"res-net\"} 1\n\
        weir_demand_slack_milliseconds_bucket{service=\"demo-two\",le=\"250\"} 4\n\
        weir_demand_slack_milliseconds_bucket{service=\"demo-two\",le=\"+Inf\"} 5\n\
        weir_demand_slack_milliseconds_bucket{service=\"other\",le=\"250\"} 9\n\
        weir_demand_slack_milliseconds_sum{service=\"demo-two\"} 900\n";
    let counts = counts(text, &["demo-two"]);
    assert_eq!(counts.arrivals, 15.0);
    assert_eq!(counts.slack, [(250.0, 4.0), (f64::INFINITY, 5.0)]);
    assert_eq!(counts.failing, [("res-net".to_owned(), true)].into());
    let routed = counts.routes.iter();
    let routed: Vec<_> = routed
        .map(|(name, it)| (name.as_str(), it.routed))
        .collect();
    assert_eq!(routed, [("b", 1.0), ("res-net", 7.0)]);
}

/// A series as Envoy writes it: `labelled` with `stats_tags`, without them in the long form.
fn line(labelled: bool, series: &Series, bucket: Option<&str>, value: u32) -> String {
    let Series {
        metric,
        service,
        value: of,
        group,
    } = series;
    let suffix = if bucket.is_some() { "_bucket" } else { "" };
    let le = bucket.map(|edge| format!("le=\"{edge}\""));
    let own = metric.label().map(|label| match metric.has_group() {
        true => format!("{label}=\"{of}\",group=\"{group}\""),
        false => format!("{label}=\"{of}\""),
    });
    let labels = match labelled {
        true => [Some(format!("service=\"{service}\"")), own, le],
        false => [le, None, None],
    };
    let labels: Vec<_> = labels.into_iter().flatten().collect();
    let name = match labelled {
        true => metric.name().to_owned(),
        false if metric.has_group() => encode_group(*metric, service, of, group).replace('-', "_"),
        false => encode(*metric, service, of).replace('-', "_"),
    };
    format!("{name}{suffix}{{{}}} {value}\n", labels.join(","))
}

proptest! {
    #[test]
    fn both_forms_are_read_alike(
        lines in prop::collection::vec((
            prop::sample::select(Metric::ALL.to_vec()),
            prop::sample::select(vec!["demo", "demo-two", "two"]),
            "[a-z0-9]{1,4}(-[a-z0-9]{1,4}){0,2}",
            0..1000_u32,
            prop::sample::select(vec!["1", "99", "+Inf"]),
            any::<bool>(),
        ), 0..40),
    ) {
        let text = |labelled: &dyn Fn(bool) -> bool| -> String {
            let line = |(metric, service, value, count, edge, form): &(Metric, &str, String, u32, &str, bool)| {
                let group = format!("class-{}", value.get(..1).unwrap_or_default());
                let series = Series { metric: *metric, service: (*service).to_owned(), value: value.clone(), group };
                let bucket = (metric.kind() == Kind::Histogram).then_some(*edge);
                line(labelled(*form), &series, bucket, *count)
            };
            lines.iter().map(line).collect()
        };
        let stages = ["demo-two", "demo"];
        let long = counts(&text(&|_| false), &stages);
        prop_assert_eq!(&long, &counts(&text(&|_| true), &stages));
        prop_assert_eq!(&long, &counts(&text(&|form| form), &stages), "mixed");
        let arrivals = lines.iter().filter(|it| it.0 == Metric::Arrivals && it.1 == stages[0]);
        prop_assert_eq!(long.arrivals, arrivals.map(|it| f64::from(it.3)).sum::<f64>());
        let slack = lines.iter().filter(|it| it.0 == Metric::DemandSlackMs && it.1 == stages[0]);
        prop_assert_eq!(long.slack.len(), slack.count());
    }
}

#[test]
fn slack_histogram_is_read_by_rising_edge() {
    let name = "weir_demand_slack_milliseconds__service__demo_two_bucket";
    let text = format!(
        "{name}{{le=\"+Inf\"}} 9\n{name}{{le=\"250\"}} 7\n{name}{{le=\"100\"}} 3\n\
        {name}{{le=\"high\"}} 3\nweir_wait_milliseconds__service__demo_two_bucket{{le=\"1\"}} 5\n\
        weir_demand_slack_milliseconds__service__demo_two_sum{{}} 900\nweir_demand_slack_milliseconds__service__other_bucket{{le=\"1\"}} 5\n"
    );
    let expected = [(100.0, 3.0), (250.0, 7.0), (f64::INFINITY, 9.0)];
    assert_eq!(counts(&text, &["demo-two"]).slack, expected);
}

/// Error of a text about service `demo`.
fn refused(text: &str) -> ScrapeError {
    let mut fold = Fold::new(Arc::new(StageNames::new(["demo"])));
    let pushed = fold.push(text.as_bytes());
    pushed.and_then(|()| fold.finish()).unwrap_err()
}

#[test]
fn series_that_counts_nothing_real_is_an_error_that_names_it() {
    let slack = "weir_demand_slack_milliseconds__service__demo_bucket{le=\"100\"}";
    for series in [
        "weir_arrivals_total__service__demo{}",
        "weir_arrivals_total{service=\"demo\"}",
        "weir_held_requests{service=\"demo\"}",
        slack,
        "weir_service_milliseconds_sum{service=\"demo\",variant=\"a\"}",
    ] {
        for value in ["NaN", "+Inf", "-Inf", "-1", "1e999", "x"] {
            // The first bucket begins a histogram, and others go on with it.
            for before in ["", &format!("{slack} 7\n")] {
                let text = format!("{before}{series} {value}\nweir_arrivals_total{{}} 3\n");
                let expected = ScrapeError::Value(format!("{series} {value}"));
                assert_eq!(refused(&text), expected, "{before}");
            }
        }
    }
    // What is not read may be anything.
    let others = "weir_plan_age_milliseconds{service=\"demo\"} NaN\nenvoy_a{} NaN\n";
    assert_eq!(counts(others, &["demo"]), Counts::default());
}

#[test]
fn pages_messages_and_parts_are_no_statistics() {
    for (text, line) in [
        (
            "<!doctype html>\n<title>Sign in</title>\n",
            "<!doctype html>",
        ),
        ("upstream connect error\n", "upstream connect error"),
        ("{\"error\": 3}\n", "{\"error\": 3}"),
        ("# TYPE a counter\na 1\n\na\n", "a"),
        ("\u{0}garbage{\n", "\u{0}garbage{"),
    ] {
        assert_eq!(refused(text), ScrapeError::NotSeries(line.into()), "{text}");
    }
    let whole = "envoy_a{} 1\nweir_arrivals_total{service=\"demo\"} 12\n";
    assert_eq!(counts(whole, &["demo"]).arrivals, 12.0);
    for cut in (1..whole.len()).filter(|cut| !whole[..*cut].ends_with('\n')) {
        assert_eq!(refused(&whole[..cut]), ScrapeError::CutShort, "{cut}");
    }
    let metrics = |text: &str| {
        let mut fold = Fold::new(Arc::default());
        fold.push(text.as_bytes()).unwrap();
        fold.finish().unwrap().has_metrics()
    };
    assert_eq!(
        (metrics(whole), metrics(""), metrics("envoy_a 1\n")),
        (true, false, false)
    );
}

#[test]
fn first_stage_counts_arrivals_and_all_stages_count_routes() {
    let text = "weir_arrivals_total__service__detect{} 12\nweir_arrivals_total__service__classify{} 9\n\
        weir_requests_total__service__detect__variant__a{} 11\nweir_requests_total__service__classify__variant__b{} 8\n\
        weir_requests_total__service__other__variant__c{} 8\n\
        weir_latency_milliseconds__service__classify_bucket{le=\"99\"} 8\n\
        weir_latency_milliseconds__service__detect_bucket{le=\"50\"} 11\n\
        weir_demand_slack_milliseconds__service__classify_bucket{le=\"1\"} 5\n";
    let counts = counts(text, &["detect", "classify"]);
    assert_eq!((counts.arrivals, counts.slack), (12.0, Vec::new()));
    assert_eq!(
        counts.outcomes.latency_ms,
        [(99.0, 8.0)],
        "of the last stage"
    );
    let routed: Vec<_> = counts
        .routes
        .iter()
        .map(|(name, route)| (name.as_str(), route.routed))
        .collect();
    assert_eq!(routed, [("a", 11.0), ("b", 8.0)]);
}

#[test]
fn only_variants_known_to_a_proxy_are_read() {
    let text = "weir_failing__service__demo__variant__res_net{} 1\n\
        weir_failing__service__demo__variant__b{} 0\n\
        weir_failing__service__other__variant__c{} 1\n";
    let failing = [("b".to_owned(), false), ("res-net".to_owned(), true)];
    let failing_of = counts(text, &["demo"]).failing;
    assert_eq!(failing_of, BTreeMap::from(failing));
    let text = "weir_service_milliseconds__service__demo__variant__res_net_bucket{le=\"50\"} 7\n\
        weir_service_milliseconds__service__demo__variant__res_net_sum{} 360\n\
        weir_service_milliseconds__service__demo__variant__res_net_count{} 9\n\
        weir_cut_off_milliseconds_sum{service=\"demo\",variant=\"res-net\"} 500\n\
        weir_cut_off_milliseconds__service__demo__variant__res_net_count{} 2\n\
        weir_batch_requests_sum{service=\"demo\",variant=\"res-net\"} 9\n\
        weir_batch_requests_count{service=\"demo\",variant=\"res-net\"} 3\n\
        weir_wait_milliseconds__service__demo_count{} 5\n\
        weir_service_milliseconds__service__other__variant__c_count{} 7\n";
    let executions = Executions {
        answered: 9.0,
        total_ms: 360.0,
        cut_off: 2.0,
        cut_off_ms: 500.0,
        batches: 3.0,
        batched: 9.0,
    };
    let found = counts(text, &["demo"]).executions;
    assert_eq!(found, [("res-net".to_owned(), executions)].into());
    let text = "weir_full_microseconds_total__service__demo__variant__res_net{} 700\n\
        weir_full_executions_total{service=\"demo\",variant=\"res-net\"} 3\n";
    let full = FullTime {
        us: 700.0,
        executions: 3.0,
    };
    let found = counts(text, &["demo"]).full;
    assert_eq!(found, [("res-net".to_owned(), full)].into());
}

#[test]
fn ends_of_requests_are_read_by_reason_and_variant() {
    let text = "weir_refused_total__service__demo__reason__queue_full{} 3\n\
        weir_refused_total{service=\"demo\",reason=\"no-such-reason\"} 4\n\
        weir_refused_total{service=\"other\",reason=\"expired\"} 9\n\
        weir_unservable_total__service__demo{} 2\n\
        weir_client_disconnects_total__service__demo{} 1\n\
        weir_held_requests__service__demo{} 6\n\
        weir_served_total__service__demo__variant__res_net{} 9\n\
        weir_on_time_total{service=\"demo\",variant=\"res-net\"} 7\n\
        weir_late_total{service=\"demo\",variant=\"res-net\"} 1\n\
        weir_waiting_requests{service=\"demo\",variant=\"res-net\"} 5\n\
        weir_service_milliseconds_bucket{service=\"demo\",variant=\"res-net\",le=\"50\"} 7\n\
        weir_service_milliseconds_bucket{service=\"demo\",variant=\"res-net\",le=\"+Inf\"} 9\n\
        weir_wait_milliseconds__service__demo_bucket{le=\"50\"} 8\n\
        weir_wait_milliseconds__service__demo_bucket{le=\"5\"} 2\n\
        weir_dispatch_slack_milliseconds__service__demo_bucket{le=\"500\"} 9\n\
        weir_latency_milliseconds__service__demo_bucket{le=\"250\"} 8\n";
    let mut refused = Refusals::default();
    *refused.of("queue-full") += 3.0;
    *refused.of("other") += 4.0;
    let variant = VariantOutcomes {
        served: 9.0,
        on_time: 7.0,
        late: 1.0,
        waiting: 5.0,
        service_ms: vec![(50.0, 7.0), (f64::INFINITY, 9.0)],
    };
    let expected = Outcomes {
        unservable: 2.0,
        client_disconnects: 1.0,
        refused,
        held: 6.0,
        wait_ms: vec![(5.0, 2.0), (50.0, 8.0)],
        dispatch_slack_ms: vec![(500.0, 9.0)],
        latency_ms: vec![(250.0, 8.0)],
        variants: [("res-net".to_owned(), variant)].into(),
    };
    assert_eq!(*counts(text, &["demo"]).outcomes, expected);
}

proptest! {
    /// Texts near those of an Envoy, in pieces of any size.
    #[test]
    fn fold_reads_what_the_general_parser_reads(
        lines in prop::collection::vec((
            prop::sample::select(Metric::ALL.to_vec()),
            prop::sample::select(vec!["", "_bucket", "_sum", "_count", "_total"]),
            prop::sample::select(vec![
                "__service__demo", "__service__demo_two", "__service__demo__variant__a", "__service__two__variant__a_b",
                "__service__demo_two__x__a", "__variant__a", "", "__service__demo__variant__a__class__b",
                "__service__demo__variant__a__group__class_b", "__service__demo_two__variant__a__group__size_0",
            ]),
            prop::sample::select(vec![
                "", "{}", "{le=\"1\"}", "{le=\"5\"}", "{le=\"9\",file=\"3\"}", "{le=\"9\",file=\"4\"}",
                "{service=\"demo\",variant=\"a\",le=\"1\"}", "{service=\"demo\",variant=\"a\",le=\"+Inf\"}", "{service=\"demo\",variant=\"a\"}", "{service=\"demo-two\",le=\"+Inf\"}",
                "{variant=\"a-b\",service=\"two\"}", "{service=\"demo\",variant=\"a\",group=\"class-b\"}", "{le=\"-1\",service=\"demo-two\"}",
            ]),
            prop::sample::select(vec![
                " 1", " 2.5", " 7 1700000000000", " 1e3", "\t4", " 0", " 9\r",
            ]),
        ), 0..60),
        size in 1..200_usize,
    ) {
        let lines = lines.iter().map(|(metric, suffix, labels, form, value)| {
            format!("{}{labels}{suffix}{form}{value}\n", metric.name())
        });
        let text: String = lines.collect();
        let services = [vec!["demo-two", "demo"], vec!["two"], vec!["demo"], vec!["missing"]];
        let mut fold = Fold::new(Arc::new(StageNames::new(services.concat())));
        for piece in text.as_bytes().chunks(size) {
            fold.push(piece).unwrap();
        }
        let folded = fold.finish().unwrap();
        for service in services {
            let stages: Vec<String> = service.iter().map(|stage| (*stage).to_owned()).collect();
            prop_assert_eq!(folded.of(&stages).unwrap(), reference(&text, &service), "{:?}", service);
        }
        prop_assert_eq!(folded.of(&["demo".to_owned(), "other".to_owned()]), None);
    }
}

#[test]
fn text_that_is_no_utf_8_and_long_lines_are_refused() {
    let fold = || Fold::new(Arc::default());
    for (pieces, expected) in [
        (vec!["a".repeat(LINE_BYTES_MAX)], Ok(())),
        (
            vec!["a".repeat(LINE_BYTES_MAX + 1)],
            Err(ScrapeError::LongLine),
        ),
        (
            vec!["a".repeat(LINE_BYTES_MAX), "a".to_owned()],
            Err(ScrapeError::LongLine),
        ),
        (vec!["a 1\n".repeat(LINE_BYTES_MAX)], Ok(())),
    ] {
        let mut fold = fold();
        let pushed = pieces
            .iter()
            .try_for_each(|piece| fold.push(piece.as_bytes()));
        assert_eq!(pushed, expected);
    }
    let mut fold = fold();
    // A character may be divided among two pieces.
    assert_eq!(fold.push(&[b'#', 0xc3]), Ok(()));
    assert_eq!(fold.push(&[0xa4, b'\n', 0xff]), Ok(()));
    assert_eq!(fold.push(b"\n"), Err(ScrapeError::NotText));
}
