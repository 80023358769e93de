//! Texels of every format, shape, mip level, layer and aspect, whole and in parts. They are uploaded by the library and
//! read with plain copies, then written with plain copies and read back by the library. The expected bytes are computed
//! only from the name of the format.

use crate::{Command, Gpu, Subresource};
use ringfence::device::{
    Device, Dimension, Driver, Format, Native, TexelBox, TexelError, TexelFormat, TextureAspect, TextureDesc,
    TextureUsage,
};
use ringfence::upload::{BatchError, Readback, ReadbackDesc, TexelTarget, Texels, UploadError};
use ringfence::{AllocationDesc, Buffer, Location, ReadbackRing, Texture, UploadBatch, UploadRing};

use super::upload::{WAIT, ring};
use crate::rig::{PATIENCE, Rig, pattern};

/// Facts that the name of a format contains: the size of a block, and the bytes of each aspect of a block.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Facts {
    name: String,
    block: [u32; 2],
    aspects: Vec<(TextureAspect, u32)>,
}

impl Facts {
    fn of(name: &str) -> Self {
        let (lower, color) = (name.to_lowercase(), TextureAspect::Color);
        let (depth, stencil) = (TextureAspect::Depth, TextureAspect::Stencil);
        let has = |part: &str| lower.contains(part);
        let mut aspects: Vec<_> = [("d16", 2), ("d24", 4), ("d32", 4)]
            .into_iter()
            .filter(|(part, _)| has(part))
            .map(|(_, bytes)| (depth, bytes))
            .collect();
        if lower.starts_with("s8_") || lower.starts_with("s8u") || (has("s8") && !aspects.is_empty()) {
            aspects.push((stencil, 1));
        }
        let mut block = [1, 1];
        if let Some(sizes) = lower.strip_prefix("astc_").or(lower.strip_prefix("astc")) {
            let numbers = sizes.split(|letter: char| !letter.is_ascii_digit()).filter_map(|number| number.parse().ok());
            block = numbers.take(2).collect::<Vec<u32>>().try_into().expect("two numbers");
            aspects.push((color, 16));
        } else if ["bc", "etc2", "eac"].iter().any(|start| lower.starts_with(start)) {
            let half = ["bc1", "bc4", "etc2_r8g8b8_", "etc2_r8g8b8a1", "eac_r11_", "etc2rgb8", "eacr11"];
            block = [4, 4];
            aspects.push((color, if half.iter().any(|start| lower.starts_with(start)) { 8 } else { 16 }));
        } else if aspects.is_empty() {
            aspects.push((color, channel_bits(&lower) / 8));
        }
        Self { name: name.to_owned(), block, aspects }
    }

    fn bytes(&self, aspect: TextureAspect) -> u32 {
        self.aspects.iter().find(|(held, _)| *held == aspect).expect("it has that aspect").1
    }

    /// Returns the number of blocks in a row, and the number of rows of blocks in all slices together.
    fn blocks(&self, [width, height, depth]: [u32; 3]) -> [usize; 2] {
        [width.div_ceil(self.block[0]) as usize, (height.div_ceil(self.block[1]) * depth) as usize]
    }

    fn tight_bytes(&self, extent: [u32; 3], aspect: TextureAspect) -> usize {
        let [across, rows] = self.blocks(extent);
        across * rows * self.bytes(aspect) as usize
    }

    /// Returns valid texels of this format, as bytes: depth is from 0 to 1, and 24-bit depth leaves 8 bits unused.
    fn content(&self, seed: u64, size: usize, aspect: TextureAspect) -> Vec<u8> {
        let mut bytes = pattern(seed, size);
        for (index, texel) in bytes.chunks_exact_mut(4).enumerate().filter(|_| aspect == TextureAspect::Depth) {
            if self.name.contains("D32") {
                texel.copy_from_slice(&(((index as u64 * 7 + seed) % 1021) as f32 / 1021.0).to_le_bytes());
            } else if self.name.contains("D24") {
                texel[3] = 0;
            }
        }
        bytes
    }

    /// Clears the unused bits of bytes that were read back, as [`Facts::content`] does.
    fn masked(&self, mut bytes: Vec<u8>, aspect: TextureAspect) -> Vec<u8> {
        if self.name.contains("D24") && aspect == TextureAspect::Depth {
            bytes.chunks_exact_mut(4).for_each(|texel| texel[3] = 0);
        }
        bytes
    }

