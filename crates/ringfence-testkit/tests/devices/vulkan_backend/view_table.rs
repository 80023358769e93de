//! A shader reads a known texel through every kind of view, with every descriptor model. Through storage views, it also
//! writes another texel, and the whole resource is compared afterwards.
//!
//! ```text
//!   row ── texture or buffer ── filled by an UploadBatch, every texel different
//!       ── view             ── slot 1 of the heap
//!       ── coordinates      ── words in slot 0 ──▶ shader ──▶ words ── compared with the texel that the row names
//! ```
//!
//! The library must refuse a view with `Unsupported` if and only if Vulkan's properties of the format do not include it.
//! The test prints the refused rows, and rows with formats that shaders cannot declare on the device.

mod bench;
mod shader;
mod texel;

use std::collections::BTreeMap;
use std::fmt;

use ash::vk;
use ringfence::descriptor::{DescriptorError, View};
use ringfence::device::descriptors::{
    BufferView, BufferViewKind, Component, DescriptorModel, Descriptors, TextureView, TextureViewKind, ViewDimension,
    ViewLayout, ViewTypes,
};
use ringfence::device::{
    BufferDesc, BufferUsage, Dimension, Driver, Format, FormatSet, TextureAspect, TextureDesc, TextureUsage,
};
use ringfence::vulkan::{Device, Features, PlainViews};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc};
use ringfence_testkit::Gpu;

use bench::{Bench, OwnDevice};
use shader::{Declaration, Dim, FIRST_SLOT, SLOTS, Shader};
use texel::{Channels, Numbers};

/// A row of the table: a view, and a texel that the shader reads through it.
pub struct Row {
    /// The kind of view, the format, and the aspect if there are several.
    class: String,
    /// Further words for messages: the view and the texel.
    name: String,
    shown: Shown,
    /// Coordinates that the shader passes, as words.
    at: [u32; 4],
    /// Mip level in the view, or the sample, as a word.
    level: u32,
    /// The texel in the resource.
    texel: Place,
}

/// The resource and the view of a row.
pub enum Shown {
    Texture {
        desc: TextureDesc,
        view: TextureView,
    },
    /// The view begins at texel [`FIRST_TEXEL`] of the buffer.
    Buffer(BufferViewKind),
}

/// Place of a texel in a texture; in a view of a buffer, only `x` is used.
#[derive(Clone, Copy, Default)]
pub struct Place {
    mip: u32,
    layer: u32,
    x: u32,
    y: u32,
    z: u32,
}

/// First texel of the views of buffers: Vulkan requires no alignment that does not divide 256 bytes.
const FIRST_TEXEL: u32 = 256;
/// Number of texels of the views of buffers.
const BUFFER_TEXELS: u32 = 16;

/// Returns the number of texel `index` of a buffer. The texels at `index` and at `FIRST_TEXEL + index` differ.
fn number_in_buffer(index: u32) -> u32 {
    index + index / FIRST_TEXEL
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.class, self.name)
    }
}

impl Row {
    fn format(&self) -> Format {
        match self.shown {
            Shown::Texture { ref desc, ref view } => view.format_in(desc),
            Shown::Buffer(BufferViewKind::Texels { format, .. }) => format,
            Shown::Buffer(_) => Format::Rgba32Uint,
        }
    }

    fn aspect(&self) -> TextureAspect {
        match &self.shown {
            Shown::Texture { desc, view } => view.aspect.unwrap_or(desc.format.texels().first_aspect()),
            Shown::Buffer(_) => TextureAspect::Color,
        }
    }

    fn channels(&self) -> Channels {
        Channels::of(self.format(), self.aspect())
    }

    /// Returns `true` if the shader writes a texel.
    fn is_written(&self) -> bool {
        match &self.shown {
            Shown::Texture { view, .. } => view.kind == TextureViewKind::Storage,
            Shown::Buffer(kind) => matches!(kind, BufferViewKind::Texels { writes: true, .. }),
        }
    }

    /// Returns the number of the row's texel in its resource.
    fn number(&self) -> u32 {
        match &self.shown {
            Shown::Buffer(_) => number_in_buffer(FIRST_TEXEL + self.texel.x),
            // All texels of a layer have the colour of its clear.
            Shown::Texture { desc, .. } if desc.samples > 1 => self.texel.layer,
            Shown::Texture { desc, .. } => first_of_mip(desc, self.texel.mip) + self.index_in_mip(),
        }
    }

    /// Returns the bits of the texel that the shader reads.
    fn texel(&self) -> u128 {
        self.channels().texel(self.number())
    }

    /// Returns the number of channels of depth or stencil that are compared: the first one, or all that show it.
    fn single_channels(&self) -> usize {
        let Shown::Texture { view, .. } = &self.shown else { return 1 };
        if view.swizzle == Component::IDENTITY { 1 } else { 4 }
    }

