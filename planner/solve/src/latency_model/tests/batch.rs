//! Tests of Amdahl's, the linear, the quadratic and Sponge's model.

use super::super::*;

fn read(text: &str) -> Latency {
    serde_json::from_str(text).unwrap()
}

#[test]
fn latency_follows_the_formula() {
    let amdahl = read(r#"{"model":"amdahl","serial_ms":2,"parallel_ms":12}"#);
    let linear = read(r#"{"model":"linear","item_ms":3,"fixed_ms":4}"#);
    let quadratic = read(r#"{"model":"quadratic","square_ms":0.5,"item_ms":-1,"fixed_ms":4}"#);
    let sponge = read(r#"{"model":"sponge","gamma_ms":40,"epsilon_ms":8,"delta_ms":2,"eta_ms":5}"#);
    for (model, batch, cores, ms) in [
        (&amdahl, 1, 1.0, 14.0),
        (&amdahl, 3, 4.0, 15.0),
        (&amdahl, 1, 0.5, 26.0),
        (&amdahl, 1, 0.0, f64::INFINITY),
        (&linear, 1, 1.0, 7.0),
        (&linear, 5, 8.0, 19.0),
        (&quadratic, 1, 1.0, 3.5),
        (&quadratic, 4, 2.0, 8.0),
        (&sponge, 4, 8.0, 34.0),
        (&sponge, 1, 0.0, f64::INFINITY),
    ] {
        assert_eq!(model.ms(batch, cores), ms, "{model:?}: l({batch}, {cores})");
        let rps = model.throughput_rps(batch, cores);
        assert!((rps * ms - 1000.0 * f64::from(batch)).abs() < 1e-9 || rps == 0.0);
        assert_eq!(model.check("l"), Ok(()));
    }
    assert_eq!(amdahl.throughput_rps(1, 0.0), 0.0);
}

#[test]
fn invalid_latency_model_is_refused_by_name() {
    let amdahl = |serial_ms, parallel_ms| {
        Latency::Amdahl(Amdahl {
            serial_ms,
            parallel_ms,
        })
    };
    let linear = |item_ms, fixed_ms| Latency::Linear(Linear { item_ms, fixed_ms });
    let quadratic = |square_ms, item_ms, fixed_ms| {
        Latency::Quadratic(Quadratic {
            square_ms,
            item_ms,
            fixed_ms,
        })
    };
    for (model, message) in [
        (
            amdahl(-1.0, 5.0),
            "l.serial_ms: -1 must be 0 to 86400000 ms",
        ),
        (amdahl(1.0, f64::NAN), "l.parallel_ms: NaN must be"),
        (
            amdahl(0.0, 0.0),
            "l: 0 ms must be more than 0 for one request on one core",
        ),
        (linear(f64::INFINITY, 0.0), "l.item_ms: inf must be"),
        (linear(1.0, -0.5), "l.fixed_ms: -0.5 must be"),
        (linear(0.0, 0.0), "l: 0 ms must be more than 0"),
        (quadratic(-0.1, 5.0, 0.0), "l.square_ms: -0.1 must be"),
        (
            quadratic(0.1, 1e9, 0.0),
            "l.item_ms: 1000000000 must be -86400000 to",
        ),
        (quadratic(0.1, 0.0, f64::NAN), "l.fixed_ms: NaN must be"),
        (quadratic(0.5, -5.0, 1.0), "l: -3.5 ms must be more than 0"),
        (
            Latency::Sponge(LatencyModel::default()),
            "l: 0 ms must be more than 0",
        ),
    ] {
        let error = model.check("l").unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}\n{message}");
    }
    for text in [
        r#"{"model":"amdahl","serial_ms":2}"#,
        r#"{"model":"linear","item_ms":2,"fixed_ms":2,"more":1}"#,
        r#"{"model":"cubic"}"#,
    ] {
        assert!(serde_json::from_str::<Latency>(text).is_err(), "{text}");
    }
}
