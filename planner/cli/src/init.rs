//! `weir init`: from the metadata of running model servers to a first service file, a request for each variant, a
//! scenario, and the commands to type next.
//!
//! The servers speak the Open Inference Protocol, or whatever the request of `--request` is for: that is sent once to
//! each of them. Existing files are never replaced.

pub(crate) mod files;
pub(crate) mod metadata;
mod path_style;
mod trial;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use clap::builder::NonEmptyStringValueParser;
use reqwest::{Client, Url};

use crate::input::read;
use crate::output::print;
use weir_planner::manifests::ServerAt;

use files::{Variant, next, scenario, service};
use path_style::path_style;

/// Maximum number of variants.
pub(crate) const VARIANTS_MAX: usize = 64;
/// Maximum time of one answer.
pub(crate) const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);

/// Arguments of `weir init`.
#[derive(Debug, clap::Args)]
#[command(after_help = crate::exit::HELP)]
pub(crate) struct Init {
    /// Name of a variant and address of its model or server, such as small=http://127.0.0.1:8081/v2/models/digits.
    /// Without a path it is the server's only model. With --request it may be any address that requests are sent to.
    #[arg(value_name = "NAME=URL", required = true, value_parser = variant)]
    variants: Vec<(String, Url)>,
    /// Name of the service.
    #[arg(long, value_name = "NAME", default_value = "demo", value_parser = NonEmptyStringValueParser::new())]
    service: String,
    /// Latency objective, from the client's send to its receipt of the answer.
    #[arg(long, value_name = "TIME", default_value = "1s")]
    slo: String,
    /// File with the body of one request, for all variants, which is sent once to each. Default: made of the model's
    /// metadata.
    #[arg(long, value_name = "FILE")]
    request: Option<PathBuf>,
    /// gRPC port of a variant's servers, such as small=127.0.0.1:9081: the variant gets a grpcCluster. May be repeated.
    #[arg(long, value_name = "NAME=HOST:PORT")]
    grpc: Vec<ServerAt>,
    /// File with labelled requests, by which `weir profile` measures accuracies: lines of {"request": BODY, "label":
    /// VALUE}. Without it all variants count as equally accurate.
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,
    /// Folder of the files.
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
}

/// Parses `NAME=URL`.
pub(crate) fn variant(text: &str) -> Result<(String, Url), String> {
    let right = "NAME=URL, such as small=http://127.0.0.1:8081";
    let (name, url) = text
        .split_once('=')
        .ok_or_else(|| format!("it must be {right}"))?;
    let url: Url = url
        .parse()
        .map_err(|error| format!("{url}: {error}; it must be {right}"))?;
    match url.scheme() {
        "http" | "https" => Ok((name.to_owned(), url)),
        scheme => Err(format!("scheme {scheme}; it must be http or https")),
    }
}

impl Init {
    /// # Errors
    /// A server that does not answer, metadata of which no request can be made, or a file that is there already.
    pub(crate) async fn run(&self) -> anyhow::Result<()> {
        let count = self.variants.len();
        ensure!(
            count <= VARIANTS_MAX,
            "{count} variants; it must be at most {VARIANTS_MAX}"
        );
        let mut names = BTreeSet::new();
        for (name, _) in &self.variants {
            ensure!(
                names.insert(name),
                "{name}: named twice; each variant has a name of its own"
            );
        }
        for port in &self.grpc {
            ensure!(
                names.remove(&port.cluster),
                "--grpc {}: it must be one of the variants, named once",
                port.cluster
            );
        }
        let given = self.request.as_deref().map(read_request).transpose()?;
        let client = Client::builder().timeout(ANSWER_TIME_MAX).build()?;
        let mut variants = Vec::new();
        for (name, url) in &self.variants {
            let about = || format!("{name}={url}");
            let one = Init::variant(&client, name, url, given.as_deref()).await;
            let mut one = one.with_context(about)?;
            one.grpc = self.grpc.iter().find(|port| port.cluster == *name).cloned();
            variants.push(one);
        }
        if let Some(labels) = &self.labels {
            let about = || format!("--labels {}", labels.display());
            weir_profile::labels::read(&read(labels).with_context(about)?).with_context(about)?;
        }
        let has_labels = self.labels.is_some();
        let service = service(&self.service, &self.slo, &variants, has_labels)?;
        self.write(&service, &variants)?;
        print(next(&self.out, self.labels.as_deref(), &variants))
    }

    /// Reads what the server says of a variant, and tries the request that was given.
    async fn variant(
        client: &Client,
        name: &str,
        url: &Url,
        given: Option<&str>,
    ) -> anyhow::Result<Variant> {
        let path = url.path().trim_end_matches('/');
        let has_metadata = matches!(path, "" | "/v2") || path.starts_with("/v2/models/");
        let name = name.to_owned();
        let mut variant = match given {
            Some(request) if !has_metadata => Variant {
                name,
                url: url.clone(),
                model: path_style(path).model,
                request: request.to_owned(),
                batches: None,
                grpc: None,
                answer: None,
            },
            given => {
                let model = metadata::model(client, url).await?;
                let request = given.map(|request| Ok(request.to_owned()));
                Variant {
                    name,
                    request: request.unwrap_or_else(|| model.request())?,
                    url: model.infer,
                    model: Some(model.name),
                    batches: model.batches,
                    grpc: None,
                    answer: None,
                }
            }
        };
        if let Some(request) = given {
            variant.answer = Some(trial::trial(&variant.url, request).await?);
        }
        Ok(variant)
    }

    /// Writes all files, or none if one of them is there already.
    fn write(&self, service: &str, variants: &[Variant]) -> anyhow::Result<()> {
        let mut all = vec![
            (self.out.join("service.yaml"), service.to_owned()),
            (
                self.out.join("scenario.yaml"),
                scenario(&self.service, variants),
            ),
        ];
        for variant in variants {
            let path = self.out.join(files::request_file(&variant.name));
            all.push((path, variant.request.clone()));
        }
        for (path, _) in &all {
            if path.exists() {
                bail!(
                    "{} is there already; it must be moved away, or --out must name another folder",
                    path.display()
                );
            }
        }
        fs::create_dir_all(&self.out).with_context(|| format!("--out {}", self.out.display()))?;
        for (path, text) in all {
            fs::write(&path, text).with_context(|| path.display().to_string())?;
        }
        Ok(())
    }
}

fn read_request(path: &Path) -> anyhow::Result<String> {
    let about = || format!("--request {}", path.display());
    let text = read(path).with_context(about)?;
    let _: serde_json::Value = serde_json::from_str(&text)
        .context("it must be JSON")
        .with_context(about)?;
    Ok(text)
}
