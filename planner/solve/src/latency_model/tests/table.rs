//! Measured latencies: exact at measured points, monotone and never too low elsewhere.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::super::*;

fn cell(batch: u32, cores: f64, latency_ms: f64) -> Cell {
    Cell {
        batch,
        cores,
        latency_ms,
    }
}

fn table(points: &[(u32, f64, f64)]) -> Table {
    let cells = points.iter().map(|(b, c, ms)| cell(*b, *c, *ms));
    Table::new(cells.collect()).unwrap()
}

/// Sponge's Table 1 (EuroMLSys '24): six pairs of a ResNet.
fn sponges() -> Table {
    table(&[
        (1, 1.0, 55.0),
        (2, 1.0, 97.0),
        (4, 2.0, 94.0),
        (8, 4.0, 92.0),
        (4, 8.0, 37.0),
        (8, 8.0, 62.0),
    ])
}

#[test]
fn sponge_table_1_gives_its_latencies_and_throughputs() {
    let model = Latency::Table(sponges());
    // Batch, cores, ms and requests/s as the paper's Table 1 prints them.
    for (batch, cores, ms, rps) in [
        (1, 1.0, 55.0, 18.0),
        (2, 1.0, 97.0, 20.0),
        // The paper prints 40, 80 and 128; 4 in 94 ms, 8 in 92 ms and 8 in 62 ms give these.
        (4, 2.0, 94.0, 42.0),
        (8, 4.0, 92.0, 86.0),
        (4, 8.0, 37.0, 108.0),
        (8, 8.0, 62.0, 129.0),
    ] {
        assert_eq!(model.ms(batch, cores), ms);
        assert_eq!(model.throughput_rps(batch, cores).floor(), rps);
    }
}

#[test]
fn unmeasured_cell_is_interpolated_or_cautious_or_unknown() {
    let sponges = sponges();
    let grid = table(&[
        (2, 1.0, 100.0),
        (2, 4.0, 40.0),
        (6, 1.0, 200.0),
        (6, 4.0, 80.0),
    ]);
    for (table, batch, cores, ms, why) in [
        (&grid, 2, 2.0, 80.0, "a third of the way in cores"),
        (&grid, 4, 1.0, 150.0, "half of the way in the batch"),
        (&grid, 4, 2.5, 105.0, "in the middle of the four"),
        (&grid, 1, 1.0, 100.0, "the least batch's"),
        (&grid, 6, 64.0, 80.0, "the most cores'"),
        (&grid, 7, 4.0, f64::INFINITY, "beyond the greatest batch"),
        (&grid, 2, 0.5, f64::INFINITY, "below the fewest cores"),
        (&grid, 2, f64::NAN, f64::INFINITY, "no cores"),
        (&grid, 2, 0.0, f64::INFINITY, "no cores"),
        (&sponges, 1, 8.0, 37.0, "as quick as 4 on 8 cores, at least"),
        (&sponges, 2, 2.0, 94.0, "as quick as 4 on 2 cores, at least"),
        (&sponges, 4, 4.0, 94.0 - 57.0 / 3.0, "between 2 and 8 cores"),
        (&sponges, 6, 8.0, 49.5, "between 4 and 8 on 8 cores"),
        (&sponges, 3, 1.0, f64::INFINITY, "more than 2 on 1 core"),
        (&sponges, 8, 2.0, f64::INFINITY, "8 on 2 cores"),
        (&sponges, 6, 3.0, f64::INFINITY, "no 6 on 3 cores or fewer"),
        (&sponges, 4, 3.0, 84.5, "on the edge of what is known"),
    ] {
        let got = table.ms(batch, cores);
        let equal = got == ms || (got - ms).abs() < 1e-9;
        assert!(equal, "l({batch}, {cores}) is {got}, not {ms}: {why}");
    }
}

#[test]
fn contradicting_measurement_is_raised_to_the_slower_one() {
    // Rows of Sponge's published profile, where 16 cores are slower than 8.
    let noisy = table(&[
        (1, 4.0, 18.015),
        (1, 8.0, 12.402),
        (1, 16.0, 12.998),
        (1, 32.0, 12.614),
    ]);
    for (cores, ms) in [(4.0, 18.015), (8.0, 12.998), (16.0, 12.998), (32.0, 12.614)] {
        assert_eq!(noisy.ms(1, cores), ms, "{cores}");
    }
    // Also across batches and cores: 100 ms for 1 on 4 cores implies as much for 3 on 1.
    let noisy = table(&[(1, 4.0, 100.0), (2, 1.0, 90.0), (3, 1.0, 81.0)]);
    assert_eq!((noisy.ms(2, 1.0), noisy.ms(3, 1.0)), (100.0, 100.0));
}

