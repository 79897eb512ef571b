//! Sustained rates as a function of cores.

use super::super::*;

fn rates(points: &[(f64, f64)]) -> Throughput {
    let points = points.iter().map(|(cores, rps)| Point {
        cores: *cores,
        rps: *rps,
    });
    Throughput::Table {
        points: points.collect(),
    }
}

fn line(slope_rps: f64, intercept_rps: f64) -> Throughput {
    Throughput::Line(Line {
        slope_rps,
        intercept_rps,
    })
}

#[test]
fn line_and_table_give_the_sustained_rate() {
    let resnet18 = line(24.45, -6.17);
    let measured = rates(&[(1.0, 19.0), (2.0, 43.0), (4.0, 90.0)]);
    for (model, cores, rps) in [
        (&resnet18, 1.0, 18.28),
        (&resnet18, 16.0, 385.03),
        (&resnet18, 0.25, 0.0),
        (&line(10.0, 5.0), 0.0, 0.0),
        (&line(10.0, 5.0), f64::NAN, 0.0),
        (&measured, 0.0, 0.0),
        (&measured, 0.99, 0.0),
        (&measured, 1.0, 19.0),
        (&measured, 1.5, 31.0),
        (&measured, 2.0, 43.0),
        (&measured, 3.0, 66.5),
        (&measured, 4.0, 90.0),
        (&measured, 400.0, 90.0),
    ] {
        let got = model.rps(cores);
        assert!(
            (got - rps).abs() < 1e-9,
            "{model:?}: th({cores}) is {got}, not {rps}"
        );
    }
}

#[test]
fn invalid_throughput_model_is_refused_by_name() {
    let many: Vec<_> = (0..4097).map(|i| (f64::from(i), 1.0)).collect();
    for (model, message) in [
        (
            line(-1.0, 5.0),
            "th.slope_rps: -1 must be 0 to 1000000000 requests/s",
        ),
        (line(f64::NAN, 5.0), "th.slope_rps: NaN must be"),
        (
            line(1.0, f64::NEG_INFINITY),
            "th.intercept_rps: -inf must be",
        ),
        (rates(&[]), "th.points: 0 must be 1 to 4096"),
        (rates(&many), "th.points: 4097 must be 1 to 4096"),
        (
            rates(&[(-1.0, 3.0)]),
            "th.points[0].cores: -1 must be 0 to 65536",
        ),
        (
            rates(&[(1.0, 3.0), (2.0, f64::NAN)]),
            "th.points[1].rps: NaN must be",
        ),
        (
            rates(&[(1.0, 3.0), (1.0, 4.0)]),
            "th.points[1].cores: 1 must be more than the 1 of the point before",
        ),
        (
            rates(&[(1.0, 3.0), (4.0, 2.0)]),
            "th.points[1].rps: 2 requests/s on 4 cores must be no less than the 3 on 1 cores",
        ),
    ] {
        let error = model.check("th").unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}\n{message}");
    }
    for model in [
        line(0.0, 0.0),
        rates(&[(0.0, 0.0), (1.0, 0.0), (2.0, 9.0), (3.0, 9.0)]),
    ] {
        assert_eq!(model.check("th"), Ok(()));
    }
}

#[test]
fn document_names_the_kind_of_model() {
    let line: Throughput =
        serde_json::from_str(r#"{"model":"line","slope_rps":2,"intercept_rps":-1}"#).unwrap();
    assert_eq!(line.rps(2.0), 3.0);
    let text = r#"{"model":"table","points":[{"cores":1.0,"rps":19.0}]}"#;
    let table: Throughput = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&table).unwrap(), text);
    for bad in [
        r#"{"model":"table","points":[],"slope_rps":1}"#,
        r#"{"model":"line","slope_rps":2,"intercept_rps":-1,"more":1}"#,
        r#"{"slope_rps":2,"intercept_rps":-1}"#,
    ] {
        assert!(serde_json::from_str::<Throughput>(bad).is_err(), "{bad}");
    }
}
