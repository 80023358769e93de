//! Descriptors: the trait that a device implements for them. Mechanism only: code above this crate decides which slot a
//! view gets, and when a slot may be written again.
//!
//! ```text
//!                 CPU-only heap                    shader-visible heap
//!               ┌───┬───┬───┬───┐  copy_views   ┌───┬───┬───┬───┬───┐  bind_heap
//!   write_view ▶│ v │ v │   │   │ ────────────▶ │   │ v │ v │   │   │ ───────────▶ Bound: what a command list takes
//!               └───┴───┴───┴───┘               └───┴───┴───┴───┴───┘
//! ```
//!
//! | | Direct3D 12 | Vulkan, descriptor buffers | Vulkan, sets | simulated |
//! |---|---|---|---|---|
//! | heap | `ID3D12DescriptorHeap` | bytes; shader-visible ones in a mapped buffer | `VkDescriptorSet`; with plain sets, slots | slots |
//! | `write_view` | `Create…View` | `vkGetDescriptorEXT` | `vkUpdateDescriptorSets` | checked |
//! | `copy_views` | `CopyDescriptors` | copies bytes | `vkUpdateDescriptorSets` | checked |
//! | `Bound` | the heap | the buffer's address | the set, or one that shows the same | the heap |

mod error;

use std::fmt;
use std::ops::Range;

use super::{
    BufferDesc, BufferUsage, Device, DeviceError, Dimension, Format, RawBuffer, RawTexture, TextureAspect, TextureDesc,
    TextureUsage,
};

pub use error::{DescriptorError, Region};

/// The kinds of descriptor heap.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum HeapKind {
    /// Constants, buffers and textures that shaders read and write (CBV, SRV, UAV).
    Resources,
    /// Samplers.
    Samplers,
    /// Colour targets; never shader-visible.
    RenderTargets,
    /// Depth and stencil targets; never shader-visible.
    DepthStencils,
}

impl HeapKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Resources, Self::Samplers, Self::RenderTargets, Self::DepthStencils];

    /// Whether shaders go through such descriptors.
    #[must_use]
    pub const fn can_be_shader_visible(self) -> bool {
        matches!(self, Self::Resources | Self::Samplers)
    }
}

impl fmt::Display for HeapKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Resources => "resources",
            Self::Samplers => "samplers",
            Self::RenderTargets => "render targets",
            Self::DepthStencils => "depth-stencils",
        })
    }
}

bitflags::bitflags! {
    /// The types of view that a heap of kind [`HeapKind::Resources`] can show. Direct3D 12 takes every type in every
    /// slot; on Vulkan each type is an array of its own, with limits of its own, so that fewer types allow more slots.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
    pub struct ViewTypes: u32 {
        /// Constants.
        const CONSTANTS = 1 << 0;
        /// Bytes or structures that shaders read and write.
        const STORAGE_BUFFER = 1 << 1;
        /// Textures that shaders read.
        const SAMPLED_TEXTURE = 1 << 2;
        /// Textures that shaders read and write without a sampler.
        const STORAGE_TEXTURE = 1 << 3;
        /// Texels in a buffer that shaders read.
        const SAMPLED_TEXELS = 1 << 4;
        /// Texels in a buffer that shaders read and write.
        const STORAGE_TEXELS = 1 << 5;
    }
}

/// A descriptor heap to be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeapDesc<'a> {
    /// What its slots show.
    pub kind: HeapKind,
    /// For resources: the types of view. Ignored for other kinds.
    pub types: ViewTypes,
    /// How many; at least 1.
    pub slots: u32,
    /// The slots of the set layout, at least `slots`. Pipelines work with every heap of the same kind, types and layout
    /// slots, so that a heap that grows keeps its pipelines. Used for shader-visible heaps on Vulkan.
    pub layout_slots: u32,
    /// Whether shaders see it.
    pub shader_visible: bool,
    /// A name for debuggers; empty for none.
    pub name: &'a str,
}

/// Where the slots of a heap are, as the device counts: slot `i` is at `cpu + i * increment`. A device without
/// addresses of descriptors counts slots: its heaps start at 0, and the increment is 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeapStart {
    /// Of the first slot, for the host.
    pub cpu: u64,
    /// Of the first slot, for shaders; `Some` iff the heap is shader-visible.
    pub gpu: Option<u64>,
    /// From one slot to the next.
    pub increment: u64,
}

