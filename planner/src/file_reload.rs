//! Values made from files, and made again when the files change. A change that is not valid leaves the earlier
//! value in use, and is logged once. Neither values nor contents are printed.

use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use crate::error_log::ErrorLog;

/// Interval at which the files are read again.
pub const REREAD_EVERY: Duration = Duration::from_secs(2);

/// Reason why a file could not be read.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message is its documentation")]
pub enum FileError {
    #[error("{path}: {error}")]
    NotRead {
        path: PathBuf,
        error: std::io::Error,
    },
    #[error("{path}: too large; it must have at most {bytes_max} bytes")]
    TooLarge { path: PathBuf, bytes_max: u64 },
}

type Make<T> = dyn Fn(&[Vec<u8>]) -> Result<T, String> + Send + Sync;

struct Files<T> {
    paths: Vec<PathBuf>,
    bytes_max: u64,
    contents: Vec<Vec<u8>>,
    make: Box<Make<T>>,
}

/// A value that follows the content of files.
pub struct Reloaded<T> {
    name: String,
    files: Option<Files<T>>,
    value: watch::Sender<Arc<T>>,
}

impl<T: Send + Sync + 'static> Reloaded<T> {
    /// Holds a value that no file changes.
    pub fn fixed(value: T) -> Reloaded<T> {
        Reloaded {
            name: String::new(),
            files: None,
            value: watch::Sender::new(Arc::new(value)),
        }
    }

    /// Reads `paths`, each of at most `bytes_max` bytes, and makes the value of their contents. `name` is the
    /// values' name in the log.
    ///
    /// # Errors
    /// Fails if a file cannot be read, or if `make` fails.
    pub fn read<E: From<FileError> + From<String>>(
        name: &str,
        paths: Vec<PathBuf>,
        bytes_max: u64,
        make: impl Fn(&[Vec<u8>]) -> Result<T, String> + Send + Sync + 'static,
    ) -> Result<Reloaded<T>, E> {
        let contents = read_all(&paths, bytes_max)?;
        let value = make(&contents)?;
        Ok(Reloaded {
            name: name.to_owned(),
            files: Some(Files {
                paths,
                bytes_max,
                contents,
                make: Box::new(make),
            }),
            value: watch::Sender::new(Arc::new(value)),
        })
    }

    /// Returns the current value.
    pub fn current(&self) -> Arc<T> {
        Arc::clone(&self.value.borrow())
    }

    /// Reads the files every [`REREAD_EVERY`] and replaces the value when they have changed; never returns.
    pub async fn follow(&self) {
        let Some(files) = &self.files else {
            return std::future::pending().await;
        };
        let mut contents = files.contents.clone();
        let mut log = ErrorLog::default();
        loop {
            sleep(REREAD_EVERY).await;
            match self.reread(files, &mut contents).await {
                Ok(Reading::Same) => {}
                Ok(Reading::Changed) => {
                    tracing::info!("{}: changed, and read again", self.name);
                    log.went_well(&self.name);
                }
                Err(error) => log.failed(&self.name, &error, "the earlier ones stay in use"),
            }
        }
    }

    async fn reread(
        &self,
        files: &Files<T>,
        contents: &mut Vec<Vec<u8>>,
    ) -> Result<Reading, String> {
        let (paths, bytes_max) = (files.paths.clone(), files.bytes_max);
        let reading = tokio::task::spawn_blocking(move || read_all(&paths, bytes_max));
        let read = reading.await.map_err(|error| error.to_string())?;
        let read = read.map_err(|error| error.to_string())?;
        if read == *contents {
            return Ok(Reading::Same);
        }
        *contents = read;
        let value = (files.make)(contents)?;
        self.value.send_replace(Arc::new(value));
        Ok(Reading::Changed)
    }
}

impl<T> fmt::Debug for Reloaded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reloaded").finish_non_exhaustive()
    }
}

enum Reading {
    Same,
    Changed,
}

fn read_all(paths: &[PathBuf], bytes_max: u64) -> Result<Vec<Vec<u8>>, FileError> {
    paths.iter().map(|path| read(path, bytes_max)).collect()
}

fn read(path: &Path, bytes_max: u64) -> Result<Vec<u8>, FileError> {
    let not_read = |error| FileError::NotRead {
        path: path.to_owned(),
        error,
    };
    let file = std::fs::File::open(path).map_err(not_read)?;
    let mut content = Vec::new();
    let mut limited = file.take(bytes_max.saturating_add(1));
    limited.read_to_end(&mut content).map_err(not_read)?;
    if content.len() as u64 > bytes_max {
        let path = path.to_owned();
        return Err(FileError::TooLarge { path, bytes_max });
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Refused(String);

    impl From<String> for Refused {
        fn from(why: String) -> Refused {
            Refused(why)
        }
    }

    impl From<FileError> for Refused {
        fn from(error: FileError) -> Refused {
            Refused(error.to_string())
        }
    }

    fn number(contents: &[Vec<u8>]) -> Result<u32, String> {
        let text = String::from_utf8_lossy(&contents[0]).into_owned();
        text.trim().parse().map_err(|_| "no number".to_owned())
    }

    fn reload(path: &Path, bytes_max: u64) -> Result<Reloaded<u32>, Refused> {
        Reloaded::read("number", vec![path.to_owned()], bytes_max, number)
    }

    #[tokio::test]
    async fn value_follows_file_and_survives_invalid_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("number");
        std::fs::write(&path, "1\n").unwrap();
        let value = reload(&path, 100).unwrap();
        let files = value.files.as_ref().unwrap();
        let mut contents = files.contents.clone();
        // content (`None`: no file), whether it is refused, value in use
        for (content, is_refused, current) in [
            (Some("1\n"), false, 1),
            (Some("2\n"), false, 2),
            (Some("many"), true, 2),
            (None, true, 2),
            (Some("3"), false, 3),
        ] {
            match content {
                Some(content) => std::fs::write(&path, content).unwrap(),
                None => std::fs::remove_file(&path).unwrap(),
            }
            let read = value.reread(files, &mut contents).await;
            assert_eq!(read.is_err(), is_refused, "{content:?}");
            assert_eq!(*value.current(), current, "{content:?}");
        }
    }

    #[test]
    fn file_at_limit_is_read_and_larger_one_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "0000000007").unwrap();
        assert_eq!(*reload(file.path(), 10).unwrap().current(), 7);
        let refused = reload(file.path(), 9).unwrap_err().0;
        assert!(refused.ends_with("at most 9 bytes"), "{refused}");
        let refused = reload(Path::new("/no/such/file"), 9).unwrap_err().0;
        assert!(refused.starts_with("/no/such/file: "), "{refused}");
    }
}
