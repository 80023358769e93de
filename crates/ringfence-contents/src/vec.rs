//! A growable vector of elements on the device, with a copy on the host.
//!
//! ```text
//!   values     ├ a │ b │ c │ d │ e ┤              host copy, changed at once
//!   changed        └───┘       └───┘              ranges of elements that the device lacks
//!   buffer     ├ a │ ? │ ? │ d │ ? │···free···┤   changed by the copies of `update`
//! ```
//!
//! | operation | cost |
//! |---|---|
//! | `push`, `set`, `swap_remove`, `truncate` | O(1); amortized for `push` |
//! | `extend` | O(elements added) |
//! | `remove`, `insert` | O(elements behind it) |
//! | `update` | O(changed bytes), one copy for each range; a driver buffer if the vector has outgrown its buffer |

use std::fmt;
use std::ops::Range;

use bytemuck::NoUninit;

use super::error::ContentsError;
use crate::device::{BufferDesc, BufferUsage, Device, RawBuffer};
use ringfence_memory::lifetime::Frame;
use ringfence_memory::memory::Location;
use ringfence_memory::resource::{AsBufferSlice, BufferSlice};
use ringfence_memory::{AllocationDesc, Allocator, Buffer};
use ringfence_upload::{BatchError, Staged, UploadBatch, UploadError, UploadRing};

/// Changed ranges that are at most this number of bytes apart are copied as one range.
const GAP_BYTES: usize = 256;
/// The largest number of separate changed ranges. Beyond it, the nearest ranges are joined.
const RANGES_MAX: usize = 64;
/// Capacity of the first buffer, in bytes.
const FIRST_BYTES: u64 = 4096;

/// Configuration of a [`GpuVec`].
#[derive(Clone, Copy, Debug)]
pub struct GpuVecDesc<'a> {
    /// Usages of the buffer; usages for copies are added.
    pub usage: BufferUsage,
    /// Largest number of bytes that one call of [`GpuVec::update`] stages, but at least one element. The rest follows
    /// in later calls.
    pub update_bytes_max: u64,
    /// Name for reports and for the driver's objects.
    pub name: &'a str,
}

impl Default for GpuVecDesc<'_> {
    /// A storage buffer that shaders read; at most 16 MiB are staged in a call.
    fn default() -> Self {
        Self { usage: BufferUsage::STORAGE_READ, update_bytes_max: 16 << 20, name: "" }
    }
}

/// Result of [`GpuVec::update`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Updated {
    /// Bytes that were staged.
    pub staged_bytes: u64,
    /// Bytes that are copied on the device from the previous buffer.
    pub kept_bytes: u64,
    /// `true` if the vector has a new buffer: descriptors and bindings of the previous one must be replaced.
    pub is_moved: bool,
    /// Elements that still have to be uploaded, because of [`GpuVecDesc::update_bytes_max`].
    pub waiting: usize,
}

/// A vector of elements in a buffer of the device.
///
/// The elements are changed on the host. [`GpuVec::update`], once a frame, adds copies of the changed elements to a
/// batch. Work that follows the batch reads the new elements. Earlier work on the same queue reads the previous
/// elements, because the barriers of the batch order the copies behind it. Before an update, the program must make the
/// queue wait for work on other queues that reads the vector.
///
/// A buffer that is too small is replaced by one of at least twice the size, and retired. Unchanged elements are copied
/// on the device, or uploaded again if unrecorded copies still write to the old buffer.
///
/// The host keeps a copy of the elements. So the vector can be read at any time, and elements whose upload was lost
/// with a discarded frame are uploaded again.
///
/// Dropping the vector retires its buffer.
pub struct GpuVec<D: Device, T> {
    memory: Allocator<D>,
    usage: BufferUsage,
    update_bytes_max: u64,
    name: Box<str>,
    values: Vec<T>,
    buffer: Option<Buffer<D>>,
    changed: Vec<Range<usize>>,
}

impl<D: Device, T: NoUninit> GpuVec<D, T> {
    /// Creates an empty vector, without a buffer.
    ///
    /// # Panics
    /// If `T` has no bytes.
    #[must_use]
    pub fn new(memory: &Allocator<D>, desc: GpuVecDesc<'_>) -> Self {
        assert!(size_of::<T>() > 0, "elements have at least one byte");
        Self {
            memory: memory.clone(),
            usage: desc.usage | BufferUsage::COPY_DST | BufferUsage::COPY_SRC,
            update_bytes_max: desc.update_bytes_max.max(size_of::<T>() as u64),
            name: desc.name.into(),
            values: Vec::new(),
            buffer: None,
            changed: Vec::new(),
        }
    }

