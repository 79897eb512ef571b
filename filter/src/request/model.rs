//! Path of a request, and name of the model in it, by the Open Inference Protocol (`/v2/models/NAME/…`) and by
//! TensorFlow Serving (`/v1/models/NAME:predict`). A variant's servers may have a name of their own for the
//! model, which replaces the client's. All else stays: version, operation, query. In gRPC the path names the method, and
//! the name is in the [message](crate::request::message).

use std::ops::Range;

/// Beginnings of the paths, and the bytes that end a name besides `/` and `?`.
const PROTOCOLS: [(&[u8], &[u8]); 2] = [(b"/v2/models/", b""), (b"/v1/models/", b":")];
/// Triton's statistics of all models: no model has this place in the path.
const STATISTICS: &[u8] = b"stats";

/// Beginning of the paths of gRPC by the Open Inference Protocol.
const GRPC: &[u8] = b"/inference.GRPCInferenceService/";
/// Its methods whose messages name a model in their first field.
const METHODS: [&[u8]; 5] = [
    b"ModelInfer",
    b"ModelReady",
    b"ModelMetadata",
    b"ModelConfig",
    b"ModelStatistics",
];
/// The one with a stream of such messages.
const STREAM: &[u8] = b"ModelStreamInfer";

/// Place of a model's name in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamePlace {
    /// The path.
    Path,
    /// The message of a gRPC body.
    Message,
    /// Each message of a gRPC body.
    Messages,
}

/// Returns the place of the model's name in a request with this path; `None` if it has none.
#[must_use]
pub fn name_place(path: &[u8], grpc: bool) -> Option<NamePlace> {
    if !grpc {
        return is_named(path).then_some(NamePlace::Path);
    }
    match path.strip_prefix(GRPC)? {
        STREAM => Some(NamePlace::Messages),
        method => METHODS.contains(&method).then_some(NamePlace::Message),
    }
}

/// Whether a path names a model.
#[must_use]
pub fn is_named(path: &[u8]) -> bool {
    find(path).is_some()
}

/// Returns the path with `model` as the name of the model; `None` if it names none, or is no text.
#[must_use]
pub fn rename(path: &[u8], model: &str) -> Option<String> {
    let Range { start, end } = find(path)?;
    let before = std::str::from_utf8(path.get(..start)?).ok()?;
    let after = std::str::from_utf8(path.get(end..)?).ok()?;
    let mut renamed = String::with_capacity(before.len() + model.len() + after.len());
    renamed.push_str(before);
    renamed.push_str(model);
    renamed.push_str(after);
    Some(renamed)
}

/// Returns `own` with the query of a path; `None` if that is no text.
#[must_use]
pub fn replace_path(path: &[u8], own: &str) -> Option<String> {
    let query = path.iter().position(|byte| *byte == b'?');
    let query = query.map_or(Some(&b""[..]), |at| path.get(at..))?;
    Some(own.to_owned() + std::str::from_utf8(query).ok()?)
}

