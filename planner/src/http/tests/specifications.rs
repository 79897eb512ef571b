//! Tests of the specification: shown, and replaced as a whole or not at all.

use std::path::PathBuf;

use reqwest::RequestBuilder;

use super::*;
use crate::mode::RunMode;
use crate::service::{FILE_BYTES_MAX, Service};
use crate::spec::ServiceSpec;
use crate::spec::tests::small;
use crate::specification::{Specification, SpecificationSource, WritableFile};

const PATH: &str = "/v1/services/demo/specification";
/// Key that may replace it.
const WRITER: &str = "writing-key";

/// Endpoints whose service is of a file.
struct Served {
    endpoints: Endpoints,
    file: PathBuf,
    _folder: tempfile::TempDir,
}

impl Served {
    async fn open(source: impl FnOnce(&PathBuf) -> SpecificationSource) -> Served {
        let endpoints = Endpoints::with(Setup {
            keys: format!("{KEY}\n{WRITER} write\n"),
            ..Setup::default()
        })
        .await;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("service.yaml");
        std::fs::write(&file, small()).unwrap();
        let spec = ServiceSpec::from_yaml(&small()).unwrap();
        let specification = Specification::new(spec, source(&file));
        let publishers = Arc::clone(&endpoints.handle.publishers);
        let handle = ServiceHandle::with_publishers(service(8), publishers).unwrap();
        handle.mode.allow_changes();
        let handle = handle.with_specification(specification);
        endpoints.app.services.insert(Arc::new(handle));
        Served {
            endpoints,
            file,
            _folder: folder,
        }
    }

    async fn writable() -> Served {
        let writable = |file: &PathBuf| {
            let file = WritableFile::new(file, small().into_bytes());
            SpecificationSource::Writable(Arc::new(file))
        };
        Served::open(writable).await
    }

    fn put(&self, body: impl Into<reqwest::Body>) -> RequestBuilder {
        let url = format!("http://{}{PATH}", self.endpoints.address);
        let request = self.endpoints.client.put(url).bearer_auth(WRITER);
        request.body(body)
    }

    fn handle(&self) -> Arc<ServiceHandle> {
        self.endpoints.app.services.get("demo").unwrap()
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.file).unwrap()
    }
}

#[tokio::test]
async fn specification_is_replaced_in_file_and_planner_and_mode_stays() {
    let served = Served::writable().await;
    let first = served.endpoints.with_key(PATH).await;
    assert_eq!(first.status(), 200);
    let tag = first.headers()["etag"].to_str().unwrap().to_owned();
    let mut changed: Value = first.json().await.unwrap();
    assert_eq!(changed["slo"], "1s");
    let before = served.handle();
    before.mode.set(RunMode::Paused, |_| true).unwrap();
    changed["slo"] = "2s".into();
    let text = changed.to_string();
    let put = served.put(text.clone()).header("if-match", &tag);
    let answer = put.send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let next = answer.headers()["etag"].to_str().unwrap().to_owned();
    assert_ne!(next, tag);
    assert_eq!(answer.json::<Value>().await.unwrap(), changed);
    assert_eq!(served.text(), text);
    before.wait_replaced().await;
    assert_eq!(served.handle().service.slo, Duration::from_secs(2));
    assert_eq!(served.handle().mode.current().mode, RunMode::Paused);
    let shown = served.endpoints.with_key(PATH).await;
    assert_eq!(shown.headers()["etag"], next.as_str());
    // Somebody who read the one before changes nothing.
    let stale = served.put(small()).header("if-match", &tag);
    error(stale.send().await.unwrap(), 412).await;
    assert_eq!(served.text(), text);
    // YAML with its comments, and the tag of the inlined form.
    let path = format!("{PATH}?inline=true");
    let inline = served.endpoints.with_key(&path).await;
    let inline = inline.headers()["etag"].to_str().unwrap().to_owned();
    let yaml = format!("# Ours.\n{}", small());
    let put = served.put(yaml.clone()).header("if-match", inline);
    assert_eq!(put.send().await.unwrap().status(), 200);
    assert_eq!(served.text(), yaml);
    assert_eq!(served.handle().service.slo, Duration::from_secs(1));
}

