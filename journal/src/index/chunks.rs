//! Long values of sled, in pieces.
//!
//! sled keeps and evicts leaves, not values, and a leaf has up to 16 of them. Its cache has
//! 256 parts, each of which looks at its size only at every 64th access and never lets its
//! last leaf go. So what it holds is set by how large leaves are, whatever it is told: with
//! values of tens of kilobytes that is more than 100 MB, with pieces of this size far less.
//! Pieces also keep leaves below the size from which on sled makes each a file of its own.

use std::io;

/// Bytes of a piece; the last of a value may have fewer.
const PIECE: usize = 4096;

fn key(first: u64, piece: u16) -> [u8; 10] {
    let mut key = [0; 10];
    key[..8].copy_from_slice(&first.to_be_bytes());
    key[8..].copy_from_slice(&piece.to_be_bytes());
    key
}

/// Stores the value of the block that begins at `first`.
pub(super) fn write(tree: &sled::Tree, first: u64, value: &[u8]) -> io::Result<()> {
    // One by one, as sled applies a batch too, but that in no order and keeping readers out.
    for (n, piece) in value.chunks(PIECE).enumerate() {
        // 256 MiB, four times the longest line.
        let n = u16::try_from(n).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        tree.insert(key(first, n), piece)?;
    }
    Ok(())
}

/// Adds to `out` what is stored of a value. Whether that is all of it is not known here: the
/// value must tell.
pub(super) fn read(tree: &sled::Tree, first: u64, out: &mut Vec<u8>) -> Result<(), sled::Error> {
    read_up_to(tree, first, usize::MAX, out)
}

/// The same for one who knows how many bytes there should be, and asks for no more pieces.
pub(super) fn read_up_to(
    tree: &sled::Tree,
    first: u64,
    bytes: usize,
    out: &mut Vec<u8>,
) -> Result<(), sled::Error> {
    let most = bytes.div_ceil(PIECE);
    // Asked for one by one, not listed: every access brings sled closer to evicting something.
    for n in (0..=u16::MAX).take(most) {
        let Some(piece) = tree.get(key(first, n))? else { break };
        out.extend_from_slice(&piece);
    }
    Ok(())
}

/// Removes everything whose key begins with the number of a block.
pub(super) fn remove(tree: &sled::Tree, first: u64) -> Result<(), sled::Error> {
    for key in tree.scan_prefix(first.to_be_bytes()).keys() {
        tree.remove(key?)?;
    }
    Ok(())
}

/// Removes everything of blocks that begin at `first` or later.
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
    fn values_come_back_from_their_pieces_and_go_with_all_of_them() {
        let folder = tempfile::tempdir().unwrap();
        let tree = sled::open(folder.path()).unwrap().open_tree("values").unwrap();
        let lengths = [0, 1, PIECE - 1, PIECE, PIECE + 1, 40 * PIECE + 7];
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
            assert_eq!(stored.len(), len.div_ceil(PIECE));
            assert!(stored.iter().all(|(_, piece)| piece.len() <= PIECE), "{len}");
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
