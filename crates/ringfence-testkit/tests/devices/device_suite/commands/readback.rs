//! Ranges of buffers and generated boxes of textures, read on the host through commands.

use ringfence::device::transfer::TransferSupport;
use ringfence::device::{Driver, TextureAspect};
use ringfence::sim::rng::Rng;
use ringfence::upload::ReadbackDesc;
use ringfence::{Location, ReadbackRing};
use ringfence_testkit::Gpu;

use super::boxes::{PAIRS, ROOM, Subject, any_box, fill, pair};
use super::clears::shapes;
use super::run;
use crate::device_suite::rig::{Rig, pattern};

/// Boxes that are read of each texture.
const BOXES: usize = 6;

pub fn results_of_commands_are_the_bytes_of_their_model<G: Gpu>(rig: &mut Rig<G>)
where
    G::Device: TransferSupport,
{
    let ring = ReadbackRing::new(&rig.memory, ReadbackDesc { capacity: 4 * ROOM, ..Default::default() });
    let (ring, mut dice, mut count) = (ring.expect("there is room"), Rng::new(43), 0);
    let buffer = rig.buffer(ROOM, Location::Device, "bytes");
    read_ranges(rig, &ring, &buffer);
    for (formats, shape) in PAIRS.into_iter().flat_map(|pair| shapes().map(|shape| (pair, shape))) {
        let Some([mut subject, _]) = pair(rig, formats, shape) else { continue };
        fill(rig, &buffer, &mut subject, &mut dice);
        (0..BOXES).for_each(|_| read_box(rig, &ring, &mut subject, &mut dice));
        count += 1;
    }
    assert!(count >= 12, "{count} textures");
}

/// Reads ranges that begin and end at any byte.
fn read_ranges<G: Gpu>(rig: &mut Rig<G>, ring: &ReadbackRing<G::Device>, buffer: &ringfence::Buffer<G::Device>)
where
    G::Device: TransferSupport,
{
    let bytes = pattern(5, ROOM as usize);
    let mut upload = rig.buffer(ROOM, Location::Upload, "upload");
    upload.write(0, &bytes).expect("it is mapped");
    let ranges = [0..ROOM, 1..2, 3..1000, ROOM - 5..ROOM];
    let results = run(rig, |commands| {
        commands.copy_buffer((&upload, 0), (buffer, 0), ROOM)?;
        ranges.clone().into_iter().map(|range| commands.read_buffer(ring, buffer, range)).collect::<Result<Vec<_>, _>>()
    });
    for (range, result) in ranges.into_iter().zip(results) {
        let expected = &bytes[range.start as usize..range.end as usize];
        assert!(result.to_vec().expect("the frame is complete") == expected, "bytes {range:?}");
    }
}

fn read_box<G: Gpu>(rig: &mut Rig<G>, ring: &ReadbackRing<G::Device>, subject: &mut Subject<G>, dice: &mut Rng)
where
    G::Device: TransferSupport,
{
    let Subject { texture, picture } = subject;
    let is_partial = picture.aspect == TextureAspect::Color || rig.memory.device().capabilities().partial_depth_copies;
    let part = any_box(dice, picture, is_partial);
    let result = run(rig, |commands| commands.read_texels(ring, texture, &part));
    let found = result.to_vec().expect("the frame is complete");
    assert!(found == picture.cut(&part), "{part:?} of {:?}", picture.desc());
}