/// Returns the place of the name.
fn find(path: &[u8]) -> Option<Range<usize>> {
    let mut protocols = PROTOCOLS.iter();
    let (prefix, ends) = protocols.find(|(prefix, _)| path.starts_with(prefix))?;
    let rest = path.get(prefix.len()..)?;
    let is_end = |byte: &u8| matches!(byte, b'/' | b'?') || ends.contains(byte);
    let length = rest.iter().position(is_end).unwrap_or(rest.len());
    let (name, after) = rest.split_at_checked(length)?;
    let alone = matches!(after.first(), None | Some(b'?'));
    // A server that resolves `..` would see another path.
    let is_other = matches!(name, b"" | b"." | b"..") || alone && name == STATISTICS;
    (!is_other).then(|| prefix.len()..prefix.len() + length)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(path: &str, renamed: Option<&str>) {
        let found = rename(path.as_bytes(), "resnet18");
        assert_eq!(found.as_deref(), renamed, "{path}");
        assert_eq!(is_named(path.as_bytes()), renamed.is_some(), "{path}");
    }

    #[test]
    fn name_is_replaced_and_all_else_stays() {
        for (path, renamed) in [
            ("/v2/models/m/infer", "/v2/models/resnet18/infer"),
            ("/v2/models/m", "/v2/models/resnet18"),
            ("/v2/models/m?a=/b", "/v2/models/resnet18?a=/b"),
            (
                "/v2/models/a.b-c_d/versions/2/infer?x=m&y=%2F",
                "/v2/models/resnet18/versions/2/infer?x=m&y=%2F",
            ),
            (
                "/v2/models/a%20b/generate_stream",
                "/v2/models/resnet18/generate_stream",
            ),
            ("/v2/models/a:b/infer", "/v2/models/resnet18/infer"),
            ("/v2/models/stats/infer", "/v2/models/resnet18/infer"),
            ("/v1/models/m:predict", "/v1/models/resnet18:predict"),
            (
                "/v1/models/m/versions/3:predict",
                "/v1/models/resnet18/versions/3:predict",
            ),
            (
                "/v1/models/m/labels/stable:classify?x=:",
                "/v1/models/resnet18/labels/stable:classify?x=:",
            ),
        ] {
            check(path, Some(renamed));
        }
    }

    #[test]
    fn path_without_a_name_stays() {
        for path in [
            "",
            "/",
            "/infer",
            "/v2/models",
            "/v2/models/",
            "/v2/models//infer",
            "/v2/models/../infer",
            "/v2/models/./infer",
            "/v2/models/stats",
            "/v2/models?m/infer",
            "/v1/models/:predict",
            "/v2/repository/models/m/load",
            "/x/v2/models/m/infer",
            "/V2/models/m/infer",
            "/inference.GRPCInferenceService/ModelInfer",
        ] {
            check(path, None);
        }
        assert_eq!(rename(b"/v2/models/m/\xff", "resnet18"), None);
    }

    #[test]
    fn path_is_replaced_but_for_its_query() {
        for (path, replaced) in [
            ("/predict", "/small"),
            ("/", "/small"),
            ("", "/small"),
            ("/predict?a=/b?c", "/small?a=/b?c"),
            ("?", "/small?"),
        ] {
            let found = replace_path(path.as_bytes(), "/small");
            assert_eq!(found.as_deref(), Some(replaced), "{path}");
        }
        assert_eq!(replace_path(b"/\xff", "/small").as_deref(), Some("/small"));
        assert_eq!(replace_path(b"/?\xff", "/small"), None);
    }

    #[test]
    fn name_is_in_the_path_or_in_the_messages() {
        let grpc = |method: &str| format!("/inference.GRPCInferenceService/{method}");
        for (path, is_grpc, place) in [
            (
                "/v2/models/m/infer".to_owned(),
                false,
                Some(NamePlace::Path),
            ),
            ("/infer".to_owned(), false, None),
            (grpc("ModelInfer"), true, Some(NamePlace::Message)),
            (grpc("ModelMetadata"), true, Some(NamePlace::Message)),
            (grpc("ModelStreamInfer"), true, Some(NamePlace::Messages)),
            (grpc("ModelInfer"), false, None),
            (grpc("ModelInferred"), true, None),
            (grpc("ServerReady"), true, None),
            (grpc("RepositoryModelLoad"), true, None),
            ("/v2/models/m/infer".to_owned(), true, None),
            ("/grpc.health.v1.Health/Check".to_owned(), true, None),
        ] {
            assert_eq!(name_place(path.as_bytes(), is_grpc), place, "{path}");
        }
    }

    proptest! {
        /// The new name is at the place of the old one, and the path is otherwise as it was.
        #[test]
        fn renamed_path_names_the_model(
            version in 1..=2_u8,
            old in "[!-.0->@-~]{1,20}",
            model in "[A-Za-z0-9._~-]{1,20}",
            rest in "(/versions/[0-9]{1,3})?[:/][a-z]{1,9}(\\?[!-~]{0,20})?",
        ) {
            prop_assume!(weir_api::plan::is_model(&model));
            let path = format!("/v{version}/models/{old}{rest}");
            let Some(found) = find(path.as_bytes()) else {
                prop_assert!(old == "." || old == ".." || old.starts_with([':', '.']), "{path}");
                return Ok(());
            };
            let renamed = rename(path.as_bytes(), &model).unwrap();
            let place = find(renamed.as_bytes()).unwrap();
            prop_assert_eq!(&renamed[place.clone()], &model);
            prop_assert_eq!(&renamed[..place.start], &path[..found.start]);
            prop_assert_eq!(&renamed[place.end..], &path[found.end..]);
            // Another variant's name replaces it again, as from the original path.
            prop_assert_eq!(rename(renamed.as_bytes(), "other"), rename(path.as_bytes(), "other"));
        }

        #[test]
        fn any_path_is_kept_or_renamed_at_one_place(path in proptest::collection::vec(any::<u8>(), 0..64)) {
            for prefix in ["", "/v2/models/", "/v1/models/"] {
                let path = [prefix.as_bytes(), &path].concat();
                prop_assert!(rename(&path, "m").is_none() || is_named(&path));
            }
        }
    }
}
