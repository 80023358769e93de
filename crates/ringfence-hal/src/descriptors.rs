//! Descriptors: the trait that a device implements to support descriptor heaps. Its methods only translate to the
//! graphics API. The crates above decide which slot a view is written to, and when a slot may be written again.
//!
//! ```text
//!                 CPU-only heap                    shader-visible heap
//!               ┌───┬───┬───┬───┐  copy_views   ┌───┬───┬───┬───┬───┐  bind_heap
//!   write_view ▶│ v │ v │   │   │ ────────────▶ │   │ v │ v │   │   │ ───────────▶ Bound: a command list binds it
//!               └───┴───┴───┴───┘               └───┴───┴───┴───┴───┘
//! ```
//!
//! | | Direct3D 12 | Vulkan, descriptor buffers | Vulkan, sets | simulated |
//! |---|---|---|---|---|
//! | heap | `ID3D12DescriptorHeap` | bytes; shader-visible ones in a mapped buffer | `VkDescriptorSet`; with plain sets, slots | slots |
//! | `write_view` | `Create…View` | `vkGetDescriptorEXT` | `vkUpdateDescriptorSets`; with plain sets, no call | checked |
//! | `copy_views` | `CopyDescriptors` | copies bytes | `vkUpdateDescriptorSets`; with plain sets, no call | checked |
//! | `Bound` | the heap | the buffer's address | the set; with plain sets, a set with the same views | the heap |

mod error;

use std::fmt;
use std::ops::Range;

use super::{
    BufferDesc, BufferUsage, Device, DeviceError, Dimension, Format, RawBuffer, RawTexture, TextureAspect, TextureDesc,
    TextureUsage,
};

pub use error::{DescriptorError, Region};

/// The kind of a descriptor heap.
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

    /// Returns `true` if a heap of this kind can be shader-visible.
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
    /// The types of view that a heap of kind [`HeapKind::Resources`] can contain. On Direct3D 12, each slot accepts
    /// every type. On Vulkan, each type is a separate array with its own limit, so a heap with fewer types can have
    /// more slots.
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
        /// Texels in a buffer, which shaders read.
        const SAMPLED_TEXELS = 1 << 4;
        /// Texels in a buffer, which shaders read and write.
        const STORAGE_TEXELS = 1 << 5;
    }
}

/// Description of a descriptor heap to create.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeapDesc<'a> {
    /// The kind of descriptors in the heap.
    pub kind: HeapKind,
    /// The types of view that a heap of resources can contain. Ignored for other kinds.
    pub types: ViewTypes,
    /// Number of slots; at least 1.
    pub slots: u32,
    /// Number of slots in the set layout of a shader-visible heap on Vulkan; at least `slots`. Other devices ignore it.
    /// A pipeline works with every heap that has the same kind, types and number of layout slots. So pipelines remain
    /// valid after a heap is replaced by a larger one with the same `layout_slots`.
    pub layout_slots: u32,
    /// `true` if the heap is shader-visible.
    pub shader_visible: bool,
    /// A name for debuggers; empty for no name.
    pub name: &'a str,
}

/// Location of the slots of a heap: slot `i` is at `cpu + i * increment`. If a device has no descriptor addresses, its
/// locations are slot indices: `cpu` is 0, and `increment` is 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeapStart {
    /// Location of the first slot for the host.
    pub cpu: u64,
    /// Location of the first slot for shaders; `Some` if and only if the heap is shader-visible.
    pub gpu: Option<u64>,
    /// Distance between consecutive slots, in the unit of `cpu`.
    pub increment: u64,
}

/// The CPU handle of a slot (`D3D12_CPU_DESCRIPTOR_HANDLE::ptr`; on Vulkan, the index of the slot).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CpuHandle(pub u64);

/// The GPU handle of a slot, for command lists (`D3D12_GPU_DESCRIPTOR_HANDLE::ptr`; on Vulkan, the index of the slot).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GpuHandle(pub u64);

/// The way in which a device stores shader-visible descriptors.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum DescriptorModel {
    /// Heaps that command lists bind (Direct3D 12, simulated).
    Heaps,
    /// Bytes in a buffer (`VK_EXT_descriptor_buffer`).
    Buffers,
    /// One descriptor set, which may be written while it is bound (descriptor indexing).
    UpdateAfterBind,
    /// Descriptor sets from a pool, which are never written while they are bound: each bind after a write uses another
    /// set.
    PlainSets,
}

