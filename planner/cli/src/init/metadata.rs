//! Metadata of a model by the Open Inference Protocol, and a request made of it.

use anyhow::{Context, bail, ensure};
use reqwest::{Client, Url};
use serde::Deserialize;
use serde_json::{Value, json};
use weir_profile::source::{SOURCE_BYTES_MAX, Source};

/// Maximum number of values in a made request.
const VALUES_MAX: u64 = 4_000_000;

/// Model of a server.
#[derive(Debug)]
pub(crate) struct Model {
    /// Name at its server.
    pub(super) name: String,
    /// Address of its inference.
    pub(crate) infer: Url,
    inputs: Vec<Tensor>,
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

/// Reads the metadata of the model at that address: of a model, its inference, or a server with one model.
pub(crate) async fn model(client: &Client, url: &Url) -> anyhow::Result<Model> {
    let path = url.path().trim_end_matches('/');
    let path = path.strip_suffix("/infer").unwrap_or(path);
    let path = match path {
        "" | "/v2" => format!("/v2/models/{}", only_model(client, url).await?),
        path if path.starts_with("/v2/models/") => path.to_owned(),
        path => bail!("path {path}; it must be /v2/models/NAME, or none for a server's only model"),
    };
    let about = at(url, &path);
    let text = Source::Url(about.clone()).read().await?;
    let metadata: Metadata = serde_json::from_str(&text)
        .with_context(|| format!("{about} answers no metadata of a model"))?;
    Ok(Model {
        name: metadata.name,
        infer: at(url, &format!("{path}/infer")),
        inputs: metadata.inputs.unwrap_or_default(),
    })
}

async fn only_model(client: &Client, url: &Url) -> anyhow::Result<String> {
    let index = at(url, "/v2/repository/index");
    let right = "name the model: NAME=URL/v2/models/MODEL";
    let answer = client.post(index.clone()).json(&json!({})).send().await?;
    let text = text(answer)
        .await
        .with_context(|| format!("the server lists no models; {right}"))?;
    let listed: Vec<Listed> = serde_json::from_str(&text)
        .with_context(|| format!("{index} answers no list of models; {right}"))?;
    match listed.as_slice() {
        [only] => Ok(only.name.clone()),
        [] => bail!("the server has no model; load one"),
        several => {
            let names: Vec<&str> = several.iter().map(|one| one.name.as_str()).collect();
            bail!("the server has the models {}; {right}", names.join(", "))
        }
    }
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
