//! Pipelines: shaders in WGSL, translated to SPIR-V when the program starts.

use ash::vk;
use naga::ShaderStage;
use naga::back::spv;
use naga::valid::{Capabilities, ValidationFlags, Validator};

use crate::gpu::{Failure, Gpu, Retired, Work};

/// Stages that read push constants.
pub const STAGES: vk::ShaderStageFlags =
    vk::ShaderStageFlags::from_raw(vk::ShaderStageFlags::VERTEX.as_raw() | vk::ShaderStageFlags::FRAGMENT.as_raw());

/// Description of a pipeline that draws triangles to a target in `R8G8B8A8_UNORM`.
#[derive(Default)]
pub struct PipelineDesc<'a> {
    /// The shaders, with the entry points `place` for vertices and `shade` for fragments.
    pub source: &'a str,
    /// Number of floats in each attribute of a vertex.
    pub attributes: &'a [u32],
    /// `true` if the pass has a depth target.
    pub has_depth: bool,
    /// Layouts of the descriptor sets, in the order of their numbers.
    pub sets: &'a [vk::DescriptorSetLayout],
    /// Size of the push constants, in bytes.
    pub push_bytes: u32,
    /// Location in the sets of each binding in the shaders.
    pub bindings: spv::BindingMap,
}

pub struct Pipeline {
    pub layout: vk::PipelineLayout,
    pipeline: vk::Pipeline,
}

impl Pipeline {
    pub fn new(gpu: &Gpu, desc: &PipelineDesc<'_>) -> Result<Self, Failure> {
        let vertex = translate(desc, "place", ShaderStage::Vertex)?;
        let fragment = translate(desc, "shade", ShaderStage::Fragment)?;
        let push = [vk::PushConstantRange { stage_flags: STAGES, offset: 0, size: desc.push_bytes }];
        let push = if desc.push_bytes > 0 { &push[..] } else { &[] };
        let info = vk::PipelineLayoutCreateInfo::default().set_layouts(desc.sets).push_constant_ranges(push);
        // SAFETY: the set layouts are alive, and naga has validated the shaders.
        unsafe {
            let layout = gpu.device.create_pipeline_layout(&info, None)?;
            let module =
                |code: &[u32]| gpu.device.create_shader_module(&vk::ShaderModuleCreateInfo::default().code(code), None);
            let modules = [module(&vertex)?, module(&fragment)?];
            let pipeline = create(gpu, desc, layout, modules);
            modules.iter().for_each(|module| gpu.device.destroy_shader_module(*module, None));
            Ok(Self { layout, pipeline: pipeline? })
        }
    }

    pub fn bind(&self, gpu: &Gpu, work: &Work) {
        // SAFETY: the command buffer is being recorded, and the pipeline is alive.
        unsafe { gpu.device.cmd_bind_pipeline(work.commands, vk::PipelineBindPoint::GRAPHICS, self.pipeline) };
    }

    /// Destroys the pipeline once the GPU has finished with it.
    pub fn retire(self, gpu: &Gpu) {
        gpu.retire(Retired::Pipeline(self.pipeline, self.layout));
    }
}

fn translate(desc: &PipelineDesc<'_>, entry_point: &str, shader_stage: ShaderStage) -> Result<Vec<u32>, Failure> {
    let explain = |error: String| Failure::from(format!("{entry_point}: {error}"));
    let module =
        naga::front::wgsl::parse_str(desc.source).map_err(|error| explain(error.emit_to_string(desc.source)))?;
    let info = Validator::new(ValidationFlags::all(), Capabilities::all())
        .validate(&module)
        .map_err(|error| explain(error.emit_to_string(desc.source)))?;
    let options = spv::Options { lang_version: (1, 3), binding_map: desc.bindings.clone(), ..Default::default() };
    let only = spv::PipelineOptions { shader_stage, entry_point: entry_point.into() };
    Ok(spv::write_vec(&module, &info, &options, Some(&only))?)
}

