//! Whole textures that are uploaded in one call, read back and compared.

use ringfence::device::{Dimension, Format, TextureAspect, TextureDesc, TextureUsage};
use ringfence::upload::{ChainOrder, TransferError, UploadDesc, UploadError};
use ringfence::{UploadBatch, UploadRing};
use ringfence_testkit::{Command, Gpu};

use super::clears::shapes;
use super::picture::Picture;
use super::texture;
use crate::device_suite::rig::{Rig, pattern};

const FORMATS: [Format; 5] =
    [Format::R8Uint, Format::Rgba8Unorm, Format::Rgba32Float, Format::Bc1Unorm, Format::D32FloatS8Uint];

pub fn whole_textures_are_uploaded_in_one_call<G: Gpu>(rig: &mut Rig<G>) {
    let ring = UploadRing::new(&rig.memory, UploadDesc { capacity: 1 << 20, ..Default::default() }).expect("room");
    let mut count = 0;
    for (format, shape) in FORMATS.into_iter().flat_map(|format| shapes().map(move |shape| (format, shape))) {
        let is_block = format.texels().is_compressed();
        if (is_block && shape.dimension == Dimension::D1)
            || (format.is_depth_stencil() && shape.dimension != Dimension::D2)
        {
            continue;
        }
        // Block-compressed textures of Direct3D 12 have whole blocks.
        let shape = if is_block { TextureDesc { width: 16, height: 16, ..shape } } else { shape };
        for order in [ChainOrder::MipByMip, ChainOrder::LayerByLayer] {
            count += u32::from(upload(rig, &ring, TextureDesc { format, ..shape }, order));
        }
    }
    assert!(count >= 20, "{count} textures");
}

/// Returns the bytes of each aspect of a subresource.
fn content(mip: u32, layer: u32, aspect: TextureAspect, size: usize) -> Vec<u8> {
    let bytes = pattern(u64::from(mip * 64 + layer), size);
    match aspect {
        // From 0 to 1, as depth must be.
        TextureAspect::Depth => {
            bytes.iter().step_by(4).flat_map(|byte| (f32::from(*byte) / 256.0).to_le_bytes()).collect()
        }
        _ => bytes,
    }
}

/// Uploads a texture and compares it; `false` if the device lacks it.
fn upload<G: Gpu>(rig: &mut Rig<G>, ring: &UploadRing<G::Device>, desc: TextureDesc, order: ChainOrder) -> bool {
    let usage = if desc.format.is_depth_stencil() { TextureUsage::DEPTH_STENCIL } else { TextureUsage::SAMPLED };
    let Some(texture) = texture(rig, desc, usage) else { return false };
    let aspects: Vec<_> = desc.format.texels().each_aspect().collect();
    let mut pictures: Vec<_> = aspects
        .iter()
        .map(|aspect| Picture::new(desc, *aspect, |mip, layer, size| content(mip, layer, *aspect, size)))
        .collect();
    let [mips, layers] = [desc.mips, desc.layers].map(|count| 0..count);
    let places: Vec<(u32, u32)> = match order {
        ChainOrder::MipByMip => mips.flat_map(|mip| layers.clone().map(move |layer| (mip, layer))).collect(),
        ChainOrder::LayerByLayer => layers.flat_map(|layer| mips.clone().map(move |mip| (mip, layer))).collect(),
    };
    let mut bytes = Vec::new();
    for (mip, layer) in places {
        pictures.iter_mut().for_each(|picture| bytes.extend_from_slice(picture.level(mip, layer)));
    }
    let (frame, mut batch) = (rig.timeline().begin(), UploadBatch::new());
    let short = batch.upload_texture(ring, &frame, (&bytes[1..], order), &texture);
    assert!(matches!(short, Err(TransferError::Upload(UploadError::TexelSize { .. }))), "{short:?}");
    assert!(batch.is_empty());
    batch.upload_texture(ring, &frame, (&bytes, order), &texture).expect("there is room");
    rig.submit(frame, &[Command::Upload(Box::new(batch))]);
    pictures.iter_mut().for_each(|picture| picture.check(rig, &texture, &format!("{order:?}")));
    true
}
