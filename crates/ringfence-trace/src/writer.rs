//! Writing a trace: events are gathered in a [`Chunk`], which a [`Writer`] writes as one piece.

use std::io::{self, Write};

use super::event::Event;
use super::format::{CHUNK_HEAD_BYTES, MAGIC, VERSION, checksum};

/// What a recording came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TraceSummary {
    /// Events that were written.
    pub event_count: u64,
    /// Bytes that were written.
    pub bytes: u64,
}

/// Events that are not written yet, each in 5 to 30 bytes.
#[derive(Debug, Default)]
pub struct Chunk {
    payload: Vec<u8>,
    event_count: u32,
}

impl Chunk {
    /// An empty one that has room for `bytes` bytes.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Self { payload: Vec::with_capacity(bytes), event_count: 0 }
    }

    /// Appends an event. Amortised O(its bytes).
    pub fn push<Text: AsRef<str>>(&mut self, event: &Event<Text>) {
        event.push(&mut self.payload);
        self.event_count += 1;
    }

    /// Appends events that were encoded before, if that takes no host memory; says whether it did.
    pub(crate) fn try_append(&mut self, encoded: &[u8], event_count: u32) -> bool {
        let fits = encoded.len() <= self.payload.capacity() - self.payload.len();
        if fits {
            self.payload.extend_from_slice(encoded);
            self.event_count += event_count;
        }
        fits
    }

    /// Moves the events into `room` if that is larger, and leaves the smaller memory there.
    pub(crate) fn grow_into(&mut self, room: &mut Vec<u8>) {
        if room.capacity() > self.payload.capacity() {
            room.clear();
            room.extend_from_slice(&self.payload);
            std::mem::swap(room, &mut self.payload);
        }
    }

    /// How many bytes fit without more host memory.
    pub(crate) fn capacity(&self) -> usize {
        self.payload.capacity()
    }

    /// Bytes that the events take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.payload.len()
    }

    /// Removes the events; the room stays.
    pub fn clear(&mut self) {
        self.payload.clear();
        self.event_count = 0;
    }
}

/// Writes a trace chunk by chunk. Each chunk is whole in the file or the last one in it.
#[derive(Debug)]
pub struct Writer<W> {
    to: W,
    summary: TraceSummary,
}

impl<W: Write> Writer<W> {
    /// Nothing is written yet.
    pub const fn new(to: W) -> Self {
        Self { to, summary: TraceSummary { event_count: 0, bytes: 0 } }
    }

    /// What was written so far.
    #[must_use]
    pub fn summary(&self) -> TraceSummary {
        self.summary
    }

    /// Writes the magic number and the version, unless they are written. The first chunk does so otherwise.
    ///
    /// # Errors
    /// The write failed.
    pub fn begin(&mut self) -> io::Result<()> {
        if self.summary.bytes != 0 {
            return Ok(());
        }
        self.to.write_all(&MAGIC)?;
        self.to.write_all(&VERSION.to_le_bytes())?;
        self.summary.bytes = (MAGIC.len() + size_of_val(&VERSION)) as u64;
        Ok(())
    }

    /// Writes the events of a chunk, if it has any. It keeps them.
    ///
    /// # Errors
    /// The write failed. What follows in the file cannot be read any more.
    pub fn write(&mut self, chunk: &Chunk) -> io::Result<()> {
        self.begin()?;
        if chunk.event_count == 0 {
            return Ok(());
        }
        let length = u32::try_from(chunk.payload.len()).map_err(io::Error::other)?;
        let mut head = [0; CHUNK_HEAD_BYTES];
        head[..4].copy_from_slice(&length.to_le_bytes());
        head[4..8].copy_from_slice(&chunk.event_count.to_le_bytes());
        let sum = checksum(checksum(0, &head[..8]), &chunk.payload);
        head[8..].copy_from_slice(&sum.to_le_bytes());
        self.to.write_all(&head)?;
        self.to.write_all(&chunk.payload)?;
        self.summary.event_count += u64::from(chunk.event_count);
        self.summary.bytes += (head.len() + chunk.payload.len()) as u64;
        Ok(())
    }

    /// Writes the trace's end and flushes what it is written to.
    ///
    /// # Errors
    /// A write or the flush failed.
    pub fn end(&mut self) -> io::Result<TraceSummary> {
        let mut last = Chunk::default();
        last.push(&Event::<&str>::End { event_count: self.summary.event_count });
        self.write(&last)?;
        self.to.flush()?;
        Ok(self.summary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Reader, TraceError};

    #[test]
    fn what_is_written_is_read_again_and_says_where_it_ends() {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        let mut chunk = Chunk::with_capacity(64);
        writer.write(&chunk).expect("no event, no chunk");
        chunk.push(&Event::Device { name: "a GPU" });
        chunk.push(&Event::<&str>::Heap { bytes: 1 << 30, device_local: true });
        writer.write(&chunk).expect("into memory");
        chunk.clear();
        let summary = writer.end().expect("into memory");
        assert_eq!((summary.event_count, summary.bytes, chunk.bytes()), (3, bytes.len() as u64, 0));
        let events: Vec<Event> = Reader::new(&bytes[..]).expect("a trace").map(Result::unwrap).collect();
        assert_eq!(events[0], Event::Device { name: "a GPU".to_owned() });
        assert_eq!(events[2], Event::End { event_count: 2 });
        let cut = &bytes[..bytes.len() - 1];
        let last = Reader::new(cut).expect("a head").last().expect("an answer");
        assert!(matches!(last, Err(TraceError::CutOff { event_count: 2, chunk_count: 1, .. })));
    }
}
