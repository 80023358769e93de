//! Pipelines: shaders in WGSL, translated at start-up with the sizes of the heap and, if necessary, its slots.

use std::collections::HashMap;

use ash::vk;
use bytemuck::{Pod, Zeroable};
use naga::back::spv;
use naga::valid::{Capabilities, ValidationFlags, Validator};
use ringfence::vulkan::Device;

use crate::Failure;
use crate::gpu::Gpu;
use crate::heap::Heap;
use crate::scene::Vertex;
use crate::targets::{DEPTH_FORMAT, LIGHT_FORMAT};

/// Format of the picture.
pub const PICTURE_FORMAT: vk::Format = vk::Format::R8G8B8A8_UNORM;

const COMMON: &str = include_str!("shaders/common.wgsl");
const SCENE: &str = include_str!("shaders/scene.wgsl");
const POST: &str = include_str!("shaders/post.wgsl");

/// The constants that a draw passes to its shaders: slots in the heap.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Pod, Zeroable)]
pub struct Push {
    pub frame: u32,
    pub albedo: u32,
    pub normal: u32,
    pub floor: u32,
    pub sky: u32,
    pub grading: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    Shadow,
    Scene,
    Sky,
    Bright,
    Smaller,
    Larger,
    Tone,
}

impl Kind {
    /// Returns the source, the entry points, and the format of the colour target.
    fn parts(self) -> (&'static str, &'static str, Option<&'static str>, Option<vk::Format>) {
        match self {
            Self::Shadow => (SCENE, "shadow", None, None),
            Self::Scene => (SCENE, "place", Some("shade"), Some(LIGHT_FORMAT)),
            Self::Sky => (SCENE, "cover", Some("sky"), Some(LIGHT_FORMAT)),
            Self::Bright => (POST, "cover", Some("bright"), Some(LIGHT_FORMAT)),
            Self::Smaller => (POST, "cover", Some("smaller"), Some(LIGHT_FORMAT)),
            Self::Larger => (POST, "cover", Some("larger"), Some(LIGHT_FORMAT)),
            Self::Tone => (POST, "cover", Some("tone"), Some(PICTURE_FORMAT)),
        }
    }

    fn has_vertices(self) -> bool {
        matches!(self, Self::Shadow | Self::Scene)
    }

    fn has_depth(self) -> bool {
        matches!(self, Self::Shadow | Self::Scene | Self::Sky)
    }
}

pub struct Pipelines {
    device: ash::Device,
    pub layout: vk::PipelineLayout,
    /// Layout of the inputs of a pass: set 2.
    pub inputs: vk::DescriptorSetLayout,
    made: HashMap<(Kind, Push), vk::Pipeline>,
    samples: vk::SampleCountFlags,
    is_bindless: bool,
    slots: [u32; 2],
    sampler_slots: [u32; 4],
    bindings: spv::BindingMap,
}