    fn format(&self) -> TexelFormat {
        let bytes = |wanted| self.aspects.iter().find(|(held, _)| *held == wanted).map_or(0, |(_, bytes)| *bytes);
        match bytes(TextureAspect::Color) {
            0 => TexelFormat::depth_stencil(bytes(TextureAspect::Depth), bytes(TextureAspect::Stencil)),
            color => TexelFormat::compressed(self.block[0], self.block[1], color),
        }
    }
}

/// Returns the number of bits of all channels in a name: each group of letters is followed by the bits per channel.
fn channel_bits(name: &str) -> u32 {
    let (mut bits, mut letters, mut number) = (0, 0, 0);
    for letter in name.chars().chain(['.']) {
        match letter.to_digit(10) {
            Some(digit) => number = number * 10 + digit,
            None if number > 0 => {
                bits += letters * number;
                (letters, number) = (0, 0);
                if !"rgbaxe".contains(letter) {
                    return bits;
                }
                letters += 1;
            }
            None if "rgbaxe".contains(letter) => letters += 1,
            None => return bits,
        }
    }
    bits
}

fn mip_extent(desc: &TextureDesc, mip: u32) -> [u32; 3] {
    [desc.width, desc.height, desc.depth].map(|side| (side >> mip).max(1))
}

/// Visits the rows of blocks of a box. `visit` gets the offset in the box, the offset in the whole subresource, and the
/// length, in bytes.
fn rows_of(facts: &Facts, size: [u32; 3], part: &TexelBox, mut visit: impl FnMut(usize, usize, usize)) {
    let bytes = facts.bytes(part.aspect) as usize;
    let [across, down] = facts.block;
    let ([pitch, rows], [_, slice_rows]) = (facts.blocks(size), facts.blocks([size[0], size[1], 1]));
    assert_eq!(rows, slice_rows * size[2] as usize);
    let (count, row) = (part.width.div_ceil(across) as usize * bytes, part.height.div_ceil(down));
    let mut at = 0;
    for z in part.z..part.z + part.depth {
        for y in part.y / down..part.y / down + row {
            let block = (z as usize * slice_rows + y as usize) * pitch + (part.x / across) as usize;
            visit(at, block * bytes, count);
            at += count;
        }
    }
}

fn paste(facts: &Facts, size: [u32; 3], part: &TexelBox, from: &[u8], whole: &mut [u8]) {
    rows_of(facts, size, part, |at, to, count| whole[to..to + count].copy_from_slice(&from[at..at + count]));
}

/// A texture and its expected contents: the bytes of each aspect of each layer of each mip level.
struct Subject<D: Device> {
    facts: Facts,
    desc: TextureDesc,
    texture: Texture<D>,
    whole: Vec<(Part, Vec<u8>)>,
}

/// One aspect of one mip level of one layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Part {
    mip: u32,
    layer: u32,
    aspect: TextureAspect,
}

impl<D: Device> Subject<D> {
    fn parts(&self) -> impl Iterator<Item = Part> {
        let (mips, layers, aspects) = (self.desc.mips, self.desc.layers, self.facts.aspects.clone());
        (0..mips).flat_map(move |mip| {
            let aspects = aspects.clone();
            (0..layers)
                .flat_map(move |layer| aspects.clone().into_iter().map(move |(aspect, _)| Part { mip, layer, aspect }))
        })
    }

    /// Sets new expected contents for every part.
    fn refill(&mut self, seed: u64) {
        let fill = |(index, part): (usize, Part)| {
            let size = self.facts.tight_bytes(mip_extent(&self.desc, part.mip), part.aspect);
            (part, self.facts.content(seed + index as u64 * 977, size, part.aspect))
        };
        self.whole = self.parts().enumerate().map(fill).collect();
    }

    fn whole_of(&mut self, part: Part) -> &mut Vec<u8> {
        &mut self.whole.iter_mut().find(|(held, _)| *held == part).expect("it has that part").1
    }

    /// Returns the bytes of a mip level for a range of layers, one layer after the other.
    fn layers_of(&self, mip: u32, layers: std::ops::Range<u32>, aspect: TextureAspect) -> Vec<u8> {
        let held = self
            .whole
            .iter()
            .filter(|(part, _)| (part.mip, part.aspect) == (mip, aspect) && layers.contains(&part.layer));
        held.flat_map(|(_, bytes)| bytes.clone()).collect()
    }
}