/// The host's handle of a slot (`D3D12_CPU_DESCRIPTOR_HANDLE::ptr`; elsewhere the slot's number).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CpuHandle(pub u64);

/// The device handle of a slot, for command lists (`D3D12_GPU_DESCRIPTOR_HANDLE::ptr`; elsewhere the slot's number).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GpuHandle(pub u64);

/// How a device keeps the descriptors that shaders see.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum DescriptorModel {
    /// Heaps that command lists bind (Direct3D 12, simulated).
    Heaps,
    /// Bytes in a buffer (`VK_EXT_descriptor_buffer`).
    Buffers,
    /// One set that is written while it is bound (descriptor indexing).
    UpdateAfterBind,
    /// A set is never written while it is bound: each bind after a write writes another one, from a pool.
    PlainSets,
}

/// What a device can do with descriptors. Never changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DescriptorSupport {
    /// How the device keeps them.
    pub model: DescriptorModel,
    /// Alignment in bytes of a buffer range shown as constants.
    pub constant_alignment: u64,
    /// Alignment in bytes of a buffer range shown as bytes or structures. Structures are aligned to their stride too.
    pub storage_alignment: u64,
    /// Alignment in bytes of a buffer range shown as texels.
    pub texel_alignment: u64,
    /// The largest buffer range in bytes shown as constants.
    pub constant_bytes_max: u64,
    /// The largest buffer range in bytes shown as words or structures.
    pub storage_bytes_max: u64,
    /// The most words or structures shown at once.
    pub storage_elements_max: u64,
    /// The most texels in a buffer shown at once.
    pub texel_elements_max: u64,
    /// Whether slots own objects of the driver, which have to be cleared from a slot that is freed.
    pub slots_own_objects: bool,
    /// The largest anisotropy of samplers; 1 if there is none.
    pub anisotropy_max: u8,
}

impl DescriptorSupport {
    /// Whether a command list sees the slots as they were when it was bound. Then writes never meet pending work, and
    /// what is written after the bind shows in the next one only.
    #[must_use]
    pub const fn is_snapshot(&self) -> bool {
        matches!(self.model, DescriptorModel::PlainSets)
    }
}

/// What a slot of a buffer shows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BufferView {
    /// As what.
    pub kind: BufferViewKind,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
}

/// As what a range of a buffer is shown.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BufferViewKind {
    /// Constants (CBV, uniform buffer).
    Constants,
    /// Words, or structures of `stride` bytes if that is not 0 (SRV or UAV, storage buffer).
    Storage {
        /// Bytes of a structure, a multiple of 4; 0 for words.
        stride: u32,
        /// Whether shaders write.
        writes: bool,
    },
    /// Texels (typed SRV or UAV, texel buffer).
    Texels {
        /// The format of a texel.
        format: Format,
        /// Whether shaders write.
        writes: bool,
    },
}

impl BufferViewKind {
    /// The usage that the buffer needs. Words and structures that are only read may be of [`BufferUsage::STORAGE`] too.
    #[must_use]
    pub const fn usage(self) -> BufferUsage {
        match self {
            Self::Constants => BufferUsage::CONSTANT,
            Self::Storage { writes: false, .. } => BufferUsage::STORAGE_READ,
            Self::Storage { writes: true, .. } => BufferUsage::STORAGE,
            Self::Texels { writes: false, .. } => BufferUsage::TEXELS,
            Self::Texels { writes: true, .. } => BufferUsage::TEXELS.union(BufferUsage::STORAGE),
        }
    }

    /// Whether a buffer with `usage` can have such a view.
    #[must_use]
    pub const fn is_served_by(self, usage: BufferUsage) -> bool {
        let is_read = matches!(self, Self::Storage { writes: false, .. });
        usage.contains(self.usage()) || is_read && usage.contains(BufferUsage::STORAGE)
    }

    /// The type that its heap has to have.
    #[must_use]
    pub const fn view_type(self) -> ViewTypes {
        match self {
            Self::Constants => ViewTypes::CONSTANTS,
            Self::Storage { .. } => ViewTypes::STORAGE_BUFFER,
            Self::Texels { writes: false, .. } => ViewTypes::SAMPLED_TEXELS,
            Self::Texels { writes: true, .. } => ViewTypes::STORAGE_TEXELS,
        }
    }
}

