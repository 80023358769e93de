//! The driver calls of the simulated device: each call that uses the device's state takes the lock, does its work and
//! reports hazards.
//!
//! The functions of the traits are `unsafe`, because real drivers trust their callers. This device checks its arguments
//! instead, and reports each mistake as a hazard or returns an error. Callers are responsible only for their accesses
//! to mapped memory.

use super::device::Device;
use super::hazard::HazardKind;
use super::ids::{Buffer, Fence, Label, Memory, Texture, What};
use super::layout::{self, buffer_requirements, texture_requirements};
use super::objects::Shape;
use super::sharing;
use ringfence_hal::sharing::{ShareKind, ShareSupport};
use ringfence_hal::{
    BufferDesc, BufferUsage, Buffers, Capabilities, ClearValue, Create, DeviceError, Driver, Format, FormatSupport,
    HeapBudgets, InfoKey, Kind, Mapped, MemoryDesc, Placed, Priority, Requirements, TextureDesc, Textures,
};
use std::sync::Arc;
use std::time::Duration;

// SAFETY: a host view stays at one address until its memory is freed. It has the size of the memory object, and
// `State::place` refuses resources that are not inside the memory object.
unsafe impl Driver for Device {
    type Memory = Memory;
    type Fence = Fence;
    type Pageable = Memory;

    fn capabilities(&self) -> &Capabilities {
        &self.profile().capabilities
    }

    fn format_support(&self, format: Format) -> FormatSupport {
        layout::format_support(format)
    }

    unsafe fn allocate_memory(&self, desc: &MemoryDesc<'_>) -> Result<Memory, DeviceError> {
        self.with(|state| state.allocate(desc).map(Memory))
    }

    unsafe fn free_memory(&self, memory: Memory) {
        self.with(|state| state.free(memory.0));
    }

    unsafe fn flush(&self, memory: &Memory, offset: u64, size: u64) -> Result<(), DeviceError> {
        self.with(|state| {
            state.check_alive()?;
            state.counts.flush += 1;
            state.counts.flush_bytes = state.counts.flush_bytes.saturating_add(size);
            state.spend(state.profile.costs.flush_ns + state.profile.costs.host_copy_ns(size));
            let Some(range) = state.check_flush(state.root(memory.0), offset, size) else { return Ok(()) };
            state.report_pending(HazardKind::HostWriteWhilePending, state.root(memory.0), &range, |_| true);
            let root = state.root(memory.0);
            if let Some(object) = state.memories.get_mut(&root)
                && let Some(host) = &object.host
            {
                // SAFETY: the caller promises that no thread writes this range of the mapped memory during the call.
                unsafe { object.device.flush_from(host, offset, size) };
            }
            Ok(())
        })
    }

    unsafe fn read_back(
        &self,
        memory: &Memory,
        offset: u64,
        _mapped: Mapped,
        into: &mut [u8],
    ) -> Result<(), DeviceError> {
        self.with(|state| {
            state.check_alive()?;
            state.counts.read_back += 1;
            let size = into.len() as u64;
            state.spend(state.profile.costs.flush_ns + state.profile.costs.host_copy_ns(size));
            let Some(range) = state.check_mapped(state.root(memory.0), offset, size) else { return Ok(()) };
            state
                .report_pending(HazardKind::ReadBackWhilePending, state.root(memory.0), &range, |access| access.writes);
            if let Some(object) = state.memories.get(&state.root(memory.0)) {
                object.device.read(offset, into);
            }
            Ok(())
        })
    }

    unsafe fn completed(&self, fence: &Fence) -> Result<u64, DeviceError> {
        self.with(|state| state.completed(*fence))
    }

    unsafe fn wait(&self, fence: &Fence, value: u64, timeout: Duration) -> Result<bool, DeviceError> {
        let timeout_ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        self.with(|state| state.wait(*fence, value, timeout_ns))
    }

    fn mapped(&self, memory: &Memory) -> Option<Mapped> {
        self.with(|state| state.memories.get(&state.root(memory.0)).and_then(|object| object.mapped(0)))
    }

    fn pageable(&self, memory: &Memory) -> Option<Memory> {
        self.capabilities().residency.then_some(*memory)
    }

    unsafe fn make_resident(&self, memory: &[Memory]) -> Result<(), DeviceError> {
        self.with(|state| state.make_resident(memory))
    }

