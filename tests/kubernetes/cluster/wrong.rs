//! Wrong resources, one after another: each is refused with the key, the value and what would be right, and the service
//! beside them keeps its plan, its status and its pods.

use kube::api::{DynamicObject, Patch, PatchParams};
use serde::Deserialize;
use serde_json::{Value, json};
use weir_bed::operate::condition;

use super::clusters::on_each_cluster;
use super::definition::MANAGER;
use super::fixture::{BOTH, Fixture};

/// Workload of the wrong resources.
const OTHER: &str = "other";

/// A wrong resource.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wrong {
    /// Merged into the spec.
    #[serde(default)]
    spec: Value,
    /// Merged into the variant.
    #[serde(default)]
    variant: Value,
    /// Parts of the API server's refusal.
    refused: Option<Vec<String>>,
    /// Parts of the condition Accepted.
    shown: Option<Vec<String>>,
}

/// Merges a change into a value; `null` removes a key.
fn merge(value: &mut Value, change: &Value) {
    let Value::Object(change) = change else {
        *value = change.clone();
        return;
    };
    if !value.is_object() {
        *value = json!({});
    }
    let map = value.as_object_mut().unwrap();
    for (key, change) in change {
        match change {
            Value::Null => drop(map.remove(key)),
            change => merge(map.entry(key.clone()).or_insert(Value::Null), change),
        }
    }
}

impl Fixture<'_> {
    /// Applies a resource as `kubectl apply --server-side` does, which refuses unknown fields.
    async fn apply_strictly(&self, resource: &Value) -> kube::Result<DynamicObject> {
        let name = resource["metadata"]["name"].as_str().unwrap();
        let params = PatchParams::apply(MANAGER).force().validation_strict();
        let api = self.services();
        api.patch(name, &params, &Patch::Apply(resource)).await
    }

    /// Returns what stays the same of the healthy service: its conditions, the capacity that its plans count with and
    /// its pods. Shares, revisions and the text about its demand follow the measured rate, which is never quite even.
    async fn healthy(&self) -> Value {
        let resource = self.resource("demo").await;
        let conditions =
            ["Accepted", "Actuated", "Degraded", "Ready"].map(|about| condition(&resource, about));
        let variants = resource["status"]["plans"][0]["variants"].as_array();
        let capacity = variants.into_iter().flatten().map(|variant| {
            json!([
                variant["name"],
                variant["cores"],
                variant["replicas"],
                variant["slots"]
            ])
        });
        json!({
            "capacity": capacity.collect::<Vec<Value>>(),
            "conditions": conditions,
            "pods": self.identities(&BOTH).await,
        })
    }
}

#[tokio::test]
async fn wrong_resource_is_refused_and_no_other_service_notices() {
    on_each_cluster(wrong).await;
}

async fn wrong(fixture: &Fixture<'_>) {
    if !fixture.deploy_both().await {
        return;
    }
    let little = json!({"requests": {"cpu": "50m"}});
    fixture.deploy(OTHER, 1, little).await;
    let table: Vec<Wrong> = serde_saphyr::from_str(include_str!("wrong.yaml")).unwrap();
    assert!(table.len() >= 50);
    let (planner, _) = fixture.planner("weir-a").await;
    fixture.proxy.load(2.0);
    fixture.apply(&fixture.demo()).await.unwrap();
    fixture
        .until_condition("demo", "Actuated", "True InForce")
        .await;
    let before = fixture.healthy().await;
    assert_eq!(before["capacity"].as_array().map(Vec::len), Some(2));

    let mut missed = Vec::new();
    for (index, row) in table.iter().enumerate() {
        let name = format!("wrong-{index}");
        let mut resource = fixture.named(&name, &[OTHER]);
        if !row.variant.is_null() {
            merge(&mut resource["spec"]["variants"][0], &row.variant);
        }
        if !row.spec.is_null() {
            merge(&mut resource["spec"], &row.spec);
        }
        let applied = fixture.apply_strictly(&resource).await;
        let (message, parts) = match (&row.refused, &row.shown) {
            (Some(parts), None) => match applied {
                Err(kube::Error::Api(status)) => {
                    assert_eq!(fixture.resource(&name).await, Value::Null, "{row:?}");
                    (status.message.clone(), parts)
                }
                other => (format!("not refused: {other:?}"), parts),
            },
            (None, Some(parts)) => {
                applied.unwrap_or_else(|error| panic!("{row:?}: {error}"));
                let accepted = fixture.until_condition(&name, "Accepted", "False Invalid");
                (accepted.await, parts)
            }
            _ => panic!("{row:?}: refused or shown"),
        };
        if !parts.iter().all(|part| message.contains(part.as_str())) {
            missed.push(format!("{:?}, {:?}: {message}", row.spec, row.variant));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
    assert_eq!(fixture.healthy().await, before);
    planner.end().await.unwrap();
}