/// The descriptor features and limits of a device. They never change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DescriptorSupport {
    /// The way in which the device stores shader-visible descriptors.
    pub model: DescriptorModel,
    /// Alignment in bytes of the offset of a view of constants ([`BufferViewKind::Constants`]) in its buffer.
    pub constant_alignment: u64,
    /// Alignment in bytes of the offset of a storage view ([`BufferViewKind::Storage`]) in its buffer. Structures are
    /// also aligned to their stride.
    pub storage_alignment: u64,
    /// Alignment in bytes of the offset of a view of texels ([`BufferViewKind::Texels`]) in its buffer.
    pub texel_alignment: u64,
    /// Maximum size of a view of constants, in bytes (`maxUniformBufferRange`).
    pub constant_bytes_max: u64,
    /// Maximum size of a storage view, in bytes (`maxStorageBufferRange`).
    pub storage_bytes_max: u64,
    /// Maximum number of words or structures in a storage view.
    pub storage_elements_max: u64,
    /// Maximum number of texels in a view of texels (`maxTexelBufferElements`).
    pub texel_elements_max: u64,
    /// `true` if slots own driver objects. Freed slots must then be cleared, so that these objects can be destroyed.
    pub slots_own_objects: bool,
    /// Maximum anisotropy of samplers; 1 if the device has no anisotropic filtering.
    pub anisotropy_max: u8,
}

impl DescriptorSupport {
    /// Returns `true` if a command list sees the slots as they were when the heap was bound. Writes then never affect
    /// pending work, and are visible only after the next bind. If the result is `false`, a slot must not be written
    /// while pending work may read it.
    #[must_use]
    pub const fn is_snapshot(&self) -> bool {
        matches!(self.model, DescriptorModel::PlainSets)
    }
}

/// A view of a buffer range.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BufferView {
    /// The kind of view.
    pub kind: BufferViewKind,
    /// Offset of the range in the buffer, in bytes.
    pub offset: u64,
    /// Size of the range in bytes.
    pub size: u64,
}

/// The kind of a buffer view.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BufferViewKind {
    /// Constants (CBV, uniform buffer).
    Constants,
    /// Words if `stride` is 0, otherwise structures of `stride` bytes (SRV or UAV, storage buffer).
    Storage {
        /// Size of a structure in bytes, a multiple of 4; 0 for words.
        stride: u32,
        /// `true` if shaders write through the view.
        writes: bool,
    },
    /// Texels (typed SRV or UAV, texel buffer).
    Texels {
        /// The format of a texel.
        format: Format,
        /// `true` if shaders write through the view.
        writes: bool,
    },
}

impl BufferViewKind {
    /// Returns the usage that the buffer needs. For read-only words and structures, this is
    /// [`BufferUsage::STORAGE_READ`]; [`BufferUsage::STORAGE`] suffices too.
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

    /// Returns `true` if a buffer with `usage` can have a view of this kind.
    #[must_use]
    pub const fn is_served_by(self, usage: BufferUsage) -> bool {
        let is_read = matches!(self, Self::Storage { writes: false, .. });
        usage.contains(self.usage()) || is_read && usage.contains(BufferUsage::STORAGE)
    }

    /// Returns the view type that the heap must support.
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

/// A view of mip levels and array layers of a texture.
///
/// ```
/// use ringfence_hal::descriptors::{TextureView, TextureViewKind, ViewDimension};
///
/// // The natural dimension: `Cube` if the texture is a cube.
/// let sky = TextureView::new(TextureViewKind::Sampled, 0..1, 0..6);
/// // The same faces as an array of six two-dimensional layers.
/// let faces = sky.clone().dimension(ViewDimension::D2Array);
/// assert_ne!(sky, faces);
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TextureView {
    /// The kind of access that the view is for.
    pub kind: TextureViewKind,
    /// Mip levels; exactly one, except for [`TextureViewKind::Sampled`].
    pub mips: Range<u32>,
    /// Array layers; `0..1` for three-dimensional textures. On Direct3D 12, a view without an array dimension always
    /// contains layer 0. A view of another single layer is therefore created as an array of one layer.
    pub layers: Range<u32>,
    /// The dimension that shaders declare; `None` for the natural dimension of the texture and layers
    /// ([`TextureView::dimension_in`]).
    pub dimension: Option<ViewDimension>,
    /// The aspect that shaders read. Required if the format has both depth and stencil. `None` for colour formats, and
    /// for render-target and depth-stencil views, which contain all aspects.
    pub aspect: Option<TextureAspect>,
    /// The layout of the texture when shaders use the view. Only the Vulkan device uses it.
    pub layout: ViewLayout,
    /// The format in which the view shows the texels: one of [`TextureDesc::view_formats`]. `None` for the format of
    /// the texture.
    pub format: Option<Format>,
    /// The sources of red, green, blue and alpha. Only sampled views may change them.
    pub swizzle: [Component; 4],
}

/// The source of a channel that shaders read through a view.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Component {
    /// The red channel of the texture; for depth and stencil, the only channel.
    Red,
    /// The green channel.
    Green,
    /// The blue channel.
    Blue,
    /// The alpha channel.
    Alpha,
    /// Zero.
    Zero,
    /// One. On Vulkan, views of depth or stencil do not support it.
    One,
}