/// Required properties of any table, by definition and not by its construction.
#[test]
fn table_is_monotone_and_within_measured_bounds() {
    let (mut raised, mut unknown) = (0, 0);
    for seed in 0..3000 {
        let mut chance = ChaCha8Rng::seed_from_u64(seed);
        let mut points: Vec<Cell> = Vec::new();
        for _ in 0..chance.random_range(1..12) {
            let (batch, cores) = (chance.random_range(1..8), chance.random_range(1..8));
            let truth = 10.0 * f64::from(batch) / f64::from(cores) + 2.0 * f64::from(batch) + 60.0;
            let ms = truth * chance.random_range(0.9..1.1);
            let cores = f64::from(cores) / 2.0;
            if points.iter().all(|p| (p.batch, p.cores) != (batch, cores)) {
                points.push(cell(batch, cores, ms));
            }
        }
        let table = Table::new(points.clone()).unwrap();
        let of = |keep: &dyn Fn(&&Cell) -> bool, zero: f64, pick: fn(f64, f64) -> f64| {
            points
                .iter()
                .filter(keep)
                .map(|p| p.latency_ms)
                .fold(zero, pick)
        };
        for batch in 1..9 {
            for step in 1..20 {
                let cores = f64::from(step) / 4.0;
                let ms = table.ms(batch, cores);
                let floor = of(&|p| p.batch <= batch && p.cores >= cores, 0.0, f64::max);
                let ceiling = of(
                    &|p| p.batch >= batch && p.cores <= cores,
                    f64::INFINITY,
                    f64::min,
                );
                assert!(ms >= floor - 1e-9, "{seed}: {ms} is below {floor}");
                assert!(ms > 0.0);
                // Noise raises some measurements, by 0.2/0.9 at most.
                assert!(ms <= ceiling * 1.2223, "{seed}: {ms} is above {ceiling}");
                assert_eq!(
                    ms.is_infinite(),
                    ceiling.is_infinite(),
                    "{seed}: l({batch}, {cores})"
                );
                assert!(
                    table.ms(batch + 1, cores) >= ms - 1e-9,
                    "{seed}: falls with the batch"
                );
                assert!(
                    table.ms(batch, cores + 0.25) <= ms + 1e-9,
                    "{seed}: rises with cores"
                );
                unknown += u32::from(ms.is_infinite());
            }
        }
        for p in &points {
            let slower = of(&|q| q.batch <= p.batch && q.cores >= p.cores, 0.0, f64::max);
            assert_eq!(table.ms(p.batch, p.cores), slower, "{seed}: {p:?}");
            raised += u32::from(slower > p.latency_ms);
        }
    }
    assert!(raised > 500 && unknown > 5000, "{raised} {unknown}");
}

#[test]
fn invalid_table_is_refused_by_name() {
    let good = cell(1, 1.0, 10.0);
    let many = |n: u32| (1..=n).map(|i| cell(i, f64::from(i), 10.0)).collect();
    for (points, message) in [
        (vec![], "points: 0 must be 1 to 4096"),
        (many(4097), "points: 4097 must be 1 to 4096"),
        (
            many(257),
            "points: 257 batches × 257 cores must be at most 65536 together",
        ),
        (
            vec![cell(0, 1.0, 10.0)],
            "points[0].batch: 0 must be 1 to 65536 requests",
        ),
        (
            vec![good, cell(2, 0.0, 10.0)],
            "points[1].cores: 0 must be above 0 and at most 65536",
        ),
        (
            vec![cell(1, f64::NAN, 10.0)],
            "points[0].cores: NaN must be above 0",
        ),
        (
            vec![cell(1, 1.0, -3.0)],
            "points[0].latency_ms: -3 must be above 0 and at most 86400000 ms",
        ),
        (
            vec![cell(1, 1.0, f64::INFINITY)],
            "points[0].latency_ms: inf must be above 0",
        ),
        (
            vec![good, cell(1, 2.0, 9.0), good],
            "points[2]: batch 1 on 1 cores must be measured once: points[0] is the same",
        ),
        (
            vec![cell(1, 4.0, 130.0), cell(8, 2.0, 100.0)],
            "points[1].latency_ms: 100 must be 130 ms, less 25 % of noise, or more: batch 8 on 2 cores cannot be quicker than batch 1 on 4 cores (points[0])",
        ),
    ] {
        let error = Table::new(points).unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}\n{message}");
    }
}

#[test]
fn table_serializes_as_its_points() {
    let text = r#"{"model":"table","points":[{"batch":1,"cores":1.0,"latency_ms":55.0},{"batch":2,"cores":1.0,"latency_ms":97.0}]}"#;
    let model: Latency = serde_json::from_str(text).unwrap();
    assert_eq!(model.ms(2, 1.0), 97.0);
    assert_eq!(model.check("stages[0].latency"), Ok(()));
    assert_eq!(serde_json::to_string(&model).unwrap(), text);
    let error = |text: &str| {
        serde_json::from_str::<Latency>(text)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        error(&text.replace("97.0", "-1")),
        "points[1].latency_ms: -1 must be above 0 and at most 86400000 ms"
    );
    assert!(
        error(&text.replace("\"batch\":2", "\"batch\":2,\"x\":1")).contains("unknown field `x`")
    );
    let schema = serde_json::to_string(&schemars::schema_for!(Latency)).unwrap();
    assert!(schema.contains("Measurements, in any order"), "{schema}");
    assert!(!schema.contains("grid"), "{schema}");
}
