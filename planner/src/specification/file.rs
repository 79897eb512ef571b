//! Service file that may be replaced or deleted while the planner runs: atomically, and only if it still is as it was
//! read, so that nobody's edit is lost.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use tokio::sync::{Mutex, MutexGuard};

/// Ending of a file that is being written.
const NEW: &str = ".new";
/// Ending of a file that was deleted.
pub(super) const DELETED: &str = ".deleted";

/// Service file that may be replaced.
#[derive(Debug)]
pub struct WritableFile {
    /// Path as named, to which profiles are relative.
    path: PathBuf,
    /// The file itself, behind symbolic links.
    target: PathBuf,
    /// Content as it was last read or written. Locked by the one that replaces it.
    content: Mutex<Vec<u8>>,
}

/// Reason why a file was not written or deleted.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message is its documentation")]
pub enum ReplaceError {
    #[error(
        "{0}: it was edited or removed since the planner read it; start the planner again with it"
    )]
    Edited(PathBuf),
    #[error(
        "{0}: it is in the folder already, and the planner has not read it; start the planner again with it, or remove it"
    )]
    Exists(PathBuf),
    #[error("{path}: {error}")]
    Io { path: PathBuf, error: io::Error },
}

impl WritableFile {
    /// Creates the file at `path`, of which `content` was read. A symbolic link stays; the file behind it is replaced.
    pub fn new(path: &Path, content: Vec<u8>) -> WritableFile {
        WritableFile {
            path: path.to_owned(),
            target: fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()),
            content: Mutex::new(content),
        }
    }

    /// Returns the path as named.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Locks the content: one client at a time replaces it.
    pub async fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.content.lock().await
    }

    /// Replaces the file by `new`, if it still has the content `before`.
    ///
    /// # Errors
    /// Fails if it has another content, or cannot be read or written; then it stays as it is.
    pub fn replace(&self, before: &[u8], new: &[u8]) -> Result<(), ReplaceError> {
        if !self.is_still(before)? {
            return Err(ReplaceError::Edited(self.path.clone()));
        }
        let permissions = fs::metadata(&self.target).map(|data| data.permissions());
        let permissions = permissions.map_err(|error| self.failed(error))?;
        write_whole(&self.target, new, Some(permissions)).map_err(|error| self.failed(error))
    }

    /// Renames the file, if it still has the content `before`, so that no start reads it and an operator can get it back:
    /// `.deleted` is put behind its name, in place of one that was deleted before. Returns the new path.
    ///
    /// # Errors
    /// Fails if it has another content, or cannot be read or renamed; then it stays as it is.
    pub fn delete(&self, before: &[u8]) -> Result<PathBuf, ReplaceError> {
        if !self.is_still(before)? {
            return Err(ReplaceError::Edited(self.path.clone()));
        }
        let deleted = beside(&self.path, DELETED);
        let renamed = fs::rename(&self.path, &deleted);
        let renamed = renamed.and_then(|()| sync_folder(&self.path));
        renamed.map_err(|error| self.failed(error))?;
        Ok(deleted)
    }

    fn is_still(&self, before: &[u8]) -> Result<bool, ReplaceError> {
        match fs::read(&self.target) {
            Ok(content) => Ok(content == before),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn failed(&self, error: io::Error) -> ReplaceError {
        let path = self.path.clone();
        ReplaceError::Io { path, error }
    }
}

/// Writes a file: readers see the earlier content, or none, or the new one. If it fails, nothing of the new one is left.
pub(super) fn write_whole(
    path: &Path,
    content: &[u8],
    permissions: Option<fs::Permissions>,
) -> io::Result<()> {
    let new = beside(path, NEW);
    let write = || {
        let mut file = File::create(&new)?;
        if let Some(permissions) = permissions {
            file.set_permissions(permissions)?;
        }
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        sync_folder(path)
    };
    let written = write();
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}

/// Writes the names in the folder of a file to the disk, so that none is lost with the machine's power.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Returns the path with an ending behind it.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(ending);
    PathBuf::from(beside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_replaced_whole_and_only_if_nobody_edited_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("service.yaml");
        fs::write(&path, "a").unwrap();
        let link = folder.path().join("link.yaml");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let file = WritableFile::new(&link, b"a".to_vec());
        file.replace(b"a", b"b").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"b");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let edited = file.replace(b"a", b"c").unwrap_err();
        assert!(matches!(edited, ReplaceError::Edited(_)), "{edited}");
        // A folder in the place of the file beside it.
        fs::create_dir(folder.path().join("service.yaml.new")).unwrap();
        let failed = file.replace(b"b", b"c").unwrap_err();
        assert!(matches!(failed, ReplaceError::Io { .. }), "{failed}");
        assert_eq!(fs::read(&path).unwrap(), b"b");
    }

    #[test]
    fn deleted_file_can_be_had_back_and_edited_one_is_not_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.yaml");
        fs::write(&path, "edited").unwrap();
        let file = WritableFile::new(&path, b"a".to_vec());
        let edited = file.delete(b"a").unwrap_err();
        assert!(matches!(edited, ReplaceError::Edited(_)), "{edited}");
        for content in ["a", "a, later"] {
            fs::write(&path, content).unwrap();
            let deleted = file.delete(content.as_bytes()).unwrap();
            assert_eq!(deleted, folder.path().join("a.yaml.deleted"));
            assert_eq!(fs::read_to_string(&deleted).unwrap(), content);
            assert!(!path.exists());
        }
        for missing in [file.delete(b"a").map(|_| ()), file.replace(b"a", b"b")] {
            let error = missing.unwrap_err();
            assert!(matches!(error, ReplaceError::Edited(_)), "{error}");
        }
        // A folder in the place of the deleted file.
        fs::write(&path, "a").unwrap();
        fs::remove_file(folder.path().join("a.yaml.deleted")).unwrap();
        fs::create_dir_all(folder.path().join("a.yaml.deleted/x")).unwrap();
        let failed = file.delete(b"a").unwrap_err();
        assert!(matches!(failed, ReplaceError::Io { .. }), "{failed}");
        assert_eq!(fs::read(&path).unwrap(), b"a");
    }
}
