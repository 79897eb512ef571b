//! `weir manifests`: writes a service's manifests to standard output or into a folder. Reads nothing else:
//! no cluster, no registry.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::{Value, json};
use weir_planner::manifests::{
    COMMAND, FILTER_IMAGE, File, IMAGE, NAMESPACE, Options, Target, render,
};
use weir_planner::spec::{ServiceFile, ServiceSpec};

use crate::output;

/// Arguments of `weir manifests`.
#[derive(Debug, clap::Args)]
#[command(after_help = crate::exit::HELP)]
pub(crate) struct Manifests {
    /// The service file (YAML).
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    target: Chosen,
    /// The planner's namespace.
    #[arg(long, value_name = "NS", default_value = NAMESPACE)]
    namespace: String,
    /// The planner's image.
    #[arg(long, value_name = "REF", default_value = IMAGE)]
    image: String,
    /// The filter's image, preferably by digest.
    #[arg(long, value_name = "REF", default_value = FILTER_IMAGE)]
    filter_image: String,
    /// Write files below this folder instead, replacing files of the same names.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
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

impl Manifests {
    /// # Errors
    /// An invalid service file, one that does not support that target, or a folder that cannot be written.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let path = &self.file;
        let about = || format!("service file {}", path.display());
        let text = std::fs::read_to_string(path).with_context(about)?;
        let spec = ServiceSpec::from_file(path, &text).with_context(about)?;
        let file = ServiceFile::try_from(spec.clone()).with_context(about)?;
        let service = file.service;
        let (target, flag) = self.target.chosen();
        let command = self.command(flag);
        let options = Options {
            namespace: self.namespace.clone(),
            image: self.image.clone(),
            filter_image: self.filter_image.clone(),
        };
        let files = render(&service, &spec, &options, target).with_context(about)?;
        match &self.out {
            Some(folder) => {
                write(&files, &command, folder)?;
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
            None => print_documents(&files, &command),
        }
    }

    /// Command line that reproduces the manifests, without `--out`.
    fn command(&self, flag: &str) -> String {
        let mut command = format!("{COMMAND} --{flag} {}", self.file.display());
        for (name, value, default) in [
            ("namespace", &self.namespace, NAMESPACE),
            ("image", &self.image, IMAGE),
            ("filter-image", &self.filter_image, FILTER_IMAGE),
        ] {
            if value != default {
                command += &format!(" --{name} {value}");
            }
        }
        command
    }
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

/// Writes each file below the folder; kustomizations only work there.
fn write(files: &[File], command: &str, folder: &Path) -> anyhow::Result<()> {
    for file in files {
        let path = folder.join(&file.path);
        let about = || format!("--out: {}", path.display());
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).with_context(about)?;
        }
        std::fs::write(&path, file.text(command)?).with_context(about)?;
    }
    Ok(())
}

/// Prints a list of files, if JSON is requested.
fn print_json(requested: bool, files: &[Value]) -> anyhow::Result<()> {
    if !requested {
        return Ok(());
    }
    output::print(format!("{:#}\n", json!({ "files": files })))
}

/// Prints the documents one after the other, each below a comment with its path.
fn print_documents(files: &[File], command: &str) -> anyhow::Result<()> {
    let mut text = String::new();
    for (index, file) in files.iter().enumerate() {
        if index > 0 {
            text += "---\n";
        }
        text += &format!("# {}\n{}", file.path, file.text(command)?);
    }
    output::print(text)
}
