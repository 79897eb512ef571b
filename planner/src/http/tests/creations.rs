//! Tests of services that are created and deleted over the endpoints.

use std::path::PathBuf;

use reqwest::Method;

use super::*;
use crate::catalog::{Catalog, ServedFolder, ServiceSource};
use crate::service::FILE_BYTES_MAX;
use crate::spec::tests::small;
use crate::spec::{ServiceFile, ServiceSpec};
use crate::specification::{ServiceFolder, Specification, SpecificationSource, WritableFile};

/// Key of all services that may write.
const WRITER: &str = "writing-key";
/// The same of one service that has keys of its own.
const OWNER: &str = "owning-key";

/// Catalog of the services of a folder, or of resources.
pub(super) fn catalog(
    folder: Option<PathBuf>,
    services: &Arc<ServiceRegistry>,
    clock: Clock,
) -> Arc<Catalog> {
    let services = Arc::clone(services);
    let Some(folder) = folder else {
        return Arc::new(Catalog::of_resources(services, clock));
    };
    let file = ServiceFile::from_yaml(&small()).unwrap();
    let source = ServiceSource::Folder(ServedFolder {
        folder: ServiceFolder::new(&folder),
        listen: file.listen,
        key: file.key,
    });
    Arc::new(Catalog::new(services, clock, source, Arc::default(), None))
}

/// Text of a service of that name, with servers of its own.
fn text(name: &str) -> String {
    let text = small().replace("service: demo", &format!("service: {name}"));
    let text = text.replace("127.0.0.1:2/cores", &format!("{name}:1/a"));
    text.replace("127.0.0.1:3/cores", &format!("{name}:1/b"))
}

/// Endpoints of a folder with the services `demo` and `own`, which has keys of its own.
struct Served {
    endpoints: Endpoints,
    folder: tempfile::TempDir,
}

impl Served {
    async fn open() -> Served {
        let folder = tempfile::tempdir().unwrap();
        let endpoints = Endpoints::with(Setup {
            keys: format!(
                "{KEY}\n{WRITER} write\nreading-key read\nown {OWNER} write\nown {KEY}\nfuture {OWNER} write\n"
            ),
            folder: Some(folder.path().to_owned()),
            ..Setup::default()
        })
        .await;
        for name in ["demo", "own"] {
            let path = folder.path().join(format!("{name}.yaml"));
            std::fs::write(&path, text(name)).unwrap();
            let file = ServiceFile::from_yaml(&text(name)).unwrap();
            let publishers = Arc::new(Publishers::new(&file.service));
            let handle = ServiceHandle::with_publishers(file.service, publishers).unwrap();
            let file = WritableFile::new(&path, text(name).into_bytes());
            let source = SpecificationSource::Writable(Arc::new(file));
            let spec = ServiceSpec::from_yaml(&text(name)).unwrap();
            let handle = handle.with_specification(Specification::new(spec, source));
            endpoints.app.services.insert(Arc::new(handle));
        }
        Served { endpoints, folder }
    }

    fn request(&self, method: Method, name: &str, key: &str) -> reqwest::RequestBuilder {
        let path = format!("/v1/services/{name}/specification");
        let url = format!("http://{}{path}", self.endpoints.address);
        self.endpoints.client.request(method, url).bearer_auth(key)
    }

    fn put(&self, name: &str, body: impl Into<reqwest::Body>) -> reqwest::RequestBuilder {
        self.request(Method::PUT, name, WRITER).body(body)
    }

    async fn delete(&self, name: &str, key: &str) -> Response {
        let request = self.request(Method::DELETE, name, key);
        request.send().await.unwrap()
    }

    /// Names of the services, as listed, and of the files.
    async fn state(&self) -> (Vec<String>, Vec<String>) {
        let listed: Value = self
            .endpoints
            .client
            .get(format!("http://{}/v1/services", self.endpoints.address))
            .bearer_auth(KEY)
            .send()
            .await
            .unwrap()
            .json()
            .await
            .unwrap();
        let services = listed["services"].as_array().unwrap().iter();
        let name = |one: &Value| one["name"].as_str().unwrap().to_owned();
        let files = ServiceFolder::new(self.folder.path()).files(64).unwrap();
        let file = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        (
            services.map(name).collect(),
            files.iter().map(file).collect(),
        )
    }