    /// Returns red, green, blue and alpha, as the shader sees them through the view.
    fn numbers(&self) -> [f64; 4] {
        let numbers = self.channels().numbers_of(self.texel());
        let Shown::Texture { view, .. } = &self.shown else { return numbers };
        view.swizzle.map(|source| match source {
            Component::Red => numbers[0],
            Component::Green => numbers[1],
            Component::Blue => numbers[2],
            Component::Alpha => numbers[3],
            Component::Zero => 0.0,
            Component::One => 1.0,
        })
    }

    /// Returns the bits of the texel that the shader writes, which no row reads.
    fn written(&self) -> u128 {
        self.channels().texel(self.number() + 100)
    }

    /// Returns the index of the row's texel in all layers of its mip level.
    fn index_in_mip(&self) -> u32 {
        let Shown::Texture { desc, .. } = &self.shown else { return self.texel.x };
        let [width, height, depth] = extent(desc, self.texel.mip);
        let Place { layer, x, y, z, .. } = self.texel;
        ((layer * depth + z) * height + y) * width + x
    }

    /// Returns the bytes of an aspect of a mip level, all layers one after the other.
    fn texture_content(&self, mip: u32, aspect: TextureAspect) -> Vec<u8> {
        let Shown::Texture { desc, .. } = &self.shown else { return Vec::new() };
        let (channels, mut bytes) = (Channels::of(self.format(), aspect), Vec::new());
        let first = first_of_mip(desc, mip);
        (first..first + texels_in(desc, mip)).for_each(|number| channels.append(channels.texel(number), &mut bytes));
        bytes
    }

    /// Returns the shader that reads the view; `None` if shaders cannot declare the format on this device.
    fn shader(&self, own: &OwnDevice, device: &Device) -> Option<Shader> {
        let (numbers, any) = (self.channels().numbers, vk::ImageViewType::TYPE_2D);
        // A format with the same type of numbers: the binding does not depend on anything else.
        let format = match numbers {
            Numbers::Uint => vk::Format::R8G8B8A8_UINT,
            Numbers::Sint => vk::Format::R8G8B8A8_SINT,
            _ => vk::Format::R8G8B8A8_UNORM,
        };
        let storage_format = storage_format(self.format());
        let is_declared = match storage_format {
            0 => own.has_no_formats,
            format => own.has_extended_formats || shader::PLAIN_FORMATS.contains(&format),
        };
        let (declaration, descriptor_type, view_type) = match &self.shown {
            Shown::Texture { desc, view } => {
                let view_type = view_type(view.dimension_in(desc.dimension));
                let (dim, arrayed) = dim_of(view.dimension_in(desc.dimension));
                match view.kind {
                    TextureViewKind::Sampled => {
                        let declaration = Declaration::Sampled { dim, arrayed, multisampled: desc.samples > 1 };
                        (declaration, vk::DescriptorType::SAMPLED_IMAGE, view_type)
                    }
                    _ => {
                        let declaration = Declaration::Storage { dim, arrayed, format: storage_format };
                        (declaration, vk::DescriptorType::STORAGE_IMAGE, view_type)
                    }
                }
            }
            Shown::Buffer(BufferViewKind::Texels { writes: false, .. }) => {
                let declaration = Declaration::Sampled { dim: Dim::Buffer, arrayed: false, multisampled: false };
                (declaration, vk::DescriptorType::UNIFORM_TEXEL_BUFFER, any)
            }
            Shown::Buffer(BufferViewKind::Texels { writes: true, .. }) => {
                let declaration = Declaration::Storage { dim: Dim::Buffer, arrayed: false, format: storage_format };
                (declaration, vk::DescriptorType::STORAGE_TEXEL_BUFFER, any)
            }
            Shown::Buffer(BufferViewKind::Constants) => {
                (Declaration::Constants, vk::DescriptorType::UNIFORM_BUFFER, any)
            }
            Shown::Buffer(BufferViewKind::Storage { .. }) => {
                (Declaration::Structures, vk::DescriptorType::STORAGE_BUFFER, any)
            }
        };
        let binding = |descriptor_type| device.descriptor_binding(descriptor_type, view_type, format);
        let words_binding = binding(vk::DescriptorType::STORAGE_BUFFER).expect("every heap has it");
        let binding = binding(descriptor_type).expect("the heap has an array for the view");
        let shader = Shader { declaration, numbers, binding, words_binding };
        (is_declared || !self.is_written()).then_some(shader)
    }

