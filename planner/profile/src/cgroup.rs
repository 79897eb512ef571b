//! Control group of the measured server, whose CPU quota is restored at the end.

use std::path::Path;

use weir_planner::backends::cgroup::{self, CgroupError, Quota};

use crate::ProfileError;

/// Control group with a CPU quota, which is restored when this is dropped.
#[derive(Debug)]
pub struct Cgroup {
    group: cgroup::Cgroup,
    before: Quota,
}

impl Cgroup {
    /// Opens the control group of that folder, such as `/sys/fs/cgroup/small`.
    ///
    /// # Errors
    /// The folder is no control group with a CPU controller, or its quota cannot be read.
    pub fn open(folder: &Path) -> Result<Cgroup, ProfileError> {
        let group = cgroup::Cgroup::open(folder)?;
        let before = group.quota()?;
        Ok(Cgroup { group, before })
    }

    /// Sets the quota to `cores`.
    ///
    /// # Errors
    /// The file cannot be written, or the quota is too small for the kernel.
    pub fn set(&self, cores: f64) -> Result<(), ProfileError> {
        Ok(self.group.set(cores)?)
    }

    /// Restores the quota as it was when the group was opened.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn restore(&self) -> Result<(), ProfileError> {
        Ok(self.group.set_quota(&self.before)?)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Nobody is left to be told; `restore` says what fails.
        let _ = self.restore();
    }
}

impl From<CgroupError> for ProfileError {
    fn from(error: CgroupError) -> ProfileError {
        ProfileError(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

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
