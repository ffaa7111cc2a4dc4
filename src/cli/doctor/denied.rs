//! Whether something could only not be looked at: that says nothing about how it is.

use std::fs::File;
use std::io::{Error, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::geteuid;

use super::finding::Finding;

pub(super) const AS_THE_SERVER: &str =
    "run this as the user that the server runs as; nothing is known to be wrong with it";

/// Whether an error, or what led to it, is that this user may not.
pub(super) fn is_denied(error: &anyhow::Error) -> bool {
    let causes = error.chain().filter_map(|cause| cause.downcast_ref::<Error>());
    causes.map(Error::kind).any(|kind| kind == ErrorKind::PermissionDenied)
}

/// That this user may not read one of these, which are looked at in their order; those that are
/// not there count as readable.
pub(super) fn unreadable(name: &'static str, paths: &[&Path]) -> Option<Finding> {
    paths.iter().find_map(|path| {
        let looked = match path.is_dir() {
            true => std::fs::read_dir(path).map(drop),
            false => File::open(path).map(drop),
        };
        let denied = looked.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied);
        denied.then(|| finding(name, path))
    })
}

fn finding(name: &'static str, path: &Path) -> Finding {
    let owner = std::fs::metadata(path).map(|metadata| metadata.uid());
    let owner =
        owner.map_or_else(|_| String::new(), |owner| format!(", it belongs to user {owner}"));
    let (shown, me) = (path.display(), geteuid().as_raw());
    let detail = format!("{shown} cannot be read: you are user {me}{owner}, and may not");
    Finding::problem(name, detail, AS_THE_SERVER)
}