    unsafe fn evict(&self, memory: &[Memory]) -> Result<(), DeviceError> {
        self.with(|state| state.evict(memory))
    }

    unsafe fn set_priority(&self, memory: &Memory, priority: Priority) {
        self.with(|state| state.set_priority(memory.0, priority));
    }

    fn budgets(&self) -> Option<HeapBudgets> {
        self.profile().reports_budgets.then(|| self.with(|state| state.budgets()))
    }

    fn budgets_hold_for(&self) -> Duration {
        self.profile().budgets_hold_for
    }

    fn note_aliasing(&self, memory: &Memory, offset: u64, size: u64, may_overlap: bool) {
        self.with(|state| state.set_sharing(state.root(memory.0), offset..offset.saturating_add(size), may_overlap));
    }
}

// SAFETY: a mapped pointer points into the host view of the memory object, which contains the whole resource (see
// `Driver`).
unsafe impl Create<Buffers> for Device {
    type Info<'a> = BufferDesc;
    type Unplaced = Buffer;
    type Object = Buffer;
    type Raw<'a> = Buffer;

    fn raw(object: &Self::Object) -> Self::Raw<'_> {
        *object
    }

    fn describe(&self, desc: &BufferDesc) -> Result<BufferDesc, DeviceError> {
        Buffers::check(desc).map(|()| *desc)
    }

    fn portable(&self, info: &BufferDesc) -> Option<BufferDesc> {
        Some(*info)
    }

    fn key(&self, info: &BufferDesc) -> Option<InfoKey> {
        let BufferDesc { size, usage } = *info;
        Some(InfoKey::new(&[size as u32, (size >> 32) as u32, usage.bits()]))
    }

    unsafe fn prepare(&self, info: &BufferDesc) -> Result<(Buffer, Requirements), DeviceError> {
        self.with(|state| {
            state.check_alive()?;
            state.counts.create_buffer += 1;
            let requirements = buffer_requirements(&state.profile, info)?;
            Ok((Buffer(state.prepare(Shape::Buffer(*info), requirements)), requirements))
        })
    }

    fn share_support(&self, _: &BufferDesc, kind: ShareKind) -> ShareSupport {
        self.share_support_of(kind)
    }

    unsafe fn prepare_shared(&self, info: &BufferDesc, kind: ShareKind) -> Result<(Buffer, Requirements), DeviceError> {
        sharing::check(kind)?;
        // SAFETY: on this device, `prepare` is safe: it returns an error for an invalid description.
        unsafe { Create::<Buffers>::prepare(self, info) }
    }

    unsafe fn discard(&self, unplaced: Buffer) {
        self.with(|state| {
            state.counts.destroy_buffer += 1;
            state.destroy((What::Buffer, unplaced.0), false);
        });
    }

    unsafe fn place(&self, unplaced: &Buffer, memory: &Memory, offset: u64) -> Result<Placed<Buffer>, DeviceError> {
        let mapped = self.with(|state| state.place((What::Buffer, unplaced.0), memory.0, offset))?;
        Ok(Placed { object: *unplaced, mapped })
    }

    unsafe fn dedicate(
        &self,
        unplaced: &Buffer,
        desc: &MemoryDesc<'_>,
    ) -> Result<(Placed<Buffer>, Memory), DeviceError> {
        let (mapped, memory) = self.with(|state| state.dedicate((What::Buffer, unplaced.0), desc))?;
        Ok((Placed { object: *unplaced, mapped }, Memory(memory)))
    }

    fn has_address(&self, info: &BufferDesc) -> bool {
        info.usage.contains(BufferUsage::DEVICE_ADDRESS)
    }

    /// Returns the number of the memory, shifted left by 40 bits, plus the offset. Live resources at different
    /// locations therefore have different addresses.
    unsafe fn address(&self, object: &Buffer) -> u64 {
        self.with(|state| {
            let location = state.resources.get(&object.0).and_then(|held| held.location);
            location.map_or(0, |(memory, offset)| (memory << 40) + offset)
        })
    }

    fn rounded<'a>(&self, info: &Self::Info<'a>, round: fn(u64) -> u64) -> Option<(Self::Info<'a>, u64)> {
        let size = round(info.size);
        Some((BufferDesc { size, ..*info }, size - info.size))
    }

    unsafe fn recycle(&self, object: Buffer) -> Buffer {
        Buffer(self.with(|state| state.recycle((What::Buffer, object.0))))
    }

    unsafe fn destroy(&self, object: Buffer) {
        self.with(|state| {
            state.counts.destroy_buffer += 1;
            state.destroy((What::Buffer, object.0), true);
        });
    }

    unsafe fn set_name(&self, object: &Buffer, name: &str) {
        self.rename(Label::named(What::Buffer, object.0, name));
    }
}

