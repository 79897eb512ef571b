//! Tests of the REST API: Schemathesis, pinned, makes requests from the OpenAPI document that a planner serves, and
//! checks each answer against it. The planner is a real `weir serve --writable` of a folder with
//! `planner/service.example.yaml`, and the same as another service, which the deletions are of.
//!
//! A status of 500 and above, and an answer that the document does not describe, is a failure.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde_json::Value;
use xshell::Shell;

use crate::clients::with_packages;
use crate::compile;
use crate::layout::Layout;
use crate::pinned::Pinned;

const SCHEMATHESIS: Pinned = Pinned {
    name: "schemathesis",
    what: "Schemathesis 4.32.5",
    instead: "install Python 3.11 to 3.14 with pip (Debian: python3 python3-pip)",
    compiled: true,
};
/// Minimum number of cases as part of all tests.
pub(crate) const CASES_OF_TESTS: u32 = 3200;
/// Cases that the limits in the document give at least, whatever the number of examples.
const OF_LIMITS: u32 = 3000;
/// Operations whose parameters or body allow any number of cases; the document has some more.
const WITH_INPUT: u32 = 8;
/// Time in which the planner listens, and the interval between checks.
const LISTENS_WITHIN: Duration = Duration::from_secs(30);
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Service that the deletions are of, as in `schemathesis.toml`.
const DELETED: &str = "deleted";
/// Key of the planner under test.
const KEY: &str = "key-of-the-tests";

/// Arguments of `cargo xtask api`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Minimum number of cases.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    cases: u32,
    /// Seed of the cases.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Compiles the planner and tests its API.
pub(crate) fn run(layout: &Layout, arguments: &Arguments) -> Result<()> {
    let sh = Shell::new()?;
    sh.change_dir(&layout.root);
    compile::command_line(&sh)?;
    test(layout, arguments.cases, arguments.seed)
}

/// Tests the API of the planner, which is compiled already, with at least so many cases.
pub(crate) fn test(layout: &Layout, cases: u32, seed: u64) -> Result<()> {
    let python = with_packages(&SCHEMATHESIS, "import schemathesis.cli", layout)?;
    let folder = layout.api();
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut planner = Planner::start(layout, &folder)?;
    let report = folder.join("report.json");
    let document = format!("http://{}/v1/openapi.json", planner.address);
    let status = Command::new(python)
        .args(["-m", "schemathesis.cli", "--config-file"])
        .arg(layout.root.join("xtask/schemathesis.toml"))
        .args(["run", &document, "--continue-on-failure"])
        .args(["--phases", "examples,coverage,fuzzing"])
        .args(["--max-examples", &examples(cases).to_string()])
        .args(["--seed", &seed.to_string()])
        .args(["--report", "json", "--report-json-path"])
        .arg(&report)
        .env("WEIR_KEY", KEY)
        .current_dir(&folder)
        .status()
        .context("cannot run Schemathesis")?;
    ensure!(status.success(), "the API is not as its document says");
    planner.check()?;
    let text =
        fs::read_to_string(&report).with_context(|| format!("cannot read {}", report.display()))?;
    let report: Value = serde_json::from_str(&text).context("Schemathesis' report")?;
    let generated = report.pointer("/test_cases/generated");
    let generated = generated.and_then(Value::as_u64).unwrap_or_default();
    ensure!(
        generated >= u64::from(cases),
        "{generated} cases; it must be at least {cases}"
    );
    eprintln!("api: {generated} cases, {}", planner.memory()?);
    Ok(())
}

/// Examples of each operation with input, so that there are at least so many cases.
fn examples(cases: u32) -> u32 {
    let more = cases.saturating_sub(OF_LIMITS);
    more.div_ceil(WITH_INPUT).max(1)
}

/// A planner under test; it ends with this value.
struct Planner {
    process: Child,
    address: String,
}

impl Planner {
    /// Starts a planner of a folder with copies of the example file, which requests may replace, create and delete.
    fn start(layout: &Layout, folder: &Path) -> Result<Planner> {
        let services = services(layout, folder)?;
        let address = folder.join("address");
        remove_file(&address)?;
        let log = fs::File::create(folder.join("planner.log")).context("planner.log")?;
        let process = Command::new(layout.binary("weir"))
            .arg("serve")
            .arg(&services)
            .args(["--writable", "--listen", "127.0.0.1:0", "--address-file"])
            .arg(&address)
            // With the extent of its scope, so that every operation is reached.
            .env("WEIR_KEY", format!("{KEY} write"))
            .stderr(log)
            .spawn()
            .context("cannot run weir serve")?;
        let mut planner = Planner {
            process,
            address: String::new(),
        };
        let checks = LISTENS_WITHIN.as_millis() / CHECK_INTERVAL.as_millis();
        for _ in 0..checks {
            if let Ok(text) = fs::read_to_string(&address) {
                planner.address = text.trim().to_owned();
                return Ok(planner);
            }
            std::thread::sleep(CHECK_INTERVAL);
        }
        bail!(
            "the planner does not listen within {LISTENS_WITHIN:?}; {} says why",
            folder.join("planner.log").display()
        )
    }

    /// Checks that the planner still runs.
    fn check(&mut self) -> Result<()> {
        let ended = self.process.try_wait().context("the planner is lost")?;
        ensure!(ended.is_none(), "the planner has ended: {ended:?}");
        Ok(())
    }

    /// Describes the memory of the planner.
    fn memory(&self) -> Result<String> {
        let path = PathBuf::from(format!("/proc/{}/status", self.process.id()));
        let text = fs::read_to_string(&path).context("cannot read the planner's memory")?;
        let lines = text.lines().filter(|line| line.starts_with("VmHWM"));
        let lines: Vec<String> = lines
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        Ok(lines.join(", "))
    }
}

impl Drop for Planner {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Makes the folder of the services, anew: the example, and the same with another name and other servers.
fn services(layout: &Layout, folder: &Path) -> Result<PathBuf> {
    let services = folder.join("services");
    if services.exists() {
        fs::remove_dir_all(&services)
            .with_context(|| format!("cannot remove {}", services.display()))?;
    }
    fs::create_dir_all(&services)
        .with_context(|| format!("cannot create {}", services.display()))?;
    let example = layout.root.join("planner/service.example.yaml");
    let text = fs::read_to_string(&example);
    let text = text.with_context(|| format!("cannot read {}", example.display()))?;
    let other = text.replace("service: demo", &format!("service: {DELETED}"));
    let other = other.replace("resize: http://127.0.0.1:", "resize: http://127.0.0.2:");
    for (name, text) in [("demo", text), (DELETED, other)] {
        let file = services.join(format!("{name}.yaml"));
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(services)
}

fn remove_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}
