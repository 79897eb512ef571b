//! Tests of plans of the past, of decisions, of the list of services, and of entity tags.

use super::*;
use crate::distribution::PLANS_KEPT;

async fn json(response: Response) -> Value {
    assert_eq!(response.status(), 200);
    response.json().await.unwrap()
}

#[tokio::test]
async fn plans_are_found_by_revision_and_by_cursor() {
    let endpoints = Endpoints::open(LONG, 64).await;
    let path = |rest: &str| format!("/v1/services/demo/plans{rest}");
    let empty = json(endpoints.with_key(&path("")).await).await;
    assert_eq!(empty, serde_json::json!({"plans": [], "next": null}));
    let none = problem(endpoints.with_key(&path("/current")).await).await;
    assert_eq!(none["type"], "urn:problem-type:weir:unknown-plan");
    let published: Vec<u64> = (0..PLANS_KEPT as u32 + 3)
        .map(|index| endpoints.publish(1 + index % 2).0)
        .collect();
    let (newest, oldest) = (published[PLANS_KEPT + 2], published[3]);
    let all = json(endpoints.with_key(&path("")).await).await;
    assert_eq!(all["plans"].as_array().unwrap().len(), PLANS_KEPT);
    assert_eq!(all["plans"][0]["revision"], newest);
    assert_eq!(all["next"], Value::Null);
    // Pages by cursor have each plan once.
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = json(
            endpoints
                .with_key(&path(&format!("?limit=5{cursor}")))
                .await,
        )
        .await;
        let plans = page["plans"].as_array().unwrap();
        seen.extend(plans.iter().map(|plan| plan["revision"].as_u64().unwrap()));
        let Some(next) = page["next"].as_u64() else {
            break;
        };
        cursor = format!("&before={next}");
    }
    seen.reverse();
    assert_eq!(seen, published[3..]);
    for revision in [newest, oldest] {
        let one = endpoints.with_key(&path(&format!("/{revision}"))).await;
        assert_eq!(plan(one).await.revision.0, revision);
    }
    let current = endpoints.with_key(&path("/current?stage=demo")).await;
    assert_eq!(plan(current).await.revision.0, newest);
    for (rest, status, parameter) in [
        (format!("/{}", published[2]), 404, "revision"),
        ("/newest".to_owned(), 400, "revision"),
        ("/%ff".to_owned(), 400, "revision"),
        ("/current?stage=x".to_owned(), 404, "stage"),
        ("?stage=x".to_owned(), 404, "stage"),
        ("?limit=33".to_owned(), 400, "limit"),
        ("?before=-1".to_owned(), 400, "before"),
        ("?after=1".to_owned(), 400, "after"),
    ] {
        let refused = endpoints.with_key(&path(&rest)).await;
        assert_eq!(refused.status(), status, "{rest}");
        let document = problem(refused).await;
        assert_eq!(document["errors"][0]["parameter"], parameter, "{rest}");
    }
}

#[tokio::test]
async fn plan_and_status_that_client_has_are_not_sent_again() {
    let endpoints = Endpoints::open(LONG, 64).await;
    let revision = endpoints.publish(1);
    for (path, cores) in [
        ("/v1/services/demo/plans/current", 2),
        ("/v1/services/demo", 1),
    ] {
        let url = format!("http://{}{path}", endpoints.address);
        let get = async |tag: &str| {
            let request = endpoints.client.get(&url).bearer_auth(KEY);
            request.header("if-none-match", tag).send().await.unwrap()
        };
        let first = get("\"other\"").await;
        assert_eq!(first.status(), 200, "{path}");
        let tag = first.headers()["etag"].to_str().unwrap().to_owned();
        let again = get(&tag).await;
        assert_eq!(
            (again.status().as_u16(), &*again.text().await.unwrap()),
            (304, "")
        );
        endpoints.publish(cores);
        assert_eq!(get(&tag).await.status(), 200, "{path}");
    }
    let old = format!("/v1/services/demo/plans/{revision}");
    let old = endpoints.with_key(&old).await;
    assert_eq!(old.headers()["etag"], format!("\"{revision}\""));
}

