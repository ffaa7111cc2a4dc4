//! Findings of the checks, and the report that prints them.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anstyle::{AnsiColor, Style};
use rustix::process::geteuid;
use serde::Serialize;
use serde_json::json;

use crate::cli::stdout::{output, sanitize};
use crate::cli::{Answer, Format};

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum FindingState {
    /// As expected.
    Ok,
    /// Works, but needs attention.
    Warning,
    /// Does not work, or will fail soon.
    Problem,
}

/// Result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// Name of the check.
    pub(super) name: &'static str,
    pub(super) state: FindingState,
    /// What was found.
    pub(super) detail: String,
    /// What to do; only for warnings and problems.
    pub(super) next: Option<String>,
}

impl Finding {
    pub(super) fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name, state: FindingState::Ok, detail: detail.into(), next: None }
    }

    pub(super) fn warning(
        name: &'static str,
        detail: impl Into<String>,
        next: impl Into<String>,
    ) -> Self {
        Self { name, state: FindingState::Warning, detail: detail.into(), next: Some(next.into()) }
    }

    pub(super) fn problem(
        name: &'static str,
        detail: impl Into<String>,
        next: impl Into<String>,
    ) -> Self {
        Self { name, state: FindingState::Problem, detail: detail.into(), next: Some(next.into()) }
    }
}

pub(super) const RUN_AS_SERVER_USER: &str =
    "run this as the user that the server runs as; nothing is known to be wrong with it";

/// Whether an error was caused by missing permissions.
pub(super) fn is_denied(error: &anyhow::Error) -> bool {
    let causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.map(io::Error::kind).any(|kind| kind == ErrorKind::PermissionDenied)
}

/// A finding for the first of these paths that this user may not read. Missing paths are skipped.
pub(super) fn unreadable(name: &'static str, paths: &[&Path]) -> Option<Finding> {
    paths.iter().find_map(|path| {
        let looked = match path.is_dir() {
            true => std::fs::read_dir(path).map(drop),
            false => File::open(path).map(drop),
        };
        let denied = looked.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied);
        denied.then(|| unreadable_finding(name, path))
    })
}

fn unreadable_finding(name: &'static str, path: &Path) -> Finding {
    let owner = std::fs::metadata(path).map(|metadata| metadata.uid());
    let owner =
        owner.map_or_else(|_| String::new(), |owner| format!(", it belongs to user {owner}"));
    let (shown, me) = (path.display(), geteuid().as_raw());
    let detail = format!("{shown} cannot be read: you are user {me}{owner}, and may not");
    Finding::problem(name, detail, RUN_AS_SERVER_USER)
}

/// All findings. Each is printed immediately, because some checks take long.
pub(super) struct CheckReport {
    format: Format,
    out: BufWriter<Box<dyn Write>>,
    found: Vec<Finding>,
}

impl CheckReport {
    pub(super) fn new(format: Format) -> Self {
        Self { format, out: output(format), found: Vec::new() }
    }

    pub(super) fn add(&mut self, finding: Finding) -> anyhow::Result<()> {
        if self.format == Format::Text {
            let (word, colour) = match finding.state {
                FindingState::Ok => ("ok", AnsiColor::Green),
                FindingState::Warning => ("warning", AnsiColor::Yellow),
                FindingState::Problem => ("problem", AnsiColor::Red),
            };
            let style = Style::new().fg_color(Some(colour.into()));
            let detail = sanitize(&finding.detail);
            writeln!(self.out, "{style}{word:<7}{style:#}  {:<12}  {detail}", finding.name)?;
            if let Some(next) = &finding.next {
                writeln!(self.out, "{:23}→ {}", "", sanitize(next))?;
            }
            self.out.flush()?;
        }
        self.found.push(finding);
        Ok(())
    }

    pub(super) fn extend(
        &mut self,
        findings: impl IntoIterator<Item = Finding>,
    ) -> anyhow::Result<()> {
        findings.into_iter().try_for_each(|finding| self.add(finding))
    }

    /// Prints the summary and returns the result.
    pub(super) fn finish(mut self) -> anyhow::Result<Answer> {
        let count = |state| self.found.iter().filter(|finding| finding.state == state).count();
        let (warnings, problems) = (count(FindingState::Warning), count(FindingState::Problem));
        if self.format == Format::Text {
            let counted = |count: usize, noun: &str| match count {
                0 => format!("no {noun}s"),
                1 => format!("1 {noun}"),
                count => format!("{count} {noun}s"),
            };
            let (checks, problems) = (self.found.len(), counted(problems, "problem"));
            let warnings = counted(warnings, "warning");
            writeln!(self.out, "\n{checks} checks: {problems}, {warnings}")?;
        } else {
            writeln!(self.out, "{}", json!({ "checks": self.found, "ok": problems == 0 }))?;
        }
        self.out.flush()?;
        Ok(if problems == 0 { Answer::Yes } else { Answer::No })
    }
}

/// Formats a number of bytes with its unit.
pub(super) fn bytes(count: u64) -> String {
    let units = [("GiB", 1_u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.iter().find(|(_, unit)| count >= *unit) {
        Some((name, unit)) => format!("{:.1} {name}", count as f64 / *unit as f64),
        None => format!("{count} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_formatted_in_the_largest_fitting_unit() {
        let cases = [
            (0, "0 bytes"),
            (1_023, "1023 bytes"),
            (1_536, "1.5 KiB"),
            (100 << 20, "100.0 MiB"),
            (5 << 30, "5.0 GiB"),
        ];
        for (count, text) in cases {
            assert_eq!(bytes(count), text);
        }
    }
}
