//! Stores long values of sled as chunks of 4 KiB.
//!
//! sled caches and evicts leaves, each with up to 16 values. Its cache has 256 shards, which check
//! their size only at every 64th access and never evict their last leaf. So the size of leaves
//! determines the memory use, whatever limit is configured: more than 100 MB with values of tens of
//! kilobytes, far less with chunks. Chunks also keep leaves below the size at which sled stores each
//! in a separate file.

use std::io;

/// Bytes of a chunk; the last one of a value may have fewer.
const CHUNK: usize = 4096;

fn key(first: u64, chunk: u16) -> [u8; 10] {
    let mut key = [0; 10];
    key[..8].copy_from_slice(&first.to_be_bytes());
    key[8..].copy_from_slice(&chunk.to_be_bytes());
    key
}

/// Stores the value of the block that begins at `first`.
pub(super) fn write(tree: &sled::Tree, first: u64, value: &[u8]) -> io::Result<()> {
    // One by one. A batch of sled does the same, but in no order and with readers locked out.
    for (n, chunk) in value.chunks(CHUNK).enumerate() {
        // 256 MiB, four times the longest line.
        let n = u16::try_from(n).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        tree.insert(key(first, n), chunk)?;
    }
    Ok(())
}

/// Appends the stored chunks of a value to `out`. The value itself must show whether it is complete.
pub(super) fn read(tree: &sled::Tree, first: u64, out: &mut Vec<u8>) -> Result<(), sled::Error> {
    read_up_to(tree, first, usize::MAX, out)
}

/// Like [`read`], for a value of known size: reads no more chunks than it needs.
pub(super) fn read_up_to(
    tree: &sled::Tree,
    first: u64,
    bytes: usize,
    out: &mut Vec<u8>,
) -> Result<(), sled::Error> {
    let most = bytes.div_ceil(CHUNK);
    // By key, not by a range scan: every access brings sled closer to an eviction.
    for n in (0..=u16::MAX).take(most) {
        let Some(chunk) = tree.get(key(first, n))? else { break };
        out.extend_from_slice(&chunk);
    }
    Ok(())
}

/// Removes all chunks of a block.
pub(super) fn remove(tree: &sled::Tree, first: u64) -> Result<(), sled::Error> {
    for key in tree.scan_prefix(first.to_be_bytes()).keys() {
        tree.remove(key?)?;
    }
    Ok(())
}

/// Removes all chunks of blocks that begin at `first` or later.
pub(super) fn remove_from(tree: &sled::Tree, first: u64) -> Result<(), sled::Error> {
    for key in tree.range(first.to_be_bytes()..).keys() {
        tree.remove(key?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_round_trip_and_removal_removes_every_chunk() {
        let folder = tempfile::tempdir().unwrap();
        let tree = sled::open(folder.path()).unwrap().open_tree("values").unwrap();
        let lengths = [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 40 * CHUNK + 7];
        let value = |len: usize| (0..len).map(|n| (n / 7) as u8).collect::<Vec<_>>();
        for (first, len) in (7..).zip(lengths) {
            write(&tree, first, &value(len)).unwrap();
        }
        for (first, len) in (7..).zip(lengths) {
            let mut found = b"before".to_vec();
            read(&tree, first, &mut found).unwrap();
            assert!(found == [&b"before"[..], &value(len)].concat(), "{len}");
            let stored: Vec<_> =
                tree.scan_prefix(first.to_be_bytes()).map(Result::unwrap).collect();
            assert_eq!(stored.len(), len.div_ceil(CHUNK));
            assert!(stored.iter().all(|(_, chunk)| chunk.len() <= CHUNK), "{len}");
        }
        let last = 7 + lengths.len() as u64 - 1;
        remove(&tree, last - 1).unwrap();
        let mut left = Vec::new();
        read(&tree, last - 1, &mut left).unwrap();
        assert!(left.is_empty());
        assert_eq!(tree.len(), 3 + 41);
        remove_from(&tree, last).unwrap();
        assert_eq!(tree.len(), 3);
    }
}