    /// Returns the elements.
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        &self.values
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns `true` if there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the number of elements that the present buffer can contain.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.buffer.as_ref().map_or(0, |buffer| buffer.size() as usize / size_of::<T>())
    }

    /// Returns the buffer, in which element `i` is at byte `i * size_of::<T>()`. Returns `None` before the first
    /// update with elements. An update may replace the buffer.
    #[must_use]
    pub fn buffer(&self) -> Option<&Buffer<D>> {
        self.buffer.as_ref()
    }

    /// Returns the driver's buffer; see [`GpuVec::buffer`].
    #[must_use]
    pub fn object(&self) -> Option<&RawBuffer<D>> {
        self.buffer.as_ref().map(Buffer::object)
    }

    /// Returns the buffer as a range that contains exactly the elements, for a view. Returns `None` if there are no
    /// elements, or if they do not fit into the buffer before the next update.
    #[must_use]
    pub fn slice(&self) -> Option<GpuSlice<'_, D>> {
        let size = size_of_val(self.values.as_slice()) as u64;
        let buffer = self.buffer.as_ref().filter(|buffer| size > 0 && size <= buffer.size())?;
        Some(GpuSlice { buffer, size })
    }

    /// Appends an element.
    pub fn push(&mut self, value: T) {
        self.values.push(value);
        self.change(self.values.len() - 1..self.values.len());
    }

    /// Appends elements.
    pub fn extend_from_slice(&mut self, values: &[T]) {
        let first = self.values.len();
        self.values.extend_from_slice(values);
        self.change(first..self.values.len());
    }

    /// Replaces an element, and returns the previous one.
    ///
    /// # Panics
    /// If there is no such element.
    pub fn set(&mut self, index: usize, value: T) -> T {
        let previous = std::mem::replace(&mut self.values[index], value);
        self.change(index..index + 1);
        previous
    }

    /// Returns elements to change. All of them count as changed.
    ///
    /// # Panics
    /// If the range is not inside the vector.
    pub fn slice_mut(&mut self, range: Range<usize>) -> &mut [T] {
        let values = &mut self.values[range.clone()];
        change(&mut self.changed, range, size_of::<T>());
        values
    }

    /// Removes an element and returns it. The last element takes its place.
    ///
    /// # Panics
    /// If there is no such element.
    pub fn swap_remove(&mut self, index: usize) -> T {
        let removed = self.values.swap_remove(index);
        self.cut();
        if index < self.values.len() {
            self.change(index..index + 1);
        }
        removed
    }

    /// Removes an element and returns it. The elements behind it move forward.
    ///
    /// # Panics
    /// If there is no such element.
    pub fn remove(&mut self, index: usize) -> T {
        let removed = self.values.remove(index);
        self.cut();
        self.change(index..self.values.len());
        removed
    }

    /// Inserts an element. The elements from `index` on move back.
    ///
    /// # Panics
    /// If `index` is above the number of elements.
    pub fn insert(&mut self, index: usize, value: T) {
        self.values.insert(index, value);
        self.change(index..self.values.len());
    }

    /// Removes the elements from `len` on.
    pub fn truncate(&mut self, len: usize) {
        self.values.truncate(len);
        self.cut();
    }

    /// Removes all elements. The buffer is kept.
    pub fn clear(&mut self) {
        self.truncate(0);
    }

    /// Stages the changed elements in `ring`, and adds their copies to `batch`. The batch must be recorded in `frame`,
    /// before the work that uses the elements; the caller then uses [`GpuVec::buffer`], which may be a new one.
    ///
    /// If an earlier update was lost, because its frame was discarded, all elements are uploaded again.
    ///
    /// # Errors
    /// - A buffer could not be created. Nothing has changed then.
    /// - The ring has no room, or no frame is open: ranges that were staged before are in the batch, and the others
    ///   still count as changed.
    /// - The frame or the batch belongs to another allocator.
    pub fn update(
        &mut self,
        ring: &UploadRing<D>,
        batch: &mut UploadBatch<D>,
        frame: &Frame,
    ) -> Result<Updated, ContentsError> {
        let mut updated = Updated::default();
        if !self.memory.shared().owns(frame) {
            return Err(UploadError::ForeignFrame { frame: frame.point() }.into());
        }
        if self.buffer.as_ref().is_some_and(Buffer::take_content_lost) {
            self.change(0..self.values.len());
        }
        if self.values.len() > self.capacity() {
            updated.kept_bytes = self.grow(batch, frame)?;
            updated.is_moved = true;
        }
        let Some(buffer) = &self.buffer else { return Ok(updated) };
        while let Some(range) = self.changed.first().cloned() {
            let room = (self.update_bytes_max - updated.staged_bytes) as usize / size_of::<T>();
            if room == 0 {
                break;
            }
            let range = range.start..range.end.min(range.start + room);
            let bytes = bytemuck::cast_slice(&self.values[range.clone()]);
            let staged = ring.write_for(frame, bytes, 16)?;
            batch.copy(&staged, buffer, (range.start * size_of::<T>()) as u64)?;
            updated.staged_bytes += bytes.len() as u64;
            if range.end == self.changed[0].end {
                self.changed.remove(0);
            } else {
                self.changed[0].start = range.end;
            }
        }
        updated.waiting = self.changed.iter().map(Range::len).sum();
        Ok(updated)
    }

    /// Replaces the buffer with a larger one. Adds a copy of the kept elements to `batch`, and returns its size in
    /// bytes.
    fn grow(&mut self, batch: &mut UploadBatch<D>, frame: &Frame) -> Result<u64, ContentsError> {
        let needed = size_of_val(self.values.as_slice()) as u64;
        let held = self.buffer.as_ref().map_or(0, Buffer::size);
        let size = needed.max(held.saturating_mul(2)).max(FIRST_BYTES);
        let desc = AllocationDesc { name: &self.name, location: Location::Device, ..Default::default() };
        let new = self.memory.create_buffer(&BufferDesc { size, usage: self.usage }, desc)?;
        let mut kept = (self.kept() * size_of::<T>()) as u64;
        if let Some(old) = &self.buffer
            && kept > 0
        {
            // Copies that are recorded after this one would write to the old buffer.
            if batch.others_write(old) {
                self.change(0..self.values.len());
                self.buffer = Some(new);
                return Ok(0);
            }
            match batch.copy(&Staged::of_in(old, 0, kept, frame)?, &new, 0) {
                // The batch also writes the old buffer, for an earlier update of the same frame.
                Err(BatchError::ReadsTarget { .. }) => {
                    self.change(0..self.values.len());
                    kept = 0;
                }
                copied => {
                    copied?;
                    old.pass_losses_to(&new);
                }
            }
        }
        // The frame is open, so the old buffer lives until the frame is complete.
        self.buffer = Some(new);
        Ok(kept)
    }

    /// Returns the length of the shortest prefix of the buffer that contains all unchanged elements.
    fn kept(&self) -> usize {
        let len = self.values.len().min(self.capacity());
        match self.changed.last() {
            Some(last) if last.end >= len => last.start.min(len),
            _ => len,
        }
    }

    fn change(&mut self, range: Range<usize>) {
        change(&mut self.changed, range, size_of::<T>());
    }

    /// Removes changed ranges beyond the last element.
    fn cut(&mut self) {
        let len = self.values.len();
        self.changed.retain_mut(|range| {
            range.end = range.end.min(len);
            range.start < range.end
        });
    }

    /// Checks the invariants: changed ranges are sorted, apart, not empty, and inside the vector.
    ///
    /// # Errors
    /// The first range that breaks them.
    pub fn validate(&self) -> Result<(), Range<usize>> {
        let mut end = 0;
        for (number, range) in self.changed.iter().enumerate() {
            let is_apart = number == 0 || range.start > end;
            if !is_apart || range.is_empty() || range.end > self.values.len() {
                return Err(range.clone());
            }
            end = range.end;
        }
        Ok(())
    }
}

