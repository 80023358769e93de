//! Pictures of the generated scene, their mip chains, and their compression.

use glam::{Vec2, Vec3};
use ringfence::device::Format;
use texpresso::{Algorithm, Params};

/// The content of a picture, which decides its format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// Colour, as sRGB.
    Albedo,
    /// A direction in tangent space: x and y in the first two channels.
    Normal,
}

/// A square picture with four bytes a texel. Its side is a power of two.
#[derive(Clone)]
pub struct Picture {
    pub name: String,
    pub content: Content,
    pub side: u32,
    pub texels: Vec<[u8; 4]>,
}

/// The encoded mips of a picture, the largest first.
pub struct Chain {
    pub name: String,
    pub format: Format,
    pub side: u32,
    pub mips: Vec<Vec<u8>>,
}

impl Picture {
    /// Reduces the picture to a mip chain, and compresses it if the device can read BC formats.
    pub fn encode(&self, has_bc: bool) -> Chain {
        let format = match (self.content, has_bc) {
            (Content::Albedo, true) => Format::Bc1UnormSrgb,
            (Content::Albedo, false) => Format::Rgba8UnormSrgb,
            (Content::Normal, true) => Format::Bc5Unorm,
            (Content::Normal, false) => Format::Rgba8Unorm,
        };
        let (mut mips, mut texels, mut side) = (Vec::new(), self.texels.clone(), self.side);
        loop {
            mips.push(if has_bc { compress(&texels, side, self.content) } else { texels.as_flattened().to_vec() });
            if side == 1 {
                return Chain { name: self.name.clone(), format, side: self.side, mips };
            }
            texels = half(&texels, side, self.content);
            side /= 2;
        }
    }
}

fn compress(texels: &[[u8; 4]], side: u32, content: Content) -> Vec<u8> {
    let format = if content == Content::Albedo { texpresso::Format::Bc1 } else { texpresso::Format::Bc5 };
    let side = side as usize;
    let mut blocks = vec![0; format.compressed_size(side, side)];
    let params = Params { algorithm: Algorithm::RangeFit, ..Default::default() };
    format.compress(texels.as_flattened(), side, side, params, &mut blocks);
    blocks
}

/// Returns the next mip: the mean of four texels, of light for colours, of directions for normals.
fn half(texels: &[[u8; 4]], side: u32, content: Content) -> Vec<[u8; 4]> {
    let (side, next) = (side as usize, side as usize / 2);
    let mean = |at: usize| {
        let (x, y) = (at % next * 2, at / next * 2);
        let four = [(0, 0), (1, 0), (0, 1), (1, 1)].map(|(right, down)| texels[(y + down) * side + x + right]);
        match content {
            Content::Albedo => {
                let sum: Vec3 = four.iter().map(|texel| light(*texel)).sum();
                colour(sum / 4.0)
            }
            Content::Normal => {
                let sum: Vec3 = four.iter().map(|texel| direction(*texel)).sum();
                normal(sum.normalize_or(Vec3::Z))
            }
        }
    };
    (0..next * next).map(mean).collect()
}

fn light(texel: [u8; 4]) -> Vec3 {
    Vec3::new(texel[0].into(), texel[1].into(), texel[2].into()).map(|byte| (byte / 255.0).powf(2.2))
}

fn colour(light: Vec3) -> [u8; 4] {
    let [red, green, blue] = light.clamp(Vec3::ZERO, Vec3::ONE).map(|part| part.powf(1.0 / 2.2) * 255.0).to_array();
    [red.round() as u8, green.round() as u8, blue.round() as u8, 255]
}

fn direction(texel: [u8; 4]) -> Vec3 {
    Vec3::new(texel[0].into(), texel[1].into(), texel[2].into()) / 127.5 - 1.0
}

fn normal(direction: Vec3) -> [u8; 4] {
    let bytes = ((direction * 0.5 + 0.5) * 255.0).round();
    [bytes.x as u8, bytes.y as u8, bytes.z as u8, 255]
}

const SIDE: u32 = 512;