/// Rings and buffers that the checks of all textures share.
struct Bench<D: Device> {
    ring: UploadRing<D>,
    results: ReadbackRing<D>,
    /// Buffer from which plain copies read.
    from: Buffer<D>,
    back: Buffer<D>,
}

/// Size of each buffer and ring, in bytes.
const ROOM: u64 = 4 << 20;
/// Alignment of plain copies in their buffer, in bytes: a multiple of 512 and of the size of every texel.
const PLAIN_ALIGNMENT: u64 = 1536;

impl<D: Device> Bench<D> {
    fn new<G: Gpu<Device = D>>(rig: &Rig<G>) -> Self {
        let results = ReadbackRing::new(&rig.memory, ReadbackDesc { capacity: ROOM, ..Default::default() });
        Self {
            ring: ring(rig, ROOM, WAIT),
            results: results.expect("there is room"),
            from: rig.buffer(ROOM, Location::Upload, "plain bytes"),
            back: rig.buffer(ROOM, Location::Readback, "plain bytes back"),
        }
    }
}

/// Parts of a texture, each with its layout in a buffer.
type PlainParts = Vec<(Part, Subresource)>;

/// Returns plain copies of every part, to or from the texture, and the layout of each part in the buffer.
fn plain_copies<G: Gpu>(
    rig: &Rig<G>,
    subject: &Subject<G::Device>,
    buffer: &Buffer<G::Device>,
    into_texture: bool,
) -> (PlainParts, Vec<Command<G::Device>>) {
    let (facts, mut end) = (&subject.facts, 0_u64);
    let copies = subject.parts().map(|part| {
        let extent = mip_extent(&subject.desc, part.mip);
        let [across, rows] = facts.blocks(extent);
        let block_bytes = facts.bytes(part.aspect);
        // With texels of 3, 6 or 12 bytes, Direct3D 12 over Vulkan needs row pitches of whole texels.
        let has_both = facts.aspects.len() > 1;
        let pitch = rig.gpu.subresource_pitch(has_both) * if block_bytes.is_multiple_of(3) { 3 } else { 1 };
        let row_bytes = (across as u64 * u64::from(block_bytes)).next_multiple_of(pitch);
        let buffer_offset = end.next_multiple_of(PLAIN_ALIGNMENT);
        end = buffer_offset + row_bytes * rows as u64;
        let Part { mip, layer, aspect } = part;
        let block = facts.block;
        let place = Subresource { buffer_offset, row_bytes, mip, layer, aspect, has_both, extent, block, block_bytes };
        let (buffer, texture) = (buffer.object().clone(), subject.texture.object().clone());
        let discard = into_texture && aspect == facts.aspects[0].0;
        ((part, place), Command::CopySubresource { buffer, texture, part: place, into_texture, discard })
    });
    let copies = copies.unzip();
    assert!(end <= ROOM, "{end} bytes");
    copies
}

/// Checks with plain copies that the texture has its expected contents.
fn assert_holds<G: Gpu>(rig: &mut Rig<G>, bench: &Bench<G::Device>, subject: &Subject<G::Device>, what: &str) {
    let (copies, commands) = plain_copies(rig, subject, &bench.back, false);
    rig.run(&commands);
    for (part, place) in &copies {
        let expected = &subject.whole.iter().find(|(held, _)| held == part).expect("it has that part").1;
        let [across, rows] = subject.facts.blocks(place.extent);
        let row = across * place.block_bytes as usize;
        let mut seen = Vec::new();
        for index in 0..rows as u64 {
            let mut bytes = vec![0; row];
            bench.back.read(place.buffer_offset + index * place.row_bytes, &mut bytes).expect("it is mapped");
            seen.extend(bytes);
        }
        let seen = subject.facts.masked(seen, part.aspect);
        assert_same(&seen, expected, &format!("{what}: {} {:?} {part:?}", subject.facts.name, subject.desc));
    }
}

fn assert_same(seen: &[u8], expected: &[u8], what: &str) {
    let wrong = seen.iter().zip(expected).filter(|(seen, expected)| seen != expected).count();
    let first = seen.iter().zip(expected).position(|(seen, expected)| seen != expected);
    assert_eq!(seen.len(), expected.len(), "{what}");
    assert_eq!(wrong, 0, "{what}: bytes of {} differ, the first at {first:?}", expected.len());
}

