//! Metadata of a model by the Open Inference Protocol, a request made of it, and what Triton's configuration says of its
//! batches.

use anyhow::{Context, bail, ensure};
use reqwest::{Client, Url};
use serde::Deserialize;
use serde_json::{Value, json};
use weir_profile::source::{SOURCE_BYTES_MAX, Source};

use super::path_style::KNOWN;

/// Maximum number of values in a made request.
const VALUES_MAX: u64 = 4_000_000;

/// Maximum batch of a variant.
const BATCH_MAX: u32 = 1024;

/// Model of a server.
#[derive(Debug)]
pub(crate) struct Model {
    /// Name at its server.
    pub(super) name: String,
    /// Address of its inference.
    pub(crate) infer: Url,
    inputs: Vec<Tensor>,
    /// Batches that the server forms of single requests, if it says so.
    pub(super) batches: Option<Batches>,
}

/// Batches of a server, by its configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Batches {
    /// Maximum number of requests in a batch.
    pub(super) max: u32,
    /// Time for which an incomplete batch waits, in µs.
    pub(super) delay_us: u64,
    /// Instances of the model, each of which executes one batch at a time.
    pub(super) instances: u32,
}

/// Answer of `GET /v2/models/NAME/config` of Triton.
#[derive(Debug, Deserialize)]
struct Configuration {
    #[serde(default)]
    max_batch_size: u32,
    #[serde(default)]
    dynamic_batching: Option<DynamicBatching>,
    #[serde(default)]
    instance_group: Vec<InstanceGroup>,
}

#[derive(Debug, Deserialize)]
struct DynamicBatching {
    #[serde(default)]
    max_queue_delay_microseconds: u64,
}

#[derive(Debug, Deserialize)]
struct InstanceGroup {
    #[serde(default)]
    count: u32,
    #[serde(default)]
    gpus: Vec<u32>,
}

impl Configuration {
    /// Batches that the server forms: none without dynamic batching.
    fn batches(&self) -> Option<Batches> {
        let dynamic = self.dynamic_batching.as_ref()?;
        // A group has its count on each of its GPUs.
        let each = |group: &InstanceGroup| group.count.max(1) * (group.gpus.len() as u32).max(1);
        (self.max_batch_size > 1).then(|| Batches {
            max: self.max_batch_size.min(BATCH_MAX),
            delay_us: dynamic.max_queue_delay_microseconds,
            instances: self.instance_group.iter().map(each).sum::<u32>().max(1),
        })
    }
}

/// Answer of `GET /v2/models/NAME`.
#[derive(Debug, Deserialize)]
struct Metadata {
    name: String,
    #[serde(default)]
    inputs: Option<Vec<Tensor>>,
}

/// Tensor that a model takes.
#[derive(Debug, Deserialize)]
struct Tensor {
    name: String,
    datatype: String,
    shape: Vec<i64>,
}

/// Entry of the answer of `POST /v2/repository/index`.
#[derive(Debug, Deserialize)]
struct Listed {
    name: String,
}

/// Answer of `GET /v2/models` of KServe.
#[derive(Debug, Deserialize)]
struct Names {
    models: Vec<String>,
}

/// Reads the metadata of the model at that address: of a model, its inference, or a server with one model.
pub(crate) async fn model(client: &Client, url: &Url) -> anyhow::Result<Model> {
    let path = url.path().trim_end_matches('/');
    let path = path.strip_suffix("/infer").unwrap_or(path);
    let path = match path {
        "" | "/v2" => format!("/v2/models/{}", only_model(client, url).await?),
        path if path.starts_with("/v2/models/") => path.to_owned(),
        path => bail!(
            "path {path}; it must be /v2/models/NAME, or none for a server's only model; for any other, give the body of \
             one request: --request FILE"
        ),
    };
    let about = at(url, &path);
    let text = Source::Url(about.clone()).read().await?;
    let metadata: Metadata = serde_json::from_str(&text)
        .with_context(|| format!("{about} answers no metadata of a model"))?;
    Ok(Model {
        name: metadata.name,
        infer: at(url, &format!("{path}/infer")),
        inputs: metadata.inputs.unwrap_or_default(),
        batches: batches(client, at(url, &format!("{path}/config"))).await,
    })
}

/// Batches by the configuration; `None` from a server that has none at that address.
async fn batches(client: &Client, config: Url) -> Option<Batches> {
    let answer = client.get(config).send().await.ok()?;
    let text = text(answer).await.ok()?;
    serde_json::from_str::<Configuration>(&text).ok()?.batches()
}

async fn only_model(client: &Client, url: &Url) -> anyhow::Result<String> {
    let right = "name the model: NAME=URL/v2/models/MODEL";
    let names = match listed(client, url).await {
        Ok(names) => names,
        Err(error) => names(client, url).await.map_err(|other| {
            anyhow::anyhow!(
                "the server lists no models; {right}; or the path of its inference, with --request FILE: {KNOWN}: \
                 {error:#}; {other:#}"
            )
        })?,
    };
    match names.as_slice() {
        [only] => Ok(only.clone()),
        [] => bail!("the server has no model; load one"),
        several => bail!("the server has the models {}; {right}", several.join(", ")),
    }
}

/// Names of the models in the repository, of Triton and MLServer.
async fn listed(client: &Client, url: &Url) -> anyhow::Result<Vec<String>> {
    let index = at(url, "/v2/repository/index");
    let answer = client.post(index.clone()).json(&json!({})).send().await?;
    let listed: Vec<Listed> = serde_json::from_str(&text(answer).await?)
        .with_context(|| format!("{index} answers no list of models"))?;
    Ok(listed.into_iter().map(|one| one.name).collect())
}

