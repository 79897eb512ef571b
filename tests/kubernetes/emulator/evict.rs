//! Tests of evictions and PodDisruptionBudgets.

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, EvictParams, PostParams};
use serde_json::json;
use weir_apiserver::Key;
use weir_bed::wait;

use super::bed::{
    DEMO, LIMIT, admin, is_ready, pod, pods, read, refusal, start, stored, until_pod,
};

#[tokio::test]
async fn eviction_that_breaks_a_budget_is_refused() {
    let server = start(|_| {}).await;
    for name in ["a", "b", "c"] {
        server.store().create(&pod(name, 100)).unwrap();
        until_pod(&server, name, "a ready pod", is_ready).await;
    }
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(admin(&server).await, DEMO);
    let budget = read(json!({"metadata": {"name": "web"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}}));
    budgets
        .create(&PostParams::default(), &budget)
        .await
        .unwrap();
    let allowed = async || {
        budgets
            .get("web")
            .await
            .unwrap()
            .status
            .map(|status| status.disruptions_allowed)
    };
    wait::until_async("one allowed", LIMIT, async || {
        allowed().await == Some(Some(1))
    })
    .await
    .unwrap();

    let api = pods(&server).await;
    let params = EvictParams::default();
    api.evict("a", &params).await.unwrap();
    let refused = refusal(api.evict("b", &params).await);
    assert_eq!(
        (refused.code, refused.reason.as_str()),
        (429, "TooManyRequests")
    );
    assert_eq!(
        refused.message,
        "Cannot evict pod as it would violate the pod's disruption budget."
    );
    let cause = &refused.details.unwrap().causes[0];
    assert_eq!(cause.reason, "DisruptionBudget");
    assert_eq!(
        cause.message,
        "The disruption budget web needs 2 healthy pods and has 2 currently"
    );
    wait::until("the first to end", LIMIT, || stored(&server, "a").is_null())
        .await
        .unwrap();
    wait::until_async("none allowed", LIMIT, async || {
        allowed().await == Some(Some(0))
    })
    .await
    .unwrap();

    // An unready pod may be evicted only if the others meet the budget; here they do not.
    server.kubelet().set_ready(&Key::new(DEMO, "b"), false);
    assert_eq!(refusal(api.evict("b", &params).await).code, 429);
    assert_eq!(refusal(api.evict("nobody", &params).await).code, 404);
}
