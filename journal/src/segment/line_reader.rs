//! Splits a stream into lines without copying them.
//!
//! Splitting must cost little compared with the hashing, which bounds the speed of verification.

use std::io::{self, Read};

/// Bytes of one read.
const CHUNK: usize = 1 << 20;
/// A longer line is returned in parts: a file without newlines must not exhaust memory.
const MAX_LINE: usize = 64 << 20;

/// Reads lines from a stream.
pub(crate) struct LineReader<R> {
    from: R,
    buffer: Vec<u8>,
    /// The unread part of the buffer.
    start: usize,
    end: usize,
    is_over: bool,
}

/// One line without its newline.
pub(crate) struct RawLine<'a> {
    pub bytes: &'a [u8],
    /// Whether a newline ended the line.
    pub is_whole: bool,
}

impl<R: Read> LineReader<R> {
    pub fn new(from: R) -> Self {
        Self { from, buffer: vec![0; 2 * CHUNK], start: 0, end: 0, is_over: false }
    }

    /// Returns the next line; `None` at the end.
    pub fn next(&mut self) -> io::Result<Option<RawLine<'_>>> {
        let mut searched = 0;
        loop {
            let unread = &self.buffer[self.start + searched..self.end];
            if let Some(at) = memchr::memchr(b'\n', unread) {
                let start = self.start;
                let newline = start + searched + at;
                self.start = newline + 1;
                return Ok(Some(RawLine { bytes: &self.buffer[start..newline], is_whole: true }));
            }
            searched = self.end - self.start;
            if self.is_over || searched >= MAX_LINE {
                let start = std::mem::replace(&mut self.start, self.end);
                let rest = RawLine { bytes: &self.buffer[start..self.end], is_whole: false };
                return Ok((searched > 0).then_some(rest));
            }
            self.fill()?;
        }
    }

    /// Reads more bytes behind the unread ones.
    fn fill(&mut self) -> io::Result<()> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.buffer.len() < self.end + CHUNK {
            self.buffer.resize(2 * self.buffer.len(), 0);
        }
        let read = loop {
            match self.from.read(&mut self.buffer[self.end..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        self.end += read;
        self.is_over = read == 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Vec<(Vec<u8>, bool)> {
        let mut lines = LineReader::new(bytes);
        let mut found = Vec::new();
        while let Some(piece) = lines.next().unwrap() {
            found.push((piece.bytes.to_vec(), piece.is_whole));
        }
        found
    }

    #[test]
    fn lines_of_any_length_are_returned_whole() {
        assert!(all(b"").is_empty());
        let sizes = [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 5, 2 * CHUNK, 0];
        let expected: Vec<_> =
            sizes.iter().enumerate().map(|(i, size)| (vec![b'a' + i as u8; *size], true)).collect();
        let mut bytes = Vec::new();
        for (line, _) in &expected {
            bytes.extend_from_slice(line);
            bytes.push(b'\n');
        }
        assert!(all(&bytes) == expected);
        bytes.extend_from_slice(b"rest");
        assert!(all(&bytes).last() == Some(&(b"rest".to_vec(), false)));
    }
}