impl Pipelines {
    pub fn new(gpu: &Gpu, heap: &Heap) -> Result<Self, Failure> {
        let device = gpu.raw().clone();
        let [resources, samplers] = [heap.resources.set_layout(), heap.samplers.set_layout()];
        let inputs = [0, 1, 2].map(|binding| {
            vk::DescriptorSetLayoutBinding::default()
                .binding(binding)
                .descriptor_type(vk::DescriptorType::SAMPLED_IMAGE)
                .descriptor_count(1)
                .stage_flags(vk::ShaderStageFlags::FRAGMENT)
        });
        let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&inputs);
        // SAFETY: the device is alive, and the heaps live as long as their set layouts are used.
        let (inputs, layout) = unsafe {
            let inputs = device.create_descriptor_set_layout(&info, None)?;
            let layouts = [resources, samplers, inputs];
            let size = size_of::<Push>() as u32;
            let push = [vk::PushConstantRange { stage_flags: STAGES, offset: 0, size }];
            let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&layouts).push_constant_ranges(&push);
            (inputs, device.create_pipeline_layout(&info, None)?)
        };
        Ok(Self {
            device,
            layout,
            inputs,
            made: HashMap::new(),
            samples: gpu.samples,
            is_bindless: gpu.is_bindless,
            slots: heap.slots(),
            sampler_slots: heap.sampler_slots,
            bindings: bindings(gpu.memory.device(), heap.slots())?,
        })
    }

    /// Returns the pipeline of a kind of draw, for the textures in these slots.
    pub fn get(&mut self, kind: Kind, push: Push) -> Result<vk::Pipeline, Failure> {
        let slots = if self.is_bindless { Push::default() } else { Push { frame: 0, ..push } };
        let key = (kind, slots);
        if let Some(made) = self.made.get(&key) {
            return Ok(*made);
        }
        let made = self.make(kind, slots)?;
        self.made.insert(key, made);
        Ok(made)
    }

    /// Replaces the names of slots in a source: by fields of the push constants, or by numbers.
    fn source(&self, source: &str, slots: Push) -> String {
        let [resources, samplers] = self.slots;
        let slot = |field: &str, number: u32| match self.is_bindless {
            true => format!("push.{field}"),
            false => format!("{number}u"),
        };
        let [smooth, repeated, clamped, comparing] = self.sampler_slots.map(|number| format!("{number}u"));
        let words = [
            ("RESOURCES", resources.to_string()),
            ("SAMPLERS", samplers.to_string()),
            ("SMOOTH", smooth),
            ("REPEATED", repeated),
            ("CLAMPED", clamped),
            ("COMPARING", comparing),
            ("ALBEDO", slot("albedo", slots.albedo)),
            ("NORMAL", slot("normal", slots.normal)),
            ("FLOOR", slot("floor", slots.floor)),
            ("SKY", slot("sky", slots.sky)),
            ("GRADING", slot("grading", slots.grading)),
        ];
        let whole = format!("{COMMON}{source}");
        words.iter().fold(whole, |text, (word, by)| text.replace(word, by))
    }

    fn translate(&self, source: &str, entry: &str, stage: naga::ShaderStage) -> Result<Vec<u32>, Failure> {
        let module = naga::front::wgsl::parse_str(source).map_err(|error| error.emit_to_string(source))?;
        let info = Validator::new(ValidationFlags::all(), Capabilities::all())
            .validate(&module)
            .map_err(|error| error.emit_to_string(source))?;
        let options = spv::Options { lang_version: (1, 3), binding_map: self.bindings.clone(), ..Default::default() };
        let only = spv::PipelineOptions { shader_stage: stage, entry_point: entry.into() };
        Ok(spv::write_vec(&module, &info, &options, Some(&only))?)
    }

    fn make(&self, kind: Kind, slots: Push) -> Result<vk::Pipeline, Failure> {
        let (source, vertex, fragment, _) = kind.parts();
        let source = self.source(source, slots);
        let mut shaders =
            vec![(self.translate(&source, vertex, naga::ShaderStage::Vertex)?, vk::ShaderStageFlags::VERTEX, vertex)];
        if let Some(entry) = fragment {
            let code = self.translate(&source, entry, naga::ShaderStage::Fragment)?;
            shaders.push((code, vk::ShaderStageFlags::FRAGMENT, entry));
        }
        let names: Vec<_> = shaders.iter().map(|(.., name)| std::ffi::CString::new(*name)).collect::<Result<_, _>>()?;
        // SAFETY: naga has validated the shaders, and the layout has their bindings.
        unsafe {
            let mut stages = Vec::new();
            for ((code, stage, _), name) in shaders.iter().zip(&names) {
                let info = vk::ShaderModuleCreateInfo::default().code(code);
                let module = self.device.create_shader_module(&info, None)?;
                stages.push(vk::PipelineShaderStageCreateInfo::default().stage(*stage).module(module).name(name));
            }
            let made = self.create(kind, &stages);
            stages.iter().for_each(|stage| self.device.destroy_shader_module(stage.module, None));
            Ok(made?)
        }
    }

    /// # Safety
    /// The shaders fit the layout and the targets.
    unsafe fn create(
        &self,
        kind: Kind,
        stages: &[vk::PipelineShaderStageCreateInfo<'_>],
    ) -> Result<vk::Pipeline, vk::Result> {
        let colours: Vec<_> = kind.parts().3.into_iter().collect();
        let depth = if kind.has_depth() { DEPTH_FORMAT } else { vk::Format::UNDEFINED };
        let mut rendering = vk::PipelineRenderingCreateInfo::default()
            .color_attachment_formats(&colours)
            .depth_attachment_format(depth);
        let (binding, attributes) = vertex_input();
        let input = match kind.has_vertices() {
            true => vk::PipelineVertexInputStateCreateInfo::default()
                .vertex_binding_descriptions(&binding)
                .vertex_attribute_descriptions(if kind == Kind::Shadow { &attributes[..1] } else { &attributes }),
            false => vk::PipelineVertexInputStateCreateInfo::default(),
        };
        let assembly =
            vk::PipelineInputAssemblyStateCreateInfo::default().topology(vk::PrimitiveTopology::TRIANGLE_LIST);
        let viewport = vk::PipelineViewportStateCreateInfo::default().viewport_count(1).scissor_count(1);
        let cull = if kind == Kind::Scene { vk::CullModeFlags::BACK } else { vk::CullModeFlags::NONE };
        let raster = vk::PipelineRasterizationStateCreateInfo::default()
            .line_width(1.0)
            .cull_mode(cull)
            .front_face(vk::FrontFace::COUNTER_CLOCKWISE)
            .depth_bias_enable(kind == Kind::Shadow)
            .depth_bias_slope_factor(1.5);
        let is_sampled = matches!(kind, Kind::Scene | Kind::Sky);
        let samples = if is_sampled { self.samples } else { vk::SampleCountFlags::TYPE_1 };
        let multisample = vk::PipelineMultisampleStateCreateInfo::default().rasterization_samples(samples);
        let depth = vk::PipelineDepthStencilStateCreateInfo::default()
            .depth_test_enable(kind.has_depth())
            .depth_write_enable(kind.has_vertices())
            .depth_compare_op(vk::CompareOp::LESS_OR_EQUAL);
        let blend: Vec<_> = colours
            .iter()
            .map(|_| vk::PipelineColorBlendAttachmentState::default().color_write_mask(vk::ColorComponentFlags::RGBA))
            .collect();
        let blend = vk::PipelineColorBlendStateCreateInfo::default().attachments(&blend);
        let dynamic = [vk::DynamicState::VIEWPORT, vk::DynamicState::SCISSOR];
        let dynamic = vk::PipelineDynamicStateCreateInfo::default().dynamic_states(&dynamic);
        let info = vk::GraphicsPipelineCreateInfo::default()
            .stages(stages)
            .vertex_input_state(&input)
            .input_assembly_state(&assembly)
            .viewport_state(&viewport)
            .rasterization_state(&raster)
            .multisample_state(&multisample)
            .depth_stencil_state(&depth)
            .color_blend_state(&blend)
            .dynamic_state(&dynamic)
            .layout(self.layout)
            .push_next(&mut rendering);
        // SAFETY: the caller promises that the shaders fit.
        unsafe { self.device.create_graphics_pipelines(vk::PipelineCache::null(), &[info], None) }
            .map(|made| made[0])
            .map_err(|(_, error)| error)
    }

    /// Destroys the pipelines.
    pub fn destroy(self) {
        // SAFETY: the program has waited for all work.
        unsafe {
            self.made.values().for_each(|pipeline| self.device.destroy_pipeline(*pipeline, None));
            self.device.destroy_pipeline_layout(self.layout, None);
            self.device.destroy_descriptor_set_layout(self.inputs, None);
        }
    }
}