impl Component {
    /// The channels in their own order.
    pub const IDENTITY: [Self; 4] = [Self::Red, Self::Green, Self::Blue, Self::Alpha];
}

impl TextureView {
    /// Returns a view of the natural dimension ([`TextureView::dimension_in`]), in the general layout.
    #[must_use]
    pub const fn new(kind: TextureViewKind, mips: Range<u32>, layers: Range<u32>) -> Self {
        let (dimension, aspect, layout, format) = (None, None, ViewLayout::General, None);
        Self { kind, mips, layers, dimension, aspect, layout, format, swizzle: Component::IDENTITY }
    }

    /// Returns a view of a whole texture for sampling: all mip levels and layers, in the natural dimension and the
    /// general layout. If the format has depth and stencil, the view contains the depth.
    #[must_use]
    pub fn sampled(texture: &TextureDesc) -> Self {
        let has = |aspect| texture.format.texels().block_bytes(aspect).is_some();
        let has_both = has(TextureAspect::Depth) && has(TextureAspect::Stencil);
        let whole = Self::new(TextureViewKind::Sampled, 0..texture.mips, 0..texture.layers);
        Self { aspect: has_both.then_some(TextureAspect::Depth), ..whole }
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

    /// Sets the format in which the view shows the texels: one of [`TextureDesc::view_formats`].
    #[must_use]
    pub const fn format(mut self, format: Format) -> Self {
        self.format = Some(format);
        self
    }

    /// Sets the sources of red, green, blue and alpha.
    ///
    /// ```
    /// use ringfence_hal::descriptors::{Component::*, TextureView, TextureViewKind};
    ///
    /// // A texture with one channel, shown as white with this alpha.
    /// let glyphs = TextureView::new(TextureViewKind::Sampled, 0..1, 0..1).swizzle([One, One, One, Red]);
    /// ```
    #[must_use]
    pub const fn swizzle(mut self, sources: [Component; 4]) -> Self {
        self.swizzle = sources;
        self
    }

    /// Returns the format in which the view shows the texels of `texture`.
    #[must_use]
    pub fn format_in(&self, texture: &TextureDesc) -> Format {
        self.format.unwrap_or(texture.format)
    }

    /// Returns the dimension of the view: the `dimension` field, or if that is `None`, the natural dimension for
    /// `texture`:
    ///
    /// | texture | one layer | several layers |
    /// |---|---|---|
    /// | 1-D | `D1` | `D1Array` |
    /// | 2-D | `D2` | `D2Array` |
    /// | 3-D | `D3` | – |
    /// | cube, sampled, six layers from a multiple of six on | – | `Cube` |
    /// | cube, sampled, 12, 18, … layers from a multiple of six on | – | `CubeArray` |
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

/// The layout of a texture when shaders use a view of it. The Direct3D 12 device and the simulated device ignore it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum ViewLayout {
    /// `VK_IMAGE_LAYOUT_GENERAL`. A copy recorder leaves textures in this layout, unless another layout is set on the
    /// recorder.
    #[default]
    General,
    /// `VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL`, for sampled views only. On some hardware, reads are faster in this
    /// layout than in the general layout. The program must transition the texture to this layout, or set this layout on
    /// the copy recorder.
    ReadOnly,
}

/// The kind of a texture view.
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
    /// Returns the usage that the texture needs.
    #[must_use]
    pub const fn usage(self) -> TextureUsage {
        match self {
            Self::Sampled => TextureUsage::SAMPLED,
            Self::Storage => TextureUsage::STORAGE,
            Self::RenderTarget => TextureUsage::RENDER_TARGET,
            Self::DepthStencil => TextureUsage::DEPTH_STENCIL,
        }
    }

