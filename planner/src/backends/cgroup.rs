//! CPU quota of a control group on this host: cores of a server that runs without Kubernetes (cgroup v2 `cpu.max`, v1
//! `cpu.cfs_quota_us`). A systemd unit and a container are control groups too. The kernel obeys a quota at once, so a
//! quota that was read back is the actual cores.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use weir_api::Cores;

use super::{ActuateError, BackendError, Reason};

/// Folder where the kernel shows control groups.
pub const ROOT: &str = "/sys/fs/cgroup";
/// Folders below it with the CPU controller: of version 2; of version 1, alone and with accounting.
const MOUNTS: [&str; 3] = ["", "cpu", "cpu,cpuacct"];
/// Period of a quota, as of Kubernetes, in µs.
const PERIOD_US: f64 = 100_000.0;
/// Minimum quota that the kernel accepts, in µs.
const QUOTA_MIN_US: f64 = 1_000.0;
/// Minimum cores that a quota can give.
pub const CORES_MIN: f64 = QUOTA_MIN_US / PERIOD_US;
/// Maximum bytes read of a control file.
const FILE_BYTES_MAX: u64 = 256;

/// Reason why a control group's quota cannot be read or set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message is its documentation")]
pub enum CgroupError {
    #[error(
        "{0}; it must be a control group with a CPU controller: it has no cpu.max (v2) and no cpu.cfs_quota_us (v1)"
    )]
    NoController(String),
    #[error(
        "{0}: it does not exist; it must be the folder of a control group, below {ROOT} (v2) or {ROOT}/cpu (v1)"
    )]
    NoFolder(String),
    #[error(
        "cgroup: {name}; it must be a control group of this host: there is none below {root}; is the server running, \
         and the planner on its host?"
    )]
    Missing { name: String, root: String },
    #[error("{path}: {error}{hint}")]
    File {
        path: String,
        error: String,
        kind: ErrorKind,
        hint: &'static str,
    },
    #[error("{path}: '{text}'; it must be a quota and a period in µs")]
    Content { path: String, text: String },
    #[error("cores: {0}; it must be {CORES_MIN} or more, the kernel's least quota")]
    TooFew(String),
}

/// Control group with a CPU controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cgroup {
    folder: PathBuf,
    version: Version,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// CPU time in each period, in µs; without a limit it is `max` in version 2 and `-1` in version 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quota {
    time: String,
    period: String,
}

impl Cgroup {
    /// Opens the control group of that folder, such as `/sys/fs/cgroup/small`.
    ///
    /// # Errors
    /// There is no such folder, or it is no control group with a CPU controller.
    pub fn open(folder: &Path) -> Result<Cgroup, CgroupError> {
        if !folder.is_dir() {
            return Err(CgroupError::NoFolder(folder.display().to_string()));
        }
        let has = |file: &str| folder.join(file).is_file();
        let version = if has("cpu.max") {
            Version::Two
        } else if has("cpu.cfs_quota_us") {
            Version::One
        } else {
            return Err(CgroupError::NoController(folder.display().to_string()));
        };
        let folder = folder.to_owned();
        Ok(Cgroup { folder, version })
    }

    /// Folder of the control group.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Finds the control group of that name below `root`, which is [`ROOT`] but in tests.
    ///
    /// # Errors
    /// There is none, or none with a CPU controller.
    pub fn find(root: &Path, name: &str) -> Result<Cgroup, CgroupError> {
        let folders = MOUNTS.map(|mount| root.join(mount).join(name));
        let mut found = Err(CgroupError::Missing {
            name: name.to_owned(),
            root: root.display().to_string(),
        });
        for folder in folders.iter().filter(|folder| folder.is_dir()) {
            match (Cgroup::open(folder), &found) {
                (Ok(group), _) => return Ok(group),
                (Err(error), Err(CgroupError::Missing { .. })) => found = Err(error),
                (Err(_), _) => {}
            }
        }
        found
    }