/// Returns four pairs of albedo and normal: tiles, stone, marble, metal.
pub fn generated() -> Vec<Picture> {
    let tiles = |at: Vec2| {
        let (cell, within) = ((at * 2.0).floor(), (at * 2.0).fract());
        let edge = within.min(1.0 - within).min_element();
        let joint = (edge * 90.0).clamp(0.0, 1.0);
        let dark = (cell.x + cell.y) % 2.0 != 0.0;
        let vein = veins(at, 4);
        let base = if dark { Vec3::new(0.13, 0.12, 0.13) } else { Vec3::new(0.62, 0.55, 0.46) };
        let stone = base * (0.8 + 0.35 * noise(at, 8, 5)) + Vec3::splat(0.16 * vein);
        ((stone * (0.25 + 0.75 * joint)), joint * 0.5 + noise(at, 64, 2) * 0.012)
    };
    let stone = |at: Vec2| {
        let (grain, pits) = (noise(at, 12, 6), (noise(at + 7.0, 32, 3) - 0.68).max(0.0) * 2.0);
        let colour = Vec3::new(0.58, 0.50, 0.39).lerp(Vec3::new(0.80, 0.74, 0.64), grain) * (1.0 - pits);
        (colour, grain * 0.6 - pits * 0.7)
    };
    let marble = |at: Vec2| {
        let vein = veins(at, 3);
        let cloud = noise(at, 4, 5);
        (Vec3::new(0.86, 0.85, 0.83) * (0.86 + 0.14 * cloud) - Vec3::new(0.42, 0.4, 0.36) * vein, 0.0)
    };
    let metal = |at: Vec2| {
        let brushed = noise(Vec2::new(at.x, at.y * 0.25), 128, 2);
        (Vec3::splat(0.92 + 0.08 * noise(at, 8, 3)), brushed * 0.02)
    };
    let mut pictures = pair("tiles", tiles).to_vec();
    pictures.extend(pair("stone", stone));
    pictures.extend(pair("marble", marble));
    pictures.extend(pair("metal", metal));
    pictures
}

/// Returns a picture of colours, and one of the slopes of the heights.
fn pair(name: &str, look: impl Fn(Vec2) -> (Vec3, f32)) -> [Picture; 2] {
    let side = SIDE as usize;
    let looks: Vec<_> = (0..side * side)
        .map(|number| look(Vec2::new((number % side) as f32, (number / side) as f32) / SIDE as f32))
        .collect();
    let height = |x: usize, y: usize| looks[y % side * side + x % side].1;
    let slope = |number: usize| {
        let (x, y) = (number % side, number / side);
        let right = height(x + 1, y) - height(x + side - 1, y);
        let down = height(x, y + 1) - height(x, y + side - 1);
        normal(Vec3::new(-right * 3.0, -down * 3.0, 1.0).normalize())
    };
    let albedo = looks.iter().map(|(light, _)| colour(*light)).collect();
    let normals = (0..side * side).map(slope).collect();
    let picture =
        |suffix: &str, content, texels| Picture { name: format!("{name}/{suffix}"), content, side: SIDE, texels };
    [picture("albedo", Content::Albedo, albedo), picture("normal", Content::Normal, normals)]
}

/// Returns the strength of the veins of marble, from 0 to 1.
fn veins(at: Vec2, period: u32) -> f32 {
    let bend = noise(at + 3.0, period, 5) - 0.5;
    let other = noise(at + 11.0, period * 2, 4);
    ((1.0 - (bend * 14.0).abs()).max(0.0) * other * 1.3).min(1.0)
}

/// Returns smooth noise from 0 to 1 that repeats at each unit.
fn noise(at: Vec2, period: u32, octaves: u32) -> f32 {
    let (mut sum, mut weight, mut period) = (0.0, 0.5, period);
    for _ in 0..octaves {
        sum += value(at, period) * weight;
        weight *= 0.5;
        period *= 2;
    }
    sum / (1.0 - weight * 2.0)
}

fn value(at: Vec2, period: u32) -> f32 {
    let scaled = at * period as f32;
    let (cell, part) = (scaled.floor(), scaled.fract());
    let part = part * part * (3.0 - 2.0 * part);
    let corner = |right: i32, down: i32| {
        let [x, y] = [cell.x as i32 + right, cell.y as i32 + down].map(|side| side.rem_euclid(period as i32) as u32);
        random(x, y, period)
    };
    let upper = corner(0, 0) + (corner(1, 0) - corner(0, 0)) * part.x;
    let lower = corner(0, 1) + (corner(1, 1) - corner(0, 1)) * part.x;
    upper + (lower - upper) * part.y
}

fn random(x: u32, y: u32, seed: u32) -> f32 {
    let mut bits = x.wrapping_mul(0x9e37_79b1) ^ y.wrapping_mul(0x85eb_ca6b) ^ seed.wrapping_mul(0xc2b2_ae35);
    bits ^= bits >> 15;
    bits = bits.wrapping_mul(0x2c1b_3c6d);
    bits ^= bits >> 12;
    bits = bits.wrapping_mul(0x297a_2d39);
    bits ^= bits >> 15;
    (bits >> 8) as f32 / 16_777_216.0
}
