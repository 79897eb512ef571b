//! Errors of servers, proxies, network, clients, contenders and faults.

use super::*;

#[test]
fn invalid_keys_beside_service_and_load_are_refused() {
    let fixture = Fixture::new();
    let load = "load: {generator: poisson, rps: 50}";
    let extra = |more: &str| format!("{load}\n{more}\n");
    let more: &[(&str, &[&str])] = &[
        (
            "servers: {fats: {noise_sigma: 0}}",
            &[":22:", "servers.fats", "fast, good"],
        ),
        (
            "servers: {fast: {noise: 0}}",
            &[":22:", "servers.fast.noise", "noise_sigma"],
        ),
        (
            "servers: {fast: {noise_sigma: 2.1}}",
            &["servers.fast.noise_sigma: 2.1", "0 to 2"],
        ),
        (
            "servers: {fast: {parallelism: 0}}",
            &["servers.fast.parallelism: 0", "per-core"],
        ),
        (
            "servers: {fast: {resize_delay_ms: -1}}",
            &["resize_delay_ms: -1", "0 to"],
        ),
        (
            "servers: {fast: {latency: {gamma_ms: -4, epsilon_ms: 0, delta_ms: 0, eta_ms: 0}}}",
            &["servers.fast.latency", "gamma_ms: -4"],
        ),
        (
            "servers: {fast: {round_trip_ms: -1}}",
            &["servers.fast.round_trip_ms: -1", "0 to 60000 ms"],
        ),
        (
            "servers: {good: {round_trip_ms: .nan}}",
            &["servers.good.round_trip_ms: NaN", "0 to 60000 ms"],
        ),
        (
            "servers: {good: {round_trip_ms: 60001}}",
            &["servers.good.round_trip_ms: 60001", "0 to 60000 ms"],
        ),
        ("proxies: {count: 0}", &["proxies.count: 0", "1 to 100"]),
        (
            "proxies: {workers: 500}",
            &["proxies.workers: 500", "1 to 256"],
        ),
        (
            "proxies: {plugin: {plan: {}}}",
            &["proxies.plugin.plan", "left out"],
        ),
        (
            "proxies: {plugin: {service: other}}",
            &["proxies.plugin.service", "other", "demo"],
        ),
        (
            "proxies: {plugin: {quue: {}}}",
            &[":22:", "proxies.plugin.quue", "queue"],
        ),
        (
            "proxies: {plugin: {deadline: {min_ms: 0}}}",
            &[":22:", "proxies.plugin.deadline.min_ms: 0", "1 to 3600000"],
        ),
        ("network: 5g", &[":22:", "5g", "4g"]),
        (
            "network: {constant: {bytes_per_s: 0, round_trip_ms: 4}}",
            &["bytes_per_s: 0"],
        ),
        (
            "network: {file: {path: none.log}}",
            &["network.file.path", "none.log"],
        ),
        (
            "network: {file: {path: link.log}}",
            &[":22:", "network.file.path", "2 s", "20 s", "loop: true"],
        ),
        (
            "payload_bytes: 2000000000",
            &["payload_bytes: 2000000000", "1073741824"],
        ),
        (
            "clients: {retries: 11}",
            &["clients.retries: 11", "0 to 10"],
        ),
        ("clients: {timeout_ms: 0}", &["clients.timeout_ms: 0"]),
        (
            "clients: {slow_uploads: {share: 1.5, bytes_per_s: 100}}",
            &["clients.slow_uploads.share: 1.5", "0 to 1"],
        ),
        (
            "clients: {slow_readers: {share: 0.5, bytes_per_s: 0}}",
            &["clients.slow_readers.bytes_per_s: 0", "0.1 to"],
        ),
        (
            "clients: {skew_ms: {normal: 1, uniform: 2}}",
            &["clients.skew_ms", "one of"],
        ),
        (
            "clients: {skew_ms: {far_off: 5}}",
            &["clients.skew_ms", "far_off_share"],
        ),
        ("classes: [{name: Gold}]", &["classes[0].name: Gold"]),
        (
            "classes: [{name: a}, {name: a}]",
            &["classes[1].name: a", "twice"],
        ),
        ("classes: [{name: a, share: 0}]", &["classes", "above 0"]),
        ("contenders: []", &["contenders: 0", "1 to"]),
        (
            "contenders: [{plane: wier, control: static}]",
            &[":22:", "wier", "weir"],
        ),
        (
            "contenders:\n- {plane: weir, control: static}\n- {plane: weir, control: static}",
            &[":24:", "contenders[1]: weir+static", "twice"],
        ),
        (
            "faults: [{at_s: 21, what: lost-plan}]",
            &["faults[0].at_s: 21", "0 to 20"],
        ),
        (
            "faults: [{at_s: 2, what: server-crush}]",
            &[":22:", "server-crush", "server-crash"],
        ),
        ("faults: [{what: lost-plan}]", &["faults[0].at_s: missing"]),
        (
            "faults: [{at_s: 2, what: lost-plan, proxy: 1}]",
            &["faults[0].proxy: 1", "0 to 0"],
        ),
        (
            "faults:\n- {at_s: 2, what: server-crash, variant: bad, lasts_s: 1}",
            &[":23:", "faults[0].variant: bad", "fast, good"],
        ),
        (
            "faults: [{at_s: 2, what: scrape-loss, lasts_s: 1, worker: 0}]",
            &["faults[0].worker: given", "left out", "lasts_s"],
        ),
        (
            "faults: [{at_s: 2, what: resize-late, lasts_s: 1}]",
            &["faults[0].percent: missing"],
        ),
        (
            "faults: [{at_s: 2, what: resize-late, percent: 50, lasts_s: 1}]",
            &["faults[0].percent: 50", "100 to 10000"],
        ),
        (
            "faults: [{at_s: 2, what: resize-infeasible, variant: bad, lasts_s: 1}]",
            &["faults[0].variant: bad", "fast, good"],
        ),
        (
            "faults: [{at_s: 2, what: resize-refused}]",
            &["faults[0].lasts_s: missing"],
        ),
        (
            "faults: [{at_s: 2, what: resize-interrupted, lasts_s: 1}]",
            &["faults[0].lasts_s: given", "at_s, what, variant"],
        ),
        (
            "faults: [{random: 3, at_s: 1}]",
            &["faults[0].at_s", "left out"],
        ),
        (
            "faults: [{random: 1001}]",
            &["faults[0].random: 1001", "1 to 1000"],
        ),
    ];
    for (more, parts) in more {
        fixture.bad(load, &extra(more), parts);
    }
}

