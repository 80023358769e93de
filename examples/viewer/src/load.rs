//! A scene from a glTF file: its meshes, its colours and normal maps, on a tiled floor.

use std::collections::HashMap;

use glam::{Mat4, Quat, Vec2, Vec3};

use crate::Failure;
use crate::pictures::{Content, Picture};
use crate::scene::{Camera, Instance, Material, MeshData, Scene, Vertex};

/// Largest side of a picture, in texels.
const SIDE_MAX: u32 = 1024;
/// Radius of the loaded model after it is scaled, in metres.
const RADIUS: f32 = 3.0;

/// Reads a file, and places its default scene on the floor.
pub fn load(path: &str) -> Result<Scene, Failure> {
    let (document, buffers, images) = gltf::import(path)?;
    let mut loader =
        Loader { scene: Scene::floor(), buffers, images, pictures: HashMap::new(), meshes: HashMap::new() };
    // Of the generated pictures, only the tiles are kept.
    loader.scene.pictures.truncate(2);
    loader.scene.materials.truncate(1);
    loader.scene.camera = Camera { angle: 0.7, distance: RADIUS * 2.3, height: RADIUS * 1.0, target: RADIUS * 0.55 };
    loader.scene.radius = RADIUS * 2.2;
    let [white, flat] = [(Content::Albedo, [255; 4]), (Content::Normal, [128, 128, 255, 255])];
    let plain = [white, flat].map(|(content, texel)| loader.add(plain(content, texel)));
    let scene = document.default_scene().or_else(|| document.scenes().next()).ok_or("the file has no scene")?;
    let first = loader.scene.instances.len();
    for node in scene.nodes() {
        loader.node(&node, Mat4::IDENTITY, plain)?;
    }
    if loader.scene.instances.len() == first {
        return Err("the file has no triangles".into());
    }
    loader.fit(first);
    Ok(loader.scene)
}

struct Loader {
    scene: Scene,
    buffers: Vec<gltf::buffer::Data>,
    images: Vec<gltf::image::Data>,
    /// Index of the picture of each image and content.
    pictures: HashMap<(usize, bool), usize>,
    /// Index of the mesh of each primitive.
    meshes: HashMap<(usize, usize), usize>,
}

impl Loader {
    fn add(&mut self, picture: Picture) -> usize {
        self.scene.pictures.push(picture);
        self.scene.pictures.len() - 1
    }

    fn node(&mut self, node: &gltf::Node<'_>, above: Mat4, plain: [usize; 2]) -> Result<(), Failure> {
        let transform = above * Mat4::from_cols_array_2d(&node.transform().matrix());
        if let Some(mesh) = node.mesh() {
            for primitive in mesh.primitives().filter(|part| part.mode() == gltf::mesh::Mode::Triangles) {
                self.primitive(mesh.index(), &primitive, transform, plain)?;
            }
        }
        node.children().try_for_each(|child| self.node(&child, transform, plain))
    }

    fn primitive(
        &mut self,
        mesh: usize,
        primitive: &gltf::Primitive<'_>,
        transform: Mat4,
        [white, flat]: [usize; 2],
    ) -> Result<(), Failure> {
        let key = (mesh, primitive.index());
        if !self.meshes.contains_key(&key) {
            let data = self.mesh(primitive).ok_or("a mesh has no positions")?;
            self.scene.meshes.push(data);
            self.meshes.insert(key, self.scene.meshes.len() - 1);
        }
        let look = primitive.material();
        let metal = look.pbr_metallic_roughness();
        let albedo = metal.base_color_texture().map(|info| info.texture().source().index());
        let normal = look.normal_texture().map(|info| info.texture().source().index());
        let material = Material {
            albedo: albedo.map_or(Ok(white), |image| self.picture(image, Content::Albedo))?,
            normal: normal.map_or(Ok(flat), |image| self.picture(image, Content::Normal))?,
        };
        let materials = &mut self.scene.materials;
        let number = materials.iter().position(|other| *other == material).unwrap_or(materials.len());
        if number == materials.len() {
            materials.push(material);
        }
        let [red, green, blue, _] = metal.base_color_factor();
        // A texture of roughness and metal is not read; its factors are usually 1.
        let is_varied = metal.metallic_roughness_texture().is_some();
        self.scene.instances.push(Instance {
            mesh: self.meshes[&key],
            material: number,
            transform,
            colour: Vec3::new(red, green, blue),
            roughness: if is_varied { 0.5 } else { metal.roughness_factor() },
            metallic: if is_varied { 0.0 } else { metal.metallic_factor() },
            repeat: 1.0,
        });
        Ok(())
    }

