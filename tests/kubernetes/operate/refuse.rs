//! Invalid resources get a condition that says what to change; other resources are not affected.

use serde_json::{Value, json};
use weir_apiserver::{ADMIN, Key};
use weir_bed::wait;

use super::bed::{Cluster, LIMIT, MODELS};

fn named(mut resource: Value, name: &str) -> Value {
    resource["metadata"]["name"] = json!(name);
    resource
}

#[tokio::test]
async fn invalid_resource_gets_a_condition_and_others_continue() {
    let cluster = Cluster::start().await;
    for name in ["small", "large"] {
        cluster.deploy(name, 1, 1);
    }
    let planner = cluster.planner("weir-a").await;
    cluster.proxy.load(5.0);
    cluster.server.store().create(&cluster.demo()).unwrap();
    cluster.until_condition("demo", "Actuated", "True").await;
    let taken = named(cluster.demo(), "taken");
    cluster.server.store().create(&taken).unwrap();
    let said = cluster
        .until_condition("taken", "Accepted", "False Taken")
        .await;
    assert_eq!(
        said,
        "False Taken: Deployment small is planned for by SloService models/demo already: take it out of one of the two"
    );
    let mut wrong = named(cluster.demo(), "wrong");
    // A fault that a schema cannot detect.
    wrong["spec"]["planMaxAge"] = json!("100ms");
    cluster.server.store().create(&wrong).unwrap();
    let said = cluster
        .until_condition("wrong", "Accepted", "False Invalid")
        .await;
    assert!(said.contains("planMaxAge: 100ms"), "{said}");

    let mut absent = named(cluster.demo(), "absent");
    absent["spec"]["variants"][0]["workload"]["name"] = json!("nobody");
    absent["spec"]["variants"]
        .as_array_mut()
        .unwrap()
        .truncate(1);
    cluster.server.store().create(&absent).unwrap();
    let said = cluster
        .until_condition("absent", "Degraded", "True NoWorkload")
        .await;
    assert!(said.contains("there is no Deployment nobody"), "{said}");
    assert!(
        cluster
            .condition("absent", "Planned")
            .starts_with("False NoPlan")
    );

    // A running service stays unchanged while its resource is invalid, and follows the resource once it is
    // valid.
    let key = Key::new(MODELS, "demo");
    let amend = |age: &str, cores: u64| {
        cluster
            .server
            .store()
            .amend("sloservices.weir.dev", &key, |resource| {
                resource["spec"]["planMaxAge"] = json!(age);
                resource["spec"]["budget"]["cores"] = json!(cores);
            });
    };
    amend("1ms", 3);
    cluster
        .until_condition("demo", "Accepted", "False Invalid")
        .await;
    cluster.proxy.load(45.0);
    cluster
        .until_cores(&["small", "large"], |cores| {
            cores.iter().sum::<f64>() >= 5.0
        })
        .await;
    amend("10s", 3);
    cluster.until_condition("demo", "Accepted", "True").await;
    cluster
        .until_cores(&["small", "large"], |cores| {
            cores.iter().sum::<f64>() <= 3.0
        })
        .await;

    // A workload becomes free when the older resource is deleted.
    let admin = cluster.server.client(ADMIN).await.unwrap();
    let api = kube::Api::<weir_planner::spec::resource::SloService>::namespaced(admin, MODELS);
    for name in ["demo", "wrong"] {
        api.delete(name, &kube::api::DeleteParams::default())
            .await
            .unwrap();
    }
    cluster.until_condition("taken", "Accepted", "True").await;
    wait::until("an event", LIMIT, || {
        cluster.events("taken").contains(&"Taken".to_owned())
    })
    .await
    .unwrap();
    planner.end().await.unwrap();
}

#[tokio::test]
async fn resource_violating_the_schema_is_refused() {
    let cluster = Cluster::start().await;
    let admin = cluster.server.client_without_retries(ADMIN).await.unwrap();
    let api = kube::Api::<kube::api::DynamicObject>::namespaced_with(
        admin,
        MODELS,
        &kube::api::ApiResource::erase::<weir_planner::spec::resource::SloService>(&()),
    );
    let table: &[(&str, Value, &str)] = &[
        ("/spec/slo", json!("0s"), "must be 1ms to 1h"),
        ("/spec/slo", json!(1000), "spec.slo"),
        ("/spec/variants/0/readiness", json!("5"), "readiness"),
        ("/spec/budget/cores", json!(0), "cores"),
        ("/spec/mode", json!("sometimes"), "mode"),
        ("/spec/variants", json!([]), "variants"),
        ("/spec/stages", json!([]), "stages"),
        (
            "/spec/variants/0/resize",
            json!("http://127.0.0.1:1/cores"),
            "at most one of the two: resize (an address) or workload",
        ),
        (
            "/spec/variants/0/cores/min",
            json!(2),
            "initial must be at least min",
        ),
        ("/spec/sponge", json!({}), "sponge is for policy sponge"),
    ];
    for (path, value, says) in table {
        let mut resource = cluster.demo();
        let (at, key) = path.rsplit_once('/').unwrap();
        resource.pointer_mut(at).unwrap()[key] = value.clone();
        let read: kube::api::DynamicObject = serde_json::from_value(resource).unwrap();
        let refused = api.create(&kube::api::PostParams::default(), &read).await;
        let refused = refused.expect_err(path).to_string();
        assert!(refused.contains(says), "{path}: {refused}");
    }
    let read = serde_json::from_value(cluster.demo()).unwrap();
    api.create(&kube::api::PostParams::default(), &read)
        .await
        .unwrap();
    assert_eq!(cluster.server.unevaluated_rules(), []);
}
