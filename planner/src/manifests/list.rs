//! Lists of a folder's parts: kustomizations that several services share. Each service adds its own part and
//! leaves the others'.

use serde_json::{Value, json};

use super::{Document, File, FileKind, ManifestError};

/// Keys under which a list has its parts.
const PARTS: [&str; 2] = ["resources", "components"];

impl File {
    /// Returns a kustomization or component of these parts, to which other services add theirs.
    pub(super) fn list(folder: &str, why: &str, kind: &str, key: &str, parts: &[String]) -> File {
        let version = if kind == "Component" {
            "v1alpha1"
        } else {
            "v1beta1"
        };
        let body = json!({
            "apiVersion": format!("kustomize.config.k8s.io/{version}"), "kind": kind, key: parts,
        });
        let documents = vec![Document::new(why, body)];
        File {
            path: format!("{folder}/kustomization.yaml"),
            kind: FileKind::List,
            documents,
        }
    }

    /// Returns this list with the parts of an existing one, sorted, and the existing one's other keys.
    ///
    /// # Errors
    /// Fails if the existing text is no list.
    pub fn merged(&self, existing: &str) -> Result<File, ManifestError> {
        let form = |error: String| ManifestError::Form {
            what: self.path.clone(),
            error,
        };
        let read: Value =
            serde_saphyr::from_str(existing).map_err(|error| form(error.to_string()))?;
        let Value::Object(mut body) = read else {
            return Err(form("the existing file is no kustomization".to_owned()));
        };
        let mut file = self.clone();
        let Some(document) = file.documents.first_mut() else {
            return Ok(file);
        };
        for key in PARTS {
            let Some(ours) = document.body.get(key).and_then(Value::as_array) else {
                continue;
            };
            let theirs = body.get(key).and_then(Value::as_array);
            let all = theirs.into_iter().flatten().chain(ours);
            let mut parts: Vec<String> = all.filter_map(Value::as_str).map(str::to_owned).collect();
            parts.sort();
            parts.dedup();
            body.insert(key.to_owned(), json!(parts));
        }
        document.body = Value::Object(body);
        Ok(file)
    }

    /// Returns the parts of a list: the names of its services' folders or files.
    #[must_use]
    pub fn parts(&self) -> Vec<&str> {
        let bodies = self.documents.iter().map(|document| &document.body);
        let lists =
            bodies.flat_map(|body| PARTS.map(|key| body.get(key).and_then(Value::as_array)));
        lists
            .flatten()
            .flatten()
            .filter_map(Value::as_str)
            .collect()
    }
}
