//! The `openclaw-a2a` program.

mod cli;

use std::process::ExitCode;

/// Reading a message is mostly small allocations; see docs/decisions/0002-release-profile.md.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::run(std::env::args_os())
}
