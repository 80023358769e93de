//! A paged resource: its contents on the host, and its object on the device.
//!
//! ```text
//!               ┌───────────── bring ─────────────┐        all mip levels, or those from a level on
//!   away: host copy only                      present: host copy, and an object on the device
//!               └─ leave, once its uses passed ───┘        the device writes it: the host copy is stale, it cannot leave
//!                                                          write_back: the host copy is current again
//! ```

use std::sync::Arc;

use ringfence_commands::{CommandError, Commands};
use ringfence_core::sync::{SyncPoint, SyncSet};
use ringfence_hal::record::TextureParts;
use ringfence_hal::transfer::{Transfer, TransferSupport};
use ringfence_hal::{BufferDesc, BufferUsage, Device, DeviceError, Priority, TexelBox, TextureDesc};
use ringfence_memory::defrag::{DefragPass, MoveError};
use ringfence_memory::extend::Shared;
use ringfence_memory::{AllocationDesc, Allocator, Buffer, Dedicated, Error, Frame, Location, Texture};
use smallvec::SmallVec;

use crate::PagingError;
use crate::desc::WhenAway;
use crate::handle::Alive;
use crate::host_copy::{HostCopy, HostState, Layout};
use crate::policy::Rhythm;

/// The kind of a paged resource, with the usages that copies need.
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

/// A resource on the device, or in host memory where the device uses it.
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

/// Where a resource is created.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) first_mip: u32,
    /// Memory types that may be used, one bit each.
    pub(crate) memory_types: u32,
    pub(crate) is_on_host: bool,
    /// `true` if the allocator evicts the memory (Direct3D 12).
    pub(crate) is_evictable: bool,
    /// Index of the resource, if it can be moved between blocks.
    pub(crate) movable: Option<u32>,
}

impl Target {
    /// Returns the target for the mip levels from `first_mip` on in any memory.
    pub(crate) const fn on_device(first_mip: u32, movable: Option<u32>) -> Self {
        Self { first_mip, memory_types: u32::MAX, is_on_host: false, is_evictable: false, movable }
    }
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
    /// The finest mip level that the last commit with a use of this resource needs.
    pub(crate) demand: u32,
    /// `true` if that commit writes the resource.
    pub(crate) is_written: bool,
    /// The last use on each timeline.
    pub(crate) uses: SmallVec<[SyncPoint; 2]>,
    /// Number of objects that the resource has had.
    pub(crate) generation: u64,
}

impl<D: Device> Item<D> {
    /// Records that work of the frame uses the resource.
    pub(crate) fn use_in(&mut self, point: SyncPoint) {
        match self.uses.iter_mut().find(|used| used.timeline == point.timeline) {
            Some(used) => used.value = used.value.max(point.value),
            None => self.uses.push(point),
        }
    }

    /// Returns the last use that has not passed, or `None` if all have.
    pub(crate) fn pending_use(&self, shared: &Shared<D>) -> Option<SyncPoint> {
        self.uses.iter().copied().find(|point| !has_passed(shared, *point))
    }

    /// Returns the coarsest level that has all texels of `first_mip` and that textures can start at.
    pub(crate) fn start_of(&self, first_mip: u32) -> u32 {
        let Shape::Texture(desc, parts) = &self.shape else { return 0 };
        let [across, down] = parts.format.block();
        let fits = |mip: u32| {
            let [width, height, _] = parts.extent(mip);
            width.is_multiple_of(across) && height.is_multiple_of(down)
        };
        (0..=first_mip.min(desc.mips - 1)).rev().find(|mip| *mip == 0 || fits(*mip)).unwrap_or(0)
    }

    /// Returns the level that stays on the device when the resource leaves, if one does.
    pub(crate) fn kept_level(&self) -> Option<u32> {
        let Shape::Texture(desc, _) = &self.shape else { return None };
        match self.when_away {
            WhenAway::MayBeAway { kept_mips } if kept_mips > 0 => {
                Some(self.start_of(desc.mips.saturating_sub(kept_mips)))
            }
            _ => None,
        }
    }

    /// Returns an estimate of the bytes of its memory from a level on: those of its texels.
    pub(crate) fn bytes_from(&self, first_mip: u32) -> u64 {
        match &self.shape {
            Shape::Buffer(desc) => desc.size,
            Shape::Texture(..) => {
                self.layout.levels[first_mip as usize..].iter().map(|level| level.tight_bytes()).sum()
            }
        }
    }

    /// Returns `true` if the host copy has the contents of the resource.
    pub(crate) fn is_current(&self) -> bool {
        self.host.state == HostState::Current
    }

    /// Returns `true` if the resource has the mip level.
    pub(crate) fn has(&self, first_mip: u32) -> bool {
        self.present.as_ref().is_some_and(|present| present.first_mip <= first_mip)
    }

    /// Drops an object whose filling was lost with its frame. The copy to the host counts as not made. Returns the bytes
    /// on the device that it had.
    pub(crate) fn settle(&mut self, shared: &Shared<D>) -> Settled {
        if let HostState::Arriving(point) = self.host.state {
            if self.host.buffer.as_ref().is_some_and(|buffer| buffer.take_content_lost()) {
                self.host.state = HostState::Stale;
            } else if has_passed(shared, point) {
                self.host.state = HostState::Current;
            }
        }
        let present = self.present.take_if(|present| present.body.is_lost());
        if present.is_some() && self.host.buffer.is_some() {
            // What the lost frame wrote on the device is lost too.
            self.host.state = HostState::Current;
        }
        let is_filled = self.present.as_ref().is_none_or(|present| has_passed(shared, present.filled_at));
        let is_settled = is_filled && !matches!(self.host.state, HostState::Arriving(_));
        let lost_bytes = present.as_ref().map_or(0, Present::device_bytes);
        Settled { is_settled, lost_bytes }
    }

