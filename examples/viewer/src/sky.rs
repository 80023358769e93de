//! The sky as a cube map with blurred mips, and the volume that grades the colours.

use glam::{Vec2, Vec3};
use half::f16;

/// Side of a face, in texels.
pub const SKY_SIDE: u32 = 128;
/// Mips of the sky: from a mirror to a rough surface.
pub const SKY_MIPS: u32 = 6;
/// Side of the volume, in texels.
pub const GRADING_SIDE: u32 = 32;

/// Returns the faces of one mip, each texel as four half floats. Mip `m` is blurred for the roughness `m / (mips - 1)`.
pub fn faces(mip: u32, sun: Vec3) -> Vec<u8> {
    let side = SKY_SIDE >> mip;
    let roughness = mip as f32 / (SKY_MIPS - 1) as f32;
    let texels = (0..6 * side * side).flat_map(|number| {
        let (face, x, y) = (number / (side * side), number % side, number / side % side);
        let at = (Vec2::new(x as f32, y as f32) + 0.5) / side as f32 * 2.0 - 1.0;
        let light = blurred(direction(face, at), roughness, sun);
        [light.x, light.y, light.z, 1.0].map(|part| f16::from_f32(part).to_le_bytes())
    });
    texels.flatten().collect()
}

/// Returns the direction of a point of a face, in Vulkan's order of faces.
fn direction(face: u32, at: Vec2) -> Vec3 {
    let (u, v) = (at.x, at.y);
    let direction = match face {
        0 => Vec3::new(1.0, -v, -u),
        1 => Vec3::new(-1.0, -v, u),
        2 => Vec3::new(u, 1.0, v),
        3 => Vec3::new(u, -1.0, -v),
        4 => Vec3::new(u, -v, 1.0),
        _ => Vec3::new(-u, -v, -1.0),
    };
    direction.normalize()
}

/// Returns the mean light of a lobe around a direction.
fn blurred(around: Vec3, roughness: f32, sun: Vec3) -> Vec3 {
    if roughness == 0.0 {
        return light(around, sun);
    }
    let count = 64;
    let (side, other) = around.any_orthonormal_pair();
    let exponent = 2.0 / roughness.powi(4).max(0.001);
    let sum: Vec3 = (0..count)
        .map(|number| {
            let part = (number as f32 + 0.5) / count as f32;
            let cosine = (1.0 - part).powf(1.0 / (exponent + 1.0));
            let (turn, sine) = (number as f32 * 2.399_963, (1.0 - cosine * cosine).sqrt());
            let towards = around * cosine + (side * turn.cos() + other * turn.sin()) * sine;
            light(towards, sun)
        })
        .sum();
    sum / count as f32
}

/// Returns the light of the sky, or of the ground below the horizon.
fn light(towards: Vec3, sun: Vec3) -> Vec3 {
    let height = towards.y;
    let near_sun = towards.dot(sun).max(0.0);
    let zenith = Vec3::new(0.13, 0.27, 0.55);
    let horizon = Vec3::new(0.62, 0.70, 0.80).lerp(Vec3::new(1.0, 0.74, 0.46), near_sun.powi(4) * 0.7);
    if height < 0.0 {
        let ground = Vec3::new(0.40, 0.34, 0.27);
        return horizon.lerp(ground, (-height * 12.0).min(1.0));
    }
    let clear = horizon.lerp(zenith, 1.0 - (1.0 - height).powi(3));
    let glow = Vec3::new(1.0, 0.8, 0.5) * (near_sun.powi(24) * 0.5 + near_sun.powi(300) * 6.0);
    clear.lerp(Vec3::splat(0.95) + glow * 0.3, clouds(towards)) + glow
}

/// Returns the density of the clouds, from 0 to 1.
fn clouds(towards: Vec3) -> f32 {
    let at = Vec2::new(towards.x, towards.z) / (towards.y + 0.18) * 0.9;
    let (mut sum, mut weight, mut scale) = (0.0, 0.5, 1.7);
    for octave in 0..4 {
        let bent = at * scale + octave as f32 * 5.3;
        sum += (bent.x + (bent.y * 1.3).sin()).sin() * (bent.y + (bent.x * 0.9).cos()).cos() * weight;
        weight *= 0.55;
        scale *= 2.1;
    }
    ((sum - 0.02) * 2.2).clamp(0.0, 1.0) * (towards.y * 6.0).min(1.0) * 0.75
}

/// Returns the colours of the volume: warm lights, cool shadows, more contrast.
pub fn grading() -> Vec<u8> {
    let side = GRADING_SIDE;
    let graded = |number: u32| {
        let part = |axis: u32| (number / side.pow(axis) % side) as f32 / (side - 1) as f32;
        let given = Vec3::new(part(0), part(1), part(2));
        let brightness = given.dot(Vec3::new(0.3, 0.59, 0.11));
        let curve = given * given * (3.0 - 2.0 * given);
        let tint = Vec3::new(-0.012, 0.0, 0.022).lerp(Vec3::new(0.02, 0.006, -0.022), brightness);
        let rich = given.lerp(curve, 0.35) + tint * (1.0 - (2.0 * brightness - 1.0).powi(4));
        let rich = Vec3::splat(brightness).lerp(rich, 1.08).clamp(Vec3::ZERO, Vec3::ONE) * 255.0;
        [rich.x.round() as u8, rich.y.round() as u8, rich.z.round() as u8, 255]
    };
    (0..side.pow(3)).flat_map(graded).collect()
}
