//! Lines of comma-separated values, with their numbers. In recordings of VMA no value is quoted. In CSV a value may be
//! quoted, and must end on its line.

use std::io::{self, BufRead, Read};

use csv::{ByteRecord, ReaderBuilder};

/// Maximum length of a line, in bytes. The limit bounds the memory for a file that is no trace.
const LINE_BYTES_MAX: u64 = 1 << 16;

pub struct Lines<R> {
    reader: R,
    buffer: Vec<u8>,
    number: u64,
}

/// A line, without its line end.
pub struct Line<'a> {
    /// Number of the line, from 1.
    pub number: u64,
    pub bytes: &'a [u8],
}

impl<R: BufRead> Lines<R> {
    pub fn new(reader: R) -> Self {
        Self { reader, buffer: Vec::new(), number: 0 }
    }

    /// Returns the next line. Returns `None` at the end of the file. If a line is longer than the maximum, it is split,
    /// and its parts have the same number.
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
    /// Returns the values of the line, without surrounding blanks.
    pub fn fields(&self) -> impl Iterator<Item = &'a [u8]> {
        self.bytes.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
    }

    /// Returns the values of a line that contains quotes, with the quoting rules of `ringfence plan`. Returns `None` if
    /// a quoted value does not end.
    pub fn unquoted(&self) -> Option<ByteRecord> {
        let text = [self.bytes, b"\n"].concat();
        let mut reader = ReaderBuilder::new().has_headers(false).buffer_capacity(text.len()).from_reader(&*text);
        let mut record = ByteRecord::new();
        reader.read_byte_record(&mut record).ok()?;
        let ends = !record.as_slice().contains(&b'\n');
        record.trim();
        ends.then_some(record)
    }

    pub fn is_blank(&self) -> bool {
        self.bytes.trim_ascii().is_empty()
    }
}
