//! Styles of the paths of model servers: which server it is, and the name of the model in it, if the filter can rename it.

/// Style of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PathStyle {
    /// Name of the protocol or the server, for people.
    pub(super) name: &'static str,
    /// Name of the model in the path, where the filter puts that of a variant in its place.
    pub(super) model: Option<String>,
}

/// Known paths, for messages.
pub(super) const KNOWN: &str = "/v2/models/NAME/infer (Open Inference Protocol), /v1/models/NAME:predict (KServe, TensorFlow \
     Serving), /predictions/NAME (TorchServe), /inference (mosec), /predict (LitServe, BentoML), /NAME (Ray Serve), \
     /v1/chat/completions, /v1/completions, /v1/embeddings (OpenAI)";

/// Returns the style of a path.
pub(super) fn path_style(path: &str) -> PathStyle {
    let style = |name: &'static str| PathStyle { name, model: None };
    let named = |name: &'static str, model: &str| PathStyle {
        name,
        model: Some(model.to_owned()),
    };
    let path = path.trim_end_matches('/');
    let first = |rest: &str| rest.split(['/', ':']).next().unwrap_or_default().to_owned();
    if let Some(rest) = path.strip_prefix("/v2/models/") {
        return named("Open Inference Protocol", &first(rest));
    }
    if let Some(rest) = path
        .strip_prefix("/v1/models/")
        .filter(|rest| rest.contains(':'))
    {
        return named("KServe v1 or TensorFlow Serving", &first(rest));
    }
    if path.starts_with("/predictions/") {
        return style("TorchServe");
    }
    match path {
        "/v1/chat/completions" | "/v1/completions" | "/v1/embeddings" => style("OpenAI"),
        "/inference" => style("mosec"),
        "/predict" => style("LitServe or BentoML"),
        // Ray Serve: one application, or one of several at its route prefix.
        _ => style("HTTP"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_model_servers_are_known() {
        for (path, name, model) in [
            (
                "/v2/models/digits/infer",
                "Open Inference Protocol",
                Some("digits"),
            ),
            (
                "/v2/models/digits/versions/2/infer",
                "Open Inference Protocol",
                Some("digits"),
            ),
            (
                "/v1/models/digits:predict",
                "KServe v1 or TensorFlow Serving",
                Some("digits"),
            ),
            (
                "/v1/models/digits/versions/3:predict",
                "KServe v1 or TensorFlow Serving",
                Some("digits"),
            ),
            ("/predictions/digits", "TorchServe", None),
            ("/inference", "mosec", None),
            ("/predict", "LitServe or BentoML", None),
            ("/v1/chat/completions", "OpenAI", None),
            ("/v1/completions", "OpenAI", None),
            ("/v1/embeddings/", "OpenAI", None),
            ("/small", "HTTP", None),
            ("", "HTTP", None),
        ] {
            let found = path_style(path);
            assert_eq!(
                (found.name, found.model.as_deref()),
                (name, model),
                "{path}"
            );
        }
    }
}
