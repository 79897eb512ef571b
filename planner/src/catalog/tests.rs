//! Tests of the catalog: what is refused changes nothing, and after each step of a change the files are those of a planner
//! that can start.

use super::*;
use crate::serve::ServedFiles;
use crate::spec::tests::small;
use crate::spec::{ServiceFile, ServiceSpec};

/// Text of a service of that name, with servers of its own.
fn text(name: &str) -> String {
    let mut text = small().replace("service: demo", &format!("service: {name}"));
    for (before, variant) in [("127.0.0.1:2/cores", "a"), ("127.0.0.1:3/cores", "b")] {
        text = text.replace(before, &format!("{name}:8080/{variant}"));
    }
    text
}

/// The same in the shared budget `pool`.
fn shared(name: &str) -> String {
    text(name).replace("cores: 8", "cores: 8, shared: pool")
}

struct Bed {
    folder: tempfile::TempDir,
    catalog: Catalog,
}

impl Bed {
    /// Planner that has started with a folder of these texts.
    fn of(texts: &[String]) -> Bed {
        let folder = tempfile::tempdir().unwrap();
        let budgets = SharedBudgets::new(&["pool=12".parse().unwrap()]).unwrap();
        let (registry, clock) = (Arc::new(ServiceRegistry::default()), Clock::start());
        for text in texts {
            let service = Service::from_yaml(text).unwrap();
            let path = folder.path().join(format!("{}.yaml", service.name));
            fs::write(&path, text).unwrap();
            let file = WritableFile::new(&path, text.clone().into_bytes());
            let source = SpecificationSource::Writable(Arc::new(file));
            let spec = ServiceSpec::from_yaml(text).unwrap();
            budgets.insert(&service);
            let handle = ServiceHandle::new(service, clock).unwrap();
            registry.insert(Arc::new(
                handle.with_specification(Specification::new(spec, source)),
            ));
        }
        let first = ServiceFile::from_yaml(&texts[0]).unwrap();
        let source = ServiceSource::Folder(ServedFolder {
            folder: ServiceFolder::new(folder.path()),
            listen: first.listen,
            key: first.key,
        });
        let state = folder.path().join("state");
        fs::create_dir(&state).unwrap();
        let catalog = Catalog::new(registry, clock, source, Arc::new(budgets), Some(state));
        Bed { folder, catalog }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn planned(&self) -> Vec<String> {
        let all = self.catalog.registry.all();
        all.iter().map(|one| one.service.name.clone()).collect()
    }

    /// Services of a planner that starts with the folder as it is now.
    fn started(&self) -> Vec<String> {
        let files = ServiceFolder::new(self.folder.path()).files(SERVED_MAX);
        let read = |path: PathBuf| {
            let text = fs::read_to_string(&path).unwrap();
            (
                path.display().to_string(),
                ServiceFile::from_yaml(&text).unwrap(),
            )
        };
        let files = files.unwrap().into_iter().map(read).collect();
        let budgets = SharedBudgets::new(&["pool=12".parse().unwrap()]).unwrap();
        let served = ServedFiles::new(files, &budgets).unwrap();
        served.services.into_iter().map(|one| one.name).collect()
    }

    async fn create(&self, name: &str, text: &str) -> Result<Arc<Specification>, CatalogError> {
        self.catalog.create(name, text.to_owned(), |_| true).await
    }

    async fn replace(&self, name: &str, text: &str) -> Result<Arc<Specification>, CatalogError> {
        self.catalog.replace(name, text.to_owned(), |_| true).await
    }

    async fn delete(&self, name: &str) -> Result<(), CatalogError> {
        self.catalog.delete(name, |_| true).await
    }
}

#[tokio::test]
async fn created_service_is_planned_for_and_read_at_the_next_start() {
    let bed = Bed::of(&[text("a")]);
    let yaml = format!("# Ours.\n{}", text("b"));
    let created = bed.create("b", &yaml).await.unwrap();
    assert_eq!(created.shown()["service"], "b");
    assert_eq!(fs::read_to_string(bed.path("b.yaml")).unwrap(), yaml);
    let handle = bed.catalog.registry.get("b").unwrap();
    assert!(handle.mode.current().changeable);
    bed.catalog.wait_changed().await;
    assert_eq!(
        (bed.planned(), bed.started()),
        (bed.started(), bed.planned())
    );
    // It is replaced as one that was there at start.
    let slower = text("b").replace("slo: 1s", "slo: 2s");
    bed.replace("b", &slower).await.unwrap();
    assert_eq!(fs::read_to_string(bed.path("b.yaml")).unwrap(), slower);
    handle.wait_replaced().await;
    let again = bed.create("b", &yaml).await.unwrap_err();
    assert!(matches!(again, CatalogError::Stale), "{again}");
    let other = bed.catalog.create("c", text("c"), |_| false).await;
    assert!(matches!(other, Err(CatalogError::Stale)));
    assert_eq!(bed.started(), ["a", "b"]);
}

#[tokio::test]
async fn wrong_creation_is_refused_and_changes_nothing() {
    let bed = Bed::of(&[text("a"), text("stage")]);
    fs::write(bed.path("c.json"), text("c")).unwrap();
    let good = text("b");
    let deep = "[".repeat(100_000);
    let long = "n".repeat(64);
    let refused = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        good.replacen(from, to, 1)
    };
    for (name, body, expected) in [
        ("../b", good.clone(), "service: ../b; it must be 1 to 63 of"),
        ("b.yaml", good.clone(), "service: b.yaml; it must be"),
        (".b", good.clone(), "service: .b; it must be"),
        ("B", good.clone(), "service: B; it must be"),
        ("", good.clone(), "service: ; it must be"),
        (&*long, good.clone(), "service: nnn"),
        (
            "d",
            good.clone(),
            "service: b; it must be d, as in the path",
        ),
        ("b", String::new(), ""),
        ("b", deep, ""),
        ("b", refused("slo: 1s", "slo: 7"), "slo: 7"),
        (
            "b",
            refused("listen: 127.0.0.1:0", "listen: 127.0.0.1:9"),
            "listen: 127.0.0.1:9; it must be 127.0.0.1:0, as in the other files",
        ),
        (
            "b",
            refused("keyEnv: WEIR_KEY", "keyFile: keys"),
            "keyEnv, keyFile: keyFile",
        ),
        (
            "b",
            refused("http://b:8080/a", "http://a:8080/b"),
            "variants[].resize of a: http://a:8080/b; it must be that of one service: service a",
        ),
        (
            "b",
            refused("http://b:8080/a", "http://me:***@b:8080/a"),
            "variants[0].resize: http://me:***@",
        ),
        (
            "b",
            refused("slo: 1s", "slo: 1s\ndemand: {forecaster: lstm, model: /m}"),
            "demand.model: /m; it must be a path below",
        ),
        (
            "b",
            refused("cores: 8", "cores: 8, shared: none"),
            "budget.shared: none; it must be a shared budget",
        ),
        (
            "b",
            refused("cores: 8", "cores: 13, shared: pool"),
            "budget.cores: 13; it must be at most 12",
        ),
        ("c", text("c"), ""),
    ] {
        let error = bed.create(name, &body).await.unwrap_err();
        let shown = error.to_string();
        assert!(shown.starts_with(expected), "{shown}\n{expected}");
        let is_internal = matches!(error, CatalogError::Internal(_) | CatalogError::Unknown);
        assert!(!is_internal, "{shown}");
        assert_eq!(bed.planned(), ["a", "stage"], "{shown}");
        assert_eq!(bed.started(), ["a", "c", "stage"], "{shown}");
    }
    let error = bed.create("c", &text("c")).await.unwrap_err();
    assert!(
        error.to_string().contains("c.json: it is in the folder"),
        "{error}"
    );
}

