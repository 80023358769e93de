//! The values of texels: conversion between the bytes of a colour format and its channels, for clears, resolves and
//! blits.
//!
//! ```text
//!   Rgb10a2Unorm     bits 0..10 red, 10..20 green, 20..30 blue, 30..32 alpha     the lowest channel is named first
//! ```

use ringfence_hal::transfer::ClearColor;
use ringfence_hal::{ChannelKind, Format};

/// Interpretation of the bits of a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Unorm,
    Srgb,
    Snorm,
    Integer { is_signed: bool },
    Float,
}

/// A channel of a texel.
#[derive(Clone, Copy, Debug)]
struct Channel {
    /// Index in red, green, blue, alpha.
    index: usize,
    shift: u32,
    bits: u32,
    kind: Kind,
}

/// The channels of a colour format.
#[derive(Clone, Debug)]
pub(super) struct TexelCodec {
    channels: Vec<Channel>,
    bytes: usize,
}

impl TexelCodec {
    /// Returns the channels of a format, from its name. Returns `None` for depth, stencil, block-compressed formats,
    /// and formats with a shared exponent.
    pub(super) fn of(format: Format) -> Option<Self> {
        if format.is_depth_stencil() || format.texels().is_compressed() {
            return None;
        }
        let name = format!("{format:?}");
        let lower = name.to_lowercase().replace("abgr8", "rgba8");
        let kind = match format.channels() {
            ChannelKind::Uint => Kind::Integer { is_signed: false },
            ChannelKind::Sint => Kind::Integer { is_signed: true },
            ChannelKind::Float if name.ends_with("Srgb") => Kind::Srgb,
            ChannelKind::Float if name.ends_with("Unorm") => Kind::Unorm,
            ChannelKind::Float if name.ends_with("Snorm") => Kind::Snorm,
            ChannelKind::Float => Kind::Float,
        };
        let channels = channels(&lower, kind)?;
        Some(Self { channels, bytes: format.texel_bytes() as usize })
    }

    /// Returns the size of a texel, in bytes.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the texel of a colour.
    pub(super) fn clear(&self, color: ClearColor) -> Vec<u8> {
        self.encode(match color {
            ClearColor::Float(channels) => channels.map(f64::from),
            ClearColor::Sint(channels) => channels.map(f64::from),
            ClearColor::Uint(channels) => channels.map(f64::from),
        })
    }

    pub(super) fn decode(&self, texel: &[u8]) -> [f64; 4] {
        let mut word = [0; 16];
        word[..self.bytes].copy_from_slice(&texel[..self.bytes]);
        let word = u128::from_le_bytes(word);
        let mut color = [0.0, 0.0, 0.0, 1.0];
        for Channel { index, shift, bits, kind } in &self.channels {
            let raw = (word >> shift) as u64 & mask(*bits);
            color[*index] = decode(raw, *bits, kind_of(*kind, *index));
        }
        color
    }

    pub(super) fn encode(&self, color: [f64; 4]) -> Vec<u8> {
        let each = self.channels.iter().map(|Channel { index, shift, bits, kind }| {
            u128::from(encode(color[*index], *bits, kind_of(*kind, *index)) & mask(*bits)) << shift
        });
        each.fold(0, |word, channel| word | channel).to_le_bytes()[..self.bytes].to_vec()
    }

    /// Returns the texel that several samples are resolved to: their average, or for integer formats, the first sample.
    pub(super) fn resolve(&self, samples: &[u8]) -> Vec<u8> {
        if matches!(self.channels[0].kind, Kind::Integer { .. }) {
            return samples[..self.bytes].to_vec();
        }
        let (mut sum, count) = ([0.0; 4], samples.len() / self.bytes);
        for sample in samples.chunks_exact(self.bytes) {
            let color = self.decode(sample);
            (0..4).for_each(|index| sum[index] += color[index]);
        }
        self.encode(sum.map(|sum| sum / count as f64))
    }

    /// Returns all texels of a mip level of `to` texels, filtered linearly from a level of `from` texels.
    pub(super) fn blit(&self, level: &[u8], from: [u32; 3], to: [u32; 3]) -> Vec<u8> {
        let [width, height, depth] = to;
        let axes: [Vec<_>; 3] = [0, 1, 2].map(|axis| (0..to[axis]).map(|at| taps(at, from[axis], to[axis])).collect());
        let mut texels = Vec::with_capacity(width as usize * height as usize * depth as usize * self.bytes);
        for z in &axes[2] {
            for y in &axes[1] {
                for x in &axes[0] {
                    texels.extend(self.encode(self.filtered(level, from, [*x, *y, *z])));
                }
            }
        }
        texels
    }

