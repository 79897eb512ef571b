//! `weir init` of servers of each kind: what it takes, tries once and writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::json;

use super::*;

/// Serves routes and returns their address.
async fn serve(app: Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    format!("http://{address}")
}

/// Model `m` of the Open Inference Protocol with an input, or without.
fn protocol(inputs: &Value) -> Router {
    let metadata = json!({"name": "m", "inputs": inputs});
    let infer = post(|| async { Json(json!({"outputs": []})) });
    Router::new()
        .route("/v2/models/m", get(move || async { Json(metadata) }))
        .route("/v2/models/m/infer", infer)
}

async fn init(folder: &Path, arguments: &[&str]) -> Output {
    fs::write(folder.join("request.json"), "{\"x\": 1}").unwrap();
    run(folder, &[&["init"], arguments].concat()).await
}

fn written(folder: &Path) -> Value {
    let text = fs::read_to_string(folder.join("service.yaml")).unwrap();
    serde_saphyr::from_str(&text).unwrap()
}

#[tokio::test]
async fn batches_of_tritons_configuration_are_in_the_service_file() {
    let inputs = json!([{"name": "x", "datatype": "FP32", "shape": [-1, 1]}]);
    let triton = |dynamic: Value| {
        let mut config =
            json!({"name": "m", "max_batch_size": 8, "instance_group": [{"count": 2}]});
        config["dynamic_batching"] = dynamic;
        protocol(&inputs).route("/v2/models/m/config", get(move || async { Json(config) }))
    };
    let waits = serve(triton(json!({"max_queue_delay_microseconds": 2500}))).await;
    let at_once = serve(triton(json!({}))).await;
    let alone = serve(protocol(&inputs)).await;
    let folder = tempfile::tempdir().unwrap();
    let named = [("waits", waits), ("at-once", at_once), ("alone", alone)];
    let named = named.map(|(name, url)| format!("{name}={url}/v2/models/m"));
    let printed = text(&init(folder.path(), &named.each_ref().map(String::as_str)).await);
    let service = written(folder.path());
    for (index, batch, delay) in [
        (0, json!(8), json!("2.5ms")),
        (1, json!(8), Value::Null),
        (2, Value::Null, Value::Null),
    ] {
        let variant = &service["variants"][index];
        assert_eq!(
            (&variant["batch"], &variant["batchDelay"]),
            (&batch, &delay),
            "{variant}"
        );
    }
    let scenario = fs::read_to_string(folder.path().join("scenario.yaml")).unwrap();
    let servers = "\nservers:\n  waits: { batch_window: closed }\ncontenders:\n";
    assert!(scenario.contains(servers), "{scenario}");
    let line = "waits: Open Inference Protocol, forms batches of up to 8 after at most 2.5ms, instances: 2\n";
    assert!(printed.contains(line), "{printed}");
}

#[tokio::test]
async fn model_of_a_server_that_lists_its_models_as_kserve_is_found() {
    let models = get(|| async { Json(json!({"models": ["m"]})) });
    let inputs = json!([{"name": "x", "datatype": "FP32", "shape": [1]}]);
    let server = serve(protocol(&inputs).route("/v2/models", models)).await;
    let folder = tempfile::tempdir().unwrap();
    let printed = text(&init(folder.path(), &[&format!("a={server}")]).await);
    let url = format!("a={server}/v2/models/m/infer");
    assert!(printed.contains(&url), "{printed}");

    let several = get(|| async { Json(json!({"models": ["m", "n"]})) });
    let several = serve(Router::new().route("/v2/models", several)).await;
    let none = serve(Router::new()).await;
    for (server, expected) in [
        (several, "the server has the models m, n; name the model"),
        (none, "/v2/models: status 404"),
    ] {
        let output = init(folder.path(), &[&format!("a={server}"), "--out", "b"]).await;
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(expected), "{error}");
    }
}

#[tokio::test]
async fn any_address_is_tried_once_with_the_request() {
    let count = Arc::new(AtomicUsize::new(0));
    let answer = |count: &Arc<AtomicUsize>| {
        let count = Arc::clone(count);
        post(move |body: String| async move {
            count.fetch_add(1, Ordering::SeqCst);
            body
        })
    };
    let refuses = || post(|| async { (StatusCode::UNPROCESSABLE_ENTITY, "x: it must be a text") });
    let app = Router::new()
        .route("/small", answer(&count))
        .route("/v1/models/{model}", answer(&count))
        .route("/v1/chat/completions", answer(&count))
        .route("/predict", refuses());
    let server = serve(app).await;
    let folder = tempfile::tempdir().unwrap();
    let variants = [
        "ray=/small",
        "kserve=/v1/models/digits:predict",
        "openai=/v1/chat/completions",
    ];
    let variants_path = |name: &str| {
        let one = variants.iter().find_map(|one| one.strip_prefix(name));
        one.and_then(|path| path.strip_prefix('='))
            .unwrap_or_default()
    };
    let variants = variants.map(|one| one.replace('=', &format!("={server}")));
    let mut arguments: Vec<&str> = variants.iter().map(String::as_str).collect();
    arguments.extend(["--request", "request.json"]);
    let printed = text(&init(folder.path(), &arguments).await);
    assert_eq!(count.load(Ordering::SeqCst), 3);
    for (line, model) in [
        ("ray: HTTP, answers the request after ", Value::Null),
        (
            "kserve: KServe v1 or TensorFlow Serving, answers",
            json!("digits"),
        ),
        ("openai: OpenAI, answers", Value::Null),
    ] {
        assert!(printed.contains(line), "{printed}");
        let service = written(folder.path());
        let name = line.split(':').next().unwrap();
        let variants = service["variants"].as_array().unwrap();
        let variant = variants.iter().find(|one| one["name"] == name).unwrap();
        assert_eq!(variant["model"], model, "{variant}");
        let path = variants_path(name);
        assert_eq!(variant["path"], path, "{variant}");
    }
    let differ = "The paths differ: whatever the path of a request, each variant gets its own";
    assert!(printed.contains(differ), "{printed}");

    for (path, expected) in [
        (
            "/predict",
            "/predict does not take the request: status 422: x: it must be a text",
        ),
        (
            "/other",
            "/other takes no such request; known paths are /v2/models/NAME/infer",
        ),
    ] {
        let variant = format!("a={server}{path}");
        let arguments = [&variant, "--request", "request.json", "--out", "b"];
        let output = init(folder.path(), &arguments).await;
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(expected), "{error}");
        let output = init(folder.path(), &[&variant, "--out", "b"]).await;
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(
            error.contains("give the body of one request: --request FILE"),
            "{error}"
        );
    }
    assert!(!folder.path().join("b").exists());
}
