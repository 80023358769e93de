//! The uses of a format that a device supports.

use super::error::{DeviceError, Numbers};
use super::format::Format;
use super::usage::TextureUsage;

bitflags::bitflags! {
    /// Uses of a format.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
    pub struct FormatUses: u32 {
        /// Copies from textures.
        const COPY_SRC = 1 << 0;
        /// Copies to textures.
        const COPY_DST = 1 << 1;
        /// Textures that shaders read.
        const SAMPLED = 1 << 2;
        /// Linear filtering of textures that shaders read.
        const FILTERED = 1 << 3;
        /// Textures that shaders write. On older Direct3D 12 devices, shaders can write, but not read, textures of some
        /// formats.
        const STORAGE = 1 << 4;
        /// Colour targets.
        const RENDER_TARGET = 1 << 5;
        /// Blending in colour targets.
        const BLENDED = 1 << 6;
        /// Depth and stencil targets.
        const DEPTH_STENCIL = 1 << 7;
        /// Texels in a buffer, which shaders read.
        const TEXELS = 1 << 8;
        /// Texels in a buffer, which shaders read and write.
        const STORAGE_TEXELS = 1 << 9;
    }
}

/// Uses that are usages of a texture.
const USAGES: [(FormatUses, TextureUsage, DeviceError); 6] = [
    (FormatUses::COPY_SRC, TextureUsage::COPY_SRC, DeviceError::unsupported("copies from textures of this format")),
    (FormatUses::COPY_DST, TextureUsage::COPY_DST, DeviceError::unsupported("copies to textures of this format")),
    (FormatUses::SAMPLED, TextureUsage::SAMPLED, DeviceError::unsupported("sampled textures of this format")),
    (FormatUses::STORAGE, TextureUsage::STORAGE, DeviceError::unsupported("storage textures of this format")),
    (FormatUses::RENDER_TARGET, TextureUsage::RENDER_TARGET, DeviceError::unsupported("render targets of this format")),
    (FormatUses::DEPTH_STENCIL, TextureUsage::DEPTH_STENCIL, DeviceError::unsupported("depth targets of this format")),
];

/// The uses of a format that a device supports: of two-dimensional textures with optimal tiling, and of buffers. Other
/// dimensions can support less; the creation of a texture then returns an error.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct FormatSupport {
    /// The uses.
    pub uses: FormatUses,
    /// The supported numbers of samples of a target, as flags: 4 stands for 4 samples. 0 if the format cannot be a
    /// target.
    pub sample_counts: u32,
}

impl FormatSupport {
    /// Returns the usages of textures, and the numbers of samples of targets (1 to 64), for which `is_supported`
    /// returns `true`. Devices call this function and add the other uses.
    pub fn of_textures(format: Format, mut is_supported: impl FnMut(TextureUsage, u32) -> bool) -> Self {
        let mut found = Self::default();
        for (use_of, usage, _) in USAGES {
            found.uses.set(use_of, is_supported(usage, 1));
        }
        let target = if format.is_depth_stencil() { TextureUsage::DEPTH_STENCIL } else { TextureUsage::RENDER_TARGET };
        let counts = (0..7).map(|power| 1 << power).filter(|&samples| is_supported(target, samples));
        found.sample_counts = counts.sum();
        found
    }

    /// Returns `true` if the format has all of these uses.
    #[must_use]
    pub const fn has(&self, uses: FormatUses) -> bool {
        self.uses.contains(uses)
    }

    /// Returns `true` if a target of the format can have this number of samples per texel.
    #[must_use]
    pub const fn has_samples(&self, samples: u32) -> bool {
        samples.is_power_of_two() && self.sample_counts & samples != 0
    }

    /// Returns the usages that a texture of the format can have, each alone.
    #[must_use]
    pub fn texture_usage(&self) -> TextureUsage {
        let usages = USAGES.into_iter().filter(|(use_of, ..)| self.has(*use_of)).map(|(_, usage, _)| usage);
        usages.fold(TextureUsage::empty(), TextureUsage::union)
    }

