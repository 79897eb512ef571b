//! Image as an OCI layout: `oci-layout`, `index.json`, `blobs/sha256/…`. It has one layer, a compressed archive.
//!
//! Reproducible: equal entries give equal bytes. Entries and JSON keys are sorted, and files have no timestamps and
//! the owner 0.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// gzip's "unknown" operating system, so that the archive does not depend on the machine.
const NO_SYSTEM: u8 = 255;

/// File in an image.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    path: String,
    bytes: Vec<u8>,
    mode: u32,
}

/// Contents and configuration of an image.
#[derive(Debug, Clone)]
pub(super) struct Image {
    pub(super) entries: Vec<Entry>,
    pub(super) entrypoint: Vec<String>,
    pub(super) user: Option<&'static str>,
    /// Annotations of the manifest.
    pub(super) annotations: Vec<(&'static str, &'static str)>,
    pub(super) title: &'static str,
}

impl Entry {
    pub(super) fn new(path: impl Into<String>, bytes: Vec<u8>, mode: u32) -> Entry {
        Entry {
            path: path.into(),
            bytes,
            mode,
        }
    }
}

impl Image {
    /// Writes the layout, replacing an earlier one, and returns the manifest's digest.
    pub(super) fn write(&self, folder: &Path) -> Result<String> {
        let about = || format!("cannot write {}", folder.display());
        let beside = folder.with_extension("new");
        let blobs = Blobs::new(&beside).with_context(about)?;
        let digest = self.blobs(&blobs).with_context(about)?;
        // Atomic, because another process may be about to push it.
        if folder.exists() {
            std::fs::remove_dir_all(folder).with_context(about)?;
        }
        std::fs::rename(&beside, folder).with_context(about)?;
        Ok(digest)
    }

    fn blobs(&self, blobs: &Blobs) -> Result<String> {
        let archive = self.archive()?;
        let layer = blobs.put(LAYER, &packed(&archive)?)?;
        let mut run = json!({ "WorkingDir": "/" });
        if let Some(run) = run.as_object_mut() {
            if !self.entrypoint.is_empty() {
                run.insert("Entrypoint".to_owned(), json!(self.entrypoint));
            }
            if let Some(user) = self.user {
                run.insert("User".to_owned(), json!(user));
            }
        }
        // A Wasm module runs on any platform; clients that pull by platform find it under the most common one.
        let config = json!({
            "architecture": architecture(), "os": "linux", "config": run,
            "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", digest(&archive))] },
        });
        let config = blobs.put(CONFIG, &serde_json::to_vec(&config)?)?;
        let mut annotations = json!({
            "org.opencontainers.image.title": self.title,
            "org.opencontainers.image.licenses": "Apache-2.0",
            "org.opencontainers.image.version": env!("CARGO_PKG_VERSION"),
        });
        for (name, value) in &self.annotations {
            if let Some(annotations) = annotations.as_object_mut() {
                annotations.insert((*name).to_owned(), json!(value));
            }
        }
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer],
            "annotations": annotations,
        });
        let manifest = serde_json::to_vec(&manifest)?;
        let mut described = blobs.put(MANIFEST, &manifest)?;
        if let Some(described) = described.as_object_mut() {
            let name = json!({ "org.opencontainers.image.ref.name": env!("CARGO_PKG_VERSION") });
            described.insert("annotations".to_owned(), name);
        }
        let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [described] });
        blobs.beside("index.json", &index)?;
        blobs.beside("oci-layout", &json!({ "imageLayoutVersion": "1.0.0" }))?;
        Ok(digest(&manifest))
    }

    fn archive(&self) -> Result<Vec<u8>> {
        let mut entries: Vec<&Entry> = self.entries.iter().collect();
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        let mut archive = tar::Builder::new(Vec::new());
        for entry in entries {
            let mut header = tar::Header::new_ustar();
            header.set_entry_type(tar::EntryType::Regular);
            header.set_size(entry.bytes.len() as u64);
            header.set_mode(entry.mode);
            header.set_uid(0);
            header.set_gid(0);
            header.set_mtime(0);
            archive.append_data(&mut header, &entry.path, entry.bytes.as_slice())?;
        }
        Ok(archive.into_inner()?)
    }
}

/// The machine's architecture, in OCI names.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn packed(archive: &[u8]) -> Result<Vec<u8>> {
    let builder = GzBuilder::new().mtime(0).operating_system(NO_SYSTEM);
    let mut packed = builder.write(Vec::new(), Compression::best());
    packed.write_all(archive)?;
    Ok(packed.finish()?)
}

fn digest(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Blobs in a layout's folder.
struct Blobs<'a>(&'a Path);

impl<'a> Blobs<'a> {
    fn new(folder: &'a Path) -> Result<Blobs<'a>> {
        if folder.exists() {
            std::fs::remove_dir_all(folder)?;
        }
        std::fs::create_dir_all(folder.join("blobs/sha256"))?;
        Ok(Blobs(folder))
    }

    /// Stores bytes under their digest, and returns their descriptor.
    fn put(&self, media_type: &str, bytes: &[u8]) -> Result<Value> {
        let digest = digest(bytes);
        std::fs::write(self.0.join("blobs/sha256").join(&digest), bytes)?;
        Ok(json!({
            "mediaType": media_type, "digest": format!("sha256:{digest}"), "size": bytes.len(),
        }))
    }

    fn beside(&self, name: &str, value: &Value) -> Result<()> {
        Ok(std::fs::write(
            self.0.join(name),
            serde_json::to_vec(value)?,
        )?)
    }
}
