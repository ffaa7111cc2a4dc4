//! `openclaw-a2a completions`: prints shell completions.

use clap::CommandFactory;
use clap_complete::Shell;

use super::{Answer, Cli};

/// Print completions for a shell
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  openclaw-a2a completions bash \\
    > ~/.local/share/bash-completion/completions/openclaw-a2a
  openclaw-a2a completions zsh > ~/.zfunc/_openclaw-a2a
  openclaw-a2a completions fish > ~/.config/fish/completions/openclaw-a2a.fish")]
pub(super) struct Args {
    /// Shell
    shell: Shell,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Answer> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "openclaw-a2a", &mut text);
    std::io::Write::write_all(&mut std::io::stdout().lock(), &text)?;
    Ok(Answer::Yes)
}
