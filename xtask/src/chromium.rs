//! Chromium for the tests of the console's page, with the packages that drive it.
//!
//! They are npm's packages of `tests/browser/page`, pinned by hash, and are unpacked into the build folder. Chromium
//! has its own libraries and fonts there, so that it runs on a machine without a desktop, and draws the same
//! everywhere. Never changes the system, and needs no root.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::layout::Layout;
use crate::node::Node;
use crate::pinned::{remove, tail};
use crate::{debian, version_of};

/// Environment variable with the path of a Chromium.
const CHROMIUM: &str = "WEIR_CHROMIUM";
/// First version that is known to run the page.
const CHROMIUM_MIN: u32 = 120;
/// Folder with the list of packages, and the script that unpacks.
const FOLDER: &str = "tests/browser/page";
/// List of packages, and their versions and hashes.
const LISTS: [&str; 2] = ["package.json", "package-lock.json"];
/// Folder with Chromium's packed files.
const PACKED: &str = "node_modules/@sparticuz/chromium/bin";
/// Packed libraries of Chromium.
const LIBRARIES: &str = "al2023";
/// Script that starts Chromium.
const RUN: &str = "chromium/run";
/// Fonts: without any, no text would be drawn.
const FONTS: &str = r#"<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir prefix="relative">../node_modules/dejavu-fonts-ttf/ttf</dir>
  <cachedir prefix="xdg">fontconfig</cachedir>
  <selectfont><rejectfont>
    <glob>*Serif*</glob><glob>*Condensed*</glob><glob>*ExtraLight*</glob><glob>*MathTeX*</glob>
  </rejectfont></selectfont>
  <alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
  <alias><family>ui-monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
</fontconfig>
"#;

/// Browser of the tests.
pub(crate) struct Browser {
    /// Path of Chromium.
    pub(crate) chromium: PathBuf,
    /// Path of the list of packages, beside which they are installed.
    pub(crate) packages: PathBuf,
}

impl Browser {
    /// Returns the named Chromium or the pinned one, and the packages that drive it.
    pub(crate) fn ensure(layout: &Layout, node: &Node) -> Result<Self> {
        let (given, tools) = (given()?, layout.tools());
        let folder = tools.join("browser");
        let expected = lists(layout).map(fs::read_to_string);
        let expected: String = expected
            .into_iter()
            .collect::<std::io::Result<_>>()
            .with_context(|| format!("cannot read the lists in {FOLDER}"))?;
        let is_installed =
            || fs::read_to_string(folder.join("stamp")).is_ok_and(|stamp| stamp == expected);
        let [list, _] = LISTS;
        let browser = Self {
            chromium: given.clone().unwrap_or_else(|| folder.join(RUN)),
            packages: folder.join(list),
        };
        if is_installed() {
            return Ok(browser);
        }
        fs::create_dir_all(&tools).with_context(|| format!("cannot create {}", tools.display()))?;
        // Of two concurrent commands the second waits here, then finds the stamp.
        let lock = File::create(tools.join(".lock")).context("cannot create the tools' lock")?;
        lock.lock().context("cannot lock the tools")?;
        if is_installed() {
            return Ok(browser);
        }
        eprintln!("setup: fetching Chromium into {}", folder.display());
        let aside = tools.join(".browser.partial");
        remove(&aside)?;
        let starts = || match &given {
            Some(_) => Ok(()),
            None => version_of(&aside.join(RUN)).map(drop),
        };
        install(layout, node, &aside)
            .and_then(|()| starts())
            .with_context(|| {
                format!(
                    "Chromium could not be installed; {CHROMIUM}=/path/to/chromium names another, \
                     which needs the packages of {FOLDER} too"
                )
            })?;
        fs::write(aside.join("stamp"), &expected).context("cannot write the stamp")?;
        remove(&folder)?;
        fs::rename(&aside, &folder)
            .with_context(|| format!("cannot move {} into its place", aside.display()))?;
        Ok(browser)
    }
}

