//! A checked trace in a compact form that is fast to read again. A small one is in memory, a large one in a temporary
//! file.
//!
//! An operation is a number with 7 bits per byte, the lowest bits first: twice the slot, plus one for an allocation. An
//! allocation also has its size, in the same form, and a byte with the binary logarithm of its alignment. Slots are
//! reused, so the number of slots is the largest number of live allocations.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

/// When this number of encoded bytes is reached, they are written to a file.
const MEMORY_BYTES_MAX: usize = 16 << 20;
const CHUNK_BYTES: usize = 1 << 18;
/// Maximum length of an encoded operation, in bytes.
const OPERATION_BYTES_MAX: usize = 10 + 10 + 1;
/// Maximum number of live bytes. A larger number is rejected as an error, so that sums cannot overflow.
pub const LIVE_BYTES_MAX: u64 = 1 << 60;

/// An operation of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    Allocate { slot: u32, size: u64, alignment: u64 },
    Free { slot: u32 },
}

/// The reason why an operation is invalid at its position in the trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Misuse {
    /// An allocation has an identifier that is already alive.
    Alive,
    /// A free has an identifier that is not alive.
    NotAlive,
    /// The live bytes would exceed [`LIVE_BYTES_MAX`].
    TooMuch,
}

/// Checks and stores operations. [`Writer::finish`] returns the [`Spool`].
#[derive(Default)]
pub struct Writer {
    slots: HashMap<u128, u32>,
    /// Size of the live allocation of each slot, in bytes.
    sizes: Vec<u64>,
    vacant: Vec<u32>,
    live_bytes: u64,
    peak_live_bytes: u64,
    peak_live_count: usize,
    size_min: u64,
    operations: u64,
    allocations: u64,
    buffer: Vec<u8>,
    file: Option<TemporaryFile>,
}

impl Writer {
    /// Adds an allocation. Its identifier must not be alive.
    pub fn allocate(&mut self, id: u128, size: u64, alignment: u64) -> io::Result<Result<(), Misuse>> {
        if self.slots.contains_key(&id) {
            return Ok(Err(Misuse::Alive));
        }
        if size > LIVE_BYTES_MAX - self.live_bytes {
            return Ok(Err(Misuse::TooMuch));
        }
        let slot = self.vacant.pop().unwrap_or(self.sizes.len() as u32);
        if slot as usize == self.sizes.len() {
            self.sizes.push(0);
        }
        self.sizes[slot as usize] = size;
        self.slots.insert(id, slot);
        self.live_bytes += size;
        self.peak_live_bytes = self.peak_live_bytes.max(self.live_bytes);
        self.peak_live_count = self.peak_live_count.max(self.slots.len());
        self.size_min = if self.allocations == 0 { size } else { self.size_min.min(size) };
        self.allocations += 1;
        self.push_number(u64::from(slot) << 1 | 1);
        self.push_number(size);
        self.buffer.push(alignment.trailing_zeros() as u8);
        self.operation_done().map(Ok)
    }

    /// Adds a free. Its identifier must be alive.
    pub fn free(&mut self, id: u128) -> io::Result<Result<(), Misuse>> {
        let Some(slot) = self.slots.remove(&id) else { return Ok(Err(Misuse::NotAlive)) };
        self.live_bytes -= self.sizes[slot as usize];
        self.vacant.push(slot);
        self.push_number(u64::from(slot) << 1);
        self.operation_done().map(Ok)
    }

    /// Returns `true` if an allocation with this identifier is alive.
    pub fn is_alive(&self, id: u128) -> bool {
        self.slots.contains_key(&id)
    }

    pub fn operation_count(&self) -> u64 {
        self.operations
    }

    fn push_number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.buffer.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.buffer.push(number as u8);
    }

    fn operation_done(&mut self) -> io::Result<()> {
        self.operations += 1;
        if self.buffer.len() >= MEMORY_BYTES_MAX {
            if self.file.is_none() {
                self.file = Some(TemporaryFile::new()?);
            }
            self.spill()?;
        }
        Ok(())
    }

    fn spill(&mut self) -> io::Result<()> {
        if let Some(file) = &mut self.file {
            file.file.write_all(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }

    pub fn finish(mut self) -> io::Result<Spool> {
        self.spill()?;
        Ok(Spool {
            operations: self.operations,
            allocations: self.allocations,
            peak_live_bytes: self.peak_live_bytes,
            peak_live_count: self.peak_live_count,
            size_min: self.size_min,
            slot_count: self.sizes.len(),
            bytes: self.buffer,
            file: self.file,
        })
    }
}

/// A whole trace. It is checked: each free has a live allocation.
pub struct Spool {
    operations: u64,
    allocations: u64,
    peak_live_bytes: u64,
    peak_live_count: usize,
    size_min: u64,
    slot_count: usize,
    /// The encoded operations; empty if they are in the file.
    bytes: Vec<u8>,
    file: Option<TemporaryFile>,
}

impl Spool {
    pub fn operation_count(&self) -> u64 {
        self.operations
    }

    pub fn allocation_count(&self) -> u64 {
        self.allocations
    }

    /// Returns the largest total size of allocations that were alive at the same time, in bytes.
    pub fn peak_live_bytes(&self) -> u64 {
        self.peak_live_bytes
    }

    pub fn peak_live_count(&self) -> usize {
        self.peak_live_count
    }

    /// Returns the smallest size of an allocation, in bytes.
    pub fn size_min(&self) -> u64 {
        self.size_min
    }

    pub fn slot_count(&self) -> usize {
        self.slot_count
    }

    /// Calls `visit` with all operations in order, `batch` at a time, until it returns `false`.
    pub fn for_each_batch(&self, batch: usize, mut visit: impl FnMut(&[Operation]) -> bool) -> io::Result<()> {
        let mut reader = Batches::new(self)?;
        let mut operations = Vec::with_capacity(batch);
        loop {
            operations.clear();
            while operations.len() < batch
                && let Some(operation) = reader.next()?
            {
                operations.push(operation);
            }
            if operations.is_empty() || !visit(&operations) {
                return Ok(());
            }
        }
    }
}

/// Decodes the operations from memory, or piece by piece from the file.
struct Batches<'a> {
    piece: Piece<'a>,
    at: usize,
}

