//! Texels of every format without block compression, as bits and as the numbers that shaders see. Both are computed
//! only from the name of the format.

use ringfence::device::{Format, TextureAspect};

/// Meaning of the bits of a channel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Numbers {
    Unorm,
    /// As `Unorm`. Red, green and blue are not linear.
    Srgb,
    Snorm,
    Uint,
    Sint,
    Float,
}

/// Channels of a texel of one aspect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Channels {
    /// Name and number of bits of each channel, the lowest bits first.
    channels: Vec<(char, u32)>,
    pub numbers: Numbers,
    /// Size of a texel in bytes, in a copy of this aspect.
    pub bytes: usize,
}

impl Channels {
    /// Returns the channels of an aspect. The format must not be block-compressed.
    pub fn of(format: Format, aspect: TextureAspect) -> Self {
        let name = format!("{format:?}");
        match aspect {
            TextureAspect::Color => Self::of_color(&name),
            TextureAspect::Stencil => Self { channels: vec![('r', 8)], numbers: Numbers::Uint, bytes: 1 },
            TextureAspect::Depth => {
                let depths =
                    [("D16", 16, Numbers::Unorm, 2), ("D24", 24, Numbers::Unorm, 4), ("D32", 32, Numbers::Float, 4)];
                let held = depths.into_iter().find(|(part, ..)| name.contains(part));
                let (_, bits, numbers, bytes) = held.expect("the format has depth");
                Self { channels: vec![('r', bits)], numbers, bytes }
            }
        }
    }

    /// Parses a name: each group of letters is followed by the bits of each of its channels.
    fn of_color(name: &str) -> Self {
        let kinds = [
            ("UnormSrgb", Numbers::Srgb),
            ("Unorm", Numbers::Unorm),
            ("Snorm", Numbers::Snorm),
            ("Uint", Numbers::Uint),
            ("Sint", Numbers::Sint),
            ("Float", Numbers::Float),
        ];
        let parsed = kinds.into_iter().find_map(|(end, numbers)| Some((name.strip_suffix(end)?, numbers)));
        let (layout, numbers) = parsed.expect("a name ends with its kind of numbers");
        // These formats have their red channel in the lowest bits.
        let layout = layout.replace("Abgr", "Rgba").to_lowercase();
        let (mut channels, mut group, mut bits) = (Vec::new(), Vec::new(), 0);
        for letter in layout.chars().chain(['.']) {
            if let Some(digit) = letter.to_digit(10) {
                bits = 10 * bits + digit;
                continue;
            }
            if bits > 0 {
                channels.extend(group.drain(..).map(|name| (name, bits)));
                bits = 0;
            }
            group.push(letter);
        }
        let bytes = channels.iter().map(|(_, bits)| bits).sum::<u32>() as usize / 8;
        Self { channels, numbers, bytes }
    }

    /// Returns the bits of texel number `index`. Numbers that differ by less than 256 give different bits in
    /// every channel of at least 8 bits.
    pub fn texel(&self, index: u32) -> u128 {
        let (mut texel, mut shift) = (0, 0);
        for (&(name, bits), salt) in self.channels.iter().zip(1_u32..) {
            let mixed = (index + 1).wrapping_mul(0x9e37_79b1).wrapping_add(salt.wrapping_mul(0x85eb_ca6b));
            let mixed = u128::from(mixed) & ((1 << bits) - 1);
            let value = match (self.numbers, bits) {
                // An exponent in the middle of the range.
                (Numbers::Float, _) if name == 'e' => 12 + mixed % 8,
                (Numbers::Float, 9) => mixed,
                // From 0 to 1, as depth must be.
                (Numbers::Float, 32) => u128::from(((mixed & 0xffff) as f32 / 65536.0).to_bits()),
                // Finite numbers: the exponent has 5 bits, its two highest are different.
                (Numbers::Float, _) => {
                    let low = small_mantissa(bits);
                    mixed & !(3 << (low + 3)) | 1 << (low + 3)
                }
                // The lowest number and its successor are equal to shaders.
                (Numbers::Snorm, _) if mixed == 1 << (bits - 1) => mixed + 1,
                _ => mixed,
            };
            texel |= value << shift;
            shift += bits;
        }
        texel
    }

    /// Appends the bytes of a texel.
    pub fn append(&self, texel: u128, bytes: &mut Vec<u8>) {
        bytes.extend(&texel.to_le_bytes()[..self.bytes]);
    }

    /// Returns red, green, blue and alpha, as shaders see them. Numbers that the format lacks are 0, alpha is 1.
    pub fn numbers_of(&self, texel: u128) -> [f64; 4] {
        let (mut found, mut shift, mut exponent) = ([0.0, 0.0, 0.0, 1.0], 0, None);
        for &(name, bits) in &self.channels {
            let raw = (texel >> shift & ((1 << bits) - 1)) as u32;
            shift += bits;
            match "rgba".find(name) {
                Some(at) => found[at] = self.number(name, bits, raw),
                None => exponent = Some(raw),
            }
        }
        if let Some(exponent) = exponent {
            // The mantissas have no hidden bit, the bias is 15.
            found[..3].iter_mut().for_each(|number| *number *= f64::from(exponent as i32 - 15 - 9).exp2());
        }
        found
    }

