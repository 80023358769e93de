//! The expected texels of a texture on the host, and the read-back of its texels.

use ringfence::device::{Device, TexelBox, TextureAspect, TextureDesc};
use ringfence::upload::{Readback, ReadbackDesc};
use ringfence::{ReadbackRing, Texture};
use ringfence_testkit::{Command, Gpu};

use crate::device_suite::rig::{PATIENCE, Rig};

/// Size of the ring for read-back, in bytes.
const ROOM: u64 = 1 << 20;

/// Expected bytes of one aspect of a texture: for each layer of each mip level, tight rows of blocks, slice after slice.
#[derive(Clone, PartialEq)]
pub struct Picture {
    desc: TextureDesc,
    pub aspect: TextureAspect,
    levels: Vec<Vec<u8>>,
}

impl Picture {
    /// Returns a picture in which the bytes of each subresource are made by `fill`, from mip, layer and size.
    pub fn new(desc: TextureDesc, aspect: TextureAspect, fill: impl Fn(u32, u32, usize) -> Vec<u8>) -> Self {
        let mut picture = Self { desc, aspect, levels: Vec::new() };
        for mip in 0..desc.mips {
            let size = picture.bytes(mip);
            picture.levels.extend((0..desc.layers).map(|layer| fill(mip, layer, size)));
        }
        picture
    }

    pub fn desc(&self) -> &TextureDesc {
        &self.desc
    }

    pub fn extent(&self, mip: u32) -> [u32; 3] {
        [self.desc.width, self.desc.height, self.desc.depth].map(|side| (side >> mip).max(1))
    }

    pub fn block_bytes(&self) -> usize {
        self.desc.format.texels().block_bytes(self.aspect).expect("it has the aspect") as usize
    }

    /// Returns the number of blocks across, down and deep.
    pub fn blocks(&self, [width, height, depth]: [u32; 3]) -> [usize; 3] {
        let [across, down] = self.desc.format.texels().block();
        [width.div_ceil(across), height.div_ceil(down), depth].map(|count| count as usize)
    }

    fn bytes(&self, mip: u32) -> usize {
        self.blocks(self.extent(mip)).iter().product::<usize>() * self.block_bytes()
    }

    pub fn level(&mut self, mip: u32, layer: u32) -> &mut Vec<u8> {
        &mut self.levels[(mip * self.desc.layers + layer) as usize]
    }

    /// Returns the box of all texels of a mip level, in all layers.
    pub fn whole(&self, mip: u32) -> TexelBox {
        let ([width, height, depth], layers) = (self.extent(mip), self.desc.layers);
        TexelBox { aspect: self.aspect, mip, layer: 0, layers, x: 0, y: 0, z: 0, width, height, depth }
    }

    /// Returns the offsets of the rows of blocks of a box in its level, and their size, in bytes.
    fn rows(&self, part: &TexelBox) -> (Vec<usize>, usize) {
        let [pitch, height, _] = self.blocks(self.extent(part.mip));
        let [across, down] = self.desc.format.texels().block();
        let [count, rows, slices] = self.blocks(part.extent());
        let (x, y, z) = ((part.x / across) as usize, (part.y / down) as usize, part.z as usize);
        let each = (z..z + slices).flat_map(|z| (y..y + rows).map(move |y| (z * height + y) * pitch + x));
        (each.map(|block| block * self.block_bytes()).collect(), count * self.block_bytes())
    }

    /// Returns the bytes of a box, layer after layer, without padding.
    pub fn cut(&mut self, part: &TexelBox) -> Vec<u8> {
        let (rows, size) = self.rows(part);
        let layers = part.layer..part.layer + part.layers;
        let of = |layer| rows.iter().flat_map(|&at| self.level(part.mip, layer)[at..at + size].to_vec()).collect();
        layers.map(of).collect::<Vec<Vec<u8>>>().concat()
    }

    /// Sets the bytes of a box.
    pub fn paste(&mut self, part: &TexelBox, bytes: &[u8]) {
        let ((rows, size), mut bytes) = (self.rows(part), bytes.chunks_exact(self.rows(part).1));
        for layer in part.layer..part.layer + part.layers {
            let level = self.level(part.mip, layer);
            rows.iter().for_each(|&at| level[at..at + size].copy_from_slice(bytes.next().expect("a row")));
        }
    }

    /// Reads the whole texture and compares it.
    pub fn check<G: Gpu>(&mut self, rig: &mut Rig<G>, texture: &Texture<G::Device>, what: &str) {
        for (mip, found) in (0..self.desc.mips).zip(self.read(rig, texture)) {
            let expected = self.cut(&self.whole(mip));
            let differs = found.iter().zip(&expected).position(|(found, expected)| found != expected);
            let some = |bytes: &[u8]| bytes[differs.unwrap_or(0)..].iter().take(16).copied().collect::<Vec<u8>>();
            let (some_found, some_expected) = (some(&found), some(&expected));
            let of = format!("{what}, mip {mip} of {:?}: {some_found:?}, {some_expected:?}", self.desc);
            assert_eq!(differs, None, "{of}: first different byte");
        }
    }

    /// Reads all mip levels, each with all layers.
    pub fn read<G: Gpu>(&self, rig: &mut Rig<G>, texture: &Texture<G::Device>) -> Vec<Vec<u8>> {
        let ring = ReadbackRing::new(&rig.memory, ReadbackDesc { capacity: ROOM, ..Default::default() });
        let (ring, frame) = (ring.expect("there is room"), rig.timeline().begin());
        let reserve = |mip| ring.reserve_box(&frame, texture, &self.whole(mip)).expect("there is room");
        let results: Vec<_> = (0..self.desc.mips).map(reserve).collect();
        let reads = results.iter().flat_map(|result| result.reads().to_vec()).collect();
        rig.submit(frame, &[Command::ReadTexels(reads)]);
        results.iter().map(|result| self.bytes_of(result)).collect()
    }

    fn bytes_of<D: Device>(&self, result: &Readback<D>) -> Vec<u8> {
        result.wait(PATIENCE).expect("the device is not lost");
        let mut bytes = vec![0; result.read_bytes() as usize];
        result.read(&mut bytes).expect("it is there");
        let is_24_bits = format!("{:?}", self.desc.format).contains("D24") && self.aspect == TextureAspect::Depth;
        bytes.chunks_exact_mut(4).filter(|_| is_24_bits).for_each(|texel| texel[3] = 0);
        bytes
    }
}
