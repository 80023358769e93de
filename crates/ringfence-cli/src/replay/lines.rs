//! Lines of comma-separated values, by number. No value holds a comma or a quoted one: none of the formats needs it.

use std::io::{self, BufRead, Read};

/// No line of a trace is longer: what is, is no trace, and reading on would take ever more memory.
const LINE_BYTES_MAX: u64 = 1 << 16;

pub struct Lines<R> {
    reader: R,
    buffer: Vec<u8>,
    number: u64,
}

/// One line, without its end.
pub struct Line<'a> {
    /// Counted from 1.
    pub number: u64,
    pub bytes: &'a [u8],
}

impl<R: BufRead> Lines<R> {
    pub fn new(reader: R) -> Self {
        Self { reader, buffer: Vec::new(), number: 0 }
    }

    /// The next line; `None` at the end. What is too long is cut, and its rest comes as a line of the same number.
    pub fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        let is_whole = self.buffer.len() < LINE_BYTES_MAX as usize;
        self.buffer.clear();
        if Read::take(&mut self.reader, LINE_BYTES_MAX).read_until(b'\n', &mut self.buffer)? == 0 {
            return Ok(None);
        }
        self.number += u64::from(is_whole);
        Ok(Some(Line { number: self.number, bytes: self.buffer.trim_ascii_end() }))
    }
}

impl<'a> Line<'a> {
    /// Its values, blanks around them left out.
    pub fn fields(&self) -> impl Iterator<Item = &'a [u8]> {
        self.bytes.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
    }

    pub fn is_blank(&self) -> bool {
        self.bytes.trim_ascii().is_empty()
    }
}
