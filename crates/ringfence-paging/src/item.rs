//! A paged resource: its contents on the host, and its object on the device.
//!
//! ```text
//!               ┌───────────── bring ─────────────┐        all mip levels, or those from a level on
//!   away: host copy only                      present: host copy, and an object on the device
//!               └─ leave, once its uses passed ───┘        the device writes it: the host copy is stale, so it stays
//!                                                          write_back: the host copy is current again
//! ```

use std::sync::Arc;

use ringfence_commands::{CommandError, Commands};
use ringfence_core::sync::{Progress, SyncPoint, SyncSet};
use ringfence_hal::record::TextureParts;
use ringfence_hal::transfer::{Transfer, TransferSupport};
use ringfence_hal::{BufferDesc, BufferUsage, Device, DeviceError, Priority, TexelBox, TextureDesc};
use ringfence_memory::defrag::{DefragPass, MoveError};
use ringfence_memory::extend::{Passed, Shared};
use ringfence_memory::{AllocationDesc, Allocator, Buffer, Dedicated, Error, Frame, Texture};
use smallvec::SmallVec;

use crate::PagingError;
use crate::desc::WhenAway;
use crate::handle::{Alive, UseKind};
use crate::host_copy::{HostCopy, HostState, Layout};
use crate::policy::Rhythm;

/// The description of a paged resource, with the usages that copies need.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    Buffer(BufferDesc),
    Texture(TextureDesc, TextureParts),
}

/// The object on the device.
pub(crate) enum Body<D: Device> {
    Buffer(Buffer<D>),
    Texture(Texture<D>),
}

impl<D: Device> Body<D> {
    pub(crate) fn memory_bytes(&self) -> u64 {
        match self {
            Self::Buffer(buffer) => buffer.memory_bytes(),
            Self::Texture(texture) => texture.memory_bytes(),
        }
    }

    fn memory_type(&self) -> u32 {
        match self {
            Self::Buffer(buffer) => buffer.memory_type(),
            Self::Texture(texture) => texture.memory_type(),
        }
    }

    fn is_lost(&self) -> bool {
        match self {
            Self::Buffer(buffer) => buffer.take_content_lost(),
            Self::Texture(texture) => texture.take_content_lost(),
        }
    }

    /// Retires the object: it is destroyed once `points` have passed.
    ///
    /// # Safety
    /// No other submission uses it.
    unsafe fn retire_after(self, points: &SyncSet) {
        // SAFETY: the caller promises it.
        unsafe {
            match self {
                Self::Buffer(buffer) => buffer.retire_after(points),
                Self::Texture(texture) => texture.retire_after(points),
            }
        }
    }
}

/// The object of a resource: on the device, or in host memory, where the device uses it.
pub(crate) struct Present<D: Device> {
    pub(crate) body: Body<D>,
    /// The finest mip level that it has; 0 for a buffer.
    pub(crate) first_mip: u32,
    /// Bytes of its memory.
    pub(crate) bytes: u64,
    /// `true` if its memory is not on the device.
    pub(crate) is_on_host: bool,
    /// The frame that fills it.
    pub(crate) filled_at: SyncPoint,
}

impl<D: Device> Present<D> {
    /// Returns the bytes that it has on the device.
    pub(crate) const fn device_bytes(&self) -> u64 {
        if self.is_on_host { 0 } else { self.bytes }
    }
}

/// The memory and the mip levels with which a resource is created.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) first_mip: u32,
    /// Memory types that may be used, one bit each.
    pub(crate) memory_types: u32,
    /// Memory types that are not on the device, one bit each.
    pub(crate) host_types: u32,
    /// `true` if the allocator evicts the memory (Direct3D 12).
    pub(crate) is_evictable: bool,
    /// User data of the object, if it can be moved between blocks.
    pub(crate) movable: Option<u64>,
}

pub(crate) struct Item<D: Device> {
    pub(crate) serial: u64,
    pub(crate) alive: Arc<Alive>,
    pub(crate) shape: Shape,
    pub(crate) layout: Layout,
    pub(crate) name: Box<str>,
    pub(crate) priority: Priority,
    pub(crate) when_away: WhenAway,
    pub(crate) user_data: u64,
    pub(crate) is_pinned: bool,
    pub(crate) host: HostCopy<D>,
    pub(crate) present: Option<Present<D>>,
    pub(crate) rhythm: Rhythm,
    /// The finest mip level that the last commit with a use of this resource needed.
    pub(crate) demand: u32,
    /// The strongest use in that commit.
    pub(crate) used_as: UseKind,
    /// The last use on each timeline.
    pub(crate) uses: SmallVec<[SyncPoint; 2]>,
    /// Bytes that the memory of its last object had beyond those of its contents.
    pub(crate) extra_bytes: u64,
    /// The last frame in which paging copies from or to its object.
    pub(crate) copied_at: Option<SyncPoint>,
    /// Incremented when the resource gets, loses or exchanges its object.
    pub(crate) generation: u64,
    /// `true` if the resource is in the list of changed resources.
    pub(crate) is_changed: bool,
    /// `true` if it is in the list of written resources.
    pub(crate) is_listed_stale: bool,
    /// `true` if it is in the list of resources that lack the mip levels which stay on the device.
    pub(crate) wants_kept: bool,
}