#[tokio::test]
async fn file_that_cannot_be_written_or_renamed_changes_nothing() {
    let bed = Bed::of(&[text("a"), text("b")]);
    for name in ["c.yaml.new", "b.yaml.new", "b.yaml.deleted/x"] {
        fs::create_dir_all(bed.path(name)).unwrap();
    }
    let before = bed.catalog.registry.get("b").unwrap();
    let slower = text("b").replace("slo: 1s", "slo: 2s");
    for error in [
        bed.create("c", &text("c")).await.map(drop),
        bed.replace("b", &slower).await.map(drop),
        bed.delete("b").await,
    ] {
        let error = error.unwrap_err();
        assert!(matches!(error, CatalogError::Internal(_)), "{error}");
    }
    assert!(Arc::ptr_eq(
        &before,
        &bed.catalog.registry.get("b").unwrap()
    ));
    assert_eq!(bed.started(), ["a", "b"]);
}

#[tokio::test]
async fn services_are_limited() {
    let bed = Bed::of(&[text("a")]);
    for index in 1..SERVED_MAX {
        bed.create(&format!("s{index}"), &text(&format!("s{index}")))
            .await
            .unwrap();
    }
    let error = bed.create("more", &text("more")).await.unwrap_err();
    assert!(matches!(error, CatalogError::Conflict(_)), "{error}");
    assert_eq!(bed.started().len(), SERVED_MAX);
    bed.delete("s7").await.unwrap();
    bed.create("more", &text("more")).await.unwrap();
}