    /// Returns the kind of heap that contains views of this kind.
    #[must_use]
    pub const fn heap_kind(self) -> HeapKind {
        match self {
            Self::Sampled | Self::Storage => HeapKind::Resources,
            Self::RenderTarget => HeapKind::RenderTargets,
            Self::DepthStencil => HeapKind::DepthStencils,
        }
    }
}

/// A texture filter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Filter {
    /// The nearest texel.
    Nearest,
    /// Interpolation between neighbouring texels.
    Linear,
}

/// The texel that a sampler uses for coordinates outside of the texture.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AddressMode {
    /// Repeats the texture.
    Repeat,
    /// Repeats the texture, mirrored each time.
    Mirror,
    /// Uses the texel at the edge.
    Clamp,
    /// Uses the border colour.
    Border,
}

/// A depth comparison of a sampler.
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

/// The border colour of a sampler.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BorderColor {
    /// Black, alpha 0.
    Transparent,
    /// Black, alpha 1.
    Black,
    /// White, alpha 1.
    White,
}

/// The portable description of a sampler.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SamplerDesc {
    /// Magnification filter.
    pub magnify: Filter,
    /// Minification filter.
    pub minify: Filter,
    /// Filter between mip levels.
    pub mip: Filter,
    /// Address modes for u, v and w.
    pub address: [AddressMode; 3],
    /// Bias that is added to the level of detail.
    pub level_bias: f32,
    /// Smallest and largest level of detail.
    pub levels: [f32; 2],
    /// Largest anisotropy, 1 to 16; 1 disables anisotropic filtering.
    pub anisotropy: u8,
    /// The comparison of a sampler that compares depths; `None` for other samplers.
    pub compare: Option<Compare>,
    /// The border colour, used with [`AddressMode::Border`].
    pub border: BorderColor,
}

impl Default for SamplerDesc {
    /// Returns a sampler with linear filters, repeated addresses and all mip levels.
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
            border: BorderColor::Transparent,
        }
    }
}

/// A portable view that has passed the checks: the resource is alive, has the usage, and contains the range.
#[derive(Clone, Debug)]
pub enum PortableView<'a, D: Device> {
    /// A range of a buffer.
    Buffer {
        /// The driver's object.
        object: &'a RawBuffer<D>,
        /// The description of the buffer.
        desc: BufferDesc,
        /// The view.
        view: BufferView,
    },
    /// Subresources of a texture.
    Texture {
        /// The driver's object.
        object: &'a RawTexture<D>,
        /// The description of the texture.
        desc: TextureDesc,
        /// The view.
        view: TextureView,
    },
    /// A sampler.
    Sampler(SamplerDesc),
}

/// A texture that a library has placed, with the data that its views need.
pub struct PlacedTexture<'a, D: Device> {
    object: &'a RawTexture<D>,
    desc: TextureDesc,
    /// Number of the allocator that the texture belongs to.
    owner: u32,
}

impl<'a, D: Device> PlacedTexture<'a, D> {
    /// Describes a texture of the allocator with the number `owner`.
    ///
    /// # Safety
    /// The texture is alive, was created from a description equal to `desc`, and belongs to that allocator's device.
    #[must_use]
    pub const unsafe fn new(object: &'a RawTexture<D>, desc: TextureDesc, owner: u32) -> Self {
        Self { object, desc, owner }
    }

    /// Returns the driver's object.
    #[must_use]
    pub const fn object(&self) -> &'a RawTexture<D> {
        self.object
    }

    /// Returns the description of the texture.
    #[must_use]
    pub const fn desc(&self) -> &TextureDesc {
        &self.desc
    }

    /// Returns the number of the allocator that the texture belongs to.
    #[must_use]
    pub const fn owner(&self) -> u32 {
        self.owner
    }
}

impl<D: Device> Clone for PlacedTexture<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D: Device> Copy for PlacedTexture<'_, D> {}

impl<D: Device> fmt::Debug for PlacedTexture<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PlacedTexture({:?}, {:?})", self.object, self.desc)
    }
}

/// A copy of consecutive slots from a CPU-only heap to another heap of the same kind.
#[derive(Clone, Copy, Debug)]
pub struct ViewCopy<'a, H> {
    /// The source, which is not shader-visible.
    pub src: &'a H,
    /// First slot in the source.
    pub src_start: u32,
    /// The destination.
    pub dst: &'a H,
    /// First slot in the destination.
    pub dst_start: u32,
    /// Number of slots.
    pub count: u32,
}

