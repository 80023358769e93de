//! Shapes of the generated scene: surfaces of revolution, boxes and tubes.

use std::f32::consts::TAU;

use glam::{Vec2, Vec3};

use crate::scene::{MeshData, Vertex};

/// Turns a profile of points (radius, height) around the y axis, from the bottom to the top. `flutes` cuts that many
/// grooves.
pub fn lathe(profile: &[Vec2], segments: u32, flutes: u32) -> MeshData {
    let rows = profile.len() as u32;
    let mut lengths = vec![0.0];
    profile.windows(2).for_each(|pair| lengths.push(lengths[lengths.len() - 1] + pair[0].distance(pair[1])));
    let point = |row: usize, angle: f32| {
        let groove = if flutes > 0 { (angle * flutes as f32 * 0.5).sin().abs().powf(0.6) * 0.08 } else { 0.0 };
        let radius = profile[row].x * (1.0 - groove);
        Vec3::new(angle.cos() * radius, profile[row].y, angle.sin() * radius)
    };
    grid(rows, segments + 1, |row, column| {
        let (row, angle) = (row as usize, column as f32 / segments as f32 * TAU);
        let (above, below) = (row.saturating_sub(1), (row + 1).min(rows as usize - 1));
        let around = point(row, angle + 0.004) - point(row, angle - 0.004);
        let around = if around.length() < 1e-6 { Vec3::new(-angle.sin(), 0.0, angle.cos()) } else { around };
        let along = point(below, angle) - point(above, angle);
        let widest = profile.iter().map(|at| at.x).fold(0.01, f32::max);
        let uv = Vec2::new((column as f32 / segments as f32) * (TAU * widest).round().max(1.0), lengths[row]);
        vertex(point(row, angle), along.cross(around), around, uv)
    })
}

/// As [`lathe`], with hard edges: each pair of points gives a separate surface.
pub fn turned(profile: &[Vec2], segments: u32) -> MeshData {
    let parts: Vec<_> = profile.windows(2).map(|pair| lathe(pair, segments, 0)).collect();
    join(&parts)
}

pub fn sphere(segments: u32) -> MeshData {
    let rows = segments / 2;
    let profile: Vec<_> = (0..=rows)
        .map(|row| {
            let angle = row as f32 / rows as f32 * TAU / 2.0;
            Vec2::new(angle.sin(), -angle.cos())
        })
        .collect();
    lathe(&profile, segments, 0)
}

/// Returns a tube around a closed path.
pub fn tube(path: impl Fn(f32) -> Vec3, radius: f32, [along, around]: [u32; 2], repeat: f32) -> MeshData {
    grid(along + 1, around + 1, |row, column| {
        let (t, angle) = (row as f32 / along as f32, column as f32 / around as f32 * TAU);
        let (at, step) = (path(t * TAU), 0.002);
        let forward = (path(t * TAU + step) - path(t * TAU - step)).normalize();
        let bend = path(t * TAU + step) + path(t * TAU - step) - at * 2.0;
        let side = forward.cross(bend).normalize();
        let up = side.cross(forward);
        let out = up * angle.cos() + side * angle.sin();
        vertex(at + out * radius, out, forward, Vec2::new(t * repeat, column as f32 / around as f32))
    })
}

/// Returns a box of the given half sizes, with one texture repeat per metre.
pub fn cuboid(half: Vec3) -> MeshData {
    let sides = [Vec3::X, Vec3::NEG_X, Vec3::Y, Vec3::NEG_Y, Vec3::Z, Vec3::NEG_Z];
    let parts = sides.map(|normal| {
        let tangent = if normal.y == 0.0 { Vec3::Y.cross(normal) } else { Vec3::X };
        let other = normal.cross(tangent);
        grid(2, 2, |row, column| {
            let (a, b) = (column as f32 * 2.0 - 1.0, row as f32 * 2.0 - 1.0);
            let at = (normal + tangent * a + other * b) * half;
            vertex(at, normal, tangent, Vec2::new((tangent * half).length() * a, (other * half).length() * b))
        })
    });
    join(&parts)
}

/// Returns a part of a ring, with a rectangular cross section.
pub fn arc(inner: f32, outer: f32, height: f32, angle: f32, segments: u32) -> MeshData {
    let corners = [(inner, 0.0), (outer, 0.0), (outer, height), (inner, height), (inner, 0.0)];
    let sides: Vec<_> = corners
        .windows(2)
        .map(|pair| {
            let edge = Vec2::new(pair[1].0 - pair[0].0, pair[1].1 - pair[0].1);
            let out = Vec2::new(edge.y, -edge.x).normalize();
            grid(2, segments + 1, |row, column| {
                let turn = (column as f32 / segments as f32 - 0.5) * angle;
                let (radius, y) = pair[row as usize];
                let flat = Vec3::new(turn.cos(), 0.0, turn.sin());
                let normal = flat * out.x + Vec3::Y * out.y;
                let around = Vec3::new(-turn.sin(), 0.0, turn.cos());
                vertex(flat * radius + Vec3::Y * y, normal, around, Vec2::new(turn * outer, row as f32 * edge.length()))
            })
        })
        .collect();
    let ends = [-0.5, 0.5].map(|side: f32| {
        let turn = side * angle;
        let flat = Vec3::new(turn.cos(), 0.0, turn.sin());
        let normal = Vec3::new(-turn.sin(), 0.0, turn.cos()) * side.signum();
        grid(2, 2, |row, column| {
            let (radius, y) = ([inner, outer][column as usize], height * row as f32);
            vertex(flat * radius + Vec3::Y * y, normal, flat, Vec2::new(radius, y))
        })
    });
    join(&[sides, ends.to_vec()].concat())
}

fn vertex(position: Vec3, normal: Vec3, tangent: Vec3, uv: Vec2) -> Vertex {
    let normal = normal.normalize_or(Vec3::Y);
    let tangent = (tangent - normal * normal.dot(tangent)).normalize_or(normal.any_orthonormal_vector());
    Vertex { position, normal, tangent: tangent.extend(1.0).to_array(), uv }
}

/// Returns a grid of `rows` times `columns` vertices. Triangles are turned so that they agree with the normals.
fn grid(rows: u32, columns: u32, at: impl Fn(u32, u32) -> Vertex) -> MeshData {
    let vertices: Vec<_> = (0..rows * columns).map(|number| at(number / columns, number % columns)).collect();
    let mut indices = Vec::new();
    for (row, column) in (0..rows - 1).flat_map(|row| (0..columns - 1).map(move |column| (row, column))) {
        let first = row * columns + column;
        let [a, b, c, d] = [first, first + 1, first + columns, first + columns + 1];
        indices.extend(facing(&vertices, [a, b, c]).into_iter().chain(facing(&vertices, [b, d, c])));
    }
    MeshData { vertices, indices }
}

/// Turns a triangle so that its front agrees with its normals.
fn facing(vertices: &[Vertex], [a, b, c]: [u32; 3]) -> [u32; 3] {
    let [pa, pb, pc] = [a, b, c].map(|index| vertices[index as usize].position);
    let normal: Vec3 = [a, b, c].map(|index| vertices[index as usize].normal).into_iter().sum();
    if (pb - pa).cross(pc - pa).dot(normal) >= 0.0 { [a, b, c] } else { [a, c, b] }
}

fn join(parts: &[MeshData]) -> MeshData {
    let mut whole = MeshData { vertices: Vec::new(), indices: Vec::new() };
    for part in parts {
        let first = whole.vertices.len() as u32;
        whole.indices.extend(part.indices.iter().map(|index| index + first));
        whole.vertices.extend(&part.vertices);
    }
    whole
}