impl<D: Device> Item<D> {
    /// Records that work of the frame uses the resource.
    pub(crate) fn use_in(&mut self, point: SyncPoint) {
        match self.uses.iter_mut().find(|used| used.timeline == point.timeline) {
            Some(used) => used.value = used.value.max(point.value),
            None => self.uses.push(point),
        }
    }

    /// Returns a use that has not passed, or `None` if all have.
    pub(crate) fn pending_use(&self, passed: &Passed) -> Option<SyncPoint> {
        self.uses.iter().copied().find(|point| !has_passed(passed, *point))
    }

    /// Returns the coarsest level from 0 to `first_mip` at which a texture can start: its size is a multiple of the
    /// block size.
    pub(crate) fn start_of(&self, first_mip: u32) -> u32 {
        let Shape::Texture(desc, parts) = &self.shape else { return 0 };
        let [across, down] = parts.format.block();
        let fits = |mip: u32| {
            let [width, height, _] = parts.extent(mip);
            width.is_multiple_of(across) && height.is_multiple_of(down)
        };
        (0..=first_mip.min(desc.mips - 1)).rev().find(|mip| *mip == 0 || fits(*mip)).unwrap_or(0)
    }

    /// Returns the finest mip level that stays on the device when the resource leaves. Returns `None` if no level
    /// stays.
    pub(crate) fn kept_level(&self) -> Option<u32> {
        let Shape::Texture(desc, _) = &self.shape else { return None };
        match self.when_away {
            WhenAway::MayBeAway { kept_mips } if kept_mips > 0 => {
                Some(self.start_of(desc.mips.saturating_sub(kept_mips)))
            }
            _ => None,
        }
    }

    /// Returns an estimate of the bytes of its memory from a level on: the bytes of its texels, and `extra_bytes`.
    pub(crate) fn bytes_from(&self, first_mip: u32) -> u64 {
        self.tight_from(first_mip) + self.extra_bytes
    }

    fn tight_from(&self, first_mip: u32) -> u64 {
        match &self.shape {
            Shape::Buffer(desc) => desc.size,
            Shape::Texture(..) => {
                self.layout.levels.iter().skip(first_mip as usize).map(|level| level.tight_bytes()).sum()
            }
        }
    }

    /// Returns `true` if the host copy has the contents of the resource.
    pub(crate) fn is_current(&self) -> bool {
        self.host.state == HostState::Current
    }

    /// Returns `true` if the resource has an object with mip level `first_mip`.
    pub(crate) fn has(&self, first_mip: u32) -> bool {
        self.present.as_ref().is_some_and(|present| present.first_mip <= first_mip)
    }

    /// Takes note of copies whose frames have ended. If the frame that fills the object was lost, drops the object. If
    /// a copy to the host was lost, the host copy is stale again.
    pub(crate) fn settle(&mut self, shared: &Shared<D>, passed: &Passed) -> Settled {
        // A frame can be open although a later one has passed. It is not known yet if the copies of the open frame are
        // made.
        let is_over = |point| shared.open_frame(point).is_none() && has_passed(passed, point);
        if let HostState::Arriving(point) = self.host.state {
            let is_over = is_over(point);
            if self.host.buffer.as_ref().is_some_and(|buffer| buffer.take_content_lost()) {
                self.host.state = HostState::Stale;
            } else if is_over {
                self.host.state = HostState::Current;
            }
        }
        let is_filled = self.present.as_ref().is_none_or(|present| is_over(present.filled_at));
        let lost = self.present.take_if(|present| present.body.is_lost());
        if lost.is_some() {
            self.generation += 1;
            if self.host.buffer.is_some() {
                // Writes of the lost frame on the device are lost too, so the host copy has the contents.
                self.host.state = HostState::Current;
            }
        }
        let is_settled = is_filled && !matches!(self.host.state, HostState::Arriving(_));
        Settled { is_settled, lost_bytes: lost.map(|present| present.device_bytes()) }
    }