/// A device with descriptor heaps: their creation, and the writing, copying and binding of their slots.
///
/// # Safety
/// The rules of [`Driver`](super::Driver). All returned heaps are heaps that the driver created. A view from
/// [`Descriptors::describe_view`] is valid as long as its resource is alive.
pub unsafe trait Descriptors: Device {
    /// The driver's descriptor heap. A clone refers to the same heap.
    type Heap: Clone + Send + Sync + fmt::Debug + 'static;
    /// The object that a command list binds to use a heap. A clone refers to the same object.
    type Bound: Clone + Send + Sync + fmt::Debug + 'static;
    /// The device's own description of a view.
    type View<'a>: Clone;
    /// A driver object (image view, sampler) that belonged to a slot until the slot was overwritten or cleared. Pending
    /// work may still use the object.
    type Leftover: Send + 'static;

    /// Returns the descriptor features and limits of the device.
    fn descriptor_support(&self) -> DescriptorSupport;

    /// Returns the maximum number of slots of a shader-visible heap of this kind and these types.
    fn visible_slots_max(&self, kind: HeapKind, types: ViewTypes) -> u32;

    /// Converts a portable view to the device's own description.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] if the device does not support the view.
    fn describe_view<'a>(&self, view: &PortableView<'a, Self>) -> Result<Self::View<'a>, DeviceError>;

    /// Creates a heap with empty slots.
    ///
    /// # Errors
    /// Out of memory, more slots than the device supports, device lost. A failed call leaves no object behind.
    fn make_heap(&self, desc: &HeapDesc<'_>) -> Result<(Self::Heap, HeapStart), DeviceError>;

    /// Destroys a heap and the objects that its slots own.
    ///
    /// # Safety
    /// This device created the heap, the heap is alive, and no pending work uses it.
    unsafe fn destroy_heap(&self, heap: Self::Heap);

    /// Writes a view into a slot. Returns the driver object of the overwritten view, if it has one.
    ///
    /// # Errors
    /// Out of memory, device lost, or the heap does not accept the view. The slot is then unchanged.
    ///
    /// # Safety
    /// The heap belongs to this device and has the slot. The view is valid. No other thread accesses the slot during
    /// the call. Unless [`DescriptorSupport::is_snapshot`] is `true`, no pending work reads the slot.
    unsafe fn write_view(
        &self,
        heap: &Self::Heap,
        slot: u32,
        view: &Self::View<'_>,
    ) -> Result<Option<Self::Leftover>, DeviceError>;

    /// Clears a slot. Returns the driver object of the removed view, if it has one. If the device has null descriptors,
    /// a shader that reads the slot sees zeros.
    ///
    /// # Safety
    /// The rules of [`Descriptors::write_view`].
    unsafe fn clear_view(&self, heap: &Self::Heap, slot: u32) -> Option<Self::Leftover>;

    /// Copies slots. If the API permits it, all copies are one driver call.
    ///
    /// # Safety
    /// - The heaps belong to this device, have the same kind and types, and have the slots.
    /// - No source is shader-visible.
    /// - During the call, no thread writes the sources or accesses the destinations.
    /// - Destination ranges do not overlap.
    /// - Unless [`DescriptorSupport::is_snapshot`] is `true`, no pending work reads a destination.
    unsafe fn copy_views(&self, copies: &[ViewCopy<'_, Self::Heap>]);

    /// Returns the object that a command list binds to use a shader-visible heap.
    ///
    /// # Errors
    /// Out of memory.
    ///
    /// # Safety
    /// The heap belongs to this device and is shader-visible.
    unsafe fn bind_heap(&self, heap: &Self::Heap) -> Result<Self::Bound, DeviceError>;

    /// Releases an object that [`Descriptors::bind_heap`] returned.
    ///
    /// # Safety
    /// [`Descriptors::bind_heap`] returned `bound` for this heap, `bound` is not yet released, and all work that uses
    /// it is complete.
    unsafe fn unbind_heap(&self, heap: &Self::Heap, bound: Self::Bound);

    /// Destroys the driver object of a view that was overwritten or removed.
    ///
    /// # Safety
    /// The object belongs to this device, and no pending work uses it.
    unsafe fn discard_leftover(&self, leftover: Self::Leftover);
}

#[cfg(test)]
mod tests;
