//! The console's page in headless Chromium, before the running demo with its Envoy, under load.
//!
//! `tests/browser/page` has the checks. This starts the demo as a person does, sends requests until they are done, and
//! fails if one of them does. Pictures of each view go to the build folder, `console/*.png`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use weir_bed::load::{Protocol, Rates, Run, Schedule, Sender, Target, start};
use weir_bed::network::Network;
use weir_bed::process::Process;
use weir_bed::{built, wait};

/// Time limit until the demo runs.
const START_MAX: Duration = Duration::from_secs(60);
/// Time limit of all checks; it only bounds a failing test.
const CHECKS_MAX: Duration = Duration::from_secs(600);
/// Lowest and highest rate of the load, in requests/s: the plan changes between them.
const RATES_RPS: (f64, f64) = (30.0, 150.0);
/// Length of one rise and fall, and how many there are, in seconds.
const SWELL_S: usize = 40;
const SWELLS: usize = 10;
/// Seed of the arrivals.
const SEED: u64 = 1;

/// Demo that runs until it is dropped.
struct Demo {
    /// Process of the demo.
    _process: Process,
    /// Addresses of its parts, and the key.
    addresses: Value,
}

impl Demo {
    /// Starts it, and waits until all of it works together.
    async fn start(folder: &Path) -> Result<Demo> {
        let (addresses, log) = (folder.join("addresses.json"), folder.join("demo.log"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir-demo"));
        command.arg("up").arg("--addresses").arg(&addresses);
        let mut process = Process::spawn(&mut command, &log)?;
        let mut exited = None;
        let ready = || {
            exited = process.exited().ok().flatten();
            exited.is_some() || addresses.is_file()
        };
        let waited = wait::until("the demo's addresses", START_MAX, ready).await;
        let log = fs::read_to_string(&log).unwrap_or_default();
        waited.with_context(|| log.clone())?;
        ensure!(exited.is_none(), "the demo exited: {log}");
        let addresses = serde_json::from_str(&fs::read_to_string(&addresses)?)?;
        Ok(Demo {
            _process: process,
            addresses,
        })
    }

    fn address(&self, name: &str) -> Result<&str> {
        let found = self.addresses.get(name).and_then(Value::as_str);
        found.with_context(|| format!("no {name} in {}", self.addresses))
    }

    /// Sends requests to the listener with Weir.
    fn load(&self) -> Result<Run> {
        let (low_rps, high_rps) = RATES_RPS;
        let swell = Rates::swell(low_rps, high_rps, SWELL_S)?;
        let rates = Rates::new(swell.rps().repeat(SWELLS))?;
        let network = Network::none();
        let schedule = Schedule::new(&rates, &network, 0, SEED)?;
        let sender = Sender {
            slo: Duration::from_secs(1),
            timeout: Duration::from_secs(5),
            body: r#"{"inputs": []}"#.into(),
            answer_bytes: 0,
            read_bytes_per_s: None,
            protocol: Protocol::Http1,
        };
        let target = Target {
            name: "weir".to_owned(),
            url: format!("{}/v2/models/classifier/infer", self.address("weir")?),
            then: Vec::new(),
            headers: Vec::new(),
        };
        start(Arc::new(schedule), Arc::new(network), sender, vec![target])
    }
}

/// Folder of the pictures: beside the page that was built for this test.
fn pictures(page: &Path) -> Result<PathBuf> {
    let built = page.ancestors().nth(2).context("the page has no folder")?;
    Ok(built.join("console"))
}

#[tokio::test(flavor = "multi_thread")]
async fn console_works_in_chromium() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let browser = Path::new(env!("CARGO_MANIFEST_DIR")).join("../browser");
    let (node, page) = (built::node()?, built::console_page()?);
    let (chromium, packages) = (built::chromium()?, built::node_packages()?);
    let demo = Demo::start(folder.path()).await?;
    let setup = json!({
        "planner": demo.address("planner")?, "key": demo.address("key")?, "service": "demo",
        "chromium": chromium, "packages": packages, "book": page, "pictures": pictures(&page)?,
        "three_stages": browser.join("three-stages.yaml"),
    });
    let named = folder.path().join("setup.json");
    fs::write(&named, setup.to_string())?;
    let load = demo.load()?;
    let checks = tokio::process::Command::new(node)
        .args(["--test-reporter", "spec"])
        .arg(browser.join("page/page.mjs"))
        .env("WEIR_PAGE_SETUP", &named)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .status();
    let status = tokio::time::timeout(CHECKS_MAX, checks)
        .await
        .with_context(|| format!("the checks take longer than {CHECKS_MAX:?}"))??;
    ensure!(
        load.progress().iter().all(|progress| progress.on_time > 0),
        "the demo answered no request"
    );
    ensure!(status.success(), "checks of the page fail: {status}");
    Ok(())
}
