//! The reader of traces. If a trace is cut off or damaged, the reader returns the events before the fault, and then an
//! error.

use std::io::{self, Read};

use super::event::Event;
use super::format::{CHUNK_HEAD_BYTES, MAGIC, PAYLOAD_BYTES_MAX, Parts, VERSION, VERSION_MIN, checksum};

/// Reason why no further event can be read. The events that were read before this error are valid; if the error is
/// [`TraceError::Miscounted`], some of them can be missing or duplicated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The data does not begin with the magic number of a trace.
    #[error("the file is not a trace: it does not begin with the magic number of a trace")]
    NotATrace,
    /// The version of the trace is not supported.
    #[error("the trace has version {found}; this library reads versions {VERSION_MIN} to {VERSION}")]
    Version {
        /// Version of the trace.
        found: u32,
    },
    /// The data ends before the end event: the program was stopped, or the file was copied in part.
    #[error("the trace is cut off at byte {at_byte}, after {event_count} events in {chunk_count} whole chunks")]
    CutOff {
        /// Number of bytes of the data.
        at_byte: u64,
        /// Number of events that were read.
        event_count: u64,
        /// Number of whole chunks that were read.
        chunk_count: u64,
    },
    /// A chunk is damaged.
    #[error(
        "the trace is damaged in the chunk at byte {at_byte}: {what}; {event_count} events in {chunk_count} whole \
         chunks before it were read"
    )]
    Corrupted {
        /// Offset of the damaged chunk, in bytes.
        at_byte: u64,
        /// Description of the damage, as a sentence about the chunk.
        what: &'static str,
        /// Number of events that were read.
        event_count: u64,
        /// Number of whole chunks that were read.
        chunk_count: u64,
    },
    /// Each chunk is whole, but chunks are missing or duplicated, and so are their events.
    #[error(
        "the trace was written with {written_count} events, but {event_count} were read in {chunk_count} whole chunks: \
         chunks are missing or duplicated"
    )]
    Miscounted {
        /// Number of events according to the end event.
        written_count: u64,
        /// Number of events that were read before the end event.
        event_count: u64,
        /// Number of whole chunks that were read.
        chunk_count: u64,
    },
    /// Reading the data failed.
    #[error("the trace cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// Iterator over the events of a trace. It ends after [`Event::End`] or after an error, and keeps one chunk in host
/// memory.
pub struct Reader<R> {
    from: R,
    version: u32,
    payload: Vec<u8>,
    /// Number of bytes of the payload that were decoded.
    at: usize,
    /// Offsets of the current chunk and of the next chunk in the data, in bytes.
    chunk_byte: u64,
    next_byte: u64,
    /// Number of events of the current chunk that were not returned yet.
    left: u32,
    event_count: u64,
    chunk_count: u64,
    has_ended: bool,
}

impl<R: Read> Reader<R> {
    /// Creates a reader, and reads the header of the trace.
    ///
    /// # Errors
    /// The data is not a trace, its version is not supported, the data ends inside the header, or it cannot be read.
    pub fn new(mut from: R) -> Result<Self, TraceError> {
        let mut head = [0; MAGIC.len() + 4];
        let length = read_up_to(&mut from, &mut head)?;
        if length < MAGIC.len() || head[..MAGIC.len()] != MAGIC {
            return Err(TraceError::NotATrace);
        }
        if length < head.len() {
            return Err(TraceError::CutOff { at_byte: length as u64, event_count: 0, chunk_count: 0 });
        }
        let found = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
        if !(VERSION_MIN..=VERSION).contains(&found) {
            return Err(TraceError::Version { found });
        }
        Ok(Self {
            from,
            version: found,
            payload: Vec::new(),
            at: 0,
            chunk_byte: head.len() as u64,
            next_byte: head.len() as u64,
            left: 0,
            event_count: 0,
            chunk_count: 0,
            has_ended: false,
        })
    }

    /// Returns the number of events that the iterator has returned.
    #[must_use]
    pub fn event_count(&self) -> u64 {
        self.event_count
    }

    fn read_event(&mut self) -> Result<Event, TraceError> {
        while self.left == 0 {
            self.read_chunk()?;
        }
        let mut parts = Parts(&self.payload[self.at..]);
        let event = Event::take(&mut parts, self.version);
        self.at = self.payload.len() - parts.0.len();
        let Some(event) = event else { return Err(self.damaged("an event is not valid in this version")) };
        self.left -= 1;
        if self.left == 0 {
            if self.at != self.payload.len() {
                return Err(self.damaged("it has bytes after its last event"));
            }
            self.chunk_count += 1;
        }
        match event {
            Event::End { event_count: written_count } if written_count != self.event_count => {
                let (event_count, chunk_count) = (self.event_count, self.chunk_count);
                Err(TraceError::Miscounted { written_count, event_count, chunk_count })
            }
            event => {
                self.event_count += 1;
                Ok(event)
            }
        }
    }