/// Writes every part with plain copies.
fn write_plainly<G: Gpu>(rig: &mut Rig<G>, bench: &mut Bench<G::Device>, subject: &Subject<G::Device>) {
    let (copies, commands) = plain_copies(rig, subject, &bench.from, true);
    for (part, place) in &copies {
        let bytes = &subject.whole.iter().find(|(held, _)| held == part).expect("it has that part").1;
        let row = subject.facts.blocks(place.extent)[0] * place.block_bytes as usize;
        for (index, row) in bytes.chunks(row).enumerate() {
            let offset = place.buffer_offset + index as u64 * place.row_bytes;
            bench.from.write(offset, row).expect("it is mapped");
        }
    }
    rig.run(&commands);
}

/// Returns `true` if each mip level needs its own batch. Synchronization validation computes block-compressed regions
/// wrongly (KhronosGroup/Vulkan-ValidationLayers#3894; in 1.3.239 and still in 1.4.309), so it reports overlaps of
/// copies to different mip levels. A barrier between them avoids these messages, so that all other messages can be
/// checked.
fn has_batch_per_mip(facts: &Facts) -> bool {
    facts.block != [1, 1]
}

/// Returns a box with its bytes. For block-compressed one-dimensional arrays, which only SwiftShader supports, splits
/// it by layer, because the validation layers compute layers wrongly too.
fn split_layers<'a, D: Device>(
    subject: &Subject<D>,
    (part, bytes): &'a (TexelBox, Vec<u8>),
) -> Vec<(TexelBox, &'a [u8])> {
    let is_split = has_batch_per_mip(&subject.facts) && subject.desc.dimension == Dimension::D1;
    let count = if is_split { part.layers } else { 1 };
    let layers = part.layers / count;
    let of = |index: u32| TexelBox { layer: part.layer + index * layers, layers, ..*part };
    (0..count).map(of).zip(bytes.chunks(bytes.len() / count as usize)).collect()
}

/// Uploads texels to boxes of the texture, in one batch or in one batch per mip level.
fn upload_boxes<G: Gpu>(
    rig: &mut Rig<G>,
    bench: &Bench<G::Device>,
    subject: &Subject<G::Device>,
    (boxes, discard): (&[(TexelBox, Vec<u8>)], bool),
) {
    let frame = rig.timeline().begin();
    let (mut batches, mut last) = (Vec::new(), None);
    bench.ring.write_for(&frame, &[1; 5], 1).expect("there is room"); // the next write is then not aligned by chance
    for (part, bytes) in boxes.iter().flat_map(|held| split_layers(subject, held)) {
        let texels = Texels::of(subject.facts.format(), part.extent(), bytes).layers(part.layers).aspect(part.aspect);
        let staged = bench.ring.write_texels(&frame, &texels).expect("there is room");
        let TexelBox { mip, layer, x, y, z, .. } = part;
        let at = (mip, if subject.desc.dimension == Dimension::D1 { layer } else { 0 });
        if batches.is_empty() || (has_batch_per_mip(&subject.facts) && last != Some(at)) {
            batches.push(UploadBatch::new());
        }
        last = Some(at);
        let batch = batches.last_mut().expect("there is one");
        let target = TexelTarget { mip, layer, x, y, z, discard };
        batch.copy_texels(&staged, &subject.texture, target).expect("it fits");
    }
    let commands: Vec<_> = batches.into_iter().map(|batch| Command::Upload(Box::new(batch))).collect();
    let value = rig.submit(frame, &commands);
    assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
}

/// Uploads every mip level of every aspect, all layers at once.
fn upload_whole<G: Gpu>(rig: &mut Rig<G>, bench: &Bench<G::Device>, subject: &Subject<G::Device>) {
    let boxes =
        whole_boxes(subject).into_iter().map(|part| (part, subject.layers_of(part.mip, 0..part.layers, part.aspect)));
    let boxes: Vec<_> = boxes.collect();
    upload_boxes(rig, bench, subject, (&boxes, true));
}