#[test]
fn service_may_be_a_file_whose_profiles_are_beside_it() {
    let fixture = Fixture::new();
    let (service, rest) = SMALL.split_once("service:\n").unwrap();
    let (inner, load) = rest.split_once("load:").unwrap();
    let inner = inner.replace(
        "    latency: {gammaMs: 40, epsilonMs: 0, deltaMs: 0, etaMs: 0, parallelism: per-core}\n",
        "    profile: {file: fast.yaml}\n",
    );
    let inner = inner.replace("    capacity: {slopeRps: 20, interceptRps: -2}\n", "");
    let inner = inner.replace("\n  ", "\n").replacen("  ", "", 1);
    fixture.file(
        "fast.yaml",
        "{latency: {meanMs: 25, parallelism: 1}, capacity: {slopeRps: 40, interceptRps: 0}}",
    );
    fixture.file("service.yaml", &inner);
    let scenario = format!("{service}service: service.yaml\nload:{load}");
    let (scenario, _) = fixture.good(&scenario);
    let rates: Vec<f64> = scenario.variants.iter().map(Server::capacity_rps).collect();
    assert_eq!(rates[0], 40.0, "{rates:?}");
    let missing = SMALL.replace("service:\n", "service: none.yaml\nwas:\n");
    let missing = format!("{}load:{load}", missing.split_once("was:").unwrap().0);
    let refused = fixture.read(&missing).unwrap_err().to_string();
    assert!(
        refused.contains("none.yaml: ")
            && refused.contains("it must be a service file or its content"),
        "{refused}"
    );
}