    /// Checks the usages and the number of samples of a texture of the format.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`], which names the first usage that the format lacks, or the number of samples.
    pub fn check(&self, usage: TextureUsage, samples: u32) -> Result<(), DeviceError> {
        let lacks = |(use_of, needed, _): &(FormatUses, TextureUsage, DeviceError)| {
            usage.contains(*needed) && !self.has(*use_of)
        };
        match USAGES.into_iter().find(lacks) {
            Some((.., error)) => Err(error),
            None if samples == 1 || self.has_samples(samples) => Ok(()),
            None => Err(DeviceError::unsupported("targets of this format with this number of samples")
                .with(Numbers::Given(samples.into()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns support for the usages, and for targets with one, two and eight samples.
    fn support(format: Format, usages: TextureUsage) -> FormatSupport {
        FormatSupport::of_textures(format, |usage, samples| {
            usages.contains(usage) && (samples == 1 || usage != TextureUsage::SAMPLED) && [1, 2, 8].contains(&samples)
        })
    }

    #[test]
    fn each_usage_of_a_texture_is_asked_for_and_found_again() {
        for (usage, uses) in [
            (TextureUsage::COPY_SRC, FormatUses::COPY_SRC),
            (TextureUsage::COPY_DST, FormatUses::COPY_DST),
            (TextureUsage::SAMPLED, FormatUses::SAMPLED),
            (TextureUsage::STORAGE, FormatUses::STORAGE),
            (TextureUsage::RENDER_TARGET, FormatUses::RENDER_TARGET),
            (TextureUsage::DEPTH_STENCIL, FormatUses::DEPTH_STENCIL),
        ] {
            let found = support(Format::Rgba8Unorm, usage);
            assert_eq!((found.uses, found.texture_usage()), (uses, usage));
            assert_eq!((found.has(uses), found.has(uses | FormatUses::BLENDED)), (true, false), "{usage:?}");
            let others = support(Format::Rgba8Unorm, usage.complement());
            assert_eq!((others.texture_usage(), others.has(uses)), (usage.complement(), false));
        }
    }

    #[test]
    fn numbers_of_samples_are_those_of_the_target_of_the_format() {
        for (format, usages, counts) in [
            (Format::Rgba8Unorm, TextureUsage::RENDER_TARGET, 0b1011),
            (Format::Rgba8Unorm, TextureUsage::DEPTH_STENCIL, 0),
            (Format::D32Float, TextureUsage::DEPTH_STENCIL, 0b1011),
            (Format::D32Float, TextureUsage::RENDER_TARGET, 0),
        ] {
            assert_eq!(support(format, usages).sample_counts, counts, "{format:?}, {usages:?}");
        }
        let all = FormatSupport::of_textures(Format::Rgba8Unorm, |_, _| true);
        assert_eq!(all.sample_counts, 127, "up to 64 samples");
        let some = support(Format::Rgba8Unorm, TextureUsage::RENDER_TARGET);
        for (samples, has) in
            [(0, false), (1, true), (2, true), (3, false), (4, false), (8, true), (9, false), (16, false)]
        {
            assert_eq!(some.has_samples(samples), has, "{samples} samples");
        }
    }

    #[test]
    fn the_first_missing_usage_is_refused_by_name_and_then_the_number_of_samples() {
        let unsupported = DeviceError::unsupported;
        let nothing = FormatSupport::default();
        for (usage, rule) in [
            (TextureUsage::COPY_SRC, "copies from textures of this format"),
            (TextureUsage::COPY_DST, "copies to textures of this format"),
            (TextureUsage::SAMPLED, "sampled textures of this format"),
            (TextureUsage::STORAGE, "storage textures of this format"),
            (TextureUsage::RENDER_TARGET, "render targets of this format"),
            (TextureUsage::DEPTH_STENCIL, "depth targets of this format"),
        ] {
            assert_eq!(nothing.check(usage, 1), Err(unsupported(rule)));
            assert_eq!(support(Format::Rgba8Unorm, usage).check(usage, 1), Ok(()));
        }
        let target = support(Format::Rgba8Unorm, TextureUsage::RENDER_TARGET);
        let both = TextureUsage::RENDER_TARGET | TextureUsage::STORAGE;
        assert_eq!(target.check(both, 2), Err(unsupported("storage textures of this format")));
        let rule = unsupported("targets of this format with this number of samples");
        for (samples, is_valid) in [(1, true), (2, true), (4, false), (8, true)] {
            let refused = Err(rule.with(Numbers::Given(samples.into())));
            let expected = if is_valid { Ok(()) } else { refused };
            assert_eq!(target.check(TextureUsage::RENDER_TARGET, samples), expected);
        }
        assert_eq!(nothing.check(TextureUsage::empty(), 1), Ok(()));
    }
}