/// Reads boxes of the texture back through the ring.
fn read_boxes<G: Gpu>(
    rig: &mut Rig<G>,
    bench: &Bench<G::Device>,
    subject: &Subject<G::Device>,
    boxes: &[TexelBox],
) -> Vec<Vec<u8>> {
    let frame = rig.timeline().begin();
    let reserve = |part: &TexelBox| bench.results.reserve_box(&frame, &subject.texture, part).expect("there is room");
    let results: Vec<Readback<G::Device>> = boxes.iter().map(reserve).collect();
    let reads = results.iter().flat_map(|result| result.reads().to_vec()).collect();
    rig.submit(frame, &[Command::ReadTexels(reads)]);
    let read = |(result, part): (&Readback<G::Device>, &TexelBox)| {
        result.wait(PATIENCE).expect("the device is not lost");
        let mut bytes = vec![0; usize::try_from(result.read_bytes()).expect("it fits the host")];
        result.read(&mut bytes).expect("it is there");
        subject.facts.masked(bytes, part.aspect)
    };
    results.iter().zip(boxes).map(read).collect()
}

fn whole_boxes<D: Device>(subject: &Subject<D>) -> Vec<TexelBox> {
    let (aspects, layers) = (subject.facts.aspects.clone(), subject.desc.layers);
    let of = |mip| {
        let [width, height, depth] = mip_extent(&subject.desc, mip);
        let texels = TexelBox { aspect: aspects[0].0, mip, layer: 0, layers, x: 0, y: 0, z: 0, width, height, depth };
        aspects.iter().map(move |(aspect, _)| TexelBox { aspect: *aspect, ..texels }).collect::<Vec<_>>()
    };
    (0..subject.desc.mips).flat_map(of).collect()
}

/// Returns boxes at the far sides of each mip level: they start at the second block, if there is one.
fn far_boxes<D: Device>(subject: &Subject<D>) -> Vec<TexelBox> {
    let inner = |size: u32, block: u32| if size > block { (block, size - block) } else { (0, size) };
    let shrink = |part: TexelBox| {
        let ((x, width), (y, height)) =
            (inner(part.width, subject.facts.block[0]), inner(part.height, subject.facts.block[1]));
        let ((z, depth), (layer, layers)) = (inner(part.depth, 1), inner(part.layers, 1));
        TexelBox { x, y, z, layer, width, height, depth, layers, ..part }
    };
    whole_boxes(subject).into_iter().map(shrink).collect()
}

/// Returns boxes of one block, if possible away from the corners.
fn near_boxes<D: Device>(subject: &Subject<D>) -> Vec<TexelBox> {
    let [across, down] = subject.facts.block;
    let shrink = |part: TexelBox| {
        let (x, y) =
            (if part.width >= 3 * across { across } else { 0 }, if part.height >= 2 * down { down } else { 0 });
        let (width, height) = (across.min(part.width - x), down.min(part.height - y));
        let (z, layer) = (part.depth / 2, part.layers / 2);
        TexelBox { x, y, z, layer, width, height, depth: 1, layers: 1, ..part }
    };
    whole_boxes(subject).into_iter().map(shrink).collect()
}

/// Uploads parts over the existing contents and checks the whole texture, then reads parts back.
fn copy_parts<G: Gpu>(
    rig: &mut Rig<G>,
    bench: &Bench<G::Device>,
    subject: &mut Subject<G::Device>,
    boxes: &[TexelBox],
) {
    let rules = rig.memory.device().capabilities().partial_depth_copies;
    let is_served = |part: &&TexelBox| {
        let is_whole = part.extent() == mip_extent(&subject.desc, part.mip);
        rules || part.aspect == TextureAspect::Color || is_whole
    };
    let boxes: Vec<_> = boxes.iter().filter(is_served).copied().collect();
    let mut uploads = Vec::new();
    for (index, part) in boxes.iter().enumerate() {
        let layer_bytes = subject.facts.tight_bytes(part.extent(), part.aspect);
        let seed = |layer: u32| index as u64 * 31 + u64::from(layer) * 77 + 5;
        let layers = (0..part.layers).map(|layer| subject.facts.content(seed(layer), layer_bytes, part.aspect));
        let bytes = layers.collect::<Vec<_>>().concat();
        for (layer, bytes) in (part.layer..).zip(bytes.chunks(layer_bytes)) {
            let (facts, size) = (subject.facts.clone(), mip_extent(&subject.desc, part.mip));
            let whole = subject.whole_of(Part { mip: part.mip, layer, aspect: part.aspect });
            paste(&facts, size, part, bytes, whole);
        }
        uploads.push((*part, bytes));
    }
    upload_boxes(rig, bench, subject, (&uploads, false));
    assert_holds(rig, bench, subject, "a part was uploaded");
    for (part, seen) in boxes.iter().zip(read_boxes(rig, bench, subject, &boxes)) {
        let mut expected = Vec::new();
        for layer in part.layer..part.layer + part.layers {
            let (facts, size) = (subject.facts.clone(), mip_extent(&subject.desc, part.mip));
            let whole = subject.whole_of(Part { mip: part.mip, layer, aspect: part.aspect });
            rows_of(&facts, size, part, |_, at, count| expected.extend_from_slice(&whole[at..at + count]));
        }
        assert_same(&seen, &expected, &format!("a part was read: {} {part:?}", subject.facts.name));
    }
}