    fn filtered(&self, level: &[u8], from: [u32; 3], [x, y, z]: [[(u32, f64); 2]; 3]) -> [f64; 4] {
        let mut sum = [0.0; 4];
        for (z, deep) in z {
            for (y, down) in y {
                for (x, across) in x {
                    let index = (z as usize * from[1] as usize + y as usize) * from[0] as usize + x as usize;
                    let color = self.decode(&level[index * self.bytes..]);
                    (0..4).for_each(|channel| sum[channel] += color[channel] * across * down * deep);
                }
            }
        }
        sum
    }
}

/// Returns the name of a format without the type of its channels. On a strict device, texels can be copied between the
/// formats of one family.
pub(super) fn family(format: Format) -> String {
    let name = format!("{format:?}");
    let types = ["UnormSrgb", "Unorm", "Snorm", "Uint", "Sint", "Ufloat", "Float"];
    types.iter().find_map(|kind| name.strip_suffix(kind)).unwrap_or(&name).to_owned()
}

/// Returns the two texels of an axis whose weighted sum is texel `at` of the destination, with their weights.
fn taps(at: u32, from: u32, to: u32) -> [(u32, f64); 2] {
    let center = (f64::from(at) + 0.5) * f64::from(from) / f64::from(to) - 0.5;
    let (first, weight) = (center.floor(), center - center.floor());
    let inside = |index: f64| index.clamp(0.0, f64::from(from - 1)) as u32;
    [(inside(first), 1.0 - weight), (inside(first + 1.0), weight)]
}

/// Returns the channels of a name: each group of letters is followed by one number, the number of bits of each channel
/// of the group. Returns `None` for a shared exponent.
fn channels(name: &str, kind: Kind) -> Option<Vec<Channel>> {
    let (mut channels, mut group, mut bits, mut shift) = (Vec::new(), Vec::new(), 0, 0);
    for letter in name.chars() {
        if let Some(digit) = letter.to_digit(10) {
            bits = bits * 10 + digit;
            continue;
        }
        if bits > 0 {
            for index in group.drain(..) {
                channels.push(Channel { index, shift, bits, kind });
                shift += bits;
            }
            bits = 0;
        }
        match "rgba".find(letter) {
            Some(index) => group.push(index),
            None if letter == 'e' => return None,
            None => break,
        }
    }
    Some(channels)
}

/// Returns the interpretation of a channel: the alpha of sRGB formats is linear.
const fn kind_of(kind: Kind, index: usize) -> Kind {
    match kind {
        Kind::Srgb if index == 3 => Kind::Unorm,
        _ => kind,
    }
}

const fn mask(bits: u32) -> u64 {
    u64::MAX >> (64 - bits)
}

fn decode(raw: u64, bits: u32, kind: Kind) -> f64 {
    let signed = (raw << (64 - bits)) as i64 >> (64 - bits);
    match kind {
        Kind::Unorm => raw as f64 / mask(bits) as f64,
        Kind::Srgb => linear(raw as f64 / mask(bits) as f64),
        Kind::Snorm => (signed as f64 / mask(bits - 1) as f64).max(-1.0),
        Kind::Integer { is_signed: true } => signed as f64,
        Kind::Integer { is_signed: false } => raw as f64,
        Kind::Float => match bits {
            32 => f64::from(f32::from_bits(raw as u32)),
            // Channels of 10 and 11 bits are halves without a sign and without the lowest bits.
            bits => half_to_real((raw << (if bits == 16 { 0 } else { 15 - bits })) as u16),
        },
    }
}

fn encode(value: f64, bits: u32, kind: Kind) -> u64 {
    match kind {
        Kind::Unorm => (value.clamp(0.0, 1.0) * mask(bits) as f64).round() as u64,
        Kind::Srgb => (curved(value.clamp(0.0, 1.0)) * mask(bits) as f64).round() as u64,
        Kind::Snorm => (value.clamp(-1.0, 1.0) * mask(bits - 1) as f64).round() as i64 as u64,
        Kind::Integer { is_signed: true } => value as i64 as u64,
        Kind::Integer { is_signed: false } => value as u64,
        Kind::Float => match bits {
            32 => (value as f32).to_bits().into(),
            16 => real_to_half(value).into(),
            bits => u64::from(real_to_half(value.max(0.0))) >> (15 - bits),
        },
    }
}

