//! `test --kubeconfig PATH`: runs only the Kubernetes tests, on that cluster.
//!
//! Splits the arguments; `tests/kubernetes/cluster` determines what is done on the cluster.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::layout::Layout;
use crate::setup::Tools;
use crate::{compile, replace};

/// Environment variable with the cluster's kubeconfig, read by the tests.
const KUBECONFIG: &str = "WEIR_KUBECONFIG";
const FLAG: &str = "--kubeconfig";

/// Returns the path after `--kubeconfig`, if given, and the other arguments.
pub(crate) fn kubeconfig(
    typed: impl Iterator<Item = OsString>,
) -> Result<(Option<PathBuf>, Vec<OsString>)> {
    let (mut typed, mut path, mut others) = (typed, None, Vec::new());
    while let Some(argument) = typed.next() {
        let text = argument.to_str().unwrap_or_default();
        if text == "--" {
            // Arguments of the test program.
            others.push(argument);
            others.extend(typed.by_ref());
        } else if text == FLAG {
            path = Some(typed.next().context("--kubeconfig needs a path")?);
        } else if let Some(given) = text.strip_prefix("--kubeconfig=") {
            path = Some(given.into());
        } else {
            others.push(argument);
        }
    }
    Ok((path.map(PathBuf::from), others))
}

/// Runs the tests on that cluster.
pub(crate) fn test(layout: &Layout, path: PathBuf, mut others: Vec<OsString>) -> Result<()> {
    let path = std::path::absolute(path).context("where is this folder?")?;
    anyhow::ensure!(path.is_file(), "there is no file {}", path.display());
    let sh = Tools::ensure(layout)?.shell(layout)?;
    if !others.iter().any(|other| other == OsStr::new("--")) {
        others.push("--".into());
    }
    // The tests print what they run, skip and leave behind. The others of that program need the emulator.
    others.push("--nocapture".into());
    for emulated in ["emulator::", "pods::", "operator::"] {
        others.extend(["--skip".into(), emulated.into()]);
    }
    let suite = ["test", "--workspace", "--test", "kubernetes"];
    Err(replace(
        compile::cargo(&sh, &suite)
            .env(KUBECONFIG, path)
            .args(others),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubeconfig_flag_is_removed_from_other_arguments() {
        for (typed, path, others) in [
            ("", None, ""),
            ("--kubeconfig a/b", Some("a/b"), ""),
            ("-q --kubeconfig=a x", Some("a"), "-q x"),
            ("x -- --kubeconfig a", None, "x -- --kubeconfig a"),
        ] {
            let words = typed.split_whitespace().map(OsString::from);
            let (found, rest) = kubeconfig(words).unwrap();
            assert_eq!(found, path.map(PathBuf::from), "{typed}");
            let rest: Vec<&str> = rest.iter().filter_map(|one| one.to_str()).collect();
            assert_eq!(rest.join(" "), others, "{typed}");
        }
        let alone = ["--kubeconfig"].map(OsString::from);
        assert!(kubeconfig(alone.into_iter()).is_err());
    }
}
