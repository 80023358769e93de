//! The uses of a format that the device supports.
//!
//! ```text
//!   usages of textures, numbers of samples    the check that refuses a description (`check_described`)
//!   filtering, blending                       optimalTilingFeatures
//!   texel buffers                             the check that refuses a view
//! ```

use ash::vk;

use super::descriptor::check_texel_format;
use super::device::Device;
use super::formats::format;
use ringfence_hal::{BufferUsage, Create, Format, FormatSupport, FormatUses, TextureDesc, Textures};

impl Device {
    pub(super) fn supported_uses(&self, portable: Format) -> FormatSupport {
        let [width, height] = portable.texels().block();
        let mut found = FormatSupport::of_textures(portable, |usage, samples| {
            let desc = TextureDesc { width, height, samples, format: portable, usage, ..Default::default() };
            Create::<Textures>::describe(self, &desc).is_ok()
        });
        let features = self.format_features(portable);
        let has = |feature, of| features.contains(feature) && found.has(of);
        let filtered = has(vk::FormatFeatureFlags::SAMPLED_IMAGE_FILTER_LINEAR, FormatUses::SAMPLED);
        let blended = has(vk::FormatFeatureFlags::COLOR_ATTACHMENT_BLEND, FormatUses::RENDER_TARGET);
        found.uses.set(FormatUses::FILTERED, filtered);
        found.uses.set(FormatUses::BLENDED, blended);
        if !portable.is_depth_stencil() && !portable.texels().is_compressed() {
            let texels = |usage| check_texel_format(self, format(portable), usage).is_ok();
            found.uses.set(FormatUses::TEXELS, texels(BufferUsage::TEXELS));
            found.uses.set(FormatUses::STORAGE_TEXELS, texels(BufferUsage::TEXELS | BufferUsage::STORAGE));
        }
        found
    }

    /// Returns the features of a format with optimal tiling. Makes one driver call.
    pub(super) fn format_features(&self, portable: Format) -> vk::FormatFeatureFlags {
        // SAFETY: the physical device comes from the instance, which is alive.
        let properties =
            unsafe { self.instance().get_physical_device_format_properties(self.physical(), format(portable)) };
        properties.optimal_tiling_features
    }
}