    /// Returns the type of the view.
    fn types(&self) -> ViewTypes {
        match &self.shown {
            Shown::Texture { .. } if self.is_written() => ViewTypes::STORAGE_TEXTURE,
            Shown::Texture { .. } => ViewTypes::SAMPLED_TEXTURE,
            Shown::Buffer(kind) => kind.view_type(),
        }
    }

    /// Returns the arrays that heaps of plain sets need for the view. Arrays for buffers and for floating-point texels
    /// always exist.
    fn plain_views(&self) -> PlainViews {
        let kind = match self.channels().numbers {
            Numbers::Uint => "UINT",
            Numbers::Sint => "SINT",
            _ => "FLOAT",
        };
        let name = match &self.shown {
            Shown::Buffer(_) => "TEXELS",
            Shown::Texture { desc, view } => match view.dimension_in(desc.dimension) {
                ViewDimension::D1 => "1D",
                ViewDimension::D1Array => "1D_ARRAY",
                ViewDimension::D2 => "2D",
                ViewDimension::D2Array => "2D_ARRAY",
                ViewDimension::Cube => "CUBE",
                ViewDimension::CubeArray => "CUBE_ARRAY",
                ViewDimension::D3 => "3D",
            },
        };
        PlainViews::from_name(&format!("{kind}_{name}")).unwrap_or(PlainViews::FLOAT_2D)
    }
}

fn extent(desc: &TextureDesc, mip: u32) -> [u32; 3] {
    [desc.width, desc.height, desc.depth].map(|side| (side >> mip).max(1))
}

/// Returns the number of texels in all layers of a mip level.
fn texels_in(desc: &TextureDesc, mip: u32) -> u32 {
    extent(desc, mip).into_iter().product::<u32>() * desc.layers
}

fn first_of_mip(desc: &TextureDesc, mip: u32) -> u32 {
    (0..mip).map(|mip| texels_in(desc, mip)).sum()
}

fn image_type(dimension: Dimension) -> (vk::ImageType, vk::ImageCreateFlags) {
    match dimension {
        Dimension::D1 => (vk::ImageType::TYPE_1D, vk::ImageCreateFlags::empty()),
        Dimension::D2 => (vk::ImageType::TYPE_2D, vk::ImageCreateFlags::empty()),
        Dimension::Cube => (vk::ImageType::TYPE_2D, vk::ImageCreateFlags::CUBE_COMPATIBLE),
        Dimension::D3 => (vk::ImageType::TYPE_3D, vk::ImageCreateFlags::empty()),
    }
}

fn view_type(dimension: ViewDimension) -> vk::ImageViewType {
    match dimension {
        ViewDimension::D1 => vk::ImageViewType::TYPE_1D,
        ViewDimension::D1Array => vk::ImageViewType::TYPE_1D_ARRAY,
        ViewDimension::D2 => vk::ImageViewType::TYPE_2D,
        ViewDimension::D2Array => vk::ImageViewType::TYPE_2D_ARRAY,
        ViewDimension::Cube => vk::ImageViewType::CUBE,
        ViewDimension::CubeArray => vk::ImageViewType::CUBE_ARRAY,
        ViewDimension::D3 => vk::ImageViewType::TYPE_3D,
    }
}

/// Returns the declaration of a dimension in SPIR-V, and whether it is an array.
fn dim_of(dimension: ViewDimension) -> (Dim, bool) {
    match dimension {
        ViewDimension::D1 => (Dim::D1, false),
        ViewDimension::D1Array => (Dim::D1, true),
        ViewDimension::D2 => (Dim::D2, false),
        ViewDimension::D2Array => (Dim::D2, true),
        ViewDimension::Cube => (Dim::Cube, false),
        ViewDimension::CubeArray => (Dim::Cube, true),
        ViewDimension::D3 => (Dim::D3, false),
    }
}

/// Returns the format with which SPIR-V declares storage texels; 0 if SPIR-V has no such format.
fn storage_format(format: Format) -> u32 {
    match format {
        Format::Rgba32Float => 1,
        Format::Rgba16Float => 2,
        Format::R32Float => 3,
        Format::Rgba8Unorm => 4,
        Format::Rgba8Snorm => 5,
        Format::Rg32Float => 6,
        Format::Rg16Float => 7,
        Format::Rg11b10Float => 8,
        Format::R16Float => 9,
        Format::Rgba16Unorm => 10,
        Format::Rgb10a2Unorm => 11,
        Format::Rg16Unorm => 12,
        Format::Rg8Unorm => 13,
        Format::R16Unorm => 14,
        Format::R8Unorm => 15,
        Format::Rgba16Snorm => 16,
        Format::Rg16Snorm => 17,
        Format::Rg8Snorm => 18,
        Format::R16Snorm => 19,
        Format::R8Snorm => 20,
        Format::Rgba32Sint => 21,
        Format::Rgba16Sint => 22,
        Format::Rgba8Sint => 23,
        Format::R32Sint => 24,
        Format::Rg32Sint => 25,
        Format::Rg16Sint => 26,
        Format::Rg8Sint => 27,
        Format::R16Sint => 28,
        Format::R8Sint => 29,
        Format::Rgba32Uint => 30,
        Format::Rgba16Uint => 31,
        Format::Rgba8Uint => 32,
        Format::R32Uint => 33,
        Format::Rgb10a2Uint => 34,
        Format::Rg32Uint => 35,
        Format::Rg16Uint => 36,
        Format::Rg8Uint => 37,
        Format::R16Uint => 38,
        Format::R8Uint => 39,
        _ => 0,
    }
}