    async fn check(&self, names: &[&str]) {
        let (services, files) = self.state().await;
        assert_eq!(services, names);
        let expected: Vec<String> = names.iter().map(|name| format!("{name}.yaml")).collect();
        assert_eq!(files, expected);
    }
}

#[tokio::test]
async fn service_is_created_replaced_and_deleted() {
    let served = Served::open().await;
    let create = || {
        served
            .put("more", text("more"))
            .header("if-none-match", "*")
    };
    let created = create().send().await.unwrap();
    assert_eq!(created.status(), 201);
    assert_eq!(
        created.headers()["location"],
        "/v1/services/more/specification"
    );
    let tag = created.headers()["etag"].to_str().unwrap().to_owned();
    let shown: Value = created.json().await.unwrap();
    assert_eq!(shown["service"], "more");
    served.check(&["demo", "more", "own"]).await;
    let read = served.request(Method::GET, "more", KEY).send().await;
    assert_eq!(read.unwrap().headers()["etag"], tag.as_str());
    error(create().send().await.unwrap(), 412).await;
    let slower = text("more").replace("slo: 1s", "slo: 2s");
    let replace = || served.put("more", slower.clone()).header("if-match", &tag);
    let replaced = replace().send().await.unwrap();
    assert_eq!(replaced.status(), 200);
    let next = replaced.headers()["etag"].to_str().unwrap().to_owned();
    error(replace().send().await.unwrap(), 412).await;
    // A held poll and a stream end with the service.
    let handle = served.endpoints.app.services.get("more").unwrap();
    let poll = format!("http://{}/v1/plans/more", served.endpoints.address);
    let poll = served.endpoints.client.get(poll).bearer_auth(KEY);
    let poll = tokio::spawn(async move { poll.send().await.unwrap().status().as_u16() });
    served.endpoints.until_held(1).await;
    let events = served.endpoints.with_key("/v1/services/more/events");
    let mut events = events.await;
    let delete = |tag: &str| {
        let request = served.request(Method::DELETE, "more", WRITER);
        request.header("if-match", tag).send()
    };
    error(delete(&tag).await.unwrap(), 412).await;
    assert!(has_series(&served).await);
    let deleted = delete(&next).await.unwrap();
    assert_eq!(
        (deleted.status().as_u16(), deleted.text().await.unwrap()),
        (204, String::new())
    );
    handle.wait_replaced().await;
    assert_eq!(poll.await.unwrap(), 204);
    while events.chunk().await.unwrap().is_some() {}
    served.check(&["demo", "own"]).await;
    assert!(!has_series(&served).await);
    for path in ["plans/more", "services/more", "services/more/specification"] {
        let answer = served.endpoints.with_key(&format!("/v1/{path}")).await;
        error(answer, 404).await;
    }
    error(delete("*").await.unwrap(), 404).await;
    let stale = served.put("more", text("more")).header("if-match", "*");
    error(stale.send().await.unwrap(), 412).await;
    assert_eq!(create().send().await.unwrap().status(), 201);
}

/// Whether metrics of the service are exported.
async fn has_series(served: &Served) -> bool {
    let text = served.endpoints.get("/metrics").await.text().await.unwrap();
    text.contains("service=\"more\"")
}

