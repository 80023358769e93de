//! The uses of a format that the device supports. Each format is queried once, because the driver's answer never
//! changes.

use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::DXGI_FORMAT;

use super::describe::{NativeKind, depth_format, shader_format};
use super::device::Device;
use super::error;
use super::measure::measure;
use ringfence_hal::{DeviceError, Format, FormatSupport, FormatUses, TextureDesc, Textures};

/// Largest number of samples (`D3D12_MAX_MULTISAMPLE_SAMPLE_COUNT`).
const SAMPLES_MAX: u32 = 32;

/// Uses, and the flags that they need. Shaders read textures with `SHADER_LOAD` or with `SHADER_SAMPLE`.
const NEEDED: [(FormatUses, D3D12_FORMAT_SUPPORT1); 7] = [
    (FormatUses::FILTERED, D3D12_FORMAT_SUPPORT1_SHADER_SAMPLE),
    (FormatUses::STORAGE, D3D12_FORMAT_SUPPORT1_TYPED_UNORDERED_ACCESS_VIEW),
    (FormatUses::RENDER_TARGET, D3D12_FORMAT_SUPPORT1_RENDER_TARGET),
    (FormatUses::BLENDED, D3D12_FORMAT_SUPPORT1_BLENDABLE),
    (FormatUses::DEPTH_STENCIL, D3D12_FORMAT_SUPPORT1_DEPTH_STENCIL),
    (FormatUses::TEXELS, D3D12_FORMAT_SUPPORT1_BUFFER),
    (
        FormatUses::STORAGE_TEXELS,
        D3D12_FORMAT_SUPPORT1(D3D12_FORMAT_SUPPORT1_BUFFER.0 | D3D12_FORMAT_SUPPORT1_TYPED_UNORDERED_ACCESS_VIEW.0),
    ),
];

/// Returns the uses that the flags of a format allow: of the format that shaders read, and of the format of targets.
fn uses_of(texture: i32, target: i32, is_depth: bool) -> FormatUses {
    let mut uses = FormatUses::empty();
    for (use_of, D3D12_FORMAT_SUPPORT1(needed)) in NEEDED {
        let flags = if use_of == FormatUses::DEPTH_STENCIL { target } else { texture };
        uses.set(use_of, flags & needed == needed);
    }
    let sampled = D3D12_FORMAT_SUPPORT1_SHADER_LOAD.0 | D3D12_FORMAT_SUPPORT1_SHADER_SAMPLE.0;
    uses.set(FormatUses::SAMPLED, texture & sampled != 0);
    if is_depth {
        uses &= FormatUses::SAMPLED | FormatUses::FILTERED | FormatUses::DEPTH_STENCIL;
    }
    let is_texture = (texture | target) & D3D12_FORMAT_SUPPORT1_TEXTURE2D.0 != 0;
    uses.set(FormatUses::COPY_SRC | FormatUses::COPY_DST, is_texture);
    uses
}

impl Device {
    /// Returns the uses of a format. Makes driver calls the first time.
    pub(super) fn supported_uses(&self, format: Format) -> FormatSupport {
        let Some(cached) = Format::ALL.iter().position(|of| *of == format).and_then(|at| self.0.formats.get(at)) else {
            return FormatSupport::default();
        };
        *cached.get_or_init(|| self.query_uses(format))
    }

    /// Returns an error if buffers cannot have texel views of the format.
    pub(super) fn check_texels(&self, format: Format, writes: bool) -> Result<(), DeviceError> {
        let needed = if writes { FormatUses::STORAGE_TEXELS } else { FormatUses::TEXELS };
        if self.supported_uses(format).has(needed) {
            return Ok(());
        }
        Err(DeviceError::unsupported("texels of this format in a buffer"))
    }

    fn query_uses(&self, format: Format) -> FormatSupport {
        let Ok(shown) = shader_format(format) else { return FormatSupport::default() };
        let (texture, target) = (self.flags(shown), depth_format(format).unwrap_or(shown));
        let of_target = if target == shown { texture } else { self.flags(target) };
        let uses = uses_of(texture, of_target, format.is_depth_stencil());
        let flagged = FormatSupport { uses, sample_counts: 0 };
        let [width, height] = format.texels().block();
        // The debug layer reports descriptions that the driver rejects, so they are measured only if the flags allow
        // them.
        let mut found = FormatSupport::of_textures(format, |usage, samples| {
            let desc = TextureDesc { width, height, samples, format, usage, ..Default::default() };
            let is_made = || Textures::resource_desc(&desc).and_then(|desc| measure(self, &desc)).is_ok();
            flagged.check(usage, 1).is_ok() && (samples == 1 || self.has_samples(target, samples)) && is_made()
        });
        let of_sampled = if found.has(FormatUses::SAMPLED) { FormatUses::FILTERED } else { FormatUses::empty() };
        let of_drawn = if found.has(FormatUses::RENDER_TARGET) { FormatUses::BLENDED } else { FormatUses::empty() };
        found.uses |= uses & (of_sampled | of_drawn | FormatUses::TEXELS | FormatUses::STORAGE_TEXELS);
        found
    }

    /// Returns the flags of a format. Returns 0 if the driver does not know the format.
    fn flags(&self, format: DXGI_FORMAT) -> i32 {
        let support = D3D12_FEATURE_DATA_FORMAT_SUPPORT { Format: format, ..Default::default() };
        self.feature(D3D12_FEATURE_FORMAT_SUPPORT, support).map_or(0, |found| found.Support1.0)
    }

    /// Returns `true` if targets of the format can have this number of samples, at most 32.
    fn has_samples(&self, format: DXGI_FORMAT, samples: u32) -> bool {
        let levels = D3D12_FEATURE_DATA_MULTISAMPLE_QUALITY_LEVELS {
            Format: format,
            SampleCount: samples,
            ..Default::default()
        };
        let found = self.feature(D3D12_FEATURE_MULTISAMPLE_QUALITY_LEVELS, levels);
        samples <= SAMPLES_MAX && found.is_ok_and(|found| found.NumQualityLevels > 0)
    }

    /// Queries a feature. `data` is the structure of the feature.
    fn feature<T>(&self, feature: D3D12_FEATURE, mut data: T) -> Result<T, DeviceError> {
        // SAFETY: the pointer points to a structure of the feature that lives through the call.
        unsafe { self.raw().CheckFeatureSupport(feature, (&raw mut data).cast(), size_of::<T>() as u32) }
            .map_err(error::failed(error::call!("ID3D12Device::CheckFeatureSupport", "the support of a format")))?;
        Ok(data)
    }
}