/// A view of subresources of a texture.
///
/// ```
/// use ringfence_hal::descriptors::{TextureView, TextureViewKind, ViewDimension};
///
/// // The natural dimension: a cube, if the texture is one.
/// let sky = TextureView::new(TextureViewKind::Sampled, 0..1, 0..6);
/// // The same faces as an array of six two-dimensional layers.
/// let faces = sky.clone().dimension(ViewDimension::D2Array);
/// assert_ne!(sky, faces);
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TextureView {
    /// The way in which shaders or draws use it.
    pub kind: TextureViewKind,
    /// Mip levels; one for everything but [`TextureViewKind::Sampled`].
    pub mips: Range<u32>,
    /// Array layers; `0..1` of three dimensions. On Direct3D 12, whose plain views are of the first layer, another single
    /// layer is an array of one layer.
    pub layers: Range<u32>,
    /// The dimension that shaders declare; `None` is the natural one, see [`TextureView::dimension_in`].
    pub dimension: Option<ViewDimension>,
    /// The aspect that shaders read. Required if the format has depth and stencil; `None` for colour, and for targets, which
    /// have all aspects.
    pub aspect: Option<TextureAspect>,
    /// The layout that the texture is in when shaders use the view. Vulkan alone has layouts.
    pub layout: ViewLayout,
}

impl TextureView {
    /// Returns a view of the natural dimension, in the general layout.
    #[must_use]
    pub const fn new(kind: TextureViewKind, mips: Range<u32>, layers: Range<u32>) -> Self {
        Self { kind, mips, layers, dimension: None, aspect: None, layout: ViewLayout::General }
    }

    /// Sets the dimension.
    #[must_use]
    pub const fn dimension(mut self, dimension: ViewDimension) -> Self {
        self.dimension = Some(dimension);
        self
    }

    /// Sets the aspect.
    #[must_use]
    pub const fn aspect(mut self, aspect: TextureAspect) -> Self {
        self.aspect = Some(aspect);
        self
    }

    /// Sets the layout.
    #[must_use]
    pub const fn layout(mut self, layout: ViewLayout) -> Self {
        self.layout = layout;
        self
    }

    /// Returns the dimension of the view: the one that was set, or the natural one of a texture.
    ///
    /// | texture | one layer | several layers |
    /// |---|---|---|
    /// | 1-D | `D1` | `D1Array` |
    /// | 2-D | `D2` | `D2Array` |
    /// | 3-D | `D3` | – |
    /// | cube, sampled, six layers from a multiple of six on | – | `Cube` |
    /// | cube, sampled, more multiples of six | – | `CubeArray` |
    /// | cube otherwise | `D2` | `D2Array` |
    #[must_use]
    pub fn dimension_in(&self, texture: Dimension) -> ViewDimension {
        if let Some(dimension) = self.dimension {
            return dimension;
        }
        let is_array = self.layers.len() > 1;
        let is_whole = self.layers.start.is_multiple_of(6) && self.layers.len().is_multiple_of(6);
        match texture {
            Dimension::D3 => ViewDimension::D3,
            Dimension::D1 if is_array => ViewDimension::D1Array,
            Dimension::D1 => ViewDimension::D1,
            Dimension::Cube if self.kind == TextureViewKind::Sampled && is_array && is_whole => {
                if self.layers.len() == 6 { ViewDimension::Cube } else { ViewDimension::CubeArray }
            }
            Dimension::Cube | Dimension::D2 if is_array => ViewDimension::D2Array,
            Dimension::Cube | Dimension::D2 => ViewDimension::D2,
        }
    }
}

/// The dimension of a view, as shaders declare it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ViewDimension {
    /// One dimension, one layer.
    D1,
    /// Layers of one dimension.
    D1Array,
    /// Two dimensions, one layer.
    D2,
    /// Layers of two dimensions.
    D2Array,
    /// Six layers as the faces of a cube.
    Cube,
    /// Layers of cubes, six array layers each.
    CubeArray,
    /// Three dimensions.
    D3,
}