    fn mesh(&self, primitive: &gltf::Primitive<'_>) -> Option<MeshData> {
        let reader = primitive.reader(|buffer| self.buffers.get(buffer.index()).map(|data| &data.0[..]));
        let positions: Vec<_> = reader.read_positions()?.map(Vec3::from).collect();
        let indices: Vec<u32> = match reader.read_indices() {
            Some(indices) => indices.into_u32().collect(),
            None => (0..positions.len() as u32).collect(),
        };
        let uvs: Vec<_> = match reader.read_tex_coords(0) {
            Some(uvs) => uvs.into_f32().map(Vec2::from).collect(),
            None => vec![Vec2::ZERO; positions.len()],
        };
        let normals: Vec<_> = match reader.read_normals() {
            Some(normals) => normals.map(Vec3::from).collect(),
            None => sums(&positions, &indices, |[a, b, c]| (b - a).cross(c - a)),
        };
        let tangents: Vec<[f32; 4]> = match reader.read_tangents() {
            Some(tangents) => tangents.collect(),
            None => tangents(&positions, &uvs, &indices),
        };
        let vertices = (0..positions.len())
            .map(|at| Vertex { position: positions[at], normal: normals[at], tangent: tangents[at], uv: uvs[at] })
            .collect();
        Some(MeshData { vertices, indices })
    }

    fn picture(&mut self, image: usize, content: Content) -> Result<usize, Failure> {
        let key = (image, content == Content::Albedo);
        if let Some(picture) = self.pictures.get(&key) {
            return Ok(*picture);
        }
        let picture = square(&self.images[image], content, image)?;
        let number = self.add(picture);
        self.pictures.insert(key, number);
        Ok(number)
    }

    /// Scales the loaded instances, and places them on the floor.
    fn fit(&mut self, first: usize) {
        let (mut low, mut high) = (Vec3::MAX, Vec3::MIN);
        for instance in &self.scene.instances[first..] {
            for vertex in &self.scene.meshes[instance.mesh].vertices {
                let at = instance.transform.transform_point3(vertex.position);
                (low, high) = (low.min(at), high.max(at));
            }
        }
        let scale = RADIUS / ((high - low).length() * 0.5).max(1e-6);
        let base = Vec3::new((low.x + high.x) * 0.5, low.y, (low.z + high.z) * 0.5);
        let fit = Mat4::from_scale_rotation_translation(Vec3::splat(scale), Quat::IDENTITY, -base * scale);
        for instance in &mut self.scene.instances[first..] {
            instance.transform = fit * instance.transform;
        }
    }
}

fn plain(content: Content, texel: [u8; 4]) -> Picture {
    Picture { name: format!("plain/{content:?}"), content, side: 4, texels: vec![texel; 16] }
}

/// Returns an image as a square of a power of two, which the BC formats need for all mips.
fn square(image: &gltf::image::Data, content: Content, number: usize) -> Result<Picture, Failure> {
    use gltf::image::Format;
    let channels = match image.format {
        Format::R8 => 1,
        Format::R8G8 => 2,
        Format::R8G8B8 => 3,
        Format::R8G8B8A8 => 4,
        other => {
            return Err(format!("image {number} has the format {other:?}; the viewer reads 8 bits a channel").into());
        }
    };
    let side = image.width.max(image.height).next_power_of_two().min(SIDE_MAX);
    let texels = (0..side * side).map(|at| {
        let (x, y) = (at % side * image.width / side, at / side * image.height / side);
        let first = (y * image.width + x) as usize * channels;
        let part = |channel: usize| image.pixels[first + channel.min(channels - 1)];
        [part(0), part(1), part(2), 255]
    });
    Ok(Picture { name: format!("image {number}/{content:?}"), content, side, texels: texels.collect() })
}

/// Returns, for each vertex, the sum of `of` over its triangles.
fn sums(positions: &[Vec3], indices: &[u32], of: impl Fn([Vec3; 3]) -> Vec3) -> Vec<Vec3> {
    let mut sums = vec![Vec3::ZERO; positions.len()];
    for triangle in indices.chunks_exact(3) {
        let corners = [triangle[0], triangle[1], triangle[2]].map(|index| index as usize);
        let vector = of(corners.map(|at| positions[at]));
        corners.into_iter().for_each(|at| sums[at] += vector);
    }
    sums.into_iter().map(|sum| sum.normalize_or(Vec3::Y)).collect()
}

/// Returns tangents in the direction in which u grows.
fn tangents(positions: &[Vec3], uvs: &[Vec2], indices: &[u32]) -> Vec<[f32; 4]> {
    let mut sums = vec![Vec3::ZERO; positions.len()];
    for triangle in indices.chunks_exact(3) {
        let corners = [triangle[0], triangle[1], triangle[2]].map(|index| index as usize);
        let [a, b, c] = corners.map(|at| positions[at]);
        let [ua, ub, uc] = corners.map(|at| uvs[at]);
        let (p, q, s, t) = (b - a, c - a, ub - ua, uc - ua);
        let area = s.x * t.y - t.x * s.y;
        let tangent = if area.abs() > 1e-12 { (p * t.y - q * s.y) / area } else { p };
        corners.into_iter().for_each(|at| sums[at] += tangent);
    }
    sums.into_iter().map(|sum| sum.normalize_or(Vec3::X).extend(1.0).to_array()).collect()
}