    /// Returns the quota.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn quota(&self) -> Result<Quota, CgroupError> {
        match self.version {
            Version::Two => {
                let text = self.read("cpu.max")?;
                let (time, period) = text.split_once(' ').unwrap_or((&text, "100000"));
                Ok(Quota::new(time, period))
            }
            Version::One => Ok(Quota {
                time: self.read("cpu.cfs_quota_us")?,
                period: self.read("cpu.cfs_period_us")?,
            }),
        }
    }

    /// Returns the cores that the quota gives; `None` without a limit.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn cores(&self) -> Result<Option<Cores>, CgroupError> {
        let quota = self.quota()?;
        quota.cores().map_err(|text| CgroupError::Content {
            path: self.folder.display().to_string(),
            text,
        })
    }

    /// Sets the quota to `cores`.
    ///
    /// # Errors
    /// It cannot be written, or is too small for the kernel.
    pub fn set(&self, cores: f64) -> Result<(), CgroupError> {
        let quota_us = (cores * PERIOD_US).round();
        if quota_us < QUOTA_MIN_US {
            return Err(CgroupError::TooFew(cores.to_string()));
        }
        self.set_quota(&Quota::new(&quota_us.to_string(), &PERIOD_US.to_string()))
    }

    /// Sets the quota.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn set_quota(&self, quota: &Quota) -> Result<(), CgroupError> {
        let Quota { time, period } = quota;
        if self.version == Version::Two {
            return self.write("cpu.max", &format!("{time} {period}"));
        }
        if self.read("cpu.cfs_period_us")? != *period {
            // With the new period the old quota may be more than the parent group allows.
            self.write("cpu.cfs_quota_us", "-1")?;
            self.write("cpu.cfs_period_us", period)?;
        }
        self.write("cpu.cfs_quota_us", time)
    }

    fn read(&self, file: &str) -> Result<String, CgroupError> {
        let path = self.folder.join(file);
        let mut text = String::new();
        let read =
            File::open(&path).and_then(|open| open.take(FILE_BYTES_MAX).read_to_string(&mut text));
        read.map_err(|error| failed(&path, &error))?;
        Ok(text.trim().to_owned())
    }

    /// Writes without creating a file: a group that has ended has none.
    fn write(&self, file: &str, text: &str) -> Result<(), CgroupError> {
        let path = self.folder.join(file);
        let open = File::options().write(true).truncate(true).open(&path);
        let written = open.and_then(|mut open| open.write_all(text.as_bytes()));
        written.map_err(|error| failed(&path, &error))
    }
}

impl Quota {
    fn new(time: &str, period: &str) -> Quota {
        Quota {
            time: time.to_owned(),
            period: period.to_owned(),
        }
    }

    /// Cores, or `None` without a limit; an error is the text.
    fn cores(&self) -> Result<Option<Cores>, String> {
        let number = |text: &str| text.parse::<f64>().ok().filter(|us| *us > 0.0);
        if matches!(self.time.as_str(), "max" | "-1") {
            return Ok(None);
        }
        let both = number(&self.time).zip(number(&self.period));
        let cores = both.and_then(|(time, period)| Cores::try_from(time / period).ok());
        cores.map_or_else(
            || Err(format!("{} {}", self.time, self.period)),
            |it| Ok(Some(it)),
        )
    }
}

impl From<CgroupError> for ActuateError {
    fn from(error: CgroupError) -> ActuateError {
        let reason = match &error {
            CgroupError::NoController(_) | CgroupError::NoFolder(_) => Reason::NotResizable,
            CgroupError::Missing { .. } => Reason::NoWorkload,
            CgroupError::File { kind, .. } => match kind {
                ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Reason::Forbidden,
                ErrorKind::NotFound => Reason::NoWorkload,
                _ => Reason::Refused,
            },
            CgroupError::Content { .. } => Reason::Unknown,
            CgroupError::TooFew(_) => Reason::Refused,
        };
        ActuateError::Backend(BackendError {
            reason,
            message: error.to_string(),
            indeterminate: false,
        })
    }
}

fn failed(path: &Path, error: &std::io::Error) -> CgroupError {
    let hint = match error.kind() {
        ErrorKind::PermissionDenied => "; it needs the right to write there, such as root's",
        ErrorKind::ReadOnlyFilesystem => {
            "; it needs control groups mounted for writing, as on the host itself"
        }
        ErrorKind::InvalidInput => "; a parent group may allow less",
        _ => "",
    };
    CgroupError::File {
        path: path.display().to_string(),
        error: error.to_string(),
        kind: error.kind(),
        hint,
    }
}

/// Server whose cores are the quota of a control group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgroupServer {
    /// Folder of all control groups, [`ROOT`] but in tests.
    pub root: PathBuf,
    /// Name of the group below it.
    pub name: String,
    /// Cores that the server can use at most.
    pub max: Cores,
}

impl CgroupServer {
    /// Sets the cores, if given, and returns the actual ones. Without a limit they are those of the machine, as far as
    /// the server can use them.
    ///
    /// # Errors
    /// The group is not there, or its quota cannot be read or set; it is then as it was.
    pub fn apply(&self, cores: Option<Cores>) -> Result<Cores, ActuateError> {
        let group = Cgroup::find(&self.root, &self.name)?;
        if let Some(cores) = cores {
            group.set(cores.as_f64())?;
        }
        let machine = || {
            let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
            let cpus = Cores::whole(u32::try_from(cpus).unwrap_or(u32::MAX));
            cpus.min(self.max)
        };
        Ok(group.cores()?.unwrap_or_else(machine))
    }
}

#[cfg(test)]
mod tests;
