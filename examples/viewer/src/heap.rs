//! Descriptors: one heap of textures and storage buffers, one of samplers. Shaders access them by slot.

use ringfence::descriptor::{Binding, BindlessDesc, BindlessEntry, SamplerTable, ShaderVisibleDesc, View};
use ringfence::device::descriptors::{
    AddressMode, Compare, Descriptors, HeapKind, SamplerDesc, TextureView, ViewLayout, ViewTypes,
};
use ringfence::upload::Staged;
use ringfence::vulkan::{Device, Texture};
use ringfence::{BindlessTable, Frame, ShaderVisibleHeap};

use crate::Failure;
use crate::gpu::Gpu;

type Sampler = ringfence::descriptor::Sampler<Device>;

pub struct Heap {
    pub resources: ShaderVisibleHeap<Device>,
    pub table: BindlessTable<Device>,
    pub samplers: ShaderVisibleHeap<Device>,
    /// Slots of the samplers: repeated with anisotropy, repeated, clamped, comparing depths.
    pub sampler_slots: [u32; 4],
    _samplers: ([Sampler; 4], SamplerTable<Device>),
    /// `true` if a command list sees the slots as they were when the heap was bound.
    is_snapshot: bool,
}

impl Heap {
    pub fn new(gpu: &Gpu) -> Result<Self, Failure> {
        let types = ViewTypes::SAMPLED_TEXTURE | ViewTypes::STORAGE_BUFFER;
        // The data of each frame in flight is one slot.
        let desc = ShaderVisibleDesc { types, frame_slots: 8, chunk_slots: 1, name: "heap", ..Default::default() };
        let resources = ShaderVisibleHeap::new(&gpu.memory, desc)?;
        // All slots that are not for frames. The default is half of them, for a second table.
        let capacity = resources.statistics().persistent_slots.min(BindlessDesc::CAPACITY.into()) as u32;
        let table = BindlessTable::new(&gpu.memory, &resources, BindlessDesc { capacity, ..Default::default() })?;
        let desc = ShaderVisibleDesc {
            kind: HeapKind::Samplers,
            frame_slots: 0,
            persistent_slots: 8,
            name: "samplers",
            ..Default::default()
        };
        let samplers = ShaderVisibleHeap::new(&gpu.memory, desc)?;
        let of_samplers =
            SamplerTable::new(&gpu.memory, &samplers, BindlessDesc { capacity: 8, ..Default::default() })?;
        let clamped = SamplerDesc { address: [AddressMode::Clamp; 3], ..Default::default() };
        let descs = [
            SamplerDesc { anisotropy: gpu.anisotropy, ..Default::default() },
            SamplerDesc::default(),
            clamped,
            SamplerDesc { compare: Some(Compare::LessEqual), ..clamped },
        ];
        let [smooth, repeated, clamped, comparing] = descs.map(|desc| of_samplers.get(desc));
        let held = [smooth?, repeated?, clamped?, comparing?];
        let sampler_slots = [0, 1, 2, 3].map(|number| Sampler::slot(&held[number]));
        let is_snapshot = gpu.memory.device().descriptor_support().is_snapshot();
        Ok(Self { resources, table, samplers, sampler_slots, _samplers: (held, of_samplers), is_snapshot })
    }

    /// Returns the number of slots of resources and of samplers.
    pub fn slots(&self) -> [u32; 2] {
        [self.resources.slots(), self.samplers.slots()]
    }

    /// Adds a texture with all of its mips and layers.
    pub fn insert(&self, texture: &Texture) -> Result<BindlessEntry<Device>, Failure> {
        Ok(self.table.insert(&View::texture(texture, whole(texture)?)?)?)
    }

    /// Exchanges the texture of an entry. On devices that bind snapshots, the slot stays the same, because pipelines
    /// contain the number of the slot.
    pub fn exchange(&self, entry: &mut BindlessEntry<Device>, texture: &Texture) -> Result<(), Failure> {
        let view = View::texture(texture, whole(texture)?)?;
        if self.is_snapshot {
            return Ok(self.table.update(entry.index(), &view)?);
        }
        Ok(entry.replace(&view)?)
    }

    /// Returns the slot of bytes that shaders read in this frame.
    pub fn frame_slot(&self, frame: &Frame, bytes: &Staged<Device>) -> Result<u32, Failure> {
        use ringfence::device::descriptors::{BufferView, BufferViewKind};
        let kind = BufferViewKind::Storage { stride: 0, writes: false };
        let view = View::buffer(bytes, BufferView { kind, offset: 0, size: bytes.size })?;
        Ok(self.resources.frame_descriptors(frame)?.table_of(&[view])?.start())
    }

    /// Returns both heaps, for one command list.
    pub fn bind(&self, frame: &Frame) -> Result<Binding<Device>, Failure> {
        Ok(self.resources.bind(frame)?.and(&self.samplers)?)
    }
}

fn whole(texture: &Texture) -> Result<TextureView, Failure> {
    let desc = texture.desc().ok_or("the texture has no portable description")?;
    Ok(TextureView::sampled(desc).layout(ViewLayout::ReadOnly))
}