// SAFETY: a mapped pointer points into the host view of the memory object, which contains the whole resource (see
// `Driver`).
unsafe impl Create<Textures> for Device {
    type Info<'a> = TextureDesc;
    type Unplaced = Texture;
    type Object = Texture;
    type Raw<'a> = Texture;

    fn raw(object: &Self::Object) -> Self::Raw<'_> {
        *object
    }

    fn describe(&self, desc: &TextureDesc) -> Result<TextureDesc, DeviceError> {
        Textures::check(desc).map(|()| *desc)
    }

    fn portable(&self, info: &TextureDesc) -> Option<TextureDesc> {
        Some(*info)
    }

    fn key(&self, info: &TextureDesc) -> Option<InfoKey> {
        let TextureDesc { dimension, width, height, depth, layers, mips, samples, format, usage, .. } = *info;
        let [kind, red, green, blue, alpha] = info.clear_value.map_or([0; 5], ClearValue::words);
        let (dimension, format, usage) = (dimension as u32, format as u32, usage.bits());
        let size = [dimension, width, height, depth, layers, mips, samples, format, usage];
        let mut words = [0; 18];
        words[..9].copy_from_slice(&size);
        words[9..14].copy_from_slice(&[kind, red, green, blue, alpha]);
        words[14..].copy_from_slice(&info.view_formats.words());
        Some(InfoKey::new(&words))
    }

    unsafe fn prepare(&self, info: &TextureDesc) -> Result<(Texture, Requirements), DeviceError> {
        self.with(|state| {
            state.check_alive()?;
            state.counts.create_texture += 1;
            let requirements = texture_requirements(&state.profile, info)?;
            Ok((Texture(state.prepare(Shape::Texture(Arc::new(*info)), requirements)), requirements))
        })
    }

    fn share_support(&self, _: &TextureDesc, kind: ShareKind) -> ShareSupport {
        self.share_support_of(kind)
    }

    unsafe fn prepare_shared(
        &self,
        info: &TextureDesc,
        kind: ShareKind,
    ) -> Result<(Texture, Requirements), DeviceError> {
        sharing::check(kind)?;
        // SAFETY: on this device, `prepare` is safe: it returns an error for an invalid description.
        unsafe { Create::<Textures>::prepare(self, info) }
    }

    unsafe fn discard(&self, unplaced: Texture) {
        self.with(|state| {
            state.counts.destroy_texture += 1;
            state.destroy((What::Texture, unplaced.0), false);
        });
    }

    unsafe fn place(&self, unplaced: &Texture, memory: &Memory, offset: u64) -> Result<Placed<Texture>, DeviceError> {
        // The layout of texels is the device's own, so a texture is never mapped.
        self.with(|state| state.place((What::Texture, unplaced.0), memory.0, offset))?;
        Ok(Placed { object: *unplaced, mapped: None })
    }

    unsafe fn dedicate(
        &self,
        unplaced: &Texture,
        desc: &MemoryDesc<'_>,
    ) -> Result<(Placed<Texture>, Memory), DeviceError> {
        let (_, memory) = self.with(|state| state.dedicate((What::Texture, unplaced.0), desc))?;
        Ok((Placed { object: *unplaced, mapped: None }, Memory(memory)))
    }

    unsafe fn recycle(&self, object: Texture) -> Texture {
        Texture(self.with(|state| state.recycle((What::Texture, object.0))))
    }

    unsafe fn destroy(&self, object: Texture) {
        self.with(|state| {
            state.counts.destroy_texture += 1;
            state.destroy((What::Texture, object.0), true);
        });
    }

    unsafe fn set_name(&self, object: &Texture, name: &str) {
        self.rename(Label::named(What::Texture, object.0, name));
    }
}

impl Device {
    fn rename(&self, label: Label) {
        self.with(|state| match state.resources.get_mut(&label.id) {
            Some(held) => held.label = label,
            None => state.report_stale(label.what, label.id, "named"),
        });
    }
}
