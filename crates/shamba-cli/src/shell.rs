//! `shamba completions` and `shamba man`: what shells and readers of manuals want, made of the same
//! definition as `--help`.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::args::Cli;
use crate::failure::Failure;

/// Print a script that completes this command in a shell
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  shamba completions bash > ~/.local/share/bash-completion/completions/shamba\n  shamba completions zsh > ~/.zfunc/_shamba\n  shamba completions fish > ~/.config/fish/completions/shamba.fish"
)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Print the manual page, or write the pages of all commands into a folder
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  shamba man | man -l -\n  shamba man --output ~/.local/share/man/man1"
)]
pub struct ManArgs {
    /// Write a page for each command into this folder, which is made if it is missing
    #[arg(long, short, value_name = "FOLDER")]
    output: Option<PathBuf>,
}

pub fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "shamba", &mut script);
    print(&script)
}

pub fn man(args: &ManArgs) -> Result<(), Failure> {
    let command = Cli::command();
    let Some(folder) = &args.output else {
        let mut page = Vec::new();
        let rendered = clap_mangen::Man::new(command).render(&mut page);
        rendered.map_err(Failure::output)?;
        return print(&page);
    };
    let made = std::fs::create_dir_all(folder);
    made.map_err(|source| Failure::io("make", folder, source))?;
    let written = clap_mangen::generate_to(command, folder);
    written.map_err(|source| Failure::io("write pages into", folder, source))
}

/// Writes to standard output; a reader that went away ends the command quietly.
fn print(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let written = out.write_all(bytes).and_then(|()| out.flush());
    written.map_err(Failure::output)
}
