//! Latency models of every kind and measured throughput: what they mean, and what is refused.

use super::*;

const LOAD: &str = "load: {generator: poisson, rps: 50}";
const STATIC: &str = "contenders: [{plane: weir, control: static}]";

/// `SMALL` with those servers, and static cores.
fn with(servers: &str) -> String {
    format!("{SMALL}servers: {servers}\n{STATIC}\n")
}

#[test]
fn latency_of_every_model_is_taken() {
    let fixture = Fixture::new();
    for (latency, [one, two]) in [
        (
            "{gamma_ms: 30, epsilon_ms: 0, delta_ms: 0, eta_ms: 2}",
            [32.0, 62.0],
        ),
        (
            "{model: sponge, gamma_ms: 30, epsilon_ms: 0, delta_ms: 0, eta_ms: 2}",
            [32.0, 62.0],
        ),
        (
            "{model: amdahl, serial_ms: 5, parallel_ms: 20}",
            [25.0, 50.0],
        ),
        ("{model: linear, item_ms: 10, fixed_ms: 30}", [40.0, 50.0]),
        (
            "{model: quadratic, square_ms: 2, item_ms: -3, fixed_ms: 30}",
            [29.0, 32.0],
        ),
        (
            "{model: table, points: [{batch: 1, cores: 1, latency_ms: 40}, \
             {batch: 3, cores: 1, latency_ms: 60}]}",
            [40.0, 50.0],
        ),
    ] {
        let (scenario, _) = fixture.good(&with(&format!(
            "{{fast: {{latency: {latency}, batch_max: 2}}}}"
        )));
        let model = &scenario.variants[0].latency;
        assert_eq!(
            [model.ms(1, 1.0), model.ms(2, 1.0)],
            [one, two],
            "{latency}"
        );
    }
}

#[test]
fn throughput_is_converted_to_latency_of_executions() {
    let fixture = Fixture::new();
    // Two executions at once on 2 cores, and on 4.
    let good = "throughput: [{batch: 1, rps: 20}, {batch: 4, rps: 50}, {batch: 8, rps: 90, cores: 4}, \
                {batch: 4, rps: 80, cores: 4}], batch_max: 4";
    // Two executions, each on a core; twelve on twelve cores.
    let fast = "throughput: [{batch: 1, rps: 40}, {batch: 8, rps: 600, cores: 12}], batch_max: 8";
    let text = with(&format!("{{good: {{{good}}}, fast: {{{fast}}}}}"));
    let (scenario, _) = fixture.good(&text);
    let [fast, good] = scenario.variants.as_slice() else {
        panic!("{:?}", scenario.variants);
    };
    for (batch, cores, ms) in [(1, 1.0, 100.0), (4, 1.0, 160.0), (4, 2.0, 100.0)] {
        assert_eq!(good.latency.ms(batch, cores), ms, "{batch} on {cores}");
    }
    assert_eq!(
        (fast.latency.ms(1, 1.0), fast.latency.ms(8, 1.0)),
        (50.0, 160.0)
    );
    assert_eq!((fast.capacity_rps(), good.capacity_rps()), (100.0, 50.0));
}

#[test]
fn measurements_must_reach_the_fewest_cores_of_any_contender() {
    let fixture = Fixture::new();
    let servers = "servers: {good: {throughput: [{batch: 1, rps: 20}]}}\n";
    let text = format!("{SMALL}{servers}");
    let refusal = |text: &str| fixture.read(text).unwrap_err().to_string();
    let refused = refusal(&text);
    let why = "measured on 2 cores or more for batches of 1; it must be measured on 1 too: weir+planner may \
               give that (service.variants[1].cores.min: 1)";
    assert!(refused.contains(why), "{refused}");
    fixture.good(&text.replace("cores: {initial: 2}", "cores: {initial: 2, min: 2}"));
    fixture.good(&format!("{text}{STATIC}\n"));
}