/// # Safety
/// The shaders fit the layout.
unsafe fn create(
    gpu: &Gpu,
    desc: &PipelineDesc<'_>,
    layout: vk::PipelineLayout,
    [vertex, fragment]: [vk::ShaderModule; 2],
) -> Result<vk::Pipeline, vk::Result> {
    let stage =
        |stage, module, name| vk::PipelineShaderStageCreateInfo::default().stage(stage).module(module).name(name);
    let stages = [
        stage(vk::ShaderStageFlags::VERTEX, vertex, c"place"),
        stage(vk::ShaderStageFlags::FRAGMENT, fragment, c"shade"),
    ];
    let (mut offset, mut attributes) = (0, Vec::new());
    for (location, floats) in (0..).zip(desc.attributes) {
        let formats = [vk::Format::R32_SFLOAT, vk::Format::R32G32_SFLOAT, vk::Format::R32G32B32_SFLOAT];
        let format = formats[*floats as usize - 1];
        attributes.push(vk::VertexInputAttributeDescription { location, binding: 0, format, offset });
        offset += floats * 4;
    }
    let binding =
        [vk::VertexInputBindingDescription { binding: 0, stride: offset, input_rate: vk::VertexInputRate::VERTEX }];
    let input = vk::PipelineVertexInputStateCreateInfo::default()
        .vertex_binding_descriptions(&binding)
        .vertex_attribute_descriptions(&attributes);
    let assembly = vk::PipelineInputAssemblyStateCreateInfo::default().topology(vk::PrimitiveTopology::TRIANGLE_LIST);
    let viewport = vk::PipelineViewportStateCreateInfo::default().viewport_count(1).scissor_count(1);
    let raster = vk::PipelineRasterizationStateCreateInfo::default()
        .line_width(1.0)
        .cull_mode(vk::CullModeFlags::BACK)
        .front_face(vk::FrontFace::COUNTER_CLOCKWISE);
    let multisample =
        vk::PipelineMultisampleStateCreateInfo::default().rasterization_samples(vk::SampleCountFlags::TYPE_1);
    let depth = vk::PipelineDepthStencilStateCreateInfo::default()
        .depth_test_enable(desc.has_depth)
        .depth_write_enable(desc.has_depth)
        .depth_compare_op(vk::CompareOp::LESS);
    let blend = [vk::PipelineColorBlendAttachmentState::default().color_write_mask(vk::ColorComponentFlags::RGBA)];
    let blend = vk::PipelineColorBlendStateCreateInfo::default().attachments(&blend);
    let dynamic = [vk::DynamicState::VIEWPORT, vk::DynamicState::SCISSOR];
    let dynamic = vk::PipelineDynamicStateCreateInfo::default().dynamic_states(&dynamic);
    let formats = [vk::Format::R8G8B8A8_UNORM];
    let depth_format = if desc.has_depth { vk::Format::D32_SFLOAT } else { vk::Format::UNDEFINED };
    let mut targets = vk::PipelineRenderingCreateInfo::default()
        .color_attachment_formats(&formats)
        .depth_attachment_format(depth_format);
    let info = vk::GraphicsPipelineCreateInfo::default()
        .stages(&stages)
        .vertex_input_state(&input)
        .input_assembly_state(&assembly)
        .viewport_state(&viewport)
        .rasterization_state(&raster)
        .multisample_state(&multisample)
        .depth_stencil_state(&depth)
        .color_blend_state(&blend)
        .dynamic_state(&dynamic)
        .layout(layout)
        .push_next(&mut targets);
    // SAFETY: the caller promises that the shaders fit the layout. The other objects are alive.
    unsafe { gpu.device.create_graphics_pipelines(vk::PipelineCache::null(), &[info], None) }
        .map(|made| made[0])
        .map_err(|(_, error)| error)
}
