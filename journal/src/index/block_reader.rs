//! From a block as sled holds it to its lines.

use std::io;

use crate::index::block::Block;
use crate::record::batch::entries_into;

/// No block is larger when opened; a damaged length must not exhaust memory.
const MAX_BLOCK: usize = 1 << 30;

/// Opens one block after the other, in buffers that are used again.
pub(crate) struct BlockReader {
    unpack: zstd::bulk::Decompressor<'static>,
    /// The block as it is stored.
    pub(super) stored: Vec<u8>,
    pub block: Block,
}

impl BlockReader {
    pub fn new() -> io::Result<Self> {
        let unpack = zstd::bulk::Decompressor::new()?;
        Ok(Self { unpack, stored: Vec::new(), block: Block::default() })
    }

    /// Makes lines of what is stored; `None`, and there are no lines, when it is no whole block.
    pub(super) fn open(&mut self) -> Option<()> {
        self.block.bytes.clear();
        self.block.entries.clear();
        let unpacked = self.unpack();
        match unpacked {
            Some(()) => entries_into(&self.block.bytes, &mut self.block.entries),
            None => self.block.bytes.clear(),
        }
        unpacked
    }

    fn unpack(&mut self) -> Option<()> {
        let Self { unpack, stored, block } = self;
        let (len, packed) = stored.split_first_chunk()?;
        let len = u32::from_be_bytes(*len) as usize;
        if len > MAX_BLOCK {
            return None;
        }
        block.bytes.reserve(len);
        unpack.decompress_to_buffer(packed, &mut block.bytes).ok()?;
        (block.bytes.len() == len).then_some(())
    }
}
