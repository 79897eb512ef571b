//! `weir completions`: prints the completion script of a shell.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::Arguments;
use crate::output::print;

/// Arguments of `weir completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = crate::exit::HELP)]
pub(crate) struct Completions {
    /// The shell.
    shell: Shell,
}

impl Completions {
    /// # Errors
    /// The script cannot be written.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Arguments::command(), "weir", &mut script);
        print(&script)
    }
}
