//! `weir manifests`: writes a service's manifests to standard output or into a folder. Reads nothing else:
//! no cluster, no registry. With `--envoy` several services may share one bootstrap.

mod folder;
mod options;

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::{Value, json};
use weir_planner::manifests::{
    COMMAND, File, FileKind, Options, Target, render, render_together, service,
};
use weir_planner::service::Service;
use weir_planner::spec::ServiceSpec;

use crate::output;

/// Arguments of `weir manifests`.
#[derive(Debug, clap::Args)]
#[command(after_help = crate::exit::HELP)]
pub(crate) struct Manifests {
    /// The service file (YAML). With --envoy several: their services share one Envoy.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    target: Chosen,
    #[command(flatten)]
    given: options::Given,
    /// Write files below this folder instead. A service replaces its own, and adds itself to the lists of all.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// With --out: also replace files of all services that differ, as after an upgrade, and a bootstrap of others.
    #[arg(long, requires = "out")]
    replace: bool,
    /// Print JSON: each file with its documents, or with --out its path.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
#[group(multiple = false)]
struct Chosen {
    /// WasmPlugins, EnvoyFilters and routes for Istio.
    #[arg(long)]
    istio: bool,
    /// Bootstraps for Envoy without a control plane.
    #[arg(long)]
    envoy: bool,
    /// Policies and routes for Envoy Gateway.
    #[arg(long)]
    gateway: bool,
    /// The planner, its RBAC rules and overlays (the default).
    #[arg(long)]
    kubernetes: bool,
}

/// A service as read from its file.
struct Input<'a> {
    path: &'a Path,
    service: Service,
    spec: ServiceSpec,
}

/// Command lines that reproduce files, without `--out`.
struct Commands {
    service: String,
    shared: String,
    list: String,
}

impl Commands {
    /// Returns the command line of a file's header. Files of all services name none.
    fn of(&self, kind: FileKind) -> &str {
        match kind {
            FileKind::Service => &self.service,
            FileKind::Shared => &self.shared,
            FileKind::List => &self.list,
        }
    }
}

impl Manifests {
    /// # Errors
    /// An invalid service file, one that does not support that target, or a folder that cannot be written.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let (target, flag) = self.target.chosen();
        if let ([_, _, ..], false) = (self.files.as_slice(), target == Target::Envoy) {
            anyhow::bail!(
                "FILE: {} of them; it must be 1 with --{flag}: run the command for each, with the same --out",
                self.files.len(),
            );
        }
        let inputs: anyhow::Result<Vec<Input>> = self.files.iter().map(|it| read(it)).collect();
        let inputs = inputs?;
        let services: Vec<&str> = inputs.iter().map(|it| it.service.name.as_str()).collect();
        let options = self.given.options(&services)?;
        let commands = self.commands(flag);
        let files = match (inputs.as_slice(), options.as_slice()) {
            ([input], [options]) => render(&input.service, &input.spec, options, target)
                .with_context(|| input.about())?,
            (inputs, options) => {
                let services = inputs.iter().map(|it| &it.service).zip(options);
                let services: Vec<(&Service, &Options)> = services.collect();
                render_together(&services)?
            }
        };
        match &self.out {
            Some(folder) => {
                folder::write(&files, &commands, folder, self.replace)?;
                let written = files.iter().map(|file| json!({ "path": file.path }));
                print_json(self.json, &written.collect::<Vec<Value>>())
            }
            None if self.json => {
                let made = files.iter().map(|file| {
                    let documents = file.documents.iter().map(|one| &one.body);
                    json!({ "path": file.path, "documents": documents.collect::<Vec<&Value>>() })
                });
                print_json(true, &made.collect::<Vec<Value>>())
            }
            None => print_documents(&files, &commands),
        }
    }

    fn commands(&self, flag: &str) -> Commands {
        let list = format!("{COMMAND} --{flag}");
        let (all, own) = (self.given.of_all(), self.given.of_service());
        let files = self.files.iter().map(|file| format!(" {}", file.display()));
        let files: String = files.collect();
        Commands {
            service: format!("{list}{files}{all}{own}"),
            shared: format!("{list}{all}"),
            list,
        }
    }
}

impl Input<'_> {
    fn about(&self) -> String {
        format!("service file {}", self.path.display())
    }
}

fn read(path: &Path) -> anyhow::Result<Input<'_>> {
    let about = || format!("service file {}", path.display());
    let text = std::fs::read_to_string(path).with_context(about)?;
    let spec = ServiceSpec::from_file(path, &text).with_context(about)?;
    let service = service(&spec).with_context(about)?;
    Ok(Input {
        path,
        service,
        spec,
    })
}

impl Chosen {
    fn chosen(&self) -> (Target, &'static str) {
        if self.istio {
            (Target::Istio, "istio")
        } else if self.envoy {
            (Target::Envoy, "envoy")
        } else if self.gateway {
            (Target::Gateway, "gateway")
        } else {
            (Target::Kubernetes, "kubernetes")
        }
    }
}

/// Prints a list of files, if JSON is requested.
fn print_json(requested: bool, files: &[Value]) -> anyhow::Result<()> {
    if !requested {
        return Ok(());
    }
    output::print(format!("{:#}\n", json!({ "files": files })))
}

/// Prints the documents one after the other, each below a comment with its path.
fn print_documents(files: &[File], commands: &Commands) -> anyhow::Result<()> {
    let mut text = String::new();
    for (index, file) in files.iter().enumerate() {
        if index > 0 {
            text += "---\n";
        }
        text += &format!("# {}\n{}", file.path, file.text(commands.of(file.kind))?);
    }
    output::print(text)
}
