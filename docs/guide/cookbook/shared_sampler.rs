use ringfence::descriptor::{DescriptorError, Sampler, SamplerTable};
use ringfence::device::descriptors::{AddressMode, Descriptors, SamplerDesc};
use ringfence::vulkan::{self, Device};

/// Returns a sampler with anisotropic filtering, up to the limit of the device. Equal samplers share a slot.
pub fn shared_sampler(
    memory: &vulkan::Allocator,
    samplers: &SamplerTable<Device>,
    address: AddressMode,
) -> Result<Sampler<Device>, DescriptorError> {
    let anisotropy = memory.device().descriptor_support().anisotropy_max.min(8);
    samplers.get(SamplerDesc { address: [address; 3], anisotropy, ..Default::default() })
}
