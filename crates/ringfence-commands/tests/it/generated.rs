//! Generated frames of commands, compared with a model on the host. One frame in eight is discarded.

use ringfence::commands::{BufferTexels, CommandError, SubresourceRange, TexelOrigin};
use ringfence::device::{Dimension, Format, TexelBox, TextureDesc, TextureUsage};
use ringfence::sim::rng::Rng;
use ringfence::sim::{Device, Profile};
use ringfence::{Buffer, Texture};

use super::program::{Program, Recorder};

/// Texels of four bytes: for each mip level, layer after layer, slice after slice, row after row.
#[derive(Clone, PartialEq, Debug)]
struct Model {
    desc: TextureDesc,
    levels: Vec<Vec<[u8; 4]>>,
}

impl Model {
    fn new(desc: TextureDesc) -> Self {
        let mut model = Self { desc, levels: Vec::new() };
        for mip in 0..desc.mips {
            let texels = model.extent(mip).iter().product::<u32>() * desc.layers;
            model.levels.push(vec![[0; 4]; texels as usize]);
        }
        model
    }

    fn extent(&self, mip: u32) -> [u32; 3] {
        [self.desc.width, self.desc.height, self.desc.depth].map(|side| (side >> mip).max(1))
    }

    /// Returns the indices of the texels of a box in its mip level, in the order of their coordinates.
    fn texels(&self, part: &TexelBox) -> Vec<usize> {
        let [width, height, depth] = self.extent(part.mip);
        let mut texels = Vec::new();
        for layer in part.layer..part.layer + part.layers {
            for z in part.z..part.z + part.depth {
                for y in part.y..part.y + part.height {
                    let row = (((layer * depth + z) * height + y) * width + part.x) as usize;
                    texels.extend(row..row + part.width as usize);
                }
            }
        }
        texels
    }

    fn cut(&self, part: &TexelBox) -> Vec<[u8; 4]> {
        self.texels(part).into_iter().map(|at| self.levels[part.mip as usize][at]).collect()
    }

    fn paste(&mut self, part: &TexelBox, texels: &[[u8; 4]]) {
        for (at, texel) in self.texels(part).into_iter().zip(texels) {
            self.levels[part.mip as usize][at] = *texel;
        }
    }

    fn whole(&self, mip: u32) -> TexelBox {
        let ([width, height, depth], layers) = (self.extent(mip), self.desc.layers);
        let aspect = Default::default();
        TexelBox { aspect, mip, layer: 0, layers, x: 0, y: 0, z: 0, width, height, depth }
    }
}

/// Two textures, a buffer, and their models.
struct World {
    program: Program,
    textures: [Texture<Device>; 2],
    buffer: Buffer<Device>,
    models: [Model; 2],
    bytes: Vec<u8>,
}

const BUFFER: u64 = 8192;
const ROW: u64 = 256;

impl World {
    fn new(profile: Profile, shape: TextureDesc, seed: u64) -> Self {
        let usage = TextureUsage::COPY_SRC | TextureUsage::COPY_DST | TextureUsage::RENDER_TARGET;
        let descs = [Format::Rgba8Unorm, Format::Rgba8UnormSrgb].map(|format| TextureDesc { format, usage, ..shape });
        let program = Program::new(profile, seed);
        let textures = descs.map(|desc| program.texture(desc));
        let buffer = program.device_buffer(BUFFER);
        let world = Self { program, textures, buffer, models: descs.map(Model::new), bytes: vec![0; BUFFER as usize] };
        world.program.run(|commands| {
            let all = SubresourceRange { mip: 0, mips: shape.mips, layer: 0, layers: shape.layers };
            world.textures.iter().try_for_each(|texture| commands.clear_color(texture, all, [0.0; 4]))?;
            commands.fill_buffer(&world.buffer, 0..BUFFER, 0)
        });
        world
    }

    /// Records some commands in a frame and applies them to the models.
    fn frame(&mut self, dice: &mut Rng) {
        let (mut models, mut bytes) = (self.models.clone(), self.bytes.clone());
        let (frame, list, result) = self.program.record(|commands| {
            (0..1 + dice.below(5)).try_for_each(|_| self.step(commands, dice, &mut models, &mut bytes))
        });
        result.expect("the commands are valid");
        if dice.below(8) == 0 {
            return frame.discard();
        }
        self.program.submit(frame, list);
        (self.models, self.bytes) = (models, bytes);
    }