fn linear(value: f64) -> f64 {
    if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
}

fn curved(value: f64) -> f64 {
    if value <= 0.003_130_8 { value * 12.92 } else { 1.055 * value.powf(1.0 / 2.4) - 0.055 }
}

fn half_to_real(half: u16) -> f64 {
    let (sign, exponent, mantissa) = (half >> 15, i32::from(half >> 10 & 0x1f), f64::from(half & 0x3ff));
    let value = match exponent {
        0 => mantissa * 2_f64.powi(-24),
        31 if mantissa == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + mantissa) * 2_f64.powi(exponent - 25),
    };
    if sign == 1 { -value } else { value }
}

fn real_to_half(value: f64) -> u16 {
    let sign = u16::from(value.is_sign_negative()) << 15;
    let size = value.abs();
    if size.is_nan() {
        return sign | 0x7e00;
    }
    // Representable values between two powers of two have equal distances. Below 2⁻¹⁴, all are subnormal.
    let exponent = (size.log2().floor().max(-14.0) as i32).min(16);
    let steps = (size * 2_f64.powi(10 - exponent)).round_ties_even();
    let bits = ((exponent + 14) as f64) * 1024.0 + steps;
    sign | if exponent > 15 || bits >= 31744.0 { 0x7c00 } else { bits as u16 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_texel_of_small_formats_survives_a_round_trip() {
        for &format in Format::ALL {
            let Some(codec) = TexelCodec::of(format) else { continue };
            let bits: u32 = codec.channels.iter().map(|channel| channel.bits).sum();
            assert_eq!(bits as usize, codec.bytes() * 8, "{format:?}");
            for seed in 0..2000_u128 {
                let word = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).to_le_bytes();
                let texel = &word[..codec.bytes()];
                let color = codec.decode(texel);
                let again = codec.decode(&codec.encode(color));
                let same = color.iter().zip(again).all(|(one, other)| *one == other || one.is_nan());
                assert!(same, "{format:?} {texel:?}: {color:?}, {again:?}");
            }
        }
    }

    #[test]
    fn known_values_have_their_bytes() {
        let bytes = |format, color: [f32; 4]| TexelCodec::of(format).expect("a colour").clear(color.into());
        assert_eq!(bytes(Format::Rgba8Unorm, [1.0, 0.5, 0.0, 0.25]), [255, 128, 0, 64]);
        assert_eq!(bytes(Format::Bgra8UnormSrgb, [0.0, 0.5, 1.0, 0.5]), [255, 188, 0, 128]);
        assert_eq!(bytes(Format::B5g6r5Unorm, [1.0, 0.0, 0.0, 1.0]), [0, 0xf8]);
        assert_eq!(bytes(Format::R16Float, [1.0; 4]), [0, 0x3c]);
        assert_eq!(bytes(Format::Rg11b10Float, [1.0; 4]), 0x781e_03c0_u32.to_le_bytes());
        assert_eq!(bytes(Format::Rg8Snorm, [-1.0, 1.0, 0.0, 0.0]), [0x81, 0x7f]);
        assert!(TexelCodec::of(Format::Rgb9e5Float).is_none());
        assert!(TexelCodec::of(Format::Bc1Unorm).is_none());
        for (half, value) in [(0x3c00, 1.0), (0x7bff, 65504.0), (0x0001, 2_f64.powi(-24)), (0xc000, -2.0)] {
            assert_eq!((real_to_half(value), half_to_real(half)), (half, value));
        }
        assert_eq!((real_to_half(65520.0), real_to_half(0.0)), (0x7c00, 0));
    }

    #[test]
    fn a_level_of_half_the_size_has_the_averages() {
        let codec = TexelCodec::of(Format::R8Unorm).expect("a colour");
        assert_eq!(codec.blit(&[0, 40, 80, 120, 0, 40, 80, 120], [4, 2, 1], [2, 1, 1]), [20, 100]);
        assert_eq!(codec.blit(&[7, 9, 11], [3, 1, 1], [1, 1, 1]), [9], "the texel in the middle");
        assert_eq!(codec.blit(&[10, 20, 30, 40, 50, 60, 70, 80], [2, 2, 2], [1, 1, 1]), [45]);
        assert_eq!(codec.resolve(&[10, 20, 30, 40]), [25]);
    }
}