#[tokio::test]
async fn wrong_creation_is_refused_by_field_and_changes_nothing() {
    let served = Served::open().await;
    let good = text("more");
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let long = "n".repeat(64);
    for (name, body, status, field) in [
        ("more", good.replace("slo: 1s", "slo: 7"), 400, "#/slo"),
        ("more", good.replace("slo: 1s\n", ""), 400, "#"),
        (
            "more",
            good.replace("slo: 1s", "slo: 1s\ncolour: red"),
            400,
            "#/colour",
        ),
        (
            "more",
            good.replace("min: 0", "min: many"),
            400,
            "#/variants/1/cores/min",
        ),
        ("other", good.clone(), 400, "#/service"),
        (
            "more",
            good.replace("listen: 127.0.0.1:0", "listen: 127.0.0.1:9"),
            400,
            "#/listen",
        ),
        (
            "more",
            good.replace("keyEnv: WEIR_KEY", "keyFile: k"),
            400,
            "#/keyEnv",
        ),
        (
            "more",
            text("demo")
                .replace("demo", "more")
                .replace("more:1", "demo:1"),
            400,
            "#",
        ),
        ("more", String::new(), 400, "#"),
        ("more", "[]".to_owned(), 400, "#"),
        ("more", deep, 400, "#"),
        ("more", " ".repeat(FILE_BYTES_MAX + 1), 413, ""),
        ("..%2Fmore", good.clone(), 400, "service"),
        ("more.yaml", good.clone(), 400, "service"),
        ("%2Etmp", good.clone(), 400, "service"),
        ("More", good.clone(), 400, "service"),
        ("%00", good.clone(), 400, "service"),
        ("%ff", good.clone(), 400, "service"),
        (&long, good.clone(), 400, "service"),
    ] {
        let shown: String = format!("{name} {}", body.chars().take(60).collect::<String>());
        let refused = served.put(name, body).send().await.unwrap();
        assert_eq!(refused.status(), status, "{shown}");
        let document = problem(refused).await;
        let error = &document["errors"][0];
        let actual = error["pointer"].as_str().or(error["parameter"].as_str());
        assert_eq!(actual.unwrap_or_default(), field, "{shown}: {document}");
    }
    let bytes = served.put("more", &b"slo: \xff\xfe"[..]);
    error(bytes.send().await.unwrap(), 400).await;
    served.check(&["demo", "own"]).await;
}

#[tokio::test]
async fn only_a_key_of_all_services_creates_and_deletes() {
    let served = Served::open().await;
    for (name, key, put, delete) in [
        ("more", "wrong-key", 401, 401),
        ("more", "reading-key", 403, 403),
        ("more", KEY, 403, 403),
        // Its line is of other services.
        ("more", OWNER, 401, 401),
        // The service's own key replaces it, and does no more.
        ("own", OWNER, 200, 403),
        ("future", OWNER, 403, 403),
        // One of all services does not open a service that has keys of its own.
        ("own", WRITER, 401, 204),
        ("future", WRITER, 201, 204),
    ] {
        let request = served.request(Method::PUT, name, key);
        let answer = request.body(text(name)).send().await.unwrap();
        assert_eq!(answer.status(), put, "{name} {key}");
        let answer = served.delete(name, key).await;
        assert_eq!(answer.status(), delete, "{name} {key}");
    }
    served.check(&["demo"]).await;
    let last = error(served.delete("demo", WRITER).await, 409).await;
    assert!(last.contains("last service"), "{last}");
}

#[tokio::test]
async fn without_a_folder_nothing_is_created_or_deleted() {
    let endpoints = Endpoints::with(Setup {
        keys: format!("{KEY}\n{WRITER} write\n"),
        ..Setup::default()
    })
    .await;
    for (method, name) in [
        (Method::PUT, "more"),
        (Method::DELETE, "more"),
        (Method::DELETE, "demo"),
    ] {
        let url = format!(
            "http://{}/v1/services/{name}/specification",
            endpoints.address
        );
        let request = endpoints.client.request(method, url).bearer_auth(WRITER);
        let answer = request.body(text("more")).send().await.unwrap();
        let refused = error(answer, 409).await;
        assert!(refused.contains("SloService"), "{refused}");
    }
}

#[tokio::test]
async fn of_clients_at_once_only_one_creates() {
    let served = Served::open().await;
    let puts = (0..4).map(|_| {
        let put = served.put("more", text("more"));
        put.header("if-none-match", "*").send()
    });
    let answers = futures_util::future::join_all(puts).await;
    let status = |answer: reqwest::Result<Response>| answer.unwrap().status().as_u16();
    let mut all: Vec<u16> = answers.into_iter().map(status).collect();
    all.sort_unstable();
    assert_eq!(all, [201, 412, 412, 412]);
    let deletes = futures_util::future::join_all((0..4).map(|_| served.delete("more", WRITER)));
    let mut all: Vec<u16> = deletes
        .await
        .iter()
        .map(|answer| answer.status().as_u16())
        .collect();
    all.sort_unstable();
    assert_eq!(all, [204, 404, 404, 404]);
    served.check(&["demo", "own"]).await;
}