    /// Creates the object and records the copies that fill it. Returns the bytes that are copied from the host.
    pub(crate) fn bring<R: Transfer<D>>(
        &mut self,
        memory: &Allocator<D>,
        commands: &mut Commands<'_, D, R>,
        frame: &Frame,
        target: Target,
    ) -> Result<u64, PagingError>
    where
        D: TransferSupport,
    {
        let point = frame.point();
        self.use_in(point);
        let request = AllocationDesc {
            name: &self.name,
            priority: self.priority,
            memory_types: target.memory_types,
            within_budget: !target.is_evictable,
            evictable: target.is_evictable,
            dedicated: if target.is_evictable { Dedicated::Always } else { Dedicated::Auto },
            movable: target.movable.is_some(),
            user_data: target.movable.unwrap_or(self.user_data),
            ..Default::default()
        };
        let (body, copied) = match &self.shape {
            Shape::Buffer(desc) => {
                let buffer = memory.create_buffer(desc, request)?;
                self.fill_buffer(commands, &buffer)?;
                buffer.await_content(frame);
                (Body::Buffer(buffer), desc.size)
            }
            Shape::Texture(desc, parts) => {
                let wanted = level_desc(desc, parts, target.first_mip);
                // Until the copies are recorded, the resource is away: if a recorder panics, the object is retired.
                let (texture, to_fill) = match self.present.take() {
                    Some(Present { body: Body::Texture(mut texture), first_mip, bytes, is_on_host, filled_at }) => {
                        self.generation += 1;
                        match commands.swap_mips(&mut texture, &wanted, request) {
                            Ok(to_fill) => (texture, to_fill),
                            Err(error) => {
                                let body = Body::Texture(texture);
                                self.present = Some(Present { body, first_mip, bytes, is_on_host, filled_at });
                                return Err(made(error));
                            }
                        }
                    }
                    _ => (memory.create_texture(&wanted, request)?, (0..wanted.mips).collect()),
                };
                let copied = self.fill_texture(commands, &texture, target.first_mip, &to_fill)?;
                texture.await_content(frame);
                (Body::Texture(texture), copied)
            }
        };
        let bytes = body.memory_bytes();
        self.extra_bytes = bytes.saturating_sub(self.tight_from(target.first_mip));
        let is_on_host = target.host_types >> body.memory_type() & 1 == 1;
        self.present = Some(Present { body, first_mip: target.first_mip, bytes, is_on_host, filled_at: point });
        self.copied_at = Some(point);
        self.generation += 1;
        Ok(copied)
    }

    fn fill_buffer<R: Transfer<D>>(
        &self,
        commands: &mut Commands<'_, D, R>,
        buffer: &Buffer<D>,
    ) -> Result<(), PagingError>
    where
        D: TransferSupport,
    {
        // A resource without first contents starts with undefined bytes.
        let Some(host) = &self.host.buffer else { return Ok(()) };
        Ok(commands.copy_buffer((host, 0), (buffer, 0), buffer.size())?)
    }

    /// Records copies from the host to the levels `to_fill` of `texture`, and returns their bytes. Level 0 of `texture`
    /// is level `first_mip` of the whole texture.
    fn fill_texture<R: Transfer<D>>(
        &self,
        commands: &mut Commands<'_, D, R>,
        texture: &Texture<D>,
        first_mip: u32,
        to_fill: &[u32],
    ) -> Result<u64, PagingError>
    where
        D: TransferSupport,
    {
        let (Some(host), Some(parts)) = (&self.host.buffer, texture.parts()) else { return Ok(0) };
        let mut copied = 0;
        for mip in to_fill {
            let level = &self.layout.levels[(first_mip + mip) as usize];
            commands.copy_buffer_to_box(host, level.texels, texture, &TexelBox::mip(parts, *mip))?;
            copied += level.tight_bytes();
        }
        Ok(copied)
    }

    /// Records copies of the whole contents to the host, after which the resource can leave. Returns the copied bytes:
    /// 0 if the resource does not have all mip levels.
    pub(crate) fn write_back<R: Transfer<D>>(
        &mut self,
        memory: &Allocator<D>,
        commands: &mut Commands<'_, D, R>,
        frame: &Frame,
        host_types: u32,
    ) -> Result<u64, PagingError>
    where
        D: TransferSupport,
    {
        let (point, shown) = (frame.point(), self.present.as_ref().filter(|present| present.first_mip == 0));
        if shown.is_none() {
            return Ok(0);
        }
        // Until all copies are recorded, the earlier copy on the host stays.
        let made = if self.host.is_writable { None } else { Some(self.host_buffer(memory, host_types)?) };
        self.use_in(point);
        self.copied_at = Some(point);
        let shown = self.present.as_ref().map(|present| &present.body);
        let (Some(body), Some(host)) = (shown, made.as_ref().or(self.host.buffer.as_ref())) else { return Ok(0) };
        match body {
            Body::Buffer(buffer) => commands.copy_buffer((buffer, 0), (host, 0), buffer.size())?,
            Body::Texture(texture) => {
                let Some(parts) = texture.parts() else { return Ok(0) };
                for (mip, level) in (0..).zip(&self.layout.levels) {
                    commands.copy_box_to_buffer(texture, &TexelBox::mip(parts, mip), host, level.texels)?;
                }
            }
        }
        host.await_content(frame);
        let buffer = made.or(self.host.buffer.take());
        self.host = HostCopy { buffer, state: HostState::Arriving(point), is_writable: true };
        Ok(self.layout.tight_bytes)
    }

