use std::error::Error;

use ash::vk;
use ringfence::device::Textures;
use ringfence::transient::{Described, Execution, FramePass, FrameResource, VulkanFirstUse};
use ringfence::vulkan::{Device, TextureInfo, Timeline, TransientAllocator};

/// Places three targets of a frame in the memory of two, and records the passes that draw them.
///
/// `draw` gets the number of the pass, and its target in the layout `first_use.layout`.
pub fn frame_targets<'a>(
    transient: &'a mut TransientAllocator,
    timeline: &Timeline,
    (target, first_use): (&TextureInfo<'_>, VulkanFirstUse),
    commands: vk::CommandBuffer,
    mut draw: impl FnMut(usize, vk::Image),
) -> Result<Execution<'a, Device>, Box<dyn Error>> {
    let (info, passes) = (Described::Texture(target), [FramePass::on(timeline.id()); 3]);
    let resources = [
        FrameResource { info, first: 0, last: &[1], name: "scene" },
        FrameResource { info, first: 1, last: &[2], name: "blur" },
        FrameResource { info, first: 2, last: &[], name: "picture" }, // shares the bytes of the scene
    ];
    let execution = transient.plan(&passes, &resources, |_| true)?;
    for number in 0..3 {
        let pass = execution.frame_pass(number).ok_or("the frame has three passes")?;
        // SAFETY: the command buffer is being recorded, outside of a render pass. The aspects are those of the target.
        unsafe { execution.record_barriers(pass, commands, |_| first_use) };
        draw(number, *execution.texture(execution.planned::<Textures>(number)?)?);
    }
    Ok(execution)
}