#[test]
fn invalid_latency_or_throughput_is_refused() {
    let fixture = Fixture::new();
    let table: &[(&str, &[&str])] = &[
        (
            "{fast: {throughput: [{batch: 0, rps: 50}]}}",
            &[":22:", "servers.fast.throughput[0].batch: 0", "1 to 65536"],
        ),
        (
            "{fast: {throughput: [{batch: -1, rps: 50}]}}",
            &["servers.fast.throughput[0].batch", "-1"],
        ),
        (
            "{fast: {throughput: [{batch: 1, rps: 0}]}}",
            &["servers.fast.throughput[0].rps: 0;", "above 0"],
        ),
        (
            "{fast: {throughput: [{batch: 1, rps: -5}]}}",
            &["servers.fast.throughput[0].rps: -5;", "above 0"],
        ),
        (
            "{fast: {throughput: [{batch: 1, rps: .nan}]}}",
            &["servers.fast.throughput[0].rps: NaN;", "above 0"],
        ),
        (
            "{fast: {throughput: [{batch: 1, rps: .inf}]}}",
            &["throughput[0].rps: inf;", "at most 1000000000 requests/s"],
        ),
        (
            "{fast: {throughput: [{batch: 1, rps: many}]}}",
            &["servers.fast.throughput[0].rps", "many"],
        ),
        (
            "{fast: {throughput: [{batch: 1, rps: 0.0001}]}}",
            &["throughput[0].rps: 0.0001", "0.000555", "at most 3600 s"],
        ),
        (
            "{fast: {throughput: [{batch: 1, rps: 9, cores: 0}]}}",
            &["servers.fast.throughput[0].cores: 0;", "above 0"],
        ),
        (
            "{fast: {throughput: [{batch: 1, rps: 9, core: 2}]}}",
            &["servers.fast.throughput[0].core", "unknown field", "cores"],
        ),
        (
            "{fast: {throughput: [{batch: 1}]}}",
            &["servers.fast.throughput[0]", "missing field `rps`"],
        ),
        (
            "{fast: {throughput: []}}",
            &["servers.fast.throughput: 0;", "1 to 4096 points"],
        ),
        (
            "{fast: {throughput: 50}}",
            &["servers.fast.throughput", "50"],
        ),
        (
            "{fast: {throughput: [{batch: 1, rps: 50}], latency: {model: linear, item_ms: 4, fixed_ms: 0}}}",
            &["servers.fast.throughput: given", "left out, or latency"],
        ),
        (
            "{fast: {throughput: [{batch: 1, rps: 50}, {batch: 1, rps: 60}]}}",
            &["throughput[1]: a batch of 1 on 2 cores", "throughput[0]"],
        ),
        (
            "{fast: {throughput: [{batch: 1, rps: 50}, {batch: 1, rps: 60, cores: 4}]}}",
            &["throughput[1]: a batch of 1 on 4 cores", "one core"],
        ),
        (
            "{fast: {throughput: [{batch: 1, rps: 50}, {batch: 2, rps: 200}]}}",
            &[
                "servers.fast.throughput[1].rps: 200;",
                "at most 125,",
                "a batch of 2 on 2 cores would be quicker than a batch of 1 on 2 cores (throughput[0])",
            ],
        ),
        (
            "{good: {throughput: [{batch: 1, rps: 50, cores: 4}, {batch: 1, rps: 80}]}}",
            &["servers.good.throughput[1].rps: 80;", "at most 62.5,"],
        ),
        (
            "{fast: {throughput: [{batch: 1, rps: 50}], batch_max: 2}}",
            &["servers.fast.batch_max: 2;", "1 to 1: no larger batch"],
        ),
        (
            "{good: {throughput: [{batch: 1, rps: 50, cores: 4}]}}",
            &[
                "servers.good.throughput: measured on 4 cores or more for batches of 1;",
                "measured on 2 too: the server starts with that",
            ],
        ),
        (
            "{good: {throughput: [{batch: 1, rps: 40}, {batch: 8, rps: 90, cores: 3}], batch_max: 8}}",
            &[
                "servers.good.throughput: measured on 3 cores",
                "batches of 8",
                "2 too",
            ],
        ),
        (
            "{fast: {latency: {model: table, points: [{batch: 1, cores: 2, latency_ms: 30}]}}}",
            &[
                "servers.fast.latency: measured on 2 cores of each execution or more",
                "measured on 1 too",
            ],
        ),
        (
            "{fast: {latency: {model: table, points: [{batch: 0, cores: 1, latency_ms: 30}]}}}",
            &[
                "servers.fast.latency",
                "points[0].batch: 0 must be 1 to 65536",
            ],
        ),
        (
            "{fast: {latency: {model: tabel, points: []}}}",
            &["servers.fast.latency.model", "tabel", "table"],
        ),
        (
            "{fast: {latency: {model: linear, item_ms: 4, fixed_ms: 0, gamma_ms: 3}}}",
            &["servers.fast.latency", "gamma_ms", "another model's"],
        ),
        (
            "{fast: {latency: {gamma_ms: 4}}}",
            &["servers.fast.latency", "missing field `epsilon_ms`"],
        ),
        (
            "{fast: {latency: {model: linear, item_ms: 0, fixed_ms: 0}}}",
            &["servers.fast.latency: 0 ms", "more than 0"],
        ),
        (
            "{fast: {latency: {model: linear, item_ms: -1, fixed_ms: 9}}}",
            &["servers.fast.latency.item_ms: -1", "0 to"],
        ),
        (
            "{fast: {latency: {model: quadratic, square_ms: 1, item_ms: -6, fixed_ms: 9}, batch_max: 4}}",
            &[
                "servers.fast.latency: 0 ms for a batch of 3",
                "more than 0 ms",
            ],
        ),
    ];
    for (servers, parts) in table {
        let by = format!("{LOAD}\nservers: {servers}\n{STATIC}");
        fixture.bad(LOAD, &by, parts);
    }
    // The profile's batch counts where the server has none of its own.
    let text = with("{fast: {throughput: [{batch: 2, rps: 50}]}}");
    let text = text.replacen(
        "    cores: {initial: 2}",
        "    batch: 4\n    cores: {initial: 2}",
        1,
    );
    let refused = fixture.read(&text).unwrap_err().to_string();
    assert!(
        refused.contains("servers.fast.batch_max: 4 (the profile's batch); it must be 1 to 2"),
        "{refused}"
    );
    // Without initial cores they have to be given.
    let text = with("{fast: {throughput: [{batch: 1, rps: 50}]}}").replacen(
        "initial: 2",
        "initial: 0, min: 0",
        1,
    );
    let refused = fixture.read(&text).unwrap_err().to_string();
    assert!(
        refused.contains("servers.fast.throughput[0].cores: missing"),
        "{refused}"
    );
}
