//! Images are reproducible, and have the format that Istio and Envoy Gateway require.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{MODULE, PLANNER, USER, filter_image, planner_image};

/// Returns every file of a layout, by relative path.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for name in ["index.json", "oci-layout"] {
        files.insert(name.to_owned(), fs::read(folder.join(name)).unwrap());
    }
    for entry in fs::read_dir(folder.join("blobs/sha256")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        files.insert(name, fs::read(path).unwrap());
    }
    files
}

fn blob(folder: &Path, described: &Value) -> Vec<u8> {
    let digest = described["digest"]
        .as_str()
        .unwrap()
        .strip_prefix("sha256:")
        .unwrap();
    let bytes = fs::read(folder.join("blobs/sha256").join(digest)).unwrap();
    let hex: String = Sha256::digest(&bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(hex, digest);
    assert_eq!(described["size"], bytes.len());
    bytes
}

/// Returns the manifest, the configuration, and the decompressed layer.
fn read(folder: &Path) -> (Value, Value, Vec<u8>) {
    let index: Value =
        serde_json::from_slice(&fs::read(folder.join("index.json")).unwrap()).unwrap();
    assert_eq!(index["manifests"].as_array().unwrap().len(), 1);
    let manifest: Value = serde_json::from_slice(&blob(folder, &index["manifests"][0])).unwrap();
    let config: Value = serde_json::from_slice(&blob(folder, &manifest["config"])).unwrap();
    let layer = blob(
        folder,
        manifest["layers"].as_array().unwrap().last().unwrap(),
    );
    let mut archive = Vec::new();
    GzDecoder::new(layer.as_slice())
        .read_to_end(&mut archive)
        .unwrap();
    let hex: String = Sha256::digest(&archive)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{hex}"));
    (manifest, config, archive)
}

fn module(folder: &Path) -> std::path::PathBuf {
    let module = folder.join("module.wasm");
    fs::write(&module, b"\0asm\x01\0\0\0 and so on").unwrap();
    module
}

#[test]
fn image_is_reproducible_to_the_byte() {
    let folder = tempfile::tempdir().unwrap();
    let module = module(folder.path());
    let program = std::env::current_exe().unwrap();
    let image = |kind: &str| match kind {
        "filter" => filter_image(&module).unwrap(),
        _ => planner_image(&program).unwrap(),
    };
    for kind in ["filter", "planner"] {
        let (one, other) = (
            folder.path().join("one").join(kind),
            folder.path().join("other").join(kind),
        );
        let digest = image(kind).write(&one).unwrap();
        // The file's modification time and name must not matter.
        fs::write(&module, fs::read(&module).unwrap()).unwrap();
        let mut shuffled = image(kind);
        shuffled.entries.reverse();
        assert_eq!(shuffled.write(&other).unwrap(), digest);
        assert_eq!(files(&one), files(&other));
        // Again in the same folder.
        image(kind).write(&one).unwrap();
        assert_eq!(files(&one), files(&other));
    }
}

/// Istio's fetcher (also used by Envoy Gateway) requires of an image without Docker manifest that its last layer is a
/// compressed OCI archive with a file of that name.
#[test]
fn filter_image_is_accepted_by_istio() {
    let folder = tempfile::tempdir().unwrap();
    let module = module(folder.path());
    let place = folder.path().join("image");
    filter_image(&module).unwrap().write(&place).unwrap();
    let (manifest, _, archive) = read(&place);
    assert_eq!(
        manifest["mediaType"],
        "application/vnd.oci.image.manifest.v1+json"
    );
    assert_eq!(
        manifest["annotations"]["module.wasm.image/variant"],
        "compat"
    );
    let layers = manifest["layers"].as_array().unwrap();
    assert_eq!(layers.len(), 1);
    assert_eq!(
        layers[0]["mediaType"],
        "application/vnd.oci.image.layer.v1.tar+gzip"
    );
    let mut archive = tar::Archive::new(archive.as_slice());
    let mut entries = archive.entries().unwrap();
    let mut entry = entries.next().unwrap().unwrap();
    assert_eq!(entry.path().unwrap(), Path::new(MODULE));
    assert_eq!(entry.header().mtime().unwrap(), 0);
    let mut bytes = Vec::new();
    entry.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, fs::read(&module).unwrap());
    drop(entry);
    assert!(entries.next().is_none());
    fs::write(&module, "no module").unwrap();
    let error = filter_image(&module).unwrap_err();
    assert!(error.to_string().contains("no wasm module"), "{error}");
}

#[test]
fn planner_image_has_its_libraries_and_no_root_user() {
    let folder = tempfile::tempdir().unwrap();
    let program = std::env::current_exe().unwrap();
    let place = folder.path().join("image");
    planner_image(&program).unwrap().write(&place).unwrap();
    let (_, config, archive) = read(&place);
    assert_eq!(config["config"]["User"], USER);
    assert_eq!(config["config"]["Entrypoint"][0], format!("/{PLANNER}"));
    let mut archive = tar::Archive::new(archive.as_slice());
    let mut paths = Vec::new();
    for entry in archive.entries().unwrap() {
        let entry = entry.unwrap();
        let header = entry.header();
        assert_eq!(
            (
                header.uid().unwrap(),
                header.gid().unwrap(),
                header.mtime().unwrap()
            ),
            (0, 0, 0)
        );
        assert_eq!(header.mode().unwrap(), 0o755);
        paths.push(entry.path().unwrap().to_str().unwrap().to_owned());
    }
    assert!(paths.is_sorted(), "{paths:?}");
    assert!(paths.contains(&PLANNER.to_owned()));
    assert!(
        paths
            .iter()
            .any(|path| path.contains("libc.so") || path.contains("ld-")),
        "{paths:?}"
    );
    let manifest = include_str!("../../../k8s/base/deployment.yaml");
    let user = USER.split(':').next().unwrap();
    assert!(manifest.contains(&format!("runAsUser: {user}")));
}

/// The Dockerfile uses the same toolchain and user.
#[test]
fn dockerfile_matches_toolchain_and_user() {
    let dockerfile = include_str!("../../../planner/Dockerfile");
    let toolchain = include_str!("../../../rust-toolchain.toml");
    let version = toolchain.split('"').nth(1).unwrap();
    assert!(
        dockerfile.contains(&format!("rust:{version}-")),
        "{version}"
    );
    assert!(dockerfile.contains(&format!("USER {USER}")));
    assert!(dockerfile.contains(&format!("/{PLANNER}")));
}