/// Describes a texture with fewer than 256 texels, so every texel has its own number below 256.
fn texture(dimension: Dimension, format: Format, usage: TextureUsage) -> TextureDesc {
    let usage = usage | TextureUsage::COPY_DST;
    let [width, height, depth, layers, mips] = match dimension {
        Dimension::D1 => [16, 1, 1, 4, 3],
        Dimension::D2 => [8, 4, 1, 4, 3],
        Dimension::Cube => [4, 4, 1, 12, 2],
        Dimension::D3 => [4, 4, 4, 1, 2],
    };
    TextureDesc { dimension, width, height, depth, layers, mips, format, usage, ..Default::default() }
}

fn place(mip: u32, layer: u32, [x, y, z]: [u32; 3]) -> Place {
    Place { mip, layer, x, y, z }
}

/// Views of textures that are fetched or stored: the dimension of the texture, the view (mip levels, layers,
/// dimension), the mip level and the coordinates in the shader, and the texel in the texture.
type Fetched = (Dimension, [u32; 2], [u32; 2], ViewDimension, u32, [u32; 3], Place);

fn sampled_views() -> Vec<Fetched> {
    use Dimension as T;
    use ViewDimension as V;
    vec![
        (T::D1, [0, 1], [0, 1], V::D1, 0, [5, 0, 0], place(0, 0, [5, 0, 0])),
        (T::D1, [1, 2], [2, 3], V::D1, 0, [6, 0, 0], place(1, 2, [6, 0, 0])),
        (T::D1, [1, 3], [3, 4], V::D1, 0, [7, 0, 0], place(1, 3, [7, 0, 0])),
        (T::D1, [1, 3], [3, 4], V::D1, 1, [3, 0, 0], place(2, 3, [3, 0, 0])),
        (T::D1, [0, 3], [0, 4], V::D1Array, 1, [6, 3, 0], place(1, 3, [6, 0, 0])),
        (T::D1, [1, 2], [1, 3], V::D1Array, 0, [2, 1, 0], place(1, 2, [2, 0, 0])),
        (T::D1, [0, 1], [2, 3], V::D1Array, 0, [15, 0, 0], place(0, 2, [15, 0, 0])),
        (T::D2, [0, 3], [0, 1], V::D2, 0, [7, 3, 0], place(0, 0, [7, 3, 0])),
        (T::D2, [0, 3], [0, 1], V::D2, 2, [1, 0, 0], place(2, 0, [1, 0, 0])),
        (T::D2, [1, 2], [2, 3], V::D2, 0, [3, 1, 0], place(1, 2, [3, 1, 0])),
        (T::D2, [1, 3], [3, 4], V::D2, 0, [2, 1, 0], place(1, 3, [2, 1, 0])),
        (T::D2, [1, 3], [3, 4], V::D2, 1, [1, 0, 0], place(2, 3, [1, 0, 0])),
        (T::D2, [0, 3], [0, 4], V::D2Array, 0, [5, 2, 3], place(0, 3, [5, 2, 0])),
        (T::D2, [1, 3], [1, 3], V::D2Array, 0, [2, 1, 1], place(1, 2, [2, 1, 0])),
        (T::D2, [2, 3], [2, 3], V::D2Array, 0, [0, 0, 0], place(2, 2, [0, 0, 0])),
        (T::Cube, [0, 1], [7, 8], V::D2, 0, [1, 2, 0], place(0, 7, [1, 2, 0])),
        (T::Cube, [1, 2], [0, 12], V::D2Array, 0, [1, 0, 10], place(1, 10, [1, 0, 0])),
        (T::Cube, [0, 2], [3, 9], V::D2Array, 1, [0, 1, 5], place(1, 8, [0, 1, 0])),
        (T::D3, [0, 2], [0, 1], V::D3, 0, [1, 2, 3], place(0, 0, [1, 2, 3])),
        (T::D3, [0, 2], [0, 1], V::D3, 1, [0, 1, 1], place(1, 0, [0, 1, 1])),
        (T::D3, [1, 2], [0, 1], V::D3, 0, [1, 0, 1], place(1, 0, [1, 0, 1])),
    ]
}