    /// Creates a buffer in host memory that only the device reads and writes.
    fn host_buffer(&self, memory: &Allocator<D>, host_types: u32) -> Result<Buffer<D>, Error> {
        let desc = BufferDesc { size: self.layout.bytes, usage: BufferUsage::COPY_SRC | BufferUsage::COPY_DST };
        let memory_types = if host_types == 0 { u32::MAX } else { host_types };
        let request = AllocationDesc { name: &self.name, memory_types, recycle: false, ..Default::default() };
        memory.create_buffer(&desc, request)
    }

    /// Moves the object in a pass of a defragmentation. Returns `false` if the object stays: the pass has no move of
    /// it, its host copy is stale, or the frame uses it already.
    pub(crate) fn move_in(&mut self, pass: &mut DefragPass<'_, D>, frame: &Frame) -> Result<bool, MoveError> {
        // Commands of the frame that are recorded already may use the object.
        let is_current = self.is_current() && !self.uses.contains(&frame.point());
        let Some(present) = self.present.as_mut().filter(|_| is_current) else { return Ok(false) };
        match &mut present.body {
            Body::Buffer(buffer) if pass.has(buffer) => drop(pass.copy_buffer(buffer)?),
            Body::Texture(texture) if pass.has(texture) => drop(pass.copy_texture(texture)?),
            _ => return Ok(false),
        }
        present.filled_at = frame.point();
        self.copied_at = Some(frame.point());
        self.generation += 1;
        self.use_in(frame.point());
        Ok(true)
    }

    /// Removes the object, which is destroyed once all uses of the resource have passed. Uses in the frame `open` do
    /// not count, because the commit of that frame removes the object. Returns the bytes of its memory on the device.
    ///
    /// # Safety
    /// `uses` has all submissions that use the object, except those of the frame `open`, which do not use it.
    pub(crate) unsafe fn leave(&mut self, open: Option<SyncPoint>) -> u64 {
        let Some(present) = self.present.take() else { return 0 };
        let device_bytes = present.device_bytes();
        let mut points = SyncSet::new();
        self.uses.iter().filter(|point| Some(**point) != open).for_each(|point| points.insert(*point));
        // SAFETY: the caller promises it.
        unsafe { present.body.retire_after(&points) };
        self.generation += 1;
        device_bytes
    }
}

/// The result of [`Item::settle`].
pub(crate) struct Settled {
    /// `true` if no copy of the resource is under way.
    pub(crate) is_settled: bool,
    /// Bytes on the device of an object that lost its contents, or `None` if no contents were lost.
    pub(crate) lost_bytes: Option<u64>,
}

/// Returns `true` if the device is past the point, or its frame was discarded.
pub(crate) fn has_passed(passed: &Passed, point: SyncPoint) -> bool {
    passed.completed(point.timeline) >= point.value
}

/// Returns the description of the texture that has the mip levels from `first_mip` on.
fn level_desc(desc: &TextureDesc, parts: &TextureParts, first_mip: u32) -> TextureDesc {
    let [width, height, depth] = parts.extent(first_mip);
    TextureDesc { width, height, depth, mips: desc.mips - first_mip, ..*desc }
}

/// Converts the error of a copy. An error of memory inside it becomes [`PagingError::Memory`].
fn made(error: CommandError) -> PagingError {
    match error {
        CommandError::Replace(ringfence_memory::lifetime::ReplaceError::Make(error)) => error.into(),
        CommandError::Memory(error) => error.into(),
        other => other.into(),
    }
}

/// Returns `true` if memory is short, so that other resources should leave.
pub(crate) fn is_shortage(error: &Error) -> bool {
    match error {
        Error::OverBudget { .. } => true,
        Error::OutOfMemory { cause, .. } => *cause != DeviceError::OutOfHostMemory,
        _ => false,
    }
}