    fn step(
        &self,
        commands: &mut Recorder<'_>,
        dice: &mut Rng,
        models: &mut [Model; 2],
        bytes: &mut [u8],
    ) -> Result<(), CommandError> {
        let (one, two) = (dice.below(2) as usize, dice.below(2) as usize);
        let part = any_box(dice, &models[one]);
        let offset = dice.below(4) * 512;
        let (texture, at) = (&self.textures[one], BufferTexels { offset, row_bytes: ROW, layer_bytes: 1024 });
        let rows = |bytes: &[u8]| -> Vec<[u8; 4]> { texels_at(bytes, &part, at) };
        match dice.below(6) {
            0 => {
                let range = SubresourceRange { mip: part.mip, mips: 1, layer: part.layer, layers: part.layers };
                let texel = [(); 4].map(|()| 255 * dice.below(2) as u8);
                commands.clear_color(texture, range, texel.map(|channel| f32::from(channel) / 255.0))?;
                let TexelBox { layer, layers, .. } = part;
                let cleared = TexelBox { layer, layers, ..models[one].whole(part.mip) };
                let count = models[one].texels(&cleared).len();
                models[one].paste(&cleared, &vec![texel; count]);
            }
            1 => {
                let (first, last) = (dice.below(BUFFER / 8) * 4, BUFFER / 2 + dice.below(BUFFER / 8) * 4);
                let value = dice.below(1 << 32) as u32;
                commands.fill_buffer(&self.buffer, first..last, value)?;
                bytes[first as usize..last as usize]
                    .chunks_mut(4)
                    .for_each(|word| word.copy_from_slice(&value.to_le_bytes()));
            }
            2 => {
                commands.copy_buffer_to_box(&self.buffer, at, texture, &part)?;
                models[one].paste(&part, &rows(bytes));
            }
            3 => {
                commands.copy_box_to_buffer(texture, &part, &self.buffer, at)?;
                let texels = models[one].cut(&part);
                offsets(&part, at).zip(texels).for_each(|(at, texel)| bytes[at..at + 4].copy_from_slice(&texel));
            }
            _ => {
                let Some(to) = any_place(dice, &models[two], &part).filter(|to| one != two || to.mip != part.mip)
                else {
                    return Ok(());
                };
                commands.copy_box(texture, &part, &self.textures[two], to)?;
                let texels = models[one].cut(&part);
                let TexelOrigin { mip, layer, x, y, z } = to;
                models[two].paste(&TexelBox { mip, layer, x, y, z, ..part }, &texels);
            }
        }
        Ok(())
    }

    /// Compares the device with the models.
    fn check(&self) {
        assert!(self.program.peek(&self.buffer) == self.bytes, "bytes of the buffer");
        for (texture, model) in self.textures.iter().zip(&self.models) {
            for mip in 0..model.desc.mips {
                let part = model.whole(mip);
                let layer_bytes = (ROW * u64::from(part.height * part.depth)).next_multiple_of(512);
                let at = BufferTexels { offset: 0, row_bytes: ROW, layer_bytes };
                let back = self.program.device_buffer(layer_bytes * u64::from(part.layers));
                self.program.run(|commands| commands.copy_box_to_buffer(texture, &part, &back, at));
                let found = texels_at(&self.program.peek(&back), &part, at);
                assert!(found == model.cut(&part), "mip {mip} of {:?}", model.desc);
            }
        }
        assert_eq!(self.program.device.take_hazards(), []);
    }
}

/// Returns the offsets of the texels of a box in a buffer.
fn offsets(part: &TexelBox, at: BufferTexels) -> impl Iterator<Item = usize> + use<> {
    let TexelBox { layers, depth, height, width, .. } = *part;
    let rows = (0..layers).flat_map(move |layer| (0..depth * height).map(move |row| (layer, row)));
    rows.flat_map(move |(layer, row)| {
        let first = at.offset + u64::from(layer) * at.layer_bytes + u64::from(row) * at.row_bytes;
        (0..width).map(move |x| (first + u64::from(x) * 4) as usize)
    })
}

fn texels_at(bytes: &[u8], part: &TexelBox, at: BufferTexels) -> Vec<[u8; 4]> {
    offsets(part, at).map(|at| bytes[at..at + 4].try_into().expect("four bytes")).collect()
}

fn span(dice: &mut Rng, size: u32, most: u32) -> (u32, u32) {
    let count = 1 + dice.below(size.min(most).into()) as u32;
    (dice.below(u64::from(size - count) + 1) as u32, count)
}

/// Returns a random box that fits in the buffer: at most 2 layers of 4 rows.
fn any_box(dice: &mut Rng, model: &Model) -> TexelBox {
    let whole = model.whole(dice.below(model.desc.mips.into()) as u32);
    let ((x, width), (y, height)) = (span(dice, whole.width, 64), span(dice, whole.height, 2));
    let ((z, depth), (layer, layers)) = (span(dice, whole.depth, 2), span(dice, whole.layers, 2));
    TexelBox { layer, layers, x, y, z, width, height, depth, ..whole }
}

fn any_place(dice: &mut Rng, model: &Model, part: &TexelBox) -> Option<TexelOrigin> {
    let mip = dice.below(model.desc.mips.into()) as u32;
    let ([width, height, depth], mut place) = (model.extent(mip), |size: u32, count: u32| {
        size.checked_sub(count).map(|room| dice.below(u64::from(room) + 1) as u32)
    });
    let (x, y, z) = (place(width, part.width)?, place(height, part.height)?, place(depth, part.depth)?);
    Some(TexelOrigin { mip, layer: place(model.desc.layers, part.layers)?, x, y, z })
}

#[test]
fn generated_commands_equal_their_model() {
    let flat = TextureDesc { width: 13, height: 7, mips: 3, ..Default::default() };
    let shapes = [
        TextureDesc { dimension: Dimension::D1, height: 1, layers: 3, ..flat },
        TextureDesc { layers: 3, ..flat },
        TextureDesc { dimension: Dimension::Cube, width: 8, height: 8, layers: 6, ..flat },
        TextureDesc { dimension: Dimension::D3, depth: 5, ..flat },
    ];
    let mut dice = Rng::new(391);
    for profile in [Profile::h200(), Profile::non_coherent(), Profile::d3d12_tier1()] {
        for (seed, shape) in (0..).zip(shapes) {
            let mut world = World::new(profile.clone(), shape, seed);
            for _ in 0..20 {
                (0..15).for_each(|_| world.frame(&mut dice));
                world.check();
            }
        }
    }
}
