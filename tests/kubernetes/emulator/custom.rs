//! Tests of custom resources: a definition is served as soon as it is stored, and its schema and rules are
//! enforced.

use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use weir_apiserver::{ADMIN, ApiServer};

use super::bed::{DEMO, admin, refusal, start};

fn definition() -> Value {
    let spec = json!({
        "type": "object", "required": ["cores"],
        "properties": {
            "cores": {"type": "integer", "minimum": 1, "maximum": 64},
            "most": {"type": "integer", "default": 8},
            "policy": {"type": "string", "enum": ["exact", "greedy"], "default": "exact"},
            "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
            "loss": {"type": "number"},
            "port": {"x-kubernetes-int-or-string": true},
            "variants": {"type": "array", "maxItems": 2, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"], "properties": {
                    "name": {"type": "string"}, "share": {"type": "number", "default": 1.0}}}},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "fixed": {"type": "string", "x-kubernetes-validations": [
                {"rule": "self == oldSelf", "message": "fixed is fixed"}]},
        },
        "x-kubernetes-validations": [
            {"rule": "self.cores <= self.most", "message": "more cores than the most"},
            {"rule": "!has(self.variants) || self.variants.all(v, v.share >= 0.0 && size(v.name) > 1)"},
        ],
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "plans.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "plans", "singular": "plan", "kind": "Plan", "shortNames": ["pl"]},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec,
                    "status": {"type": "object", "properties": {"phase": {"type": "string"}}}}}}}]},
    })
}

fn resource(kind: (&str, &str, &str), plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(kind.0, kind.1, kind.2), plural)
}

async fn with_plans(server: &ApiServer) -> Api<DynamicObject> {
    let client = admin(server).await;
    let crd = resource(
        ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
        "customresourcedefinitions",
    );
    let crds: Api<DynamicObject> = Api::all_with(client.clone(), &crd);
    let params = PatchParams::apply("test").force();
    let made = crds
        .patch("plans.example.com", &params, &Patch::Apply(definition()))
        .await
        .unwrap();
    let established = &made.data["status"]["conditions"][1];
    assert_eq!(
        (&established["type"], &established["status"]),
        (&json!("Established"), &json!("True"))
    );
    Api::namespaced_with(
        client,
        DEMO,
        &resource(("example.com", "v1", "Plan"), "plans"),
    )
}

fn plan(spec: Value) -> DynamicObject {
    let object = json!({"apiVersion": "example.com/v1", "kind": "Plan", "metadata": {"name": "a"},
        "spec": spec, "status": {"phase": "never"}});
    serde_json::from_value(object).unwrap()
}

#[tokio::test]
async fn defaults_are_set_and_unknown_fields_dropped() {
    let server = start(|_| {}).await;
    let api = with_plans(&server).await;
    let spec = json!({"cores": 2, "unknown": 1, "free": {"any": 1}, "variants": [{"name": "small", "odd": 1}]});
    let made = api
        .create(&PostParams::default(), &plan(spec))
        .await
        .unwrap();
    assert_eq!(
        made.data["spec"],
        json!({"cores": 2, "most": 8, "policy": "exact", "free": {"any": 1},
            "variants": [{"name": "small", "share": 1.0}]})
    );
    // The status belongs to its subresource and does not change the generation.
    assert_eq!(made.data.get("status"), None);
    let status = Patch::Merge(json!({"status": {"phase": "done", "odd": 1}, "spec": {"cores": 5}}));
    let patched = api
        .patch_status("a", &PatchParams::default(), &status)
        .await
        .unwrap();
    assert_eq!(
        (&patched.data["status"], &patched.data["spec"]["cores"]),
        (&json!({"phase": "done"}), &json!(2))
    );
    assert_eq!(patched.metadata.generation, Some(1));
    let more = Patch::Merge(json!({"spec": {"cores": 3}}));
    assert_eq!(
        api.patch("a", &PatchParams::default(), &more)
            .await
            .unwrap()
            .metadata
            .generation,
        Some(2)
    );
    let strategic = Patch::Strategic(json!({"spec": {"cores": 3}}));
    assert_eq!(
        refusal(api.patch("a", &PatchParams::default(), &strategic).await).code,
        415
    );
    assert!(
        server.unevaluated_rules().is_empty(),
        "{:?}",
        server.unevaluated_rules()
    );
}

