//! The resources of a world (things), with their expected contents and the work that uses them.

use ringfence::descriptor::BindlessIndex;
use ringfence::device::{Requirements, ResourceClass};
use ringfence::lifetime::SyncSet;
use ringfence::sim::Device;
use ringfence::{Buffer, SyncPoint, Texture, Timeline};

/// A submission: its queue, and the value that it signals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Use {
    pub queue: usize,
    pub value: u64,
}

pub enum Body {
    Buffer(Buffer<Device>),
    /// A square RGBA8 texture, and its side in texels.
    Texture(Texture<Device>, u32),
}

pub struct Thing {
    pub body: Body,
    /// The expected contents once all recorded work has run.
    pub bytes: Vec<u8>,
    /// `true` if the host writes the thing.
    pub is_upload: bool,
    /// Index of the thing in the bindless table, if it has one.
    pub entry: Option<BindlessIndex>,
    write: Option<Use>,
    reads: Vec<Use>,
}

impl Thing {
    pub fn new(body: Body, bytes: Vec<u8>, is_upload: bool) -> Self {
        Self { body, bytes, is_upload, entry: None, write: None, reads: Vec::new() }
    }

    pub fn buffer(&self) -> Option<&Buffer<Device>> {
        match &self.body {
            Body::Buffer(buffer) => Some(buffer),
            Body::Texture(..) => None,
        }
    }

    /// Returns the work that must be complete before the thing is read.
    pub fn before_read(&self) -> Vec<Use> {
        self.write.into_iter().collect()
    }

    /// Returns the work that must be complete before the thing is written.
    pub fn before_write(&self) -> Vec<Use> {
        self.write.iter().chain(&self.reads).copied().collect()
    }

    pub fn read_by(&mut self, by: Use) {
        self.reads.retain(|held| held.queue != by.queue);
        self.reads.push(by);
    }

    pub fn written_by(&mut self, by: Use) {
        self.reads.clear();
        self.write = Some(by);
    }

    /// Returns all work that uses the thing, as points of the library's timelines.
    pub fn points(&self, timelines: &[Timeline<Device>]) -> SyncSet {
        self.before_write().iter().map(|user| SyncPoint::new(timelines[user.queue].id(), user.value)).collect()
    }
}

/// A pending readback, and the bytes that it must contain.
pub struct Check {
    pub back: Buffer<Device>,
    pub by: Use,
    /// Size of a row (`row`) and distance between rows (`pitch`), in bytes. A buffer is one row.
    pub row: usize,
    pub pitch: usize,
    pub expected: Vec<u8>,
    pub what: &'static str,
}

impl Check {
    /// Returns `true` if `read` contains the expected bytes.
    pub fn holds(&self, read: &[u8]) -> bool {
        read.chunks(self.pitch).zip(self.expected.chunks(self.row)).all(|(read, expected)| read.starts_with(expected))
    }

    pub fn padded_bytes(&self) -> usize {
        self.expected.len() / self.row * self.pitch
    }
}

/// Returns requirements for memory without a resource, like those of a buffer.
pub fn needs(size: u64, alignment: u64, memory_type_bits: u32) -> Requirements {
    let class = ResourceClass::Buffer;
    Requirements { size, alignment, memory_type_bits, class, prefers_dedicated: false, requires_dedicated: false }
}