/// Stages that read the push constants.
pub const STAGES: vk::ShaderStageFlags =
    vk::ShaderStageFlags::from_raw(vk::ShaderStageFlags::VERTEX.as_raw() | vk::ShaderStageFlags::FRAGMENT.as_raw());

/// Maps the bindings of the shaders to those of the heap, which depend on how the device keeps descriptors.
fn bindings(device: &Device, [resources, samplers]: [u32; 2]) -> Result<spv::BindingMap, Failure> {
    use vk::DescriptorType as Type;
    use vk::ImageViewType as View;
    let image = |view| device.descriptor_binding(Type::SAMPLED_IMAGE, view, LIGHT_FORMAT);
    let of_heaps = [
        (0, 0, device.descriptor_binding(Type::STORAGE_BUFFER, View::TYPE_2D, vk::Format::UNDEFINED), resources),
        (0, 1, image(View::TYPE_2D), resources),
        (0, 2, image(View::CUBE), resources),
        (0, 3, image(View::TYPE_3D), resources),
        (1, 0, Some(0), samplers),
        (1, 1, Some(0), samplers),
    ];
    let mut map = spv::BindingMap::default();
    for (group, binding, number, count) in of_heaps {
        let number = number.ok_or("the heap has no binding for a kind of view")?;
        let info = spv::BindingInfo { descriptor_set: group, binding: number, binding_array_size: Some(count) };
        map.insert(naga::ResourceBinding { group, binding }, info);
    }
    for binding in 0..3 {
        let info = spv::BindingInfo { descriptor_set: 2, binding, binding_array_size: None };
        map.insert(naga::ResourceBinding { group: 2, binding }, info);
    }
    Ok(map)
}

fn vertex_input() -> ([vk::VertexInputBindingDescription; 1], [vk::VertexInputAttributeDescription; 4]) {
    let stride = size_of::<Vertex>() as u32;
    let binding = vk::VertexInputBindingDescription { binding: 0, stride, input_rate: vk::VertexInputRate::VERTEX };
    let (three, four, two) = (vk::Format::R32G32B32_SFLOAT, vk::Format::R32G32B32A32_SFLOAT, vk::Format::R32G32_SFLOAT);
    let attribute =
        |location, format, offset| vk::VertexInputAttributeDescription { location, binding: 0, format, offset };
    ([binding], [attribute(0, three, 0), attribute(1, three, 12), attribute(2, four, 24), attribute(3, two, 40)])
}
