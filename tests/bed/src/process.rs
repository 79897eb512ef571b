//! One child process that does not outlive this one.
//!
//! It is killed and waited for on drop. A watchdog kills it if this process is itself killed and
//! drops nothing.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};

use anyhow::{Context, Result};

/// Reads the child's id, then reads until the pipe closes, which the end of this process does at
/// the latest; then kills the child.
const WATCHDOG: &str = "read -r id && { while read -r _; do :; done; kill -KILL \"$id\"; }";

/// A child and its watchdog.
#[derive(Debug)]
pub struct Process {
    child: Child,
    watchdog: Watchdog,
}

/// A shell at the other end of a pipe.
#[derive(Debug)]
struct Watchdog {
    shell: Child,
    pipe: Option<ChildStdin>,
}

impl Process {
    /// Starts `command` with all its output in the file `log`.
    pub fn spawn(command: &mut Command, log: &Path) -> Result<Self> {
        let file = File::create(log).with_context(|| format!("cannot create {}", log.display()))?;
        let errors = file.try_clone().context("cannot share the log")?;
        command.stdin(Stdio::null()).stdout(file).stderr(errors);
        let shown = Path::new(command.get_program()).display().to_string();
        // The watchdog starts first, so that only the write of the id follows the start of the
        // child.
        let watchdog = Watchdog::spawn()?;
        let child = command
            .spawn()
            .with_context(|| format!("cannot run {shown}"))?;
        let mut process = Self { child, watchdog };
        process.watchdog.watch(process.child.id())?;
        Ok(process)
    }

    /// The child's process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it, and waits until it has ended.
    pub fn kill(&mut self) -> Result<()> {
        // As when dropped, the watchdog ends first.
        end(&mut self.watchdog.shell);
        self.child.kill().context("cannot kill the child")?;
        self.child.wait().context("cannot wait for the child")?;
        Ok(())
    }

    /// Its exit status, if it has exited.
    pub fn exited(&mut self) -> Result<Option<ExitStatus>> {
        self.child
            .try_wait()
            .context("cannot ask for the child's state")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The watchdog ends first: once the child has been waited for, its id may be reused.
        end(&mut self.watchdog.shell);
        end(&mut self.child);
    }
}

impl Watchdog {
    fn spawn() -> Result<Self> {
        let mut shell = Command::new("sh")
            .args(["-c", WATCHDOG])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot run sh")?;
        let pipe = shell.stdin.take();
        Ok(Self { shell, pipe })
    }

    fn watch(&mut self, id: u32) -> Result<()> {
        let pipe = self.pipe.as_mut().context("the watchdog has no pipe")?;
        writeln!(pipe, "{id}").context("the watchdog does not read its pipe")
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        end(&mut self.shell);
    }
}

/// Kills and waits; does nothing to a child that has already been waited for.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_watchdog_pipe_kills_child() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sleep");
        let mut process = Process::spawn(command.arg("600"), &folder.path().join("log")).unwrap();
        assert_eq!(process.exited().unwrap(), None);
        // As the kernel does for a killed process.
        drop(process.watchdog.pipe.take());
        assert!(!process.child.wait().unwrap().success());
    }

    #[test]
    fn missing_program_is_named_in_error() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("/nonesuch/envoy");
        let error = Process::spawn(&mut command, &folder.path().join("log")).unwrap_err();
        assert!(
            format!("{error:#}").contains("/nonesuch/envoy"),
            "{error:#}"
        );
    }
}