/// Runs all checks of one texture. For `owner` above 0, which is a further texture with the same description, runs only
/// the first check.
fn check_texture<G: Gpu>(rig: &mut Rig<G>, bench: &mut Bench<G::Device>, mut subject: Subject<G::Device>, owner: u64) {
    subject.refill(3 + owner);
    upload_whole(rig, bench, &subject);
    assert_holds(rig, bench, &subject, "uploaded");
    if owner > 0 {
        return;
    }
    subject.refill(11);
    write_plainly(rig, bench, &subject);
    assert_holds(rig, bench, &subject, "written with plain copies");
    let boxes = whole_boxes(&subject);
    for (part, seen) in boxes.iter().zip(read_boxes(rig, bench, &subject, &boxes)) {
        let expected = subject.layers_of(part.mip, 0..part.layers, part.aspect);
        assert_same(&seen, &expected, &format!("read back: {} {:?} {part:?}", subject.facts.name, subject.desc));
    }
    let (far, near) = (far_boxes(&subject), near_boxes(&subject));
    copy_parts(rig, bench, &mut subject, &far);
    copy_parts(rig, bench, &mut subject, &near);
}

/// Returns the shapes for a format: sides with and without partial blocks, and mip levels smaller than a block.
fn shapes(facts: &Facts) -> Vec<TextureDesc> {
    let [across, down] = facts.block;
    let (flat, side) = (TextureDesc::default(), 2 * across.max(down));
    let odd = if across * down == 1 { [13, 7] } else { [2 * across + across / 2, down + down.div_ceil(2)] };
    let even = if across * down == 1 { [12, 6] } else { [3 * across, 2 * down] };
    let mips = |sides: [u32; 2]| sides[0].max(sides[1]).ilog2() + 1;
    vec![
        TextureDesc { width: odd[0], height: odd[1], mips: mips(odd), ..flat },
        TextureDesc { width: even[0], height: even[1], mips: mips(even), ..flat },
        TextureDesc { width: even[0], height: even[1], mips: 2, layers: 3, ..flat },
        TextureDesc { dimension: Dimension::Cube, width: side, height: side, mips: 2, layers: 6, ..flat },
        TextureDesc { dimension: Dimension::D3, width: even[0], height: even[1], depth: 5, mips: 3, ..flat },
        TextureDesc { dimension: Dimension::D3, width: odd[0], height: odd[1], depth: 2, mips: 2, ..flat },
        TextureDesc { dimension: Dimension::D1, width: 13, mips: 4, ..flat },
        TextureDesc { dimension: Dimension::D1, width: 13, mips: 2, layers: 3, ..flat },
    ]
}

/// Checks all formats that `wanted` accepts. Returns those that the device can copy, with the number of shapes.
fn check_formats<G: Gpu>(rig: &mut Rig<G>, wanted: impl Fn(&Facts) -> bool) -> Vec<(String, usize)> {
    let mut bench = Bench::new(rig);
    let mut seen = Vec::new();
    for (index, name) in rig.gpu.texel_formats().iter().enumerate() {
        let facts = Facts::of(name);
        if !wanted(&facts) {
            continue;
        }
        let mut count = 0;
        for desc in shapes(&facts) {
            let Some(info) = rig.gpu.describe_texels(index, &desc) else { continue };
            let recycled = rig.memory.statistics().calls.recycled;
            // The third texture is a recycled object.
            for owner in 0..3 {
                let made = AllocationDesc { name, ..Default::default() };
                let texture = rig.memory.create_texture(&Native(&info), made).expect("the device has such textures");
                let found = texture.parts().expect("its texels are known").format;
                for (aspect, bytes) in &facts.aspects {
                    let (found, wanted) = ((found.block(), found.block_bytes(*aspect)), (facts.block, Some(*bytes)));
                    assert_eq!(found, wanted, "{name}");
                }
                let subject = Subject { facts: facts.clone(), desc, texture, whole: Vec::new() };
                check_texture(rig, &mut bench, subject, owner);
                assert_eq!(rig.gpu.take_messages(), Vec::<String>::new(), "{name} {desc:?}");
                rig.memory.reclaim();
            }
            assert_eq!(rig.memory.statistics().calls.recycled - recycled, 1, "{name} {desc:?}");
            count += 1;
        }
        if count > 0 {
            seen.push((name.clone(), count));
        }
    }
    eprintln!("{} formats in {} shapes: {seen:?}", seen.len(), seen.iter().map(|(_, count)| count).sum::<usize>());
    seen
}