enum Piece<'a> {
    Memory(&'a [u8]),
    File { file: File, buffer: Vec<u8>, at_end: bool },
}

impl<'a> Batches<'a> {
    fn new(spool: &'a Spool) -> io::Result<Self> {
        let piece = match &spool.file {
            None => Piece::Memory(&spool.bytes),
            Some(temporary) => {
                let mut file = temporary.file.try_clone()?;
                file.seek(SeekFrom::Start(0))?;
                Piece::File { file, buffer: Vec::with_capacity(CHUNK_BYTES), at_end: false }
            }
        };
        Ok(Self { piece, at: 0 })
    }

    fn next(&mut self) -> io::Result<Option<Operation>> {
        if let Piece::File { file, buffer, at_end } = &mut self.piece
            && !*at_end
            && buffer.len() - self.at < OPERATION_BYTES_MAX
        {
            buffer.drain(..self.at);
            self.at = 0;
            let wanted = (CHUNK_BYTES - buffer.len()) as u64;
            *at_end = Read::take(&mut *file, wanted).read_to_end(buffer)? == 0;
        }
        let bytes = match &self.piece {
            Piece::Memory(bytes) => *bytes,
            Piece::File { buffer, .. } => buffer,
        };
        if self.at == bytes.len() {
            return Ok(None);
        }
        let head = number(bytes, &mut self.at);
        let slot = (head >> 1) as u32;
        if head & 1 == 0 {
            return Ok(Some(Operation::Free { slot }));
        }
        let size = number(bytes, &mut self.at);
        let alignment = 1 << bytes[self.at];
        self.at += 1;
        Ok(Some(Operation::Allocate { slot, size, alignment }))
    }
}

fn number(bytes: &[u8], at: &mut usize) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let byte = bytes[*at];
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}

/// A file that is deleted when the value is dropped.
struct TemporaryFile {
    file: File,
    path: PathBuf,
}

impl TemporaryFile {
    fn new() -> io::Result<Self> {
        let folder = std::env::temp_dir();
        loop {
            let path = folder.join(format!("ringfence-{}-{:016x}.spool", std::process::id(), fastrand::u64(..)));
            match File::options().read(true).write(true).create_new(true).open(&path) {
                Ok(file) => return Ok(Self { file, path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(spool: &Spool) -> Vec<Operation> {
        let mut all = Vec::new();
        spool
            .for_each_batch(7, |batch| {
                all.extend_from_slice(batch);
                true
            })
            .expect("a spool can be read");
        all
    }

    #[test]
    fn gives_back_what_was_put_in_from_memory_and_from_a_file() {
        let mut expected = Vec::new();
        let (mut small, mut large) = (Writer::default(), Writer::default());
        large.file = Some(TemporaryFile::new().expect("a temporary file"));
        let path = large.file.as_ref().map(|file| file.path.clone()).expect("it was made");
        for id in 0..100_000_u64 {
            let (size, alignment) = (1 << (id % 60), 1 << (id % 17));
            for writer in [&mut small, &mut large] {
                writer.allocate(u128::from(id), size, alignment).expect("no file error").expect("it is no misuse");
                writer.free(u128::from(id)).expect("no file error").expect("it is no misuse");
            }
            expected.extend([Operation::Allocate { slot: 0, size, alignment }, Operation::Free { slot: 0 }]);
        }
        let (small, large) = (small.finish().expect("small"), large.finish().expect("large"));
        assert!(large.bytes.is_empty() && path.exists());
        assert!(all(&small) == expected && all(&large) == expected && all(&large) == expected);
        assert_eq!((small.slot_count(), small.peak_live_bytes()), (1, 1 << 59));
        drop(large);
        assert!(!path.exists());
    }

    #[test]
    fn misuse_is_named_and_changes_nothing() {
        let mut writer = Writer::default();
        assert_eq!(writer.free(1).expect("no file error"), Err(Misuse::NotAlive));
        writer.allocate(1, 8, 1).expect("no file error").expect("it is no misuse");
        assert_eq!(writer.allocate(1, 8, 1).expect("no file error"), Err(Misuse::Alive));
        assert_eq!(writer.allocate(2, LIVE_BYTES_MAX, 1).expect("no file error"), Err(Misuse::TooMuch));
        assert_eq!(writer.operation_count(), 1);
    }
}