fn storage_views() -> Vec<Fetched> {
    use Dimension as T;
    use ViewDimension as V;
    vec![
        (T::D1, [0, 1], [0, 1], V::D1, 0, [9, 0, 0], place(0, 0, [9, 0, 0])),
        (T::D1, [1, 2], [2, 3], V::D1, 0, [3, 0, 0], place(1, 2, [3, 0, 0])),
        (T::D1, [0, 1], [0, 4], V::D1Array, 0, [14, 3, 0], place(0, 3, [14, 0, 0])),
        (T::D1, [1, 2], [1, 3], V::D1Array, 0, [5, 1, 0], place(1, 2, [5, 0, 0])),
        (T::D2, [0, 1], [0, 1], V::D2, 0, [6, 3, 0], place(0, 0, [6, 3, 0])),
        (T::D2, [1, 2], [2, 3], V::D2, 0, [2, 1, 0], place(1, 2, [2, 1, 0])),
        (T::D2, [0, 1], [0, 4], V::D2Array, 0, [4, 1, 3], place(0, 3, [4, 1, 0])),
        (T::D2, [1, 2], [1, 3], V::D2Array, 0, [3, 0, 1], place(1, 2, [3, 0, 0])),
        (T::D2, [2, 3], [2, 3], V::D2Array, 0, [1, 0, 0], place(2, 2, [1, 0, 0])),
        (T::Cube, [0, 1], [7, 8], V::D2, 0, [2, 3, 0], place(0, 7, [2, 3, 0])),
        (T::Cube, [1, 2], [6, 12], V::D2Array, 0, [1, 1, 5], place(1, 11, [1, 1, 0])),
        (T::D3, [0, 1], [0, 1], V::D3, 0, [3, 2, 1], place(0, 0, [3, 2, 1])),
        (T::D3, [1, 2], [0, 1], V::D3, 0, [0, 1, 1], place(1, 0, [0, 1, 1])),
    ]
}

/// Direction through each face of a cube, and the texel of the face of 4 × 4 texels that it meets.
const FACES: [([f32; 3], [u32; 2]); 6] = [
    ([1.0, 0.25, 0.25], [1, 1]),
    ([-1.0, 0.25, 0.25], [2, 1]),
    ([0.25, 1.0, 0.25], [2, 2]),
    ([0.25, -1.0, 0.25], [2, 1]),
    ([0.25, 0.25, 1.0], [2, 1]),
    ([0.25, 0.25, -1.0], [1, 1]),
];

/// Views of cubes: mip levels, layers, dimension, and the cube in the view. Each is sampled through every face.
const CUBES: [([u32; 2], [u32; 2], ViewDimension, u32); 7] = [
    ([0, 2], [0, 6], ViewDimension::Cube, 0),
    ([0, 1], [6, 12], ViewDimension::Cube, 0),
    ([0, 1], [3, 9], ViewDimension::Cube, 0),
    ([1, 2], [6, 12], ViewDimension::Cube, 0),
    ([0, 2], [0, 12], ViewDimension::CubeArray, 0),
    ([0, 2], [0, 12], ViewDimension::CubeArray, 1),
    ([1, 2], [6, 12], ViewDimension::CubeArray, 0),
];

fn class(kind: TextureViewKind, format: Format, aspect: Option<TextureAspect>) -> String {
    aspect.map_or_else(|| format!("{kind:?} {format:?}"), |aspect| format!("{kind:?} {format:?}, {aspect:?}"))
}

fn name(view: &TextureView) -> String {
    let TextureView { mips, layers, dimension, .. } = view;
    format!("{:?} of mips {mips:?}, layers {layers:?}", dimension.expect("rows name it"))
}

/// Returns a row of a texture that is fetched or stored.
fn fetched(kind: TextureViewKind, format: Format, aspect: Option<TextureAspect>, view: Fetched) -> Row {
    let (texture_dimension, mips, layers, dimension, level, [x, y, z], texel) = view;
    let mut view = TextureView::new(kind, mips[0]..mips[1], layers[0]..layers[1]).dimension(dimension);
    view.aspect = aspect;
    let is_storage = kind == TextureViewKind::Storage;
    let usage = if is_storage { TextureUsage::STORAGE | TextureUsage::COPY_SRC } else { TextureUsage::SAMPLED };
    let desc = texture(texture_dimension, format, usage);
    let name = format!("{}, texel {x} {y} {z}, level {level}", name(&view));
    Row {
        class: class(kind, format, aspect),
        name,
        shown: Shown::Texture { desc, view },
        at: [x, y, z, 0],
        level,
        texel,
    }
}