#[tokio::test]
async fn wrong_specification_is_refused_by_field_and_changes_nothing() {
    let served = Served::writable().await;
    let revision = served.endpoints.publish(1);
    let (before, text) = (served.handle(), small());
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let anchors = "a: &a [1,1,1,1,1,1,1,1,1]\n".to_owned()
        + &(1..40)
            .map(|n| format!("a{n}: &a{n} [*a{0},*a{0},*a{0},*a{0}]\n", n - 1))
            .collect::<String>()
            .replace("*a0", "*a");
    for (body, pointer) in [
        (text.replace("slo: 1s", "slo: 7"), "#/slo"),
        (text.replace("slo: 1s\n", ""), "#"),
        (text.replace("slo: 1s", "slo: 1s\ncolour: red"), "#/colour"),
        (
            text.replace("min: 0", "min: many"),
            "#/variants/1/cores/min",
        ),
        (
            text.replace("accuracy: 80", "accuracy: 800"),
            "#/variants/1/accuracy",
        ),
        (
            text.replace("cluster: b", "cluster: b b"),
            "#/variants/1/cluster",
        ),
        (text.replace("service: demo", "service: other"), "#/service"),
        (text.replace("keyEnv: WEIR_KEY", "keyFile: k"), "#/keyEnv"),
        ("{".to_owned(), "#"),
        (String::new(), "#"),
        ("[]".to_owned(), "#"),
        (deep, "#"),
        (anchors, ""),
    ] {
        let shown: String = body.chars().take(60).collect();
        let refused = served.put(body).send().await.unwrap();
        assert_eq!(refused.status(), 400, "{shown}");
        let document = problem(refused).await;
        let actual = document["errors"][0]["pointer"].as_str().unwrap();
        assert!(pointer.is_empty() || actual == pointer, "{document}");
    }
    let refused = served.put(&b"slo: \xff\xfe"[..]).send().await.unwrap();
    error(refused, 400).await;
    let large = " ".repeat(FILE_BYTES_MAX + 1);
    error(served.put(large).send().await.unwrap(), 413).await;
    let url = format!("http://{}{PATH}", served.endpoints.address);
    let limited = served.endpoints.client.put(&url).bearer_auth(KEY);
    error(limited.body(text.clone()).send().await.unwrap(), 403).await;
    let none = served.endpoints.client.put(&url).body(text.clone());
    error(none.send().await.unwrap(), 401).await;
    let path = format!("{PATH}?inline=maybe");
    let query = served.endpoints.with_key(&path).await;
    assert_eq!(problem(query).await["errors"][0]["parameter"], "inline");
    assert_eq!(served.text(), text);
    assert!(Arc::ptr_eq(&before, &served.handle()));
    assert_eq!(
        plan(served.endpoints.poll("").await).await.revision,
        revision
    );
}

#[tokio::test]
async fn edited_file_resource_and_read_only_file_are_not_replaced() {
    let served = Served::writable().await;
    std::fs::write(&served.file, "# Edited.\n").unwrap();
    let put = served.put(small().replace("slo: 1s", "slo: 2s"));
    let refused = error(put.send().await.unwrap(), 409).await;
    assert!(refused.contains("edited"), "{refused}");
    assert_eq!(served.text(), "# Edited.\n");
    assert_eq!(served.handle().service.slo, Duration::from_secs(1));
    let resource = Served::open(|_| SpecificationSource::Resource).await;
    let refused = error(resource.put(small()).send().await.unwrap(), 409).await;
    assert!(refused.contains("SloService"), "{refused}");
    let fixed = Served::open(|file| SpecificationSource::File(file.clone())).await;
    let refused = error(fixed.put(small()).send().await.unwrap(), 409).await;
    assert!(refused.contains("--writable"), "{refused}");
    assert_eq!(fixed.text(), small());
    assert_eq!(Service::from_yaml(&fixed.text()).unwrap(), service(8));
}

#[tokio::test]
async fn of_clients_at_once_only_one_replaces_what_all_have_read() {
    let served = Served::writable().await;
    let first = served.endpoints.with_key(PATH).await;
    let tag = first.headers()["etag"].to_str().unwrap().to_owned();
    let puts = (2..6).map(|seconds| {
        let text = small().replace("slo: 1s", &format!("slo: {seconds}s"));
        served.put(text).header("if-match", &tag).send()
    });
    let answers = futures_util::future::join_all(puts).await;
    let status = |answer: reqwest::Result<Response>| answer.unwrap().status().as_u16();
    let mut all: Vec<u16> = answers.into_iter().map(status).collect();
    all.sort_unstable();
    assert_eq!(all, [200, 412, 412, 412]);
    let slo = served.handle().service.slo;
    assert_eq!(Service::from_yaml(&served.text()).unwrap().slo, slo);
}