/// Adds a range to sorted ranges. Joins ranges that are near each other.
fn change(ranges: &mut Vec<Range<usize>>, mut range: Range<usize>, element_bytes: usize) {
    if range.is_empty() {
        return;
    }
    let gap = GAP_BYTES / element_bytes;
    let first = ranges.partition_point(|held| held.end + gap < range.start);
    let count = ranges[first..].iter().take_while(|held| held.start <= range.end + gap).count();
    for held in &ranges[first..first + count] {
        range = range.start.min(held.start)..range.end.max(held.end);
    }
    ranges.splice(first..first + count, [range]);
    if ranges.len() > RANGES_MAX {
        let distance = |at: &usize| ranges[*at + 1].start - ranges[*at].end;
        let nearest = (0..ranges.len() - 1).min_by_key(distance).expect("there are several ranges");
        let end = ranges.remove(nearest + 1).end;
        ranges[nearest].end = end;
    }
}

/// The elements of a [`GpuVec`] as a range of its buffer.
pub struct GpuSlice<'a, D: Device> {
    buffer: &'a Buffer<D>,
    size: u64,
}

impl<D: Device> GpuSlice<'_, D> {
    /// Returns the size of the elements, in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }
}

// SAFETY: the range is a part of the vector's buffer, which the value borrows.
unsafe impl<D: Device> AsBufferSlice<D> for GpuSlice<'_, D> {
    fn as_slice(&self) -> BufferSlice<'_, D> {
        BufferSlice { size: self.size, ..self.buffer.as_slice() }
    }
}

/// A vector that gets elements, and the index of the first of them. Marks them as changed on drop.
struct Added<'a, D: Device, T: NoUninit>(&'a mut GpuVec<D, T>, usize);

impl<D: Device, T: NoUninit> Drop for Added<'_, D, T> {
    fn drop(&mut self) {
        self.0.change(self.1..self.0.values.len());
    }
}

impl<D: Device, T: NoUninit> Extend<T> for GpuVec<D, T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, values: I) {
        // The elements before a panic of the iterator are changed too.
        let first = self.values.len();
        let added = Added(self, first);
        added.0.values.extend(values);
    }
}

impl<D: Device, T> fmt::Debug for GpuVec<D, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, values, buffer, changed, .. } = self;
        write!(f, "GpuVec({name:?}, {} elements, {} changed ranges, {buffer:?})", values.len(), changed.len())
    }
}