/// Returns a row for each face of a view of cubes.
fn cube(
    format: Format,
    aspect: Option<TextureAspect>,
    (mips, layers, dimension, cube): ([u32; 2], [u32; 2], ViewDimension, u32),
) -> impl Iterator<Item = Row> {
    let mut view = TextureView::new(TextureViewKind::Sampled, mips[0]..mips[1], layers[0]..layers[1]);
    view = view.dimension(dimension);
    view.aspect = aspect;
    (0..).zip(FACES).map(move |(face, ([x, y, z], [across, down]))| {
        let name = format!("{}, face {face} of cube {cube}", name(&view));
        let desc = texture(Dimension::Cube, format, TextureUsage::SAMPLED);
        let at = [x, y, z, cube as f32].map(f32::to_bits);
        // Mip level 1 has 2 × 2 texels.
        let texel = place(mips[0], layers[0] + 6 * cube + face, [across >> mips[0], down >> mips[0], 0]);
        let class = class(TextureViewKind::Sampled, format, aspect);
        Row { class, name, shown: Shown::Texture { desc, view: view.clone() }, at, level: 0, texel }
    })
}

/// Returns rows of multisampled textures: one of a single layer and one of an array.
fn multisampled() -> impl Iterator<Item = Row> {
    [(ViewDimension::D2, [2, 3], [5, 3, 0]), (ViewDimension::D2Array, [1, 4], [7, 0, 1])].into_iter().map(
        |(dimension, layers, at)| {
            let mut row = fetched(
                TextureViewKind::Sampled,
                Format::Rgba8Unorm,
                None,
                (Dimension::D2, [0, 1], layers, dimension, 3, at, place(0, 2, [at[0], at[1], 0])),
            );
            if let Shown::Texture { desc, .. } = &mut row.shown {
                (desc.samples, desc.mips) = (4, 1);
                // Every device supports four samples for colour attachments.
                desc.usage |= TextureUsage::RENDER_TARGET;
            }
            row.class += ", 4 samples";
            row
        },
    )
}

/// The format of a texture, and the format of its views.
const CAST: [(Format, Format); 7] = [
    (Format::Rgba8Unorm, Format::Rgba8UnormSrgb),
    (Format::Rgba8UnormSrgb, Format::Rgba8Unorm),
    (Format::Rgba8Unorm, Format::Rgba8Uint),
    (Format::Rgba8Sint, Format::R32Uint),
    (Format::R32Float, Format::Rgba8Unorm),
    (Format::Rg16Uint, Format::Rg16Sint),
    (Format::Rgba32Uint, Format::Rgba32Float),
];

/// Returns rows of views in another format than the texture's. Its texels have the bits of the format of the view.
fn cast() -> impl Iterator<Item = Row> {
    let views = [(TextureViewKind::Sampled, sampled_views()), (TextureViewKind::Storage, storage_views())];
    CAST.into_iter().flat_map(move |(own, shown)| {
        let views = views.clone().into_iter().flat_map(|(kind, views)| views.into_iter().map(move |view| (kind, view)));
        views.map(move |(kind, view)| {
            let mut row = fetched(kind, own, None, view);
            if let Shown::Texture { desc, view } = &mut row.shown {
                desc.view_formats =
                    FormatSet::of(&[shown, Format::Rgba8Snorm][..if own.texel_bytes() == 4 { 2 } else { 1 }]);
                view.format = Some(shown);
            }
            row.class += &format!(", shown as {shown:?}");
            row
        })
    })
}

/// Returns rows of views that change the order of the channels.
fn swizzled() -> impl Iterator<Item = Row> {
    use Component::{Alpha, Blue, Green, One, Red, Zero};
    let orders = [[Alpha, Blue, Green, Red], [One, One, Zero, Green], [Red; 4]];
    let formats =
        [(Format::Rgba8Unorm, None), (Format::Rgba8Uint, None), (Format::Bgra8Unorm, None), (Format::R32Float, None)];
    let depths = [(Format::D32Float, TextureAspect::Depth), (Format::D32FloatS8Uint, TextureAspect::Stencil)];
    let of_depth =
        depths.map(|(format, aspect)| (format, Some(aspect))).into_iter().map(|format| (format, [Zero, Red, Red, Red]));
    let of_color = formats.into_iter().flat_map(move |format| orders.map(|order| (format, order)));
    of_color.chain(of_depth).flat_map(|((format, aspect), order)| {
        let is_flat = |view: &Fetched| matches!(view.3, ViewDimension::D2 | ViewDimension::D2Array);
        sampled_views().into_iter().filter(is_flat).map(move |view| {
            let mut row = fetched(TextureViewKind::Sampled, format, aspect, view);
            if let Shown::Texture { view, .. } = &mut row.shown {
                view.swizzle = order;
            }
            row.class += &format!(", channels {order:?}");
            row
        })
    })
}

