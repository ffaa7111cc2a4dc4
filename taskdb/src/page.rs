//! Where a page of a list ends: after so many items, or so many bytes.
//!
//! Items differ in size by orders of magnitude, and a caller decides how large they are. A page
//! bounded by their number alone could be hundreds of megabytes, read, kept and written at once.

use std::io::{self, Write};

use serde::Serialize;

use super::{ObjectiveTree, PlanTree, StoredTask, TaskStoreError};

/// Bytes of a page as JSON, about. One item is on it however large it is.
const PAGE_BYTES: usize = 4 << 20;

/// What can be on a page.
pub(super) trait Measured {
    /// Its bytes as JSON, about.
    fn bytes(&self) -> usize;
}

/// The first `most` of `items`, or as many as a page has room for, and whether there are more. No
/// more items are taken than are on the page, and one.
pub(super) fn fill<T: Measured>(
    most: usize,
    items: impl Iterator<Item = Result<T, TaskStoreError>>,
) -> Result<(Vec<T>, bool), TaskStoreError> {
    let (mut page, mut bytes) = (Vec::new(), 0_usize);
    for item in items {
        if page.len() >= most {
            return Ok((page, true));
        }
        let item = item?;
        bytes = bytes.saturating_add(item.bytes());
        if bytes > PAGE_BYTES && !page.is_empty() {
            return Ok((page, true));
        }
        page.push(item);
    }
    Ok((page, false))
}

impl Measured for StoredTask {
    fn bytes(&self) -> usize {
        json_bytes(&*self.task)
    }
}

impl Measured for ObjectiveTree {
    fn bytes(&self) -> usize {
        let of_plan = |plan: &PlanTree| json_bytes(&plan.stored.plan) + json_bytes(&plan.tasks);
        json_bytes(&self.stored.objective) + self.plans.iter().map(of_plan).sum::<usize>()
    }
}

/// How long this is as JSON.
fn json_bytes(value: &impl Serialize) -> usize {
    let mut count = Count(0);
    // What cannot be written has no bytes; whatever shows it says so.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

struct Count(usize);

impl Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Measured for usize {
        fn bytes(&self) -> usize {
            *self
        }
    }

    fn filled(most: usize, items: &[usize]) -> (usize, bool) {
        let (page, more) = fill(most, items.iter().copied().map(Ok)).unwrap();
        (page.len(), more)
    }

    #[test]
    fn a_page_ends_at_its_size_in_items_or_bytes_and_has_one_at_least() {
        const HALF: usize = PAGE_BYTES / 2;
        assert_eq!(filled(2, &[]), (0, false));
        assert_eq!(filled(2, &[1, 1]), (2, false));
        assert_eq!(filled(2, &[1, 1, 1]), (2, true));
        assert_eq!(filled(9, &[HALF, HALF]), (2, false));
        assert_eq!(filled(9, &[HALF, HALF, 1]), (2, true));
        assert_eq!(filled(9, &[10 * PAGE_BYTES]), (1, false));
        assert_eq!(filled(9, &[10 * PAGE_BYTES, 1]), (1, true));
    }

    #[test]
    fn bytes_are_those_of_the_json() {
        assert_eq!(json_bytes(&serde_json::json!({"a": [1, "x"]})), r#"{"a":[1,"x"]}"#.len());
    }
}