pub fn every_colour_format_keeps_its_texels_in_every_shape<G: Gpu>(rig: &mut Rig<G>) {
    let is_plain = |facts: &Facts| facts.block == [1, 1] && facts.aspects[0].0 == TextureAspect::Color;
    let seen = check_formats(rig, is_plain);
    // Every device supports this many: channels of every width, packed formats, in one to three dimensions.
    assert!(seen.len() >= 30, "{seen:?}");
    assert!(seen.iter().any(|(_, shapes)| *shapes >= 8), "all shapes of some format: {seen:?}");
}

pub fn every_block_compressed_format_keeps_its_blocks_in_every_shape<G: Gpu>(rig: &mut Rig<G>) {
    let seen = check_formats(rig, |facts| facts.block != [1, 1]);
    // Every device supports at least one of BC, ETC2 and ASTC.
    assert!(seen.len() >= 10, "{seen:?}");
}

pub fn every_format_of_depth_and_stencil_keeps_its_aspects<G: Gpu>(rig: &mut Rig<G>) {
    let seen = check_formats(rig, |facts| facts.aspects[0].0 != TextureAspect::Color);
    assert!(!seen.is_empty(), "every device has depth");
}

pub fn portable_descriptions_of_every_shape_are_made_or_refused<G: Gpu>(rig: &mut Rig<G>) {
    let mut made = 0;
    for format in Format::ALL {
        let facts = Facts::of(&format!("{format:?}"));
        assert_eq!(facts.format().aspects(), format.texels().aspects(), "{format:?}");
        for shape in shapes(&facts) {
            let usage = TextureUsage::COPY_SRC | TextureUsage::COPY_DST;
            let desc = TextureDesc { format: *format, usage, ..shape };
            let Ok(texture) = rig.memory.create_texture(&desc, AllocationDesc::default()) else { continue };
            let parts = texture.parts().expect("its texels are known");
            assert_eq!(parts.extent(0), [desc.width, desc.height, desc.depth], "{format:?}");
            assert_eq!((parts.layers, parts.mips, parts.samples), (desc.layers, desc.mips, 1));
            let described = texture.desc().expect("it was described portably");
            assert_eq!((described.format, described.depth, described.layers), (*format, desc.depth, desc.layers));
            made += 1;
        }
        rig.memory.reclaim();
    }
    assert!(made >= 100, "{made} textures were made");
}

fn textured<G: Gpu>(rig: &Rig<G>, desc: TextureDesc) -> Option<Texture<G::Device>> {
    rig.memory.create_texture(&desc, AllocationDesc::default()).ok()
}