/// Paths of the lists of packages.
fn lists(layout: &Layout) -> [PathBuf; 2] {
    LISTS.map(|name| layout.root.join(FOLDER).join(name))
}

/// Returns the Chromium that the environment names.
fn given() -> Result<Option<PathBuf>> {
    let Some(given) = std::env::var_os(CHROMIUM).filter(|given| !given.is_empty()) else {
        return Ok(None);
    };
    let path = std::path::absolute(&given).context("where is this folder?")?;
    let version = version_of(&path)
        .with_context(|| format!("{CHROMIUM}={} cannot be used", path.display()))?;
    if major(&version) < Some(CHROMIUM_MIN) {
        bail!(
            "{CHROMIUM}={}: '{version}' must be {CHROMIUM_MIN} or later",
            path.display()
        );
    }
    Ok(Some(path))
}

/// Parses the first number of `Chromium 153.0.8010.0 built on Debian`.
fn major(version: &str) -> Option<u32> {
    let mut words = version.split_whitespace();
    words.find_map(|word| word.split_once('.')?.0.parse().ok())
}

fn install(layout: &Layout, node: &Node, into: &Path) -> Result<()> {
    fs::create_dir_all(into).with_context(|| format!("cannot create {}", into.display()))?;
    for list in lists(layout) {
        let name = list.file_name().context("a list without a name")?;
        fs::copy(&list, into.join(name))
            .with_context(|| format!("cannot copy {}", list.display()))?;
    }
    let cache = into.join("cache");
    let output = node
        .npm()
        .args([
            "ci",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--cache",
        ])
        .arg(&cache)
        .current_dir(into)
        .output()
        .context("cannot run npm")?;
    if !output.status.success() {
        bail!(
            "npm failed; is there a network? It said:\n{}",
            tail(&output.stderr)
        );
    }
    remove(&cache)?;
    unpack(layout, node, into)
}

/// Unpacks Chromium and its libraries, and writes the script that starts it.
fn unpack(layout: &Layout, node: &Node, folder: &Path) -> Result<()> {
    let (packed, chromium) = (folder.join(PACKED), folder.join("chromium"));
    fs::create_dir_all(&chromium).context("cannot create a folder")?;
    let libraries = chromium.join("libraries.tar");
    for (from, to) in [
        ("chromium.br".to_owned(), chromium.join("chromium")),
        (format!("{LIBRARIES}.tar.br"), libraries.clone()),
    ] {
        let output = Command::new(&node.program)
            .arg(layout.root.join(FOLDER).join("unpack.mjs"))
            .args([packed.join(&from), to])
            .output()
            .context("cannot run node")?;
        ensure!(
            output.status.success(),
            "{from} cannot be unpacked:\n{}",
            tail(&output.stderr)
        );
    }
    let file = File::open(&libraries).context("cannot read the libraries")?;
    tar::Archive::new(file)
        .unpack(&chromium)
        .context("cannot unpack the libraries")?;
    fs::remove_file(&libraries).context("cannot remove a file")?;
    remove(&packed)?;
    fs::write(chromium.join("fonts.conf"), FONTS).context("cannot write a file")?;
    let line = "LD_LIBRARY_PATH=\"$here/lib:$LD_LIBRARY_PATH\" FONTCONFIG_FILE=\"$here/fonts.conf\" \
                exec \"$here/chromium\" \"$@\"";
    debian::script(&folder.join(RUN), line).map(drop)
}

#[cfg(test)]
mod tests {
    use super::major;

    #[test]
    fn version_of_a_browser_is_parsed() {
        for (line, version) in [
            ("Chromium 153.0.8010.0", Some(153)),
            (
                "Chromium 156.0.8078.108 built on Debian GNU/Linux 12 (bookworm)",
                Some(156),
            ),
            ("Google Chrome 149.0.1.2 ", Some(149)),
            ("Chromium", None),
        ] {
            assert_eq!(major(line), version, "{line}");
        }
    }
}