    fn number(&self, name: char, bits: u32, raw: u32) -> f64 {
        let unorm = f64::from(raw) / ((1_u64 << bits) - 1) as f64;
        let signed = f64::from((raw << (32 - bits)) as i32 >> (32 - bits));
        match self.numbers {
            Numbers::Unorm => unorm,
            Numbers::Srgb if name == 'a' => unorm,
            Numbers::Srgb if unorm <= 0.04045 => unorm / 12.92,
            Numbers::Srgb => ((unorm + 0.055) / 1.055).powf(2.4),
            Numbers::Snorm => (signed / ((1_u64 << (bits - 1)) - 1) as f64).max(-1.0),
            Numbers::Uint => raw.into(),
            Numbers::Sint => signed,
            Numbers::Float if bits == 9 => raw.into(),
            Numbers::Float if bits == 32 => f32::from_bits(raw).into(),
            Numbers::Float => {
                let low = small_mantissa(bits);
                let sign = if bits == 16 && raw >> 15 == 1 { -1.0 } else { 1.0 };
                let mantissa = 1.0 + f64::from(raw & ((1 << low) - 1)) / f64::from(1 << low);
                sign * mantissa * f64::from((raw >> low & 31) as i32 - 15).exp2()
            }
        }
    }

    /// Returns a word of a shader as a number.
    pub fn of_word(&self, word: u32) -> f64 {
        match self.numbers {
            Numbers::Uint => word.into(),
            Numbers::Sint => f64::from(word as i32),
            _ => f32::from_bits(word).into(),
        }
    }

    /// Returns a number as the word that a shader writes.
    pub fn to_word(&self, number: f64) -> u32 {
        match self.numbers {
            Numbers::Uint => number as u32,
            Numbers::Sint => number as i32 as u32,
            _ => (number as f32).to_bits(),
        }
    }

    /// Returns `true` if a shader may see `found` instead of `expected`.
    pub fn is_close(&self, found: f64, expected: f64) -> bool {
        let tolerance = match self.numbers {
            Numbers::Uint | Numbers::Sint | Numbers::Float => 0.0,
            // Half a step of the encoded value, which Direct3D permits and an H100 uses for bright texels.
            Numbers::Srgb if (encoded(found) - encoded(expected)).abs() <= 0.5 / 255.0 => return true,
            // Mesa's software driver approximates the curve with a polynomial.
            Numbers::Srgb => 0.002,
            // NVIDIA's texture units convert these formats to 8 bits a channel first.
            Numbers::Unorm if self.channels.iter().any(|(_, bits)| (4..8).contains(bits)) => 1.0 / 255.0,
            Numbers::Unorm | Numbers::Snorm => 0.000_001,
        };
        (found - expected).abs() <= tolerance
    }
}

/// Returns the sRGB encoding of a linear value.
fn encoded(linear: f64) -> f64 {
    if linear <= 0.003_130_8 { linear * 12.92 } else { 1.055 * linear.powf(1.0 / 2.4) - 0.055 }
}

/// Returns the number of bits of the mantissa of a float of 16, 11 or 10 bits. All have an exponent of 5 bits; only the
/// first has a sign.
fn small_mantissa(bits: u32) -> u32 {
    if bits == 16 { 10 } else { bits - 5 }
}

#[test]
fn texels_are_the_bits_that_their_names_say() {
    let of = |format| Channels::of(format, TextureAspect::Color);
    assert_eq!(of(Format::B5g6r5Unorm).channels, [('b', 5), ('g', 6), ('r', 5)]);
    assert_eq!(of(Format::Bgr5a1Unorm).channels, [('b', 5), ('g', 5), ('r', 5), ('a', 1)]);
    assert_eq!(of(Format::Rg11b10Float).channels, [('r', 11), ('g', 11), ('b', 10)]);
    assert_eq!(of(Format::Abgr8Unorm).channels, of(Format::Rgba8Unorm).channels);
    assert_eq!(of(Format::Rgb9e5Float).numbers_of(0x8000_0001)[0], 2_f64.powi(16 - 24));
    assert_eq!(of(Format::R16Float).numbers_of(0xc200)[0], -3.0);
    assert_eq!(of(Format::Rg8Snorm).numbers_of(0x8081), [-1.0, -1.0, 0.0, 1.0]);
    assert_eq!(of(Format::Rgba8Sint).numbers_of(0xff7f_0080), [-128.0, 0.0, 127.0, -1.0]);
    for format in Format::ALL.iter().filter(|format| !format.texels().is_compressed()) {
        for aspect in [TextureAspect::Color, TextureAspect::Depth, TextureAspect::Stencil] {
            let Some(bytes) = format.texels().block_bytes(aspect) else { continue };
            let channels = Channels::of(*format, aspect);
            assert_eq!(channels.bytes, bytes as usize, "{format:?}");
            for index in 0..300 {
                let numbers = channels.numbers_of(channels.texel(index));
                assert!(numbers.iter().all(|number| number.is_finite()), "{format:?}: {numbers:?}");
            }
        }
    }
}
