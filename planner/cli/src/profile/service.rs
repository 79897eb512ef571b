//! `weir profile SERVICE NAME=URL …`: measures the variants of a service file that have no profile yet, one after the
//! other. What is measured stays, so the same command goes on where an earlier one ended.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use reqwest::Url;
use serde_json::Value;
use tokio::sync::watch;
use weir_planner::spec::{RawVariant, ServiceSpec};

use super::extent::VariantExtent;
use super::{Profile, ProtocolName};
use crate::init::files::request_file;
use crate::init::{ANSWER_TIME_MAX, VARIANTS_MAX, metadata};
use crate::input::read;
use crate::output::print;

/// Variant of a service file.
#[derive(Debug)]
struct Variant {
    name: String,
    extent: VariantExtent,
    /// Latency objective of the service.
    slo: Duration,
    /// File of its profile; otherwise the reason why it has none.
    profile: Result<PathBuf, &'static str>,
}

impl Profile {
    /// Measures all variants that have an address and no profile.
    ///
    /// # Errors
    /// A wrong file or address; or variants that are not measured, once all others are.
    pub(super) async fn service(
        &self,
        path: &Path,
        stop: watch::Receiver<bool>,
    ) -> anyhow::Result<()> {
        let about = || path.display().to_string();
        let text = read(path).with_context(about)?;
        let spec = ServiceSpec::from_yaml(&text).with_context(about)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let all = variants(&spec, folder)?;
        self.check_servers(&all)?;
        let (mut report, mut failed) = (String::new(), Vec::new());
        for variant in &all {
            let outcome = self.of_service(folder, variant, &stop).await;
            let line = outcome.unwrap_or_else(|error| {
                failed.push(variant.name.as_str());
                tell(&format!("{}: {error:#}", variant.name));
                format!("not measured: {error:#}")
            });
            report += &format!("{}: {line}\n", variant.name);
        }
        print(report)?;
        anyhow::ensure!(
            failed.is_empty(),
            "not measured: {}; the same command goes on with what is missing",
            failed.join(", ")
        );
        Ok(())
    }

    fn check_servers(&self, all: &[Variant]) -> anyhow::Result<()> {
        let count = self.servers.len();
        anyhow::ensure!(
            count <= VARIANTS_MAX,
            "{count} addresses; it must be at most {VARIANTS_MAX}"
        );
        let mut names = BTreeSet::new();
        for (name, _) in &self.servers {
            let known: Vec<&str> = all.iter().map(|variant| variant.name.as_str()).collect();
            anyhow::ensure!(
                known.contains(&name.as_str()),
                "{name}: no variant of the service; it must be one of {}",
                known.join(", ")
            );
            anyhow::ensure!(names.insert(name), "{name}: named twice; it must be once");
        }
        Ok(())
    }

    /// Measures a variant; returns a line for the report.
    async fn of_service(
        &self,
        folder: &Path,
        variant: &Variant,
        stop: &watch::Receiver<bool>,
    ) -> anyhow::Result<String> {
        let name = &variant.name;
        let server = self.servers.iter().find(|(server, _)| server == name);
        let output = match &variant.profile {
            Ok(output) => output,
            Err(why) if server.is_none() => return Ok(format!("left out: {why}")),
            Err(why) => {
                anyhow::bail!("{why}; it must have `profile: {{file: {name}.profile.yaml}}`")
            }
        };
        let file = output.display();
        if !self.replace && has_profile(output)? {
            return Ok(format!(
                "left out: {file} has a profile; --replace measures it again"
            ));
        }
        let Some((_, url)) = server else {
            return Ok(format!(
                "left out: no address; it must be given as {name}=URL"
            ));
        };
        anyhow::ensure!(!*stop.borrow(), "interrupted before");
        let url = self.endpoint(url).await?;
        tell(&format!("{name}: {url} into {file}"));
        let request = self.request.clone();
        let request = request.unwrap_or_else(|| folder.join(request_file(name)));
        let one = Profile {
            url: Some(url),
            request: Some(request),
            output: output.clone(),
            slo: self.slo.or(Some(variant.slo)),
            resume: !self.replace,
            is_of_service: true,
            ..self.clone()
        };
        let one = variant.extent.apply(one)?;
        one.check()?;
        let measured = one.variant(stop.clone()).await?;
        print(format!("{name}\n{measured}\n"))?;
        Ok(format!("measured: {file}"))
    }

    /// Address that requests are sent to, of a model, its inference or a server with one model.
    async fn endpoint(&self, url: &Url) -> anyhow::Result<Url> {
        let path = url.path().trim_end_matches('/');
        let is_model = path.starts_with("/v2/models/") && !path.ends_with("/infer");
        let named = !matches!(self.protocol, None | Some(ProtocolName::V2));
        if named || !(is_model || path.is_empty() || path == "/v2") {
            return Ok(url.clone());
        }
        let client = reqwest::Client::builder()
            .timeout(ANSWER_TIME_MAX)
            .build()?;
        let model = metadata::model(&client, url).await;
        Ok(model.with_context(|| url.to_string())?.infer)
    }
}

fn variants(spec: &ServiceSpec, folder: &Path) -> anyhow::Result<Vec<Variant>> {
    let variant = |raw: &RawVariant| {
        let reference = raw.profile.as_ref();
        let file = reference.and_then(|reference| reference.file.as_ref());
        Ok(Variant {
            name: raw.name.clone(),
            extent: VariantExtent::of(raw, &spec.sizes())?,
            slo: spec.slo.0,
            profile: file
                .map(|file| folder.join(file))
                .ok_or("its profile is in no file beside the service file"),
        })
    };
    spec.all_variants().map(variant).collect()
}

/// Whether a file has a profile that the planner takes: not if it is missing, or its measurement is not complete.
fn has_profile(path: &Path) -> anyhow::Result<bool> {
    if !path.exists() {
        return Ok(false);
    }
    let about = || path.display().to_string();
    let text = read(path).with_context(about)?;
    let profile: Value = serde_saphyr::from_str(&text).with_context(about)?;
    let has = |key: &str| profile.get(key).is_some_and(|value| !value.is_null());
    Ok(has("latency") || has("measured"))
}

/// Prints a line of the progress. Nobody may be left to read it.
fn tell(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