#[tokio::test]
async fn list_has_services_that_the_key_opens() {
    let endpoints = Endpoints::with(Setup {
        keys: "other-key\ndemo secret-key\n".to_owned(),
        ..Setup::default()
    })
    .await;
    let revision = endpoints.publish(1);
    let list = json(endpoints.with_key("/v1/services").await).await;
    let demo = &list["services"][0];
    assert_eq!(
        (&demo["name"], &demo["mode"]),
        (&"demo".into(), &"active".into())
    );
    assert_eq!(
        (&demo["revision"], &demo["healthy"]),
        (&revision.0.into(), &true.into())
    );
    let url = format!("http://{}/v1/services", endpoints.address);
    let other = endpoints
        .client
        .get(&url)
        .bearer_auth("other-key")
        .send()
        .await
        .unwrap();
    assert_eq!(json(other).await["services"], serde_json::json!([]));
    error(endpoints.get("/v1/services").await, 401).await;
}

#[tokio::test]
async fn decisions_have_inputs_reasons_and_binding_limits() {
    let endpoints = Endpoints::open(LONG, 64).await;
    let mut report = crate::control_loop::tests::reports(3).await.remove(2);
    let full = endpoints.handle.service.budget_cores();
    for (index, variant) in report.variants.values_mut().enumerate() {
        variant.cores_target = if index == 0 {
            full
        } else {
            weir_api::Cores::ZERO
        };
    }
    (report.kept, report.optimum) = (true, Some(0.75));
    endpoints.handle.status.push(report.clone());
    let path = "/v1/services/demo/decisions?cycles=5";
    let decisions = json(endpoints.with_key(path).await).await;
    let decision = &decisions["decisions"][0];
    assert_eq!(decision["why"], report.why);
    assert_eq!(decision["inputs"]["budget_cores"], full.as_f64());
    assert_eq!(decision["binding"][0]["limit"], "budget.cores");
    assert_eq!(decision["binding"][0]["used"], full.as_f64());
    assert_eq!(decision["alternatives"][0]["objective"], 0.75);
    assert!(decision["variants"]["a"]["correction"].is_number());
    (report.kept, report.at_ms) = (false, report.at_ms + 1);
    for variant in report.variants.values_mut() {
        variant.cores_target = weir_api::Cores::ZERO;
    }
    endpoints.handle.status.push(report);
    let decisions = json(endpoints.with_key(path).await).await;
    let decision = &decisions["decisions"][1];
    assert_eq!(decision["binding"], serde_json::json!([]));
    assert_eq!(decision["alternatives"], serde_json::json!([]));
    // Those that are solved for, of the latest decision alone; not while a problem is being solved.
    let service = Arc::clone(&endpoints.handle.service);
    let actual = [2, 2].map(|n| Allocation::one(weir_api::Cores::whole(n)));
    let actual = actual.map(crate::capacity::Actual::certain).to_vec();
    let inputs = Some(crate::service::Inputs::steady(weir_api::Rps(6.0)));
    let basis = crate::policy::DecisionBasis {
        at_ms: decisions["decisions"][1]["at_ms"].as_u64().unwrap(),
        targets: crate::policy::decide(&service, &actual, inputs).targets,
        before: actual.iter().map(|one| one.target()).collect(),
        service,
        actual,
        inputs,
    };
    endpoints.handle.alternatives.decided(Arc::new(basis));
    let alternatives = async || {
        let decisions = json(endpoints.with_key(path).await).await;
        decisions["decisions"][1]["alternatives"].clone()
    };
    let permit = endpoints.app.solves.try_acquire().unwrap();
    assert_eq!(alternatives().await, serde_json::json!([]));
    drop(permit);
    for _ in 0..2 {
        let solved = alternatives().await;
        assert_eq!(solved[0]["solution"], "target before");
        assert_eq!(solved[1]["solution"], "one step less");
        assert!(solved[1]["objective"].is_number(), "{solved}");
    }
    let refused = endpoints
        .with_key("/v1/services/demo/decisions?cycles=x")
        .await;
    assert_eq!(refused.status(), 400);
}