/// The layout that a texture is in when shaders use a view of it. Direct3D 12 and the simulated device have no layouts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum ViewLayout {
    /// `VK_IMAGE_LAYOUT_GENERAL`: the layout in which a copy recorder leaves textures, unless another one is set there.
    #[default]
    General,
    /// `VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL`, for sampled views alone. On some hardware reads are faster than in the
    /// general layout. The program transitions the texture, or sets this layout on the copy recorder.
    ReadOnly,
}

/// As what a texture is shown.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TextureViewKind {
    /// Read by shaders (SRV, sampled image).
    Sampled,
    /// Read and written by shaders (UAV, storage image).
    Storage,
    /// Drawn to (RTV, colour attachment).
    RenderTarget,
    /// Depth and stencil (DSV, depth-stencil attachment).
    DepthStencil,
}

impl TextureViewKind {
    /// What the texture has to be made for.
    #[must_use]
    pub const fn usage(self) -> TextureUsage {
        match self {
            Self::Sampled => TextureUsage::SAMPLED,
            Self::Storage => TextureUsage::STORAGE,
            Self::RenderTarget => TextureUsage::RENDER_TARGET,
            Self::DepthStencil => TextureUsage::DEPTH_STENCIL,
        }
    }

    /// The heap that such a view goes to.
    #[must_use]
    pub const fn heap_kind(self) -> HeapKind {
        match self {
            Self::Sampled | Self::Storage => HeapKind::Resources,
            Self::RenderTarget => HeapKind::RenderTargets,
            Self::DepthStencil => HeapKind::DepthStencils,
        }
    }
}

/// How a sampler reads between texels.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Filter {
    /// The nearest one.
    Nearest,
    /// A mix of the neighbours.
    Linear,
}

/// What a sampler reads outside of a texture.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AddressMode {
    /// The texture again.
    Repeat,
    /// The texture mirrored.
    Mirror,
    /// The texel at the edge.
    Clamp,
    /// The border's colour.
    Border,
}

/// How a sampler compares depths.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "the names are the documentation")]
pub enum Compare {
    Never,
    Less,
    Equal,
    LessEqual,
    Greater,
    NotEqual,
    GreaterEqual,
    Always,
}

/// The colour outside of a texture.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BorderColour {
    /// Black, alpha 0.
    Transparent,
    /// Black, alpha 1.
    Black,
    /// White, alpha 1.
    White,
}

/// A sampler, described portably.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SamplerDesc {
    /// When a texel covers several pixels.
    pub magnify: Filter,
    /// When a pixel covers several texels.
    pub minify: Filter,
    /// Between mip levels.
    pub mip: Filter,
    /// Outside of the texture, across, down and deep.
    pub address: [AddressMode; 3],
    /// Added to the level.
    pub level_bias: f32,
    /// The levels that are read, from the finest to the coarsest.
    pub levels: [f32; 2],
    /// The most samples along the direction in which a pixel is stretched, 1 to 16; 1 for none.
    pub anisotropy: u8,
    /// Compares instead of reading.
    pub compare: Option<Compare>,
    /// Where an address is [`AddressMode::Border`].
    pub border: BorderColour,
}

impl Default for SamplerDesc {
    /// Linear in all, repeated, all levels.
    fn default() -> Self {
        Self {
            magnify: Filter::Linear,
            minify: Filter::Linear,
            mip: Filter::Linear,
            address: [AddressMode::Repeat; 3],
            level_bias: 0.0,
            levels: [0.0, 1000.0],
            anisotropy: 1,
            compare: None,
            border: BorderColour::Transparent,
        }
    }
}

/// A view, described portably and checked: the resource is alive, made for it, and long enough.
#[derive(Clone, Debug)]
pub enum PortableView<'a, D: Device> {
    /// A range of a buffer.
    Buffer {
        /// The driver's object.
        object: &'a RawBuffer<D>,
        /// What it was made as.
        desc: BufferDesc,
        /// What is shown.
        view: BufferView,
    },
    /// Subresources of a texture.
    Texture {
        /// The driver's object.
        object: &'a RawTexture<D>,
        /// What it was made as.
        desc: TextureDesc,
        /// What is shown.
        view: TextureView,
    },
    /// A sampler.
    Sampler(SamplerDesc),
}