#[tokio::test]
async fn deleted_service_leaves_in_steps_of_which_each_is_consistent() {
    let bed = Bed::of(&[text("a"), text("b"), text("b-2")]);
    for file in ["b.history.json", "b-2.history.json"] {
        fs::write(bed.path("state").join(file), "{}").unwrap();
    }
    let handle = bed.catalog.registry.get("b").unwrap();
    let running = handle.run_loop();
    // The loop that runs is still the one before a replacement.
    bed.replace("b", &text("b").replace("slo: 1s", "slo: 2s"))
        .await
        .unwrap();
    let handle = bed.catalog.registry.get("b").unwrap();
    let deleting = bed.delete("b");
    tokio::pin!(deleting);
    tokio::select! {
        biased;
        ended = &mut deleting => panic!("its loop still runs: {ended:?}"),
        () = handle.wait_replaced() => {}
    }
    // A planner that ends here begins without the service; its file can be had back.
    assert_eq!(
        (bed.planned(), bed.started()),
        (bed.started(), bed.planned())
    );
    assert_eq!(
        fs::read_to_string(bed.path("b.yaml.deleted")).unwrap(),
        text("b").replace("slo: 1s", "slo: 2s")
    );
    assert!(bed.path("state").join("b.history.json").exists());
    drop(running);
    deleting.await.unwrap();
    assert_eq!(bed.planned(), ["a", "b-2"]);
    assert!(!bed.path("state").join("b.history.json").exists());
    assert!(bed.path("state").join("b-2.history.json").exists());
    let unknown = bed.delete("b").await.unwrap_err();
    assert!(matches!(unknown, CatalogError::Unknown), "{unknown}");
    fs::rename(bed.path("b.yaml.deleted"), bed.path("b.yaml")).unwrap();
    assert_eq!(bed.started(), ["a", "b-2", "b"]);
}