pub fn texels_that_a_texture_does_not_have_are_refused<G: Gpu>(rig: &mut Rig<G>) {
    let bench = Bench::new(rig);
    let usage = TextureUsage::COPY_SRC | TextureUsage::COPY_DST;
    let plain = TextureDesc { width: 16, height: 8, mips: 3, layers: 2, usage, ..Default::default() };
    let texture = textured(rig, plain).expect("a plain texture");
    let frame = rig.timeline().begin();
    let bytes = vec![7; 16 * 8 * 16];
    let stage = |texels: Texels<&[u8]>| bench.ring.write_texels(&frame, &texels).expect("there is room");
    let square = stage(Texels::new(4, 4, 4, &bytes));
    let mut batch = UploadBatch::new();
    let mut refused = |staged: &_, texture: &_, target| match batch.copy_texels(staged, texture, target) {
        Err(BatchError::Texels(error)) => error,
        other => panic!("{other:?}"),
    };
    let at = TexelTarget::default();
    let size = [16, 8, 1];
    let (first, extent) = ([13, 0, 0], [4, 4, 1]);
    assert_eq!(refused(&square, &texture, TexelTarget { x: 13, ..at }), TexelError::Outside { first, extent, size });
    let high = refused(&square, &texture, TexelTarget { y: u32::MAX, ..at });
    assert!(matches!(high, TexelError::Outside { .. }));
    let deep = refused(&square, &texture, TexelTarget { z: 1, ..at });
    assert!(matches!(deep, TexelError::Outside { .. }));
    assert_eq!(refused(&square, &texture, TexelTarget { mip: 3, ..at }), TexelError::NoMip { mip: 3, mips: 3 });
    let outside = TexelError::NoLayers { layer: 2, count: 1, layers: 2 };
    assert_eq!(refused(&square, &texture, TexelTarget { layer: 2, ..at }), outside);
    let wide = stage(Texels::new(4, 4, 8, &bytes));
    assert!(matches!(refused(&wide, &texture, at), TexelError::OtherFormat { .. }));
    let slices = stage(Texels::of(Format::Rgba8Unorm, [2, 2, 2], &bytes));
    assert!(matches!(refused(&slices, &texture, at), TexelError::Outside { .. }));
    let depth = stage(Texels::of(Format::D32Float, [2, 2, 1], &bytes));
    assert!(matches!(refused(&depth, &texture, at), TexelError::NoAspect { .. }));
    // A block-compressed texture refuses data that is described as texels, and parts of blocks.
    if let Some(blocks) = textured(rig, TextureDesc { format: Format::Bc1Unorm, mips: 1, layers: 1, ..plain }) {
        let as_texels = stage(Texels::new(4, 2, 8, &bytes));
        assert!(matches!(refused(&as_texels, &blocks, at), TexelError::OtherFormat { .. }));
        let corner = stage(Texels::of(Format::Bc1Unorm, [6, 4, 1], &bytes));
        assert!(matches!(refused(&corner, &blocks, at), TexelError::PartOfBlock { block: [4, 4], .. }));
        let block = stage(Texels::of(Format::Bc1Unorm, [4, 4, 1], &bytes));
        let shifted = refused(&block, &blocks, TexelTarget { x: 2, ..at });
        assert!(matches!(shifted, TexelError::PartOfBlock { .. }));
    }
    let samples = TextureDesc { samples: 4, mips: 1, usage: usage | TextureUsage::RENDER_TARGET, ..plain };
    if let Some(multisampled) = textured(rig, samples) {
        assert_eq!(refused(&square, &multisampled, at), TexelError::Multisampled { samples: 4 });
        let part = TexelBox::mip(multisampled.parts().expect("its texels are known"), 0);
        let error = bench.results.reserve_box(&frame, &multisampled, &part).err();
        assert_eq!(error, Some(UploadError::Texels(TexelError::Multisampled { samples: 4 })));
    }
    let whole = TexelBox::mip(texture.parts().expect("its texels are known"), 0);
    let error = bench.results.reserve_box(&frame, &texture, &TexelBox { mip: 9, ..whole }).err();
    assert_eq!(error, Some(UploadError::Texels(TexelError::NoMip { mip: 9, mips: 3 })));
    let mut units = UploadBatch::new().transfer_granularity([8, 8, 1]);
    let error = units.copy_texels(&square, &texture, at).err();
    assert!(matches!(error, Some(BatchError::Texels(TexelError::PartOfUnit { unit: [8, 8, 1], .. }))), "{error:?}");
    assert!(batch.is_empty() && units.is_empty(), "nothing was added");
    rig.submit(frame, &[]);
}

/// 1,722,007,169 × 3,570,783,445 × 3 bytes are 2^64 − 1 bytes, so one more byte exceeds 64 bits.
pub fn texels_beyond_every_number_are_refused<G: Gpu>(rig: &mut Rig<G>) {
    let results =
        ReadbackRing::new(&rig.memory, ReadbackDesc { capacity: 16 << 10, ..Default::default() }).expect("room");
    let frame = rig.timeline().begin();
    let refused = results.reserve_texels(&frame, 1_722_007_169, 3_570_783_445, 3).err();
    assert!(matches!(refused, Some(UploadError::TooLarge { .. })), "{refused:?}");
    let ring = ring(rig, 16 << 10, WAIT);
    let refused = ring.write_texels(&frame, &Texels::new(1_722_007_169, 3_570_783_445, 3, &[0; 64])).err();
    // With the row pitch of the device, the size exceeds 64 bits.
    let is_named = matches!(refused, Some(UploadError::TexelSize { .. } | UploadError::TooLarge { .. }));
    assert!(is_named, "{refused:?}");
    rig.submit(frame, &[]);
}
