//! Text of a source: a file, or the answer of an address. Its size is limited.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use reqwest::Url;

use crate::ProfileError;

/// Maximum size of a source, in bytes.
pub const SOURCE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Maximum time of an answer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);

/// Source of numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// File.
    File(PathBuf),
    /// Address that is read with GET.
    Url(Url),
}

impl Source {
    /// Returns the address that a text with a scheme is, else the file of that path.
    ///
    /// # Errors
    /// A text with a scheme that is no address.
    pub fn of(text: &str) -> Result<Source, ProfileError> {
        if !text.starts_with("http://") && !text.starts_with("https://") {
            return Ok(Source::File(PathBuf::from(text)));
        }
        let url = Url::parse(text).map_err(|error| {
            ProfileError(format!(
                "{text}: {error}; it must be a path, or an address of HTTP"
            ))
        })?;
        Ok(Source::Url(url))
    }

    /// Reads the whole text.
    ///
    /// # Errors
    /// No such file, no answer with status 200, more than [`SOURCE_BYTES_MAX`], or no UTF-8.
    pub async fn read(&self) -> Result<String, ProfileError> {
        let failed = |why: String| ProfileError(format!("{self}: {why}"));
        let body = match self {
            Source::File(path) => {
                let mut body = Vec::new();
                let most = SOURCE_BYTES_MAX as u64 + 1;
                let read = File::open(path).and_then(|file| file.take(most).read_to_end(&mut body));
                read.map_err(|error| failed(error.to_string()))?;
                body
            }
            Source::Url(url) => self.answer(url).await?,
        };
        if body.len() > SOURCE_BYTES_MAX {
            let right = format!("more than {SOURCE_BYTES_MAX} bytes; it must be at most that");
            return Err(failed(right));
        }
        String::from_utf8(body).map_err(|_| failed("not UTF-8 text".to_owned()))
    }

    async fn answer(&self, url: &Url) -> Result<Vec<u8>, ProfileError> {
        let failed = |error: reqwest::Error| {
            let mut cause: &dyn std::error::Error = &error;
            while let Some(inner) = cause.source() {
                cause = inner;
            }
            ProfileError(format!("{url}: {cause}"))
        };
        let client = reqwest::Client::builder().timeout(ANSWER_TIME_MAX).build();
        let get = client.map_err(failed)?.get(url.clone());
        let mut answer = get.send().await.map_err(failed)?;
        if answer.status() != reqwest::StatusCode::OK {
            let status = answer.status();
            return Err(ProfileError(format!(
                "{url}: status {status}; it must be 200"
            )));
        }
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(failed)? {
            body.extend_from_slice(&chunk);
            if body.len() > SOURCE_BYTES_MAX {
                break;
            }
        }
        Ok(body)
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Source::File(path) => path.display().fmt(to),
            Source::Url(url) => url.fmt(to),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn file_is_read_up_to_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        let source = |name: &str, text: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            Source::of(path.to_str().unwrap()).unwrap()
        };
        assert_eq!(source("a", b"x\n").read().await.unwrap(), "x\n");
        let vast = vec![b'#'; SOURCE_BYTES_MAX + 1];
        for (source, expected) in [
            (source("b", &vast), "more than 8388608 bytes"),
            (source("c", &[0xff]), "not UTF-8 text"),
            (Source::File(folder.path().join("none")), "No such file"),
        ] {
            let error = source.read().await.unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn text_with_a_scheme_is_an_address() {
        assert_eq!(Source::of("a.csv").unwrap(), Source::File("a.csv".into()));
        let url = "http://127.0.0.1:1/metrics";
        assert_eq!(Source::of(url).unwrap().to_string(), url);
        let error = Source::of("http://[/").unwrap_err().to_string();
        assert!(
            error.contains("it must be a path, or an address of HTTP"),
            "{error}"
        );
    }
}