#[tokio::test]
async fn last_service_edited_file_and_read_only_files_are_not_deleted() {
    let bed = Bed::of(&[text("a"), text("b")]);
    let stale = bed.catalog.delete("b", |_| false).await;
    assert!(matches!(stale, Err(CatalogError::Stale)));
    fs::write(bed.path("b.yaml"), format!("# Edited.\n{}", text("b"))).unwrap();
    let edited = bed.delete("b").await.unwrap_err().to_string();
    assert!(edited.contains("edited"), "{edited}");
    bed.delete("a").await.unwrap();
    let last = bed.delete("b").await.unwrap_err().to_string();
    assert!(last.contains("last service"), "{last}");
    assert_eq!(
        (bed.planned(), bed.started()),
        (bed.started(), bed.planned())
    );
    for (source, expected) in [
        (ServiceSource::Files, "weir serve DIR --writable"),
        (ServiceSource::Resources, "SloService"),
    ] {
        let catalog = Catalog {
            source,
            ..Bed::of(&[text("a"), text("b")]).catalog
        };
        for refused in [
            catalog.delete("b", |_| true).await,
            catalog.create("c", text("c"), |_| true).await.map(drop),
        ] {
            let refused = refused.unwrap_err();
            assert!(matches!(refused, CatalogError::Conflict(_)));
            assert!(refused.to_string().contains(expected), "{refused}");
        }
    }
}

#[tokio::test]
async fn replaced_service_is_checked_beside_the_others() {
    let large = |name, min| {
        let text = shared(name).replace("initial: 2, min: 0", "initial: 0, min: 0");
        text.replace("initial: 2}", &format!("initial: {min}, min: {min}}}"))
    };
    let bed = Bed::of(&[text("a"), shared("b"), large("c", 6)]);
    for (name, body, expected) in [
        (
            "a",
            text("a").replace("http://a:8080/a", "http://b:8080/a"),
            "variants[].resize of a: http://b:8080/a; it must be that of one service: service b",
        ),
        (
            "b",
            large("b", 7),
            "--shared-budget pool: 12; it must be at least 13",
        ),
        (
            "b",
            shared("b").replace("shared: pool", "shared: pool, step: 0.5"),
            "budget.step: 0.5; it must be 1 while the planner runs",
        ),
        (
            "b",
            text("b"),
            "budget.shared: missing; it must be pool while",
        ),
    ] {
        assert_ne!(
            body,
            fs::read_to_string(bed.path(&format!("{name}.yaml"))).unwrap()
        );
        let error = bed.replace(name, &body).await.unwrap_err();
        assert!(matches!(error, CatalogError::Config(_)), "{error}");
        assert!(
            error.to_string().starts_with(expected),
            "{error}\n{expected}"
        );
    }
    bed.replace("b", &shared("b").replace("slo: 1s", "slo: 2s"))
        .await
        .unwrap();
    assert!(bed.catalog.take_left().is_empty());
}

#[tokio::test]
async fn servers_without_a_service_stay_in_their_shared_budget() {
    let bed = Bed::of(&[text("a"), shared("b"), shared("c")]);
    let moved = shared("b").replace("http://b:8080/b", "http://b:8080/other");
    let before = bed.catalog.registry.get("b").unwrap();
    bed.replace("b", &moved).await.unwrap();
    assert!(bed.catalog.take_left().is_empty(), "its loop still runs");
    let next = bed.catalog.registry.get("b").unwrap();
    bed.catalog.leave_out(&before, &next.service);
    bed.catalog.leave_out(&next, &next.service);
    bed.delete("c").await.unwrap();
    bed.delete("a").await.unwrap();
    let left = bed.catalog.take_left();
    let servers = |left: &LeftServers| {
        let variants = left.service.variants.iter();
        let names: Vec<String> = variants.map(|one| one.name.clone()).collect();
        (left.place.name().to_owned(), names.join(" "))
    };
    let left: Vec<(String, String)> = left.iter().map(servers).collect();
    let expected = [("b (left)", "b"), ("c (left)", "a b")];
    let expected = expected.map(|(place, names)| (place.to_owned(), names.to_owned()));
    assert_eq!(left, expected);
    // Nothing is known of their cores in this term: nobody grows.
    let b = bed.catalog.registry.get("b").unwrap();
    let seat = bed
        .catalog
        .budgets
        .seat(&b.service, std::time::Duration::ZERO);
    let unknown = seat.unwrap().report().unwrap().unknown;
    assert_eq!(unknown, ["b (left)", "c (left)"]);
}
