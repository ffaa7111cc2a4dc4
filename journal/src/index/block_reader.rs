//! Decompresses stored blocks into reused buffers.

use std::io;

use crate::index::block::Block;
use crate::record::batch::entries_into;

/// Upper limit of a decompressed block; a damaged length must not exhaust memory.
const MAX_BLOCK: usize = 1 << 30;

/// Reads one block after the other into the same buffers.
pub(crate) struct BlockReader {
    decompressor: zstd::bulk::Decompressor<'static>,
    /// The compressed block.
    pub(super) stored: Vec<u8>,
    pub block: Block,
}

impl BlockReader {
    pub fn new() -> io::Result<Self> {
        let decompressor = zstd::bulk::Decompressor::new()?;
        Ok(Self { decompressor, stored: Vec::new(), block: Block::default() })
    }

    /// Decodes the compressed block; `None`, with an empty block, if it is incomplete or damaged.
    pub(super) fn open(&mut self) -> Option<()> {
        self.block.bytes.clear();
        self.block.entries.clear();
        let decoded = self.decompress();
        match decoded {
            Some(()) => entries_into(&self.block.bytes, &mut self.block.entries),
            None => self.block.bytes.clear(),
        }
        decoded
    }

    fn decompress(&mut self) -> Option<()> {
        let Self { decompressor, stored, block } = self;
        let (len, compressed) = stored.split_first_chunk()?;
        let len = u32::from_be_bytes(*len) as usize;
        if len > MAX_BLOCK {
            return None;
        }
        block.bytes.reserve(len);
        decompressor.decompress_to_buffer(compressed, &mut block.bytes).ok()?;
        (block.bytes.len() == len).then_some(())
    }
}
