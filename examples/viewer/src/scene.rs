//! A scene, without any graphics API: meshes, pictures, materials, instances, a camera and a sun.

use bytemuck::{Pod, Zeroable};
use glam::{Mat4, Quat, Vec2, Vec3};

use crate::pictures::{self, Picture};
use crate::shapes;

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct Vertex {
    pub position: Vec3,
    pub normal: Vec3,
    /// Tangent, and the sign of the bitangent.
    pub tangent: [f32; 4],
    pub uv: Vec2,
}

#[derive(Clone)]
pub struct MeshData {
    pub vertices: Vec<Vertex>,
    pub indices: Vec<u32>,
}

/// A material: indices of its pictures in [`Scene::pictures`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Material {
    pub albedo: usize,
    pub normal: usize,
}

/// A draw of a mesh.
#[derive(Clone, Copy)]
pub struct Instance {
    pub mesh: usize,
    pub material: usize,
    pub transform: Mat4,
    pub colour: Vec3,
    pub roughness: f32,
    pub metallic: f32,
    /// Repeats of the texture for one unit of the mesh's coordinates.
    pub repeat: f32,
}

/// A camera that swings slowly around the centre of a scene.
#[derive(Clone, Copy)]
pub struct Camera {
    /// Angle around the y axis at the first frame.
    pub angle: f32,
    /// Distance from the y axis.
    pub distance: f32,
    pub height: f32,
    /// Height of the point that the camera looks at.
    pub target: f32,
}

pub struct Scene {
    pub meshes: Vec<MeshData>,
    pub pictures: Vec<Picture>,
    pub materials: Vec<Material>,
    pub instances: Vec<Instance>,
    pub camera: Camera,
    /// Radius of the part that has shadows, around the origin.
    pub radius: f32,
    /// Direction to the sun.
    pub sun: Vec3,
}

impl Scene {
    /// Returns the position of the camera and the point that it looks at.
    pub fn camera_at(&self, frame: u32) -> (Vec3, Vec3) {
        let Camera { angle, distance, height, target } = self.camera;
        let angle = angle + (1.0 - (frame as f32 * 0.02).cos()) * 0.02;
        (Vec3::new(angle.cos() * distance, height, angle.sin() * distance), Vec3::Y * target)
    }

    /// Returns a tiled floor under a sky.
    pub fn floor() -> Self {
        let mut scene = Self {
            meshes: Vec::new(),
            pictures: pictures::generated(),
            materials: (0..4).map(|pair| Material { albedo: pair * 2, normal: pair * 2 + 1 }).collect(),
            instances: Vec::new(),
            camera: Camera { angle: 0.43, distance: 11.0, height: 3.7, target: 1.8 },
            radius: 13.0,
            sun: Vec3::new(-0.12, 0.62, 0.80).normalize(),
        };
        scene.ground();
        scene
    }

    /// Returns a round place with columns, spheres, and a knot in the middle.
    pub fn generated() -> Self {
        let mut scene = Self::floor();
        scene.columns();
        scene.middle();
        scene.spheres();
        scene
    }

    fn mesh(&mut self, mesh: MeshData) -> usize {
        self.meshes.push(mesh);
        self.meshes.len() - 1
    }

    fn place(&mut self, mesh: usize, material: usize, at: Vec3, look: Look) {
        let transform = Mat4::from_scale_rotation_translation(look.scale, Quat::from_rotation_y(look.turn), at);
        let Look { colour, roughness, metallic, repeat, .. } = look;
        self.instances.push(Instance { mesh, material, transform, colour, roughness, metallic, repeat });
    }

    fn ground(&mut self) {
        let floor = self.mesh(shapes::cuboid(Vec3::new(60.0, 0.5, 60.0)));
        let look = Look { roughness: 0.3, repeat: 0.5, colour: Vec3::new(0.92, 0.88, 0.82), ..Look::default() };
        self.place(floor, TILES, Vec3::new(0.0, -0.5, 0.0), look);
    }

    fn columns(&mut self) {
        let profile: Vec<_> = (0..=5)
            .map(|row| {
                let t = row as f32 / 5.0;
                Vec2::new(0.44 - 0.09 * t * t, 0.35 + t * 4.2)
            })
            .collect();
        let shaft = self.mesh(shapes::lathe(&profile, 120, 20));
        let base = self.mesh(shapes::turned(&points(&[(0.58, 0.16), (0.58, 0.25), (0.5, 0.35), (0.0, 0.35)]), 32));
        let foot = self.mesh(shapes::cuboid(Vec3::new(0.62, 0.09, 0.62)));
        let neck = points(&[(0.35, 4.55), (0.37, 4.6), (0.42, 4.66), (0.55, 4.8), (0.55, 4.85), (0.0, 4.85)]);
        let capital = self.mesh(shapes::turned(&neck, 32));
        let plate = self.mesh(shapes::cuboid(Vec3::new(0.6, 0.07, 0.6)));
        let count = 14;
        let beam = self.mesh(shapes::arc(8.55, 9.45, 0.55, std::f32::consts::TAU / count as f32 * 0.994, 8));
        let cornice = self.mesh(shapes::arc(8.4, 9.65, 0.16, std::f32::consts::TAU / count as f32, 8));
        let stone = Look { colour: Vec3::new(0.93, 0.89, 0.82), roughness: 0.75, repeat: 0.7, ..Look::default() };
        for number in 0..count {
            let angle = (number as f32 + 0.5) / count as f32 * std::f32::consts::TAU;
            let at = Vec3::new(angle.cos(), 0.0, angle.sin()) * 9.0;
            let turned = Look { turn: -angle, ..stone };
            for mesh in [shaft, base, capital] {
                self.place(mesh, STONE, at, turned);
            }
            self.place(foot, STONE, at + Vec3::Y * 0.09, turned);
            self.place(plate, STONE, at + Vec3::Y * 4.92, turned);
            let between = Look { turn: -(angle + std::f32::consts::PI / count as f32), ..stone };
            self.place(beam, STONE, Vec3::Y * 4.99, between);
            self.place(cornice, MARBLE, Vec3::Y * 5.54, between);
        }
    }