/// Returns every row of textures.
fn texture_rows() -> Vec<Row> {
    let (sampled, storage) = (TextureViewKind::Sampled, TextureViewKind::Storage);
    let mut rows = Vec::new();
    // Every view, in formats of each kind of numbers.
    for format in [Format::Rgba8Unorm, Format::Rgba8Uint, Format::Rgba8Sint, Format::R32Uint] {
        rows.extend(sampled_views().into_iter().map(|view| fetched(sampled, format, None, view)));
        rows.extend(CUBES.into_iter().flat_map(|view| cube(format, None, view)));
        rows.extend(storage_views().into_iter().map(|view| fetched(storage, format, None, view)));
    }
    // Every format, in views of one mip level and one layer in the middle.
    let is_flat =
        |(_, [mip, _], [layer, _], dimension, ..): &Fetched| (*mip, *layer, *dimension) == (1, 2, ViewDimension::D2);
    for format in colour_formats() {
        for (kind, views) in [(sampled, sampled_views()), (storage, storage_views())] {
            rows.extend(views.into_iter().filter(is_flat).map(|view| fetched(kind, format, None, view)));
        }
    }
    // Every aspect of depth and stencil. Three-dimensional textures have no such formats.
    for format in Format::ALL.iter().copied().filter(|format| format.is_depth_stencil()) {
        for aspect in TextureAspect::ALL.into_iter().filter(|aspect| format.texels().aspects().contains(aspect.flag()))
        {
            let views = sampled_views().into_iter().filter(|(dimension, ..)| *dimension != Dimension::D3);
            rows.extend(views.map(|view| fetched(sampled, format, Some(aspect), view)));
            rows.extend(CUBES.into_iter().flat_map(|view| cube(format, Some(aspect), view)));
        }
    }
    let read_only = sampled_views().into_iter().filter(is_flat).map(|view| {
        let mut row = fetched(sampled, Format::Rgba8Unorm, None, view);
        if let Shown::Texture { view, .. } = &mut row.shown {
            view.layout = ViewLayout::ReadOnly;
        }
        row.class += ", read-only layout";
        row
    });
    rows.extend(read_only);
    rows.extend(cast());
    rows.extend(swizzled());
    rows.extend(multisampled());
    rows
}

/// Returns the formats of the library that have colour and are not block-compressed.
fn colour_formats() -> impl Iterator<Item = Format> {
    Format::ALL.iter().copied().filter(|format| !format.is_depth_stencil() && !format.texels().is_compressed())
}

/// Returns every row of buffers.
fn buffer_rows() -> Vec<Row> {
    let texels = colour_formats()
        .flat_map(|format| [false, true].map(|writes| (BufferViewKind::Texels { format, writes }, [0, 11, 15])));
    let others = [
        BufferViewKind::Constants,
        BufferViewKind::Storage { stride: 0, writes: false },
        BufferViewKind::Storage { stride: 16, writes: false },
        BufferViewKind::Storage { stride: 16, writes: true },
    ];
    let row = |(kind, at): (BufferViewKind, u32)| {
        let (class, name) = (format!("{kind:?}"), format!("element {at}"));
        let texel = Place { x: at, ..Place::default() };
        Row { class, name, shown: Shown::Buffer(kind), at: [at, 0, 0, 0], level: 0, texel }
    };
    let others = others.map(|kind| (kind, [0, 1, 3]));
    texels.chain(others).flat_map(|(kind, places)| places.map(|at| (kind, at))).map(row).collect()
}

#[test]
fn a_shader_reads_every_view_from_descriptor_buffers() {
    read_all(DescriptorModel::Buffers, false);
}

#[test]
fn a_shader_reads_every_view_from_sets_that_are_written_while_bound() {
    read_all(DescriptorModel::UpdateAfterBind, false);
}

#[test]
fn a_shader_reads_every_view_from_plain_sets() {
    read_all(DescriptorModel::PlainSets, false);
}

#[test]
fn a_shader_reads_every_view_from_plain_sets_with_placeholders() {
    read_all(DescriptorModel::PlainSets, true);
}