#[tokio::test]
async fn violation_of_schema_or_rule_is_refused_by_field() {
    let server = start(|_| {}).await;
    let api = with_plans(&server).await;
    for (spec, field, words) in [
        (json!({}), "spec.cores", "Required value"),
        (
            json!({"cores": "2"}),
            "spec.cores",
            "must be of type integer: \"string\"",
        ),
        (
            json!({"cores": 0}),
            "spec.cores",
            "greater than or equal to 1",
        ),
        (
            json!({"cores": 65, "most": 70}),
            "spec.cores",
            "less than or equal to 64",
        ),
        (
            json!({"cores": 1, "policy": "odd"}),
            "spec.policy",
            "supported values: \"exact\", \"greedy\"",
        ),
        (
            json!({"cores": 1, "name": "A"}),
            "spec.name",
            "should match '^[a-z]+$'",
        ),
        (
            json!({"cores": 1, "name": "abcdef"}),
            "spec.name",
            "Too long: may not be more than 5 bytes",
        ),
        (
            json!({"cores": 1, "port": 1.5}),
            "spec.port",
            "must be of type integer,string",
        ),
        (
            json!({"cores": 1, "labels": {"a": 1}}),
            "spec.labels.a",
            "must be of type string",
        ),
        (
            json!({"cores": 1, "variants": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}),
            "spec.variants",
            "Too many: 3",
        ),
        (
            json!({"cores": 1, "variants": [{"name": "aa"}, {"name": "aa"}]}),
            "spec.variants[1]",
            "Duplicate value",
        ),
        (json!({"cores": 9}), "spec", "more cores than the most"),
        (
            json!({"cores": 1, "variants": [{"name": "a"}]}),
            "spec",
            "failed rule: !has(self.variants)",
        ),
    ] {
        let refused = refusal(
            api.create(&PostParams::default(), &plan(spec.clone()))
                .await,
        );
        assert_eq!(
            (refused.code, refused.reason.as_str()),
            (422, "Invalid"),
            "{spec}"
        );
        let causes = refused.details.unwrap().causes;
        assert_eq!(causes[0].field, field, "{spec}");
        assert!(
            causes[0].message.contains(words),
            "{spec}: {}",
            causes[0].message
        );
        assert!(
            refused
                .message
                .starts_with("Plan.example.com \"a\" is invalid: "),
            "{}",
            refused.message
        );
    }
    // A transition rule applies only if there is an old object.
    api.create(
        &PostParams::default(),
        &plan(json!({"cores": 1, "fixed": "a"})),
    )
    .await
    .unwrap();
    let change = Patch::Merge(json!({"spec": {"fixed": "b"}}));
    let refused = refusal(api.patch("a", &PatchParams::default(), &change).await);
    assert_eq!(
        refused.details.unwrap().causes[0].message,
        "Invalid value: \"b\": fixed is fixed"
    );
}

#[tokio::test]
async fn strict_validation_reports_unknown_fields() {
    let server = start(|_| {}).await;
    with_plans(&server).await;
    let body = json!({"apiVersion": "example.com/v1", "kind": "Plan", "metadata": {"name": "a"}, "spec": {"cores": 1, "odd": 1}});
    let answer = reqwest::Client::new()
        .post(format!(
            "{}/apis/example.com/v1/namespaces/{DEMO}/plans?fieldValidation=Strict",
            server.url()
        ))
        .bearer_auth(server.token(ADMIN))
        .json(&body)
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), 400);
    let answer: Value = answer.json().await.unwrap();
    assert_eq!(
        answer["message"],
        "strict decoding error: unknown field \"spec.odd\""
    );
}

#[tokio::test]
async fn rule_that_fails_to_evaluate_is_named() {
    let server = start(|_| {}).await;
    let mut changed = definition();
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-validations"] = json!([
        {"rule": "quantity('1').isGreaterThan(quantity('0'))"},
        {"rule": "self.cores >"},
    ]);
    server.store().create(&changed).unwrap();
    let client = admin(&server).await;
    let api: Api<DynamicObject> = Api::namespaced_with(
        client,
        DEMO,
        &resource(("example.com", "v1", "Plan"), "plans"),
    );
    api.create(&PostParams::default(), &plan(json!({"cores": 1})))
        .await
        .unwrap();
    let rules: Vec<String> = server
        .unevaluated_rules()
        .into_iter()
        .map(|(rule, _)| rule)
        .collect();
    assert_eq!(
        rules,
        ["quantity('1').isGreaterThan(quantity('0'))", "self.cores >"]
    );
}

#[tokio::test]
async fn deleted_definition_removes_its_kind() {
    let server = start(|_| {}).await;
    let api = with_plans(&server).await;
    api.create(&PostParams::default(), &plan(json!({"cores": 1})))
        .await
        .unwrap();
    let key = weir_apiserver::Key::new("", "plans.example.com");
    server
        .store()
        .remove("customresourcedefinitions.apiextensions.k8s.io", &key);
    assert_eq!(refusal(api.get("a").await).code, 404);
    assert!(
        server
            .store()
            .get("plans.example.com", &weir_apiserver::Key::new(DEMO, "a"))
            .is_none()
    );
}

#[tokio::test]
async fn keyed_lists_are_merged_by_key() {
    let server = start(|_| {}).await;
    let api = with_plans(&server).await;
    let applied = |variants: Value, cores: Value| {
        let mut spec = json!({"variants": variants});
        if !cores.is_null() {
            spec["cores"] = cores;
        }
        Patch::Apply(
            json!({"apiVersion": "example.com/v1", "kind": "Plan", "metadata": {"name": "a"}, "spec": spec}),
        )
    };
    let one = applied(json!([{"name": "small", "share": 1.0}]), json!(1));
    api.patch("a", &PatchParams::apply("one"), &one)
        .await
        .unwrap();
    let two = applied(json!([{"name": "large", "share": 2.0}]), Value::Null);
    let both = api
        .patch("a", &PatchParams::apply("two"), &two)
        .await
        .unwrap();
    assert_eq!(
        both.data["spec"]["variants"],
        json!([{"name": "small", "share": 1.0}, {"name": "large", "share": 2.0}])
    );
    let conflict = applied(json!([{"name": "small", "share": 3.0}]), Value::Null);
    let refused = refusal(api.patch("a", &PatchParams::apply("two"), &conflict).await);
    assert_eq!(
        refused.details.unwrap().causes[0].field,
        ".spec.variants[name=\"small\"].share"
    );
    let none = applied(json!([]), Value::Null);
    let left = api
        .patch("a", &PatchParams::apply("two"), &none)
        .await
        .unwrap();
    assert_eq!(
        left.data["spec"]["variants"],
        json!([{"name": "small", "share": 1.0}])
    );
}