    fn read_chunk(&mut self) -> Result<(), TraceError> {
        self.chunk_byte = self.next_byte;
        let mut head = [0; CHUNK_HEAD_BYTES];
        let length = read_up_to(&mut self.from, &mut head)?;
        if length < head.len() {
            return Err(self.cut_off(length));
        }
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (bytes, count, sum) = (word(0), word(4), word(8));
        if bytes > PAYLOAD_BYTES_MAX {
            return Err(self.damaged("its length is too large"));
        }
        self.payload.clear();
        let got = Read::take(&mut self.from, u64::from(bytes)).read_to_end(&mut self.payload)?;
        if got < bytes as usize {
            return Err(self.cut_off(head.len() + got));
        }
        if checksum(checksum(0, &head[..8]), &self.payload) != sum {
            return Err(self.damaged("its checksum does not match"));
        }
        self.next_byte += (head.len() + got) as u64;
        (self.at, self.left) = (0, count);
        Ok(())
    }

    fn cut_off(&self, more: usize) -> TraceError {
        let at_byte = self.next_byte + more as u64;
        TraceError::CutOff { at_byte, event_count: self.event_count, chunk_count: self.chunk_count }
    }

    fn damaged(&self, what: &'static str) -> TraceError {
        let at_byte = self.chunk_byte;
        TraceError::Corrupted { at_byte, what, event_count: self.event_count, chunk_count: self.chunk_count }
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Event, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let event = self.read_event();
        self.has_ended = matches!(event, Ok(Event::End { .. }) | Err(_));
        Some(event)
    }
}

/// Reads until `into` is full or `from` ends. Returns the number of bytes read.
fn read_up_to(from: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < into.len() {
        match from.read(&mut into[length..]) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Chunk, State, Writer};

    /// Returns a trace of one chunk with a valid checksum and an arbitrary payload.
    fn trace(count: u32, payload: &[u8]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        let mut head = Vec::from((payload.len() as u32).to_le_bytes());
        head.extend(count.to_le_bytes());
        let sum = checksum(checksum(0, &head), payload);
        bytes.extend(head);
        bytes.extend(sum.to_le_bytes());
        bytes.extend(payload);
        bytes
    }

    #[test]
    fn made_up_events_under_a_true_checksum_give_errors_and_odd_counts_and_never_a_panic() {
        let mut dice = 0x9e37_79b9_7f4a_7c15_u64;
        let mut roll = move |end: u64| {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            dice % end
        };
        let codes = [
            1, 2, 3, 0x10, 0x14, 0x15, 0x20, 0x20, 0x21, 0x22, 0x22, 0x23, 0x24, 0x26, 0x30, 0x40, 0x40, 0x41, 0x41,
            0x42, 0x43, 0x44, 0x45, 0x46, 0x25, 0x31, 0x32, 0x33, 0x50,
        ];
        for _ in 0..3_000 {
            let mut payload = Vec::new();
            for _ in 0..roll(60) {
                payload.push(codes[roll(codes.len() as u64) as usize]);
                // Small numbers, so that events refer to the same blocks and ranges, and occasionally a huge one.
                for _ in 0..roll(6) {
                    if roll(8) == 0 {
                        payload.extend([0xff; 9]);
                        payload.push(1);
                    } else {
                        payload.push(roll(6) as u8);
                    }
                }
            }
            let mut state = State::new();
            let bytes = trace(roll(70) as u32, &payload);
            for event in Reader::new(&bytes[..]).expect("the header is valid").flatten() {
                state.apply(&event);
            }
            let snapshot = state.snapshot();
            let _ = (state.free_bytes(), state.live_count());
            assert!(snapshot.blocks.iter().all(|block| block.free_bytes() <= block.bytes));
        }
    }

    /// Each chunk has its own checksum, so a missing or a duplicated chunk shows only in the event count of the end
    /// event.
    #[test]
    fn a_trace_with_a_chunk_missing_or_there_twice_does_not_end_in_order() {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        let (mut chunk, mut ends) = (Chunk::default(), Vec::new());
        for block in 1..=3 {
            chunk.clear();
            chunk.push(&Event::BlockMade { block, memory_type: 0, dedicated: false, bytes: 64, class: "buffers" });
            writer.write(&chunk).expect("memory is writable");
            ends.push(writer.summary().bytes as usize);
        }
        writer.end().expect("memory is writable");
        let last = |bytes: &[u8]| Reader::new(bytes).expect("a valid header").last().expect("a result");
        assert!(matches!(last(&bytes), Ok(Event::End { event_count: 3 })));
        let second = ends[0]..ends[1];
        let missing = [&bytes[..second.start], &bytes[second.end..]].concat();
        let error = last(&missing).expect_err("an event is missing");
        assert!(matches!(error, TraceError::Miscounted { written_count: 3, event_count: 2, .. }), "{error}");
        let twice = [&bytes[..second.end], &bytes[second.start..]].concat();
        let error = last(&twice).expect_err("an event is duplicated");
        assert!(matches!(error, TraceError::Miscounted { written_count: 3, event_count: 4, .. }), "{error}");
    }

    #[test]
    fn a_chunk_that_is_longer_than_its_events_is_damaged_where_it_begins() {
        let bytes = trace(1, &[0x21, 7, 0x21, 8]);
        let mut reader = Reader::new(&bytes[..]).expect("the header is valid");
        let error = reader.next().expect("the reader returns a result").expect_err("the chunk has a byte too many");
        assert!(matches!(error, TraceError::Corrupted { at_byte: 12, event_count: 0, .. }), "{error}");
        assert!(reader.next().is_none());
        let bytes = trace(1 << 31, &[]);
        let mut reader = Reader::new(&bytes[..]).expect("the header is valid");
        assert!(matches!(reader.next(), Some(Err(TraceError::Corrupted { at_byte: 12, .. }))));
    }
}