    fn middle(&mut self) {
        let marble = Look { roughness: 0.22, colour: Vec3::splat(0.96), repeat: 0.4, ..Look::default() };
        for (radius, low, high) in [(3.4, 0.0, 0.22), (2.7, 0.22, 0.44), (2.0, 0.44, 0.66), (1.0, 0.66, 1.5)] {
            let outline = points(&[(radius, low), (radius, high - 0.04), (radius - 0.04, high), (0.0, high)]);
            let step = self.mesh(shapes::turned(&outline, 96));
            self.place(step, MARBLE, Vec3::ZERO, marble);
        }
        let knot = |t: f32| {
            let away = 1.0 + 0.42 * (3.0 * t).cos();
            Vec3::new((2.0 * t).cos() * away, (3.0 * t).sin() * 0.5, (2.0 * t).sin() * away)
        };
        let knot = self.mesh(shapes::tube(knot, 0.23, [240, 24], 30.0));
        let gold = Look { colour: Vec3::new(1.0, 0.74, 0.32), roughness: 0.2, metallic: 1.0, ..Look::default() };
        self.place(knot, METAL, Vec3::Y * 2.45, Look { turn: 0.5, ..gold });
    }

    fn spheres(&mut self) {
        let ball = self.mesh(shapes::sphere(64));
        let stand = self.mesh(shapes::turned(&points(&[(0.62, 0.0), (0.62, 0.3), (0.56, 0.36), (0.0, 0.36)]), 48));
        let ring = |t: f32| Vec3::new(t.cos(), 0.0, t.sin());
        let torus = self.mesh(shapes::tube(ring, 0.34, [96, 32], 18.0));
        let metal = |colour, roughness| Look { colour, roughness, metallic: 1.0, repeat: 2.0, ..Look::default() };
        let glaze = |colour, roughness| Look { colour, roughness, repeat: 0.5, ..Look::default() };
        let balls = [
            (METAL, metal(Vec3::splat(0.96), 0.03)),
            (PLAIN, glaze(Vec3::new(0.75, 0.06, 0.04), 0.15)),
            (METAL, metal(Vec3::new(0.95, 0.55, 0.38), 0.3)),
            (MARBLE, glaze(Vec3::splat(1.0), 0.12)),
            (PLAIN, glaze(Vec3::new(0.03, 0.16, 0.55), 0.1)),
            (METAL, metal(Vec3::new(0.6, 0.65, 0.7), 0.5)),
            (STONE, glaze(Vec3::new(0.9, 0.7, 0.5), 0.9)),
            (PLAIN, glaze(Vec3::new(0.05, 0.4, 0.16), 0.25)),
            (METAL, metal(Vec3::new(1.0, 0.8, 0.4), 0.12)),
            (PLAIN, glaze(Vec3::new(0.9, 0.62, 0.08), 0.3)),
        ];
        for (number, (material, look)) in balls.into_iter().enumerate() {
            let angle = (number as f32 + 0.3) / 10.0 * std::f32::consts::TAU;
            let at = Vec3::new(angle.cos(), 0.0, angle.sin()) * 5.6;
            let marble = Look { roughness: 0.3, repeat: 0.6, ..Look::default() };
            self.place(stand, MARBLE, at, marble);
            self.place(ball, material, at + Vec3::Y * 1.0, Look { scale: Vec3::splat(0.64), ..look });
        }
        for (number, colour) in [Vec3::new(0.9, 0.9, 0.95), Vec3::new(0.8, 0.35, 0.25)].into_iter().enumerate() {
            let angle = 0.95 + number as f32 * 2.6;
            let at = Vec3::new(angle.cos() * 7.3, 0.27, angle.sin() * 7.3);
            self.place(torus, METAL, at, Look { scale: Vec3::splat(0.8), ..metal(colour, 0.18) });
        }
    }
}

/// The picture of the floor, which surfaces reflect.
pub const FLOOR: usize = 0;

/// Materials of the generated scene.
const TILES: usize = 0;
const STONE: usize = 1;
const MARBLE: usize = 2;
const METAL: usize = 3;
const PLAIN: usize = METAL;

#[derive(Clone, Copy)]
struct Look {
    scale: Vec3,
    turn: f32,
    colour: Vec3,
    roughness: f32,
    metallic: f32,
    repeat: f32,
}

impl Default for Look {
    fn default() -> Self {
        Self { scale: Vec3::ONE, turn: 0.0, colour: Vec3::ONE, roughness: 0.5, metallic: 0.0, repeat: 1.0 }
    }
}

fn points(points: &[(f32, f32)]) -> Vec<Vec2> {
    points.iter().map(|&(x, y)| Vec2::new(x, y)).collect()
}
