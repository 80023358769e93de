//! Sparse buffers and textures on the simulated device. They are created without memory, and their pages are bound one
//! by one. [`pages`](super::pages) and [`tiles`](super::tiles) split copies of sparse resources.

use super::device::Device;
use super::hazard::{Hazard, HazardKind};
use super::ids::{Buffer, Fence, Memory, Texture, What};
use super::layout::{buffer_requirements, texture_requirements};
use super::objects::{Placement, Resource, Shape};
use super::state::State;
use super::tiles::tiling;
use ringfence_hal::sparse::{PageBind, Sparse, TextureTiling, TilePlace, UnboundReads};
use ringfence_hal::{BufferDesc, DeviceError, Dimension, Requirements, TextureDesc};
use std::ops::Range;
use std::sync::Arc;

// SAFETY: a bound page is inside the device view of its memory object. Sparse resources are never mapped.
unsafe impl Sparse for Device {
    /// Index of the queue.
    type BindQueue = usize;

    fn sparse_support(&self) -> Option<UnboundReads> {
        self.profile().sparse
    }

    unsafe fn make_sparse(&self, info: &BufferDesc) -> Result<(Buffer, Requirements), DeviceError> {
        self.with(|state| state.make_sparse(info))
    }

    unsafe fn bind_pages(
        &self,
        queue: &usize,
        (buffer, _): (&Buffer, u64),
        binds: &[PageBind<'_, Memory>],
        waits: &[(Fence, u64)],
        signal: (Fence, u64),
    ) -> Result<(), DeviceError> {
        self.with(|state| {
            state.submit(*queue, waits, Vec::new(), signal)?;
            for bind in binds {
                state.bind((What::Buffer, buffer.0), bind.first, bind.count, bind.memory);
            }
            Ok(())
        })
    }

    fn sparse_texture_support(&self) -> Option<UnboundReads> {
        self.sparse_support()
    }

    unsafe fn make_sparse_texture(&self, info: &TextureDesc) -> Result<(Texture, TextureTiling), DeviceError> {
        self.with(|state| state.make_sparse_texture(info))
    }

    unsafe fn bind_tiles(
        &self,
        queue: &usize,
        (texture, tiling): (&Texture, &TextureTiling),
        binds: &[PageBind<'_, Memory, TilePlace>],
        waits: &[(Fence, u64)],
        signal: (Fence, u64),
    ) -> Result<(), DeviceError> {
        self.with(|state| {
            state.submit(*queue, waits, Vec::new(), signal)?;
            for bind in binds {
                state.bind((What::Texture, texture.0), tiling.page(bind.first), bind.count, bind.memory);
            }
            Ok(())
        })
    }
}

impl State {
    fn make_sparse(&mut self, info: &BufferDesc) -> Result<(Buffer, Requirements), DeviceError> {
        self.check_alive()?;
        if self.profile.sparse.is_none() {
            return Err(DeviceError::unsupported("sparse buffers"));
        }
        self.counts.create_buffer += 1;
        let page_bytes = self.profile.page_bytes;
        let mut needs = buffer_requirements(&self.profile, info)?;
        needs.size = needs.size.checked_next_multiple_of(page_bytes).ok_or(DeviceError::OutOfDeviceMemory)?;
        needs.alignment = page_bytes;
        let id = self.prepare_unbound(Shape::Buffer(BufferDesc { size: needs.size, ..*info }), needs)?;
        Ok((Buffer(id), needs))
    }

    fn make_sparse_texture(&mut self, desc: &TextureDesc) -> Result<(Texture, TextureTiling), DeviceError> {
        self.check_alive()?;
        if self.profile.sparse.is_none() {
            return Err(DeviceError::unsupported("sparse textures"));
        }
        DeviceError::unsupported("sparse textures of several samples").exactly(desc.samples.into(), 1)?;
        if !matches!(desc.dimension, Dimension::D2 | Dimension::Cube) {
            return Err(DeviceError::unsupported("sparse textures that are not two-dimensional"));
        }
        let texels = desc.format.texels();
        if texels.is_compressed() || texels.aspects().bits().count_ones() != 1 {
            return Err(DeviceError::unsupported(
                "sparse textures with block-compressed or combined depth-stencil formats",
            ));
        }
        self.counts.create_texture += 1;
        let page_bytes = self.profile.page_bytes;
        let mut needs = texture_requirements(&self.profile, desc)?;
        // Each page is placed separately, so dedicated memory for the whole texture is not needed.
        (needs.prefers_dedicated, needs.requires_dedicated) = (false, false);
        let tiling = tiling(page_bytes, desc, (needs.memory_type_bits, needs.class));
        (needs.size, needs.alignment) = (tiling.page_count() * page_bytes, page_bytes);
        let id = self.prepare_unbound(Shape::Texture(Arc::new(*desc)), needs)?;
        Ok((Texture(id), tiling))
    }

    /// Creates a resource with unbound pages.
    fn prepare_unbound(&mut self, shape: Shape, needs: Requirements) -> Result<u64, DeviceError> {
        let count = usize::try_from(needs.size / needs.alignment).map_err(|_| DeviceError::OutOfHostMemory)?;
        let mut pages = Vec::new();
        pages.try_reserve_exact(count).map_err(|_| DeviceError::OutOfHostMemory)?;
        pages.resize(count, None);
        let id = self.prepare(shape, needs);
        if let Some(held) = self.resources.get_mut(&id) {
            held.pages = Some(pages.into_boxed_slice());
        }
        Ok(id)
    }

    /// Binds or unbinds consecutive pages.
    fn bind(&mut self, resource: (What, u64), first: u64, count: u64, memory: Option<(&Memory, u64)>) {
        let page_bytes = self.profile.page_bytes;
        for step in 0..count {
            let memory = memory.map(|(memory, first)| (self.root(memory.0), first + step * page_bytes));
            self.bind_page(resource, (first + step) as usize, memory);
        }
    }

    fn bind_page(&mut self, (what, id): (What, u64), page: usize, memory: Option<(u64, u64)>) {
        let Some(resource) = self.resources.get(&id).cloned() else {
            return self.report_stale(what, id, "bound");
        };
        let Some(held) = resource.pages.as_ref().and_then(|pages| pages.get(page)) else {
            let hazard = Hazard::about(HazardKind::OutOfRange, resource.label);
            return self.report(hazard.detail("a page that the sparse resource does not have"));
        };
        let page_bytes = self.profile.page_bytes;
        let held = *held;
        if let Some((new, offset)) = memory
            && !self.check_page(&resource, new, &(offset..offset.saturating_add(page_bytes)))
        {
            return;
        }
        if let Some((old, offset)) = held
            && let Some(object) = self.memories.get_mut(&old)
        {
            object.placed.remove(&(offset, id));
        }
        if let Some((new, offset)) = memory {
            let range = offset..offset + page_bytes;
            self.report_conflicts(&resource, new, &range);
            if let Some(object) = self.memories.get_mut(&new) {
                let class = resource.requirements.class;
                object.placed.insert((offset, id), Placement { end: range.end, class });
                object.longest = object.longest.max(page_bytes);
            }
        }
        if let Some(slot) = self.resources.get_mut(&id).and_then(|held| held.pages.as_mut()?.get_mut(page)) {
            *slot = memory;
        }
    }

    /// Returns `true` if a page of the resource may be bound to this range of the memory. Otherwise, reports a hazard
    /// and returns `false`.
    fn check_page(&mut self, resource: &Resource, memory: u64, range: &Range<u64>) -> bool {
        let Some(object) = self.memories.get(&memory) else {
            self.report_stale(What::Memory, memory, "bound to a page");
            return false;
        };
        let Some((kind, detail, _)) = self.check_location(resource, object, range) else { return true };
        let hazard = Hazard::about(kind, resource.label.clone()).within(object.label.clone(), range.clone());
        self.report(hazard.detail(detail));
        false
    }
}