fn read_all(model: DescriptorModel, placeholders: bool) {
    let Some(gpu) = super::view_kinds::open(model, placeholders) else { return };
    let own = OwnDevice::new(&gpu);
    // With plain sets, heaps have few slots if they have arrays for every kind of view. If there are too few, each heap
    // has arrays for one kind.
    let has_all = Bench::slots_max(&own.wrap(&gpu, PlainViews::all())) >= SLOTS;
    let mut groups: BTreeMap<(u32, u32), Vec<Row>> = BTreeMap::new();
    for row in texture_rows().into_iter().chain(buffer_rows()) {
        let (views, types) =
            if has_all { (PlainViews::all(), ViewTypes::all()) } else { (row.plain_views(), row.types()) };
        groups.entry((views.bits(), types.bits())).or_default().push(row);
    }
    let (mut passed, mut wrong, mut skipped) = (0, Vec::new(), BTreeMap::<String, u32>::new());
    println!("{model:?}: {} heaps", groups.len());
    for ((views, types), rows) in groups {
        let device = own.wrap(&gpu, PlainViews::from_bits_truncate(views));
        let mut bench = Bench::new(&gpu, device.clone(), ViewTypes::from_bits_truncate(types));
        for row in rows {
            let is_supported = bench::supports(&gpu, &row) && !is_refused(&row, &device);
            let shader = row.shader(&own, &device);
            let mut skip = |why: &str| *skipped.entry(format!("{}: {why}", row.class)).or_default() += 1;
            match (bench.show(&row), shader) {
                (Err(error), _) if is_supported => wrong.push(format!("{row} is supported, but refused: {error}")),
                (Err(error), _) => skip(&error.to_string()),
                (Ok(_), _) if !is_supported => wrong.push(format!("{row} is accepted, but not supported")),
                (Ok(_), None) => skip("shaders of this device cannot declare the format"),
                (Ok(_), _) if has_wrong_base(&row, &device) => skip("SwiftShader reads another mip level"),
                (Ok(shown), Some(shader)) => {
                    let found = bench.run(&row, shown, &shader);
                    passed += u32::from(found.is_empty());
                    wrong.extend(found);
                }
            }
        }
        drop(device);
        bench.close();
    }
    skipped.iter().for_each(|(why, count)| println!("skipped, {count} rows of {why}"));
    println!("{model:?}: {passed} rows passed, {} were skipped", skipped.values().sum::<u32>());
    assert!(wrong.is_empty(), "{model:?}: {} rows are wrong:\n{}", wrong.len(), wrong.join("\n"));
    drop(own);
    let messages: Vec<_> = gpu.close().into_iter().filter(|message| !is_of_placeholder(message)).collect();
    assert_eq!(messages, Vec::<String>::new(), "{model:?}");
}

/// Returns `true` if a message of the validation layers is about the placeholder in the storage texel buffers. Version
/// 1.4.309 compares the format of every element with the shader's, also of elements that the shader does not access.
fn is_of_placeholder(message: &str) -> bool {
    let name = "Undefined-Value-StorageImage-FormatMismatch-BufferView";
    message.starts_with(name) && message.contains(&format!("Index {FIRST_SLOT}]"))
}

/// Returns `true` if SwiftShader fetches from a wrong mip level: in a view of several levels, it reads the level with
/// the number of the view's first level in the texture, if the shader asks for a lower one.
fn has_wrong_base(row: &Row, device: &Device) -> bool {
    let Shown::Texture { view, .. } = &row.shown else { return false };
    let is_swiftshader = device.capabilities().name.contains("SwiftShader");
    is_swiftshader && view.mips.len() > 1 && row.level < view.mips.start
}

/// Returns `true` if the library refuses the view although the device supports the resource: several samples in plain
/// sets, and cube arrays without their feature.
fn is_refused(row: &Row, device: &Device) -> bool {
    let Shown::Texture { desc, view } = &row.shown else { return false };
    let is_plain = device.descriptor_support().model == DescriptorModel::PlainSets;
    let has_cube_arrays = device.desc().features.contains(Features::IMAGE_CUBE_ARRAY);
    desc.samples > 1 && is_plain || view.dimension == Some(ViewDimension::CubeArray) && !has_cube_arrays
}

/// Buffers have no views of block-compressed texels, depth or stencil.
#[test]
fn texels_of_a_buffer_without_colour_or_in_blocks_are_refused_by_name() {
    let Some(gpu) = super::view_kinds::open(DescriptorModel::PlainSets, false) else { return };
    let memory = Allocator::over(gpu.device(), AllocatorDesc::default());
    let desc = BufferDesc { size: 4096, usage: BufferUsage::TEXELS | BufferUsage::STORAGE };
    let buffer = memory.create_buffer(&desc, AllocationDesc::default()).expect("there is room");
    let colours: Vec<_> = colour_formats().collect();
    for format in Format::ALL.iter().filter(|format| !colours.contains(format)) {
        for writes in [false, true] {
            let kind = BufferViewKind::Texels { format: *format, writes };
            let refused = View::buffer(&buffer, BufferView { kind, offset: 0, size: 256 }).err();
            assert!(matches!(refused, Some(DescriptorError::BadView(_))), "{kind:?}: {refused:?}");
        }
    }
    drop(buffer);
    memory.reclaim();
    drop(memory);
    assert_eq!(gpu.close(), Vec::<String>::new());
}