/// Names of the models of KServe.
async fn names(client: &Client, url: &Url) -> anyhow::Result<Vec<String>> {
    let models = at(url, "/v2/models");
    let answer = client.get(models.clone()).send().await?;
    let names: Names = serde_json::from_str(&text(answer).await?)
        .with_context(|| format!("{models} answers no list of models"))?;
    Ok(names.models)
}

/// Returns the body of a successful answer, of at most [`SOURCE_BYTES_MAX`].
async fn text(mut answer: reqwest::Response) -> anyhow::Result<String> {
    let (status, url) = (answer.status(), answer.url().clone());
    ensure!(status.is_success(), "{url}: status {status}");
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await? {
        body.extend_from_slice(&chunk);
        let fits = body.len() <= SOURCE_BYTES_MAX;
        ensure!(fits, "{url}: more than {SOURCE_BYTES_MAX} bytes");
    }
    String::from_utf8(body).with_context(|| format!("{url}: not UTF-8 text"))
}

fn at(url: &Url, path: &str) -> Url {
    let mut url = url.clone();
    url.set_path(path);
    url.set_query(None);
    url
}

impl Model {
    /// Returns a request with zeros, or with empty texts, of the smallest shape.
    pub(super) fn request(&self) -> anyhow::Result<String> {
        ensure!(
            !self.inputs.is_empty(),
            "the metadata of model {} names no inputs; give the body of one request: --request FILE",
            self.name
        );
        let inputs: Vec<Value> = self
            .inputs
            .iter()
            .map(Tensor::zeros)
            .collect::<anyhow::Result<_>>()?;
        Ok(json!({ "inputs": inputs }).to_string())
    }
}

impl Tensor {
    fn zeros(&self) -> anyhow::Result<Value> {
        // -1 is any length.
        let shape: Vec<u64> = self
            .shape
            .iter()
            .map(|length| *length.max(&1) as u64)
            .collect();
        let count = shape
            .iter()
            .try_fold(1_u64, |count, length| count.checked_mul(*length));
        let count = count.filter(|count| *count <= VALUES_MAX).with_context(|| {
            format!(
                "input {}: shape {:?} has more than {VALUES_MAX} values; give a request: --request FILE",
                self.name, self.shape
            )
        })?;
        let value = match self.datatype.as_str() {
            "BOOL" => json!(false),
            "BYTES" => json!(""),
            "FP16" | "FP32" | "FP64" | "BF16" => json!(0.0),
            kind if kind.starts_with("INT") || kind.starts_with("UINT") => json!(0),
            kind => bail!(
                "input {}: datatype {kind}; no request can be made of it: give one by --request FILE",
                self.name
            ),
        };
        let count = usize::try_from(count)?;
        Ok(json!({
            "name": self.name, "datatype": self.datatype, "shape": shape, "data": vec![value; count],
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(inputs: Value) -> Model {
        Model {
            name: "m".to_owned(),
            infer: "http://127.0.0.1/v2/models/m/infer".parse().unwrap(),
            inputs: serde_json::from_value(inputs).unwrap(),
            batches: None,
        }
    }

    #[test]
    fn batches_are_those_of_tritons_configuration() {
        let groups = json!([{"count": 2, "gpus": []}, {"count": 1, "gpus": [0, 1]}]);
        for (config, expected) in [
            (
                json!({"max_batch_size": 8, "dynamic_batching": {"max_queue_delay_microseconds": 500},
                       "instance_group": groups}),
                Some((8, 500, 4)),
            ),
            (
                json!({"max_batch_size": 8, "dynamic_batching": {}}),
                Some((8, 0, 1)),
            ),
            // Without dynamic batching it executes each request alone.
            (json!({"max_batch_size": 8}), None),
            (json!({"max_batch_size": 0, "dynamic_batching": {}}), None),
            (json!({"name": "m"}), None),
        ] {
            let read: Configuration = serde_json::from_value(config.clone()).unwrap();
            let found = read
                .batches()
                .map(|one| (one.max, one.delay_us, one.instances));
            assert_eq!(found, expected, "{config}");
        }
    }

    #[test]
    fn request_has_the_smallest_shape() {
        let inputs = json!([
            {"name": "x", "datatype": "FP32", "shape": [-1, 2]},
            {"name": "s", "datatype": "BYTES", "shape": [1]},
        ]);
        let request: Value = serde_json::from_str(&model(inputs).request().unwrap()).unwrap();
        let expected = json!({"inputs": [
            {"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [0.0, 0.0]},
            {"name": "s", "datatype": "BYTES", "shape": [1], "data": [""]},
        ]});
        assert_eq!(request, expected);
    }

    #[test]
    fn inputs_of_which_no_request_can_be_made_are_refused() {
        for (inputs, expected) in [
            (json!([]), "names no inputs"),
            (
                json!([{"name": "x", "datatype": "FP32", "shape": [4000, 4000]}]),
                "more than 4000000 values",
            ),
            (
                json!([{"name": "x", "datatype": "TENSOR", "shape": [1]}]),
                "input x: datatype TENSOR",
            ),
        ] {
            let error = model(inputs).request().unwrap_err().to_string();
            assert!(
                error.contains(expected) && error.contains("--request FILE"),
                "{error}"
            );
        }
    }
}
