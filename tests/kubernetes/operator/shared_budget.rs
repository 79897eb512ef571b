//! Two resources that share a budget: cores follow the demand from one to the other, and never exceed it together.

use serde_json::{Value, json};
use weir_bed::operate::Proxy;
use weir_bed::wait;

use super::bed::{BOTH, Cluster, LIMIT};

/// Cores of the shared budget: five for a busy service, one for the other.
const BUDGET: f64 = 6.0;
/// Rate for which a service needs five cores, with its headroom. At a higher rate the needs would exceed the budget, and
/// parts that are one step from their targets would stay.
const BUSY_RPS: f64 = 31.0;

/// Resource of one variant on the Deployment of its name, planned by what `proxy` counts.
fn service(cluster: &Cluster, name: &str, variant: &str, proxy: &Proxy) -> Value {
    let mut resource = cluster.demo();
    resource["metadata"]["name"] = json!(name);
    let spec = &mut resource["spec"];
    spec["budget"] = json!({"cores": BUDGET, "shared": "pool"});
    // Else cores stay for the next burst.
    spec["demand"]["bursts"] = json!("0s");
    spec["proxies"]["stats"] = json!([proxy.url()]);
    spec["variants"] = json!([{
        "name": variant, "cluster": variant, "accuracy": 70.0,
        "cores": {"initial": 1, "min": 1},
        "capacity": {"slopeRps": 10.0, "interceptRps": -2.0},
        "latency": {"gammaMs": 80.0, "parallelism": "per-core"},
        "workload": {"name": variant},
    }]);
    resource
}

#[tokio::test]
async fn cores_follow_demand_between_resources_within_their_shared_budget() {
    let cluster = Cluster::start_with_both().await;
    let other = Proxy::start_of("other").await.unwrap();
    let [small, large] = BOTH;
    for resource in [
        service(&cluster, "demo", small, &cluster.proxy),
        service(&cluster, "other", large, &other),
    ] {
        cluster.server.store().create(&resource).unwrap();
    }
    let planner = cluster.planner_sharing("weir-a", "pool=6").await;
    for name in ["demo", "other"] {
        cluster.until_condition(name, "Accepted", "True").await;
    }
    for (of_demo, of_other, expected) in [
        (BUSY_RPS, 1.0, [5.0, 1.0]),
        (1.0, BUSY_RPS, [1.0, 5.0]),
        (BUSY_RPS, 1.0, [5.0, 1.0]),
    ] {
        cluster.proxy.load(of_demo);
        other.load(of_other);
        let reached = || {
            let cores = cluster.cores(&BOTH);
            let sum: f64 = cores.iter().sum();
            assert!(sum <= BUDGET, "{cores:?}");
            cores == expected
        };
        let waited = wait::until("the cores", LIMIT, reached).await;
        let (cores, refusals) = (cluster.cores(&BOTH), cluster.refusals());
        assert!(
            waited.is_ok(),
            "{cores:?}, not {expected:?}: {}\n{}\n{refusals}",
            cluster.resource("demo")["status"],
            cluster.resource("other")["status"]
        );
    }
    let shared = cluster.resource("demo")["status"]["sharedBudget"].clone();
    assert_eq!(shared["name"], "pool", "{shared}");
    planner.end().await.unwrap();
}
