//! Folder of service files: every `*.yaml`, `*.yml` and `*.json` in it is a service. Folders below it and hidden files are
//! no part of it; profiles and models may stand below. Nothing is decided here.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::file::{DELETED, ReplaceError, WritableFile, write_whole};

/// Endings of service files.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];
/// Maximum number of deleted files that are kept in a folder; the one that was deleted first goes first.
pub const DELETED_MAX: usize = 64;

/// Folder of service files.
#[derive(Debug, Clone)]
pub struct ServiceFolder(PathBuf);

impl ServiceFolder {
    /// Creates the folder at that path.
    pub fn new(path: &Path) -> ServiceFolder {
        ServiceFolder(path.to_owned())
    }

    /// Returns the service files, by name: at most `max` of them and one more.
    ///
    /// # Errors
    /// Fails if the folder cannot be read.
    pub fn files(&self, max: usize) -> io::Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.0)? {
            let path = entry?.path();
            if files.len() <= max && is_service_file(&path) {
                files.push(path);
            }
        }
        files.sort();
        Ok(files)
    }

    /// Returns the path of a service's file. The name is a checked one, without separators and dots.
    pub fn path(&self, service: &str) -> PathBuf {
        self.0.join(format!("{service}.yaml"))
    }

    /// Creates the file of a service.
    ///
    /// # Errors
    /// Fails if a service file of that name is in the folder, or if it cannot be written; then nothing of it is left.
    pub fn create(&self, service: &str, content: &[u8]) -> Result<WritableFile, ReplaceError> {
        let path = self.path(service);
        for ending in ENDINGS {
            let other = path.with_extension(ending);
            if fs::symlink_metadata(&other).is_ok() {
                return Err(ReplaceError::Exists(other));
            }
        }
        write_whole(&path, content, None).map_err(|error| ReplaceError::Io {
            path: path.clone(),
            error,
        })?;
        Ok(WritableFile::new(&path, content.to_vec()))
    }

    /// Removes deleted files beyond [`DELETED_MAX`].
    ///
    /// # Errors
    /// Fails if the folder cannot be read, or a file cannot be removed.
    pub fn forget_deleted(&self) -> io::Result<()> {
        let mut deleted = Vec::new();
        for entry in fs::read_dir(&self.0)? {
            let path = entry?.path();
            let of = path.file_name().and_then(OsStr::to_str);
            let of = of.and_then(|name| name.strip_suffix(DELETED));
            if of.is_some_and(|name| has_ending(Path::new(name))) {
                let changed = fs::symlink_metadata(&path)?;
                deleted.push((changed.ctime(), changed.ctime_nsec(), path));
            }
        }
        deleted.sort();
        let more = deleted.len().saturating_sub(DELETED_MAX);
        let mut first = deleted.into_iter().take(more);
        first.try_for_each(|(_, _, path)| fs::remove_file(path))
    }
}

fn is_service_file(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str);
    let is_hidden = name.is_some_and(|name| name.starts_with('.'));
    !is_hidden && has_ending(path) && path.is_file()
}

fn has_ending(path: &Path) -> bool {
    let ending = path.extension().and_then(OsStr::to_str);
    ending.is_some_and(|ending| ENDINGS.contains(&ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(files: &[PathBuf]) -> Vec<String> {
        let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        files.iter().map(name).collect()
    }

    #[test]
    fn services_are_the_visible_yaml_and_json_files() {
        let temporary = tempfile::tempdir().unwrap();
        let at = |name: &str| temporary.path().join(name);
        fs::create_dir_all(at("profiles")).unwrap();
        fs::create_dir_all(at("folder.yaml")).unwrap();
        for name in [
            "b.yaml",
            "a.json",
            "c.yml",
            ".hidden.yaml",
            "a.yaml.new",
            "d.yaml.deleted",
            "keys",
            "README.md",
            "profiles/p.yaml",
        ] {
            fs::write(at(name), "").unwrap();
        }
        std::os::unix::fs::symlink(at("keys"), at("link.yaml")).unwrap();
        let folder = ServiceFolder::new(temporary.path());
        let all = ["a.json", "b.yaml", "c.yml", "link.yaml"];
        assert_eq!(names(&folder.files(64).unwrap()), all);
        assert_eq!(folder.files(2).unwrap().len(), 3, "one more");
        assert!(ServiceFolder::new(&at("none")).files(64).is_err());
    }

    #[test]
    fn file_is_created_whole_and_never_in_place_of_another() {
        let temporary = tempfile::tempdir().unwrap();
        let at = |name: &str| temporary.path().join(name);
        let folder = ServiceFolder::new(temporary.path());
        let file = folder.create("a", b"content").unwrap();
        assert_eq!(file.path(), at("a.yaml"));
        assert_eq!(fs::read(at("a.yaml")).unwrap(), b"content");
        fs::write(at("b.json"), "by hand").unwrap();
        for name in ["a", "b"] {
            let refused = folder.create(name, b"other").unwrap_err();
            assert!(matches!(refused, ReplaceError::Exists(_)), "{refused}");
        }
        // A folder in the place of the file that is written.
        fs::create_dir(at("c.yaml.new")).unwrap();
        let failed = folder.create("c", b"other").unwrap_err();
        assert!(matches!(failed, ReplaceError::Io { .. }), "{failed}");
        let all = folder.files(64).unwrap();
        assert_eq!(names(&all), ["a.yaml", "b.json"]);
        assert_eq!(fs::read(at("b.json")).unwrap(), b"by hand");
    }

    #[test]
    fn deleted_files_are_limited_and_others_stay() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = ServiceFolder::new(temporary.path());
        fs::write(temporary.path().join("notes.deleted"), "mine").unwrap();
        for index in 0..DELETED_MAX + 3 {
            let file = folder.create(&format!("s{index}"), b"x").unwrap();
            file.delete(b"x").unwrap();
            folder.forget_deleted().unwrap();
        }
        let left = fs::read_dir(temporary.path()).unwrap().count();
        assert_eq!(left, DELETED_MAX + 1);
        // Several may have been deleted in the same tick of the file system's clock.
        for (name, is_kept) in [("s0", false), ("s66", true)] {
            let path = temporary.path().join(format!("{name}.yaml.deleted"));
            assert_eq!(path.exists(), is_kept, "{name}");
        }
    }
}
