use ash::vk;
use ringfence::device::DeviceError;
use ringfence::lifetime::RetireBin;
use ringfence::vulkan::Allocator;

/// Retires an object of the program, and destroys earlier ones that the GPU has finished with.
pub fn retire_view(
    memory: &Allocator,
    bin: &RetireBin<vk::ImageView>,
    device: &ash::Device,
    view: vk::ImageView,
) -> Result<usize, DeviceError> {
    memory.retirement().retire_into(bin, view);
    // SAFETY: all frames that had begun when the view was retired are complete, and nothing else has the view.
    memory.retirement().release_from(bin, usize::MAX, |view| unsafe { device.destroy_image_view(view, None) })
}