    /// Creates the object on the device and records the copies that fill it. Returns the bytes that are copied.
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
        let request = AllocationDesc {
            name: &self.name,
            priority: self.priority,
            memory_types: target.memory_types,
            within_budget: !target.is_evictable,
            evictable: target.is_evictable,
            dedicated: if target.is_evictable { Dedicated::Always } else { Dedicated::Auto },
            movable: target.movable.is_some(),
            user_data: target.movable.map_or(self.user_data, u64::from),
            ..Default::default()
        };
        // Until the copies are recorded, the resource is away: if a recorder panics, the object is retired.
        let (body, copied) = match (&self.shape, self.present.take()) {
            (Shape::Buffer(desc), present) => {
                drop(present);
                let buffer = memory.create_buffer(desc, request)?;
                self.fill_buffer(commands, &buffer)?;
                buffer.await_content(frame);
                (Body::Buffer(buffer), desc.size)
            }
            (Shape::Texture(desc, parts), present) => {
                let wanted = level_desc(desc, parts, target.first_mip);
                let (texture, to_fill) = match present {
                    Some(Present { body: Body::Texture(mut texture), first_mip, bytes, is_on_host, filled_at }) => {
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
        let (bytes, filled_at) = (body.memory_bytes(), frame.point());
        let Target { first_mip, is_on_host, .. } = target;
        self.present = Some(Present { body, first_mip, bytes, is_on_host, filled_at });
        self.generation += 1;
        self.use_in(filled_at);
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

    /// Records copies of the levels `to_fill` of `texture`, whose finest level is level `first_mip` of the whole texture.
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

    /// Records copies of the whole contents to the host, after which the resource can leave. Returns the copied bytes.
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
        let Some(present) = &self.present else { return Ok(0) };
        if !self.host.is_writable {
            // Not mapped: the device uses it in both directions.
            let desc = BufferDesc { size: self.layout.bytes, usage: BufferUsage::COPY_SRC | BufferUsage::COPY_DST };
            let memory_types = if host_types == 0 { u32::MAX } else { host_types };
            let request = AllocationDesc { name: &self.name, memory_types, recycle: false, ..Default::default() };
            let buffer = memory.create_buffer(&desc, request)?;
            self.host = HostCopy { buffer: Some(buffer), state: HostState::Stale, is_writable: true };
        }
        let Some(host) = &self.host.buffer else { return Ok(0) };
        match &present.body {
            Body::Buffer(buffer) => commands.copy_buffer((buffer, 0), (host, 0), buffer.size())?,
            Body::Texture(texture) => {
                let Some(parts) = texture.parts() else { return Ok(0) };
                for (mip, level) in (0..).zip(&self.layout.levels) {
                    commands.copy_box_to_buffer(texture, &TexelBox::mip(parts, mip), host, level.texels)?;
                }
            }
        }
        host.await_content(frame);
        self.host.state = HostState::Arriving(frame.point());
        self.use_in(frame.point());
        Ok(self.layout.tight_bytes)
    }

    /// Moves the object in a pass of a defragmentation, if the pass has a move of it and a copy of its contents is on the
    /// host. Returns `false` if it stays.
    pub(crate) fn move_in(&mut self, pass: &mut DefragPass<'_, D>, frame: &Frame) -> Result<bool, MoveError> {
        let is_current = self.is_current();
        let Some(present) = self.present.as_mut().filter(|_| is_current) else { return Ok(false) };
        match &mut present.body {
            Body::Buffer(buffer) if pass.has(buffer) => drop(pass.copy_buffer(buffer)?),
            Body::Texture(texture) if pass.has(texture) => drop(pass.copy_texture(texture)?),
            _ => return Ok(false),
        }
        present.filled_at = frame.point();
        self.generation += 1;
        self.use_in(frame.point());
        Ok(true)
    }

    /// Removes the object, which is destroyed once all uses of the resource have passed. Returns the bytes of its memory
    /// on the device.
    ///
    /// # Safety
    /// `uses` has all submissions that use the resource.
    pub(crate) unsafe fn leave(&mut self) -> u64 {
        let Some(present) = self.present.take() else { return 0 };
        let device_bytes = present.device_bytes();
        let mut points = SyncSet::new();
        self.uses.iter().for_each(|point| points.insert(*point));
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
    /// Bytes on the device of an object whose contents were lost.
    pub(crate) lost_bytes: u64,
}

pub(crate) fn has_passed<D: Device>(shared: &Shared<D>, point: SyncPoint) -> bool {
    shared.seen(point.timeline) >= point.value
}

/// Returns the description of the texture that has the mip levels from `first_mip` on.
fn level_desc(desc: &TextureDesc, parts: &TextureParts, first_mip: u32) -> TextureDesc {
    let [width, height, depth] = parts.extent(first_mip);
    TextureDesc { width, height, depth, mips: desc.mips - first_mip, ..*desc }
}

/// Returns an error of memory as such.
fn made(error: CommandError) -> PagingError {
    match error {
        CommandError::Replace(ringfence_memory::lifetime::ReplaceError::Make(error)) => error.into(),
        CommandError::Memory(error) => error.into(),
        other => other.into(),
    }
}

/// Returns `true` if device memory is short, so that it may help if other resources leave.
pub(crate) fn is_shortage(error: &Error) -> bool {
    match error {
        Error::OverBudget { .. } => true,
        Error::OutOfMemory { cause, .. } => *cause != DeviceError::OutOfHostMemory,
        _ => false,
    }
}

/// Location of the first contents.
pub(crate) const FIRST_CONTENTS: Location = Location::Upload;
