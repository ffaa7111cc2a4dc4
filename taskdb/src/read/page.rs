//! Page limits: a number of items and a number of bytes, whichever comes first.
//!
//! Callers decide how large an item is, so the number of items does not bound the bytes: a page of
//! 100 tasks could be hundreds of megabytes in memory.

use std::io::{self, Write};

use serde::Serialize;

use crate::{ObjectiveTree, PlanTree, StoredTask, TaskStoreError};

/// Limit of a page in bytes of JSON. A page has at least one item, whatever its size.
const PAGE_BYTES: usize = 4 << 20;

/// An item of a page.
pub(crate) trait PageItem {
    /// Its approximate size as JSON.
    fn bytes(&self) -> usize;
}

/// Takes items until one of the limits is reached; returns them and whether there are more. It
/// pulls at most one item beyond the page.
pub(crate) fn fill<T: PageItem>(
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

impl PageItem for StoredTask {
    fn bytes(&self) -> usize {
        json_bytes(&*self.task)
    }
}

impl PageItem for ObjectiveTree {
    fn bytes(&self) -> usize {
        let of_plan = |plan: &PlanTree| json_bytes(&plan.stored.plan) + json_bytes(&plan.tasks);
        json_bytes(&self.stored.objective) + self.plans.iter().map(of_plan).sum::<usize>()
    }
}

/// Length as JSON.
fn json_bytes(value: &impl Serialize) -> usize {
    let mut count = ByteCount(0);
    // A value that fails to serialize counts as empty; the response that contains it reports it.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

struct ByteCount(usize);

impl Write for ByteCount {
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

    impl PageItem for usize {
        fn bytes(&self) -> usize {
            *self
        }
    }

    fn filled(most: usize, items: &[usize]) -> (usize, bool) {
        let (page, more) = fill(most, items.iter().copied().map(Ok)).unwrap();
        (page.len(), more)
    }

    #[test]
    fn page_ends_at_item_or_byte_limit_and_has_at_least_one_item() {
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
    fn size_equals_length_of_json() {
        assert_eq!(json_bytes(&serde_json::json!({"a": [1, "x"]})), r#"{"a":[1,"x"]}"#.len());
    }
}