/// Slots to be copied from a CPU-only heap to another heap of its kind.
#[derive(Clone, Copy, Debug)]
pub struct ViewCopy<'a, H> {
    /// Copied from: not shader-visible.
    pub src: &'a H,
    /// First slot there.
    pub src_start: u32,
    /// Copied to.
    pub dst: &'a H,
    /// First slot there.
    pub dst_start: u32,
    /// Slots.
    pub count: u32,
}

/// A device that has descriptors. See the [module](self).
///
/// # Safety
/// As for [`Driver`](super::Driver): heaps are what the driver made, and views that [`Descriptors::describe_view`]
/// gives are valid as long as what they were made of.
pub unsafe trait Descriptors: Device {
    /// The driver's heap. A copy names the same heap.
    type Heap: Clone + Send + Sync + fmt::Debug + 'static;
    /// What a command list takes to go through a heap. A copy names the same thing.
    type Bound: Clone + Send + Sync + fmt::Debug + 'static;
    /// A view as the device describes it.
    type View<'a>: Clone;
    /// A driver object (image view, sampler) that a slot no longer shows and that pending work may still use.
    type Leftover: Send + 'static;

    /// What the device can do with descriptors.
    fn descriptor_support(&self) -> DescriptorSupport;

    /// The most slots of a shader-visible heap of this kind and these types.
    fn visible_slots_max(&self, kind: HeapKind, types: ViewTypes) -> u32;

    /// The device's view for a portable one.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] if the device has no such view.
    fn describe_view<'a>(&self, view: &PortableView<'a, Self>) -> Result<Self::View<'a>, DeviceError>;

    /// Makes a heap with empty slots.
    ///
    /// # Errors
    /// Out of memory, more slots than the device takes, device lost. Nothing is left behind.
    fn make_heap(&self, desc: &HeapDesc<'_>) -> Result<(Self::Heap, HeapStart), DeviceError>;

    /// Destroys a heap, and whatever its slots own.
    ///
    /// # Safety
    /// This device made it; it is destroyed once; no pending work uses it.
    unsafe fn destroy_heap(&self, heap: Self::Heap);

    /// Writes a view into a slot, and returns the object of the view that it had before.
    ///
    /// # Errors
    /// Out of memory, or the view is not one that the heap takes. The slot is then as before.
    ///
    /// # Safety
    /// The heap is this device's and has the slot; the view is valid; nothing else accesses the slot meanwhile, and,
    /// unless [`DescriptorSupport::is_snapshot`], no pending work reads it.
    unsafe fn write_view(
        &self,
        heap: &Self::Heap,
        slot: u32,
        view: &Self::View<'_>,
    ) -> Result<Option<Self::Leftover>, DeviceError>;

    /// Clears a slot, and returns the object of the view that it had before. A shader that reads the slot sees zeros if
    /// the device has null descriptors.
    ///
    /// # Safety
    /// As [`Descriptors::write_view`].
    unsafe fn clear_view(&self, heap: &Self::Heap, slot: u32) -> Option<Self::Leftover>;

    /// Copies slots, all ranges in one driver call if the API allows it.
    ///
    /// # Safety
    /// The heaps are this device's, of one kind and of equal types, and have the slots; no source is shader-visible;
    /// nothing writes the sources or accesses the destinations meanwhile; ranges of destinations do not overlap; and,
    /// unless [`DescriptorSupport::is_snapshot`], no pending work reads a destination.
    unsafe fn copy_views(&self, copies: &[ViewCopy<'_, Self::Heap>]);

    /// The object that a command list binds to use a shader-visible heap.
    ///
    /// # Errors
    /// Out of memory.
    ///
    /// # Safety
    /// The heap is this device's and shader-visible.
    unsafe fn bind_heap(&self, heap: &Self::Heap) -> Result<Self::Bound, DeviceError>;

    /// Releases what [`Descriptors::bind_heap`] returned.
    ///
    /// # Safety
    /// It is of this heap and released once; the work that it was bound for is complete.
    unsafe fn unbind_heap(&self, heap: &Self::Heap, bound: Self::Bound);

    /// Destroys the object of a view that a slot had before.
    ///
    /// # Safety
    /// It is this device's; no pending work uses it.
    unsafe fn discard_leftover(&self, leftover: Self::Leftover);
}
