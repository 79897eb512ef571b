//! CPU quota of a control group: cores of a server that runs without Kubernetes (cgroup v2 `cpu.max`, v1
//! `cpu.cfs_quota_us`).

use std::fs;
use std::path::{Path, PathBuf};

use crate::ProfileError;

/// Period of a quota, as of Kubernetes, in µs.
const PERIOD_US: f64 = 100_000.0;
/// Minimum quota that the kernel accepts, in µs.
const QUOTA_MIN_US: f64 = 1_000.0;

/// Control group with a CPU quota, which is restored when this is dropped.
#[derive(Debug)]
pub struct Cgroup {
    folder: PathBuf,
    version: Version,
    before: Quota,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// CPU time in each period, in µs; without a limit it is `max` in version 2 and `-1` in version 1.
#[derive(Debug)]
struct Quota {
    time: String,
    period: String,
}

impl Cgroup {
    /// Opens the control group of that folder, such as `/sys/fs/cgroup/small`.
    ///
    /// # Errors
    /// The folder is no control group with a CPU controller, or its quota cannot be read.
    pub fn open(folder: &Path) -> Result<Cgroup, ProfileError> {
        let has = |file: &str| folder.join(file).is_file();
        let read = |file: &str| {
            let path = folder.join(file);
            let text = fs::read_to_string(&path).map_err(|error| failed(&path, &error))?;
            Ok::<String, ProfileError>(text.trim().to_owned())
        };
        let (version, before) = if has("cpu.max") {
            let text = read("cpu.max")?;
            let (time, period) = text.split_once(' ').unwrap_or((&text, "100000"));
            (Version::Two, Quota::new(time, period))
        } else if has("cpu.cfs_quota_us") {
            let (time, period) = (read("cpu.cfs_quota_us")?, read("cpu.cfs_period_us")?);
            (Version::One, Quota { time, period })
        } else {
            let right = "a control group with a CPU controller: it has no cpu.max (v2) and no cpu.cfs_quota_us (v1)";
            let folder = folder.display();
            return Err(ProfileError(format!("{folder}; it must be {right}")));
        };
        Ok(Cgroup {
            folder: folder.to_owned(),
            version,
            before,
        })
    }

    /// Sets the quota to `cores`.
    ///
    /// # Errors
    /// The file cannot be written, or the quota is too small for the kernel.
    pub fn set(&self, cores: f64) -> Result<(), ProfileError> {
        let quota_us = (cores * PERIOD_US).round();
        if quota_us < QUOTA_MIN_US {
            let least = QUOTA_MIN_US / PERIOD_US;
            let text =
                format!("cores: {cores}; it must be {least} or more, the kernel's least quota");
            return Err(ProfileError(text));
        }
        self.write(&Quota::new(&quota_us.to_string(), &PERIOD_US.to_string()))
    }

    /// Restores the quota as it was when the group was opened.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn restore(&self) -> Result<(), ProfileError> {
        self.write(&self.before)
    }

    fn write(&self, quota: &Quota) -> Result<(), ProfileError> {
        let write = |file: &str, text: &str| {
            let path = self.folder.join(file);
            fs::write(&path, text).map_err(|error| failed(&path, &error))
        };
        let Quota { time, period } = quota;
        match self.version {
            Version::Two => write("cpu.max", &format!("{time} {period}")),
            Version::One => {
                // With the new period the old quota may be more than the parent group allows.
                write("cpu.cfs_quota_us", "-1")?;
                write("cpu.cfs_period_us", period)?;
                write("cpu.cfs_quota_us", time)
            }
        }
    }
}

impl Quota {
    fn new(time: &str, period: &str) -> Quota {
        Quota {
            time: time.to_owned(),
            period: period.to_owned(),
        }
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Nobody is left to be told; `restore` says what fails.
        let _ = self.restore();
    }
}

fn failed(path: &Path, error: &std::io::Error) -> ProfileError {
    let right = match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            "; it needs the right to write there, such as root's"
        }
        _ => "",
    };
    ProfileError(format!("{}: {error}{right}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (file, text) in files {
            fs::write(folder.path().join(file), text).unwrap();
        }
        folder
    }

    #[test]
    fn quota_is_set_and_restored_in_both_versions() {
        let one = [
            ("cpu.cfs_period_us", "20000\n"),
            ("cpu.cfs_quota_us", "-1\n"),
        ];
        for (files, expected) in [
            (
                &[("cpu.max", "max 100000\n")][..],
                &[("cpu.max", "150000 100000")][..],
            ),
            (
                &one,
                &[
                    ("cpu.cfs_period_us", "100000"),
                    ("cpu.cfs_quota_us", "150000"),
                ],
            ),
        ] {
            let folder = folder(files);
            let group = Cgroup::open(folder.path()).unwrap();
            let text = |file: &str| fs::read_to_string(folder.path().join(file)).unwrap();
            group.set(1.5).unwrap();
            for (file, expected) in expected {
                assert_eq!(text(file), *expected);
            }
            group.restore().unwrap();
            for (file, before) in files {
                assert_eq!(text(file), before.trim());
            }
        }
    }

    #[test]
    fn wrong_groups_and_quotas_are_refused() {
        let empty = folder(&[]);
        let error = Cgroup::open(empty.path()).unwrap_err().to_string();
        assert!(
            error.contains("it must be a control group with a CPU controller"),
            "{error}"
        );
        let folder = folder(&[("cpu.max", "max 100000")]);
        let group = Cgroup::open(folder.path()).unwrap();
        let error = group.set(0.001).unwrap_err().to_string();
        assert_eq!(
            error,
            "cores: 0.001; it must be 0.01 or more, the kernel's least quota"
        );
    }
}
