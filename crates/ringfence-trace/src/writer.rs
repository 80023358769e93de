//! The writer of traces. A [`Chunk`] buffers events, and a [`Writer`] writes the chunk as a whole.

use std::io::{self, Write};

use super::event::Event;
use super::format::{CHUNK_HEAD_BYTES, MAGIC, VERSION, checksum};

/// Size of a recorded trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TraceSummary {
    /// Number of events that were written.
    pub event_count: u64,
    /// Number of bytes that were written.
    pub bytes: u64,
}

/// A buffer of events that are not written yet. An event usually takes 5 to 30 bytes.
#[derive(Debug, Default)]
pub struct Chunk {
    payload: Vec<u8>,
    event_count: u32,
}

impl Chunk {
    /// Creates an empty chunk with a capacity of `bytes` bytes.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Self { payload: Vec::with_capacity(bytes), event_count: 0 }
    }

    /// Appends an event. Amortised O(bytes of the event).
    pub fn push<Text: AsRef<str>>(&mut self, event: &Event<Text>) {
        event.push(&mut self.payload);
        self.event_count += 1;
    }

    /// Appends encoded events. If they do not fit in the capacity, returns `false` and changes nothing.
    pub(crate) fn try_append(&mut self, encoded: &[u8], event_count: u32) -> bool {
        let fits = encoded.len() <= self.payload.capacity() - self.payload.len();
        if fits {
            self.payload.extend_from_slice(encoded);
            self.event_count += event_count;
        }
        fits
    }

    /// If `room` has a larger capacity than the chunk's buffer, moves the events into it and swaps the two buffers.
    pub(crate) fn grow_into(&mut self, room: &mut Vec<u8>) {
        if room.capacity() > self.payload.capacity() {
            room.clear();
            room.extend_from_slice(&self.payload);
            std::mem::swap(room, &mut self.payload);
        }
    }

    /// Returns the capacity of the chunk's buffer, in bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.payload.capacity()
    }

    /// Returns the size of the encoded events, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.payload.len()
    }

    /// Removes the events and keeps the capacity.
    pub fn clear(&mut self) {
        self.payload.clear();
        self.event_count = 0;
    }
}

/// Writes a trace chunk by chunk. If the program is killed, only the last chunk of the file can be incomplete.
#[derive(Debug)]
pub struct Writer<W> {
    to: W,
    summary: TraceSummary,
}

impl<W: Write> Writer<W> {
    /// Creates a writer. Nothing is written before the first call of [`Writer::begin`] or [`Writer::write`].
    pub const fn new(to: W) -> Self {
        Self { to, summary: TraceSummary { event_count: 0, bytes: 0 } }
    }

    /// Returns the numbers of events and bytes that were written so far.
    #[must_use]
    pub fn summary(&self) -> TraceSummary {
        self.summary
    }

    /// Writes the magic number and the version, if they are not written yet. [`Writer::write`] calls this method.
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

    /// Writes a chunk, if it has events. Does not clear the chunk.
    ///
    /// # Errors
    /// The write failed, or the chunk has 4 GiB or more. After a failed write, chunks that are written later cannot be
    /// read.
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

    /// Writes the end event and flushes the output.
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
        writer.write(&chunk).expect("an empty chunk is not written");
        chunk.push(&Event::Device { name: "a GPU" });
        chunk.push(&Event::<&str>::Heap { bytes: 1 << 30, device_local: true });
        writer.write(&chunk).expect("memory is writable");
        chunk.clear();
        let summary = writer.end().expect("memory is writable");
        assert_eq!((summary.event_count, summary.bytes, chunk.bytes()), (3, bytes.len() as u64, 0));
        let events: Vec<Event> = Reader::new(&bytes[..]).expect("the data is a trace").map(Result::unwrap).collect();
        assert_eq!(events[0], Event::Device { name: "a GPU".to_owned() });
        assert_eq!(events[2], Event::End { event_count: 2 });
        let cut = &bytes[..bytes.len() - 1];
        let last = Reader::new(cut).expect("the header is valid").last().expect("the reader returns a result");
        assert!(matches!(last, Err(TraceError::CutOff { event_count: 2, chunk_count: 1, .. })));
    }
}
