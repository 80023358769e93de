//! Shapes made in code. A vertex has a position, a normal and a texture coordinate: 8 floats.

use glam::{Vec2, Vec3};

/// Number of floats in each attribute of a vertex.
pub const ATTRIBUTES: [u32; 3] = [3, 3, 2];

fn vertex(position: Vec3, normal: Vec3, at: Vec2) -> [f32; 8] {
    let ([x, y, z], [a, b, c], [u, v]) = (position.to_array(), normal.to_array(), at.to_array());
    [x, y, z, a, b, c, u, v]
}

/// Returns a cube with sides of length 2.
pub fn cube() -> (Vec<[f32; 8]>, Vec<u16>) {
    let (mut vertices, mut indices) = (Vec::new(), Vec::new());
    for normal in [Vec3::X, Vec3::Y, Vec3::Z, -Vec3::X, -Vec3::Y, -Vec3::Z] {
        let right = Vec3::new(normal.z, normal.x, normal.y);
        let up = normal.cross(right);
        let first = vertices.len() as u16;
        for [x, y] in [[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0_f32]] {
            vertices.push(vertex(normal + right * x + up * y, normal, Vec2::new(x + 1.0, y + 1.0) / 2.0));
        }
        indices.extend([0, 1, 2, 0, 2, 3].map(|corner| first + corner));
    }
    (vertices, indices)
}

/// Returns a sphere of radius 1 with 48 × 24 faces. `bump` changes the radius: 0 for a sphere.
pub fn sphere(bump: f32) -> (Vec<[f32; 8]>, Vec<u16>) {
    const ACROSS: u16 = 48;
    const DOWN: u16 = 24;
    let (mut vertices, mut indices) = (Vec::new(), Vec::new());
    for row in 0..=DOWN {
        for column in 0..=ACROSS {
            let at = Vec2::new(f32::from(column) / f32::from(ACROSS), f32::from(row) / f32::from(DOWN));
            let (angle, height) = (at.x * std::f32::consts::TAU, at.y * std::f32::consts::PI);
            let normal = Vec3::new(angle.sin() * height.sin(), height.cos(), angle.cos() * height.sin());
            let radius = 1.0 + bump * (angle * 6.0).cos() * height.sin();
            vertices.push(vertex(normal * radius, normal, at));
            if row < DOWN && column < ACROSS {
                let corner = row * (ACROSS + 1) + column;
                let below = corner + ACROSS + 1;
                indices.extend([corner, below, below + 1, corner, below + 1, corner + 1]);
            }
        }
    }
    (vertices, indices)
}

/// Returns the texels of a board of two colours, 64 × 64 in RGBA.
pub fn board() -> Vec<u8> {
    let texels = (0..64 * 64).map(|texel| {
        let is_odd = (texel / 64 / 8 + texel % 64 / 8) % 2 == 1;
        if is_odd { [250, 240, 220, 255] } else { [200, 60, 40, 255] }
    });
    texels.flatten().collect()
}
