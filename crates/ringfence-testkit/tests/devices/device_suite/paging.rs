//! Paging: a scene of three times its memory, whose texels and bytes are compared with those of its model in each frame.
//!
//! `RINGFENCE_PAGING_FRAMES=N` sets the number of frames.

use std::collections::VecDeque;
use std::time::Instant;

use ringfence::commands::Commands;
use ringfence::device::transfer::TransferSupport;
use ringfence::device::{BufferDesc, BufferUsage, Format, TexelBox, TextureDesc, TextureUsage};
use ringfence::paging::{PageDesc, PageUses, PagedBuffer, PagedTexture, Paging, PagingDesc, WhenAway};
use ringfence::upload::Readback;
use ringfence::{Frame, ReadbackRing};
use ringfence_testkit::transfers::Transfers;
use ringfence_testkit::{Command, Gpu};

use crate::device_suite::rig::{PATIENCE, Rig, pattern};

const COUNT: usize = 60;
const SIZE: u64 = 16 << 10;
const FORMATS: [Format; 3] = [Format::Rgba8Unorm, Format::Bc1Unorm, Format::Rg16Float];

/// A resource of the scene, and the bytes that it has to have.
enum Thing {
    /// A texture with the bytes of each mip level.
    Texture(PagedTexture, Vec<Vec<u8>>),
    /// A buffer, which frames also write.
    Buffer(PagedBuffer, Vec<u8>),
}

fn texture_desc(number: usize) -> TextureDesc {
    let usage = TextureUsage::SAMPLED;
    TextureDesc { width: 64, height: 64, mips: 7, format: FORMATS[number % 3], usage, ..Default::default() }
}

/// Returns the bytes of each mip level of a texture without padding.
fn levels(number: usize) -> Vec<Vec<u8>> {
    let texels = texture_desc(number).format.texels();
    let [across, down] = texels.block();
    let block_bytes = u64::from(texels.block_bytes(texels.first_aspect()).expect("a colour"));
    let bytes = |side: u32| u64::from(side.div_ceil(across)) * u64::from(side.div_ceil(down)) * block_bytes;
    (0..7).map(|mip| pattern((number * 7 + mip) as u64, bytes(64 >> mip) as usize)).collect()
}

fn add<G: Gpu>(paging: &mut Paging<G::Device>, number: usize) -> Thing {
    let page = PageDesc { name: "a thing of the scene", ..Default::default() };
    if number % 5 == 4 {
        let bytes = pattern(number as u64, SIZE as usize);
        let desc = BufferDesc { size: SIZE, usage: BufferUsage::STORAGE };
        return Thing::Buffer(paging.add_buffer(&desc, &bytes, page).expect("host memory"), bytes);
    }
    // Every seventh texture is used from host memory if the device has no room.
    let when_away = if number.is_multiple_of(7) { WhenAway::UseFromHost } else { WhenAway::BringBack };
    let (levels, page) = (levels(number), PageDesc { when_away, ..page });
    let texture = paging.add_texture(&texture_desc(number), &levels.concat(), page).expect("host memory");
    Thing::Texture(texture, levels)
}

/// A frame that was submitted: its value, and the bytes that its readbacks have to have.
type Shown<D> = (u64, Vec<(Readback<D>, Vec<u8>)>);

fn compare<G: Gpu>(rig: &Rig<G>, shown: &mut VecDeque<Shown<G::Device>>, in_flight: usize) {
    while shown.len() > in_flight {
        let Some((value, results)) = shown.pop_front() else { return };
        assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
        for (index, (read, expected)) in results.iter().enumerate() {
            let bytes = read.to_vec().expect("the frame is complete");
            assert!(bytes == *expected, "frame {value}, result {index}");
        }
    }
}

/// The camera: a window of things that moves there and back.
fn visible(frame: usize) -> impl Iterator<Item = usize> {
    let step = frame / 3 % (2 * COUNT);
    let position = if step < COUNT { step } else { 2 * COUNT - 1 - step };
    (0..6).map(move |index| (position + index) % COUNT)
}

/// Records the readback of one thing, and sometimes a write to a buffer after it.
fn show<D: TransferSupport>(
    (paging, ring): (&Paging<D>, &ReadbackRing<D>),
    commands: &mut Commands<'_, D, Transfers<D>>,
    thing: &mut Thing,
    (mip, value): (u32, Option<u32>),
) -> (Readback<D>, Vec<u8>) {
    match thing {
        Thing::Texture(texture, levels) => {
            let (texture, first) = paging.texture(texture).expect("the commit has brought it");
            let texels = TexelBox::mip(texture.parts().expect("described"), mip - first);
            (commands.read_texels(ring, texture, &texels).expect("room"), levels[mip as usize].clone())
        }
        Thing::Buffer(buffer, bytes) => {
            let buffer = paging.buffer(buffer).expect("the commit has brought it");
            let read = commands.read_buffer(ring, buffer, 0..SIZE).expect("room");
            let expected = bytes.clone();
            if let Some(value) = value {
                commands.fill_buffer(buffer, 256..1024, value).expect("a range of the buffer");
                bytes[256..1024].copy_from_slice(&value.to_le_bytes().repeat(192));
            }
            (read, expected)
        }
    }
}

/// Frames of a moving camera, three in flight, with room for a third of the scene.
pub fn a_scene_of_three_times_its_memory_has_the_same_texels<G: Gpu>(rig: &mut Rig<G>)
where
    G::Device: TransferSupport,
{
    let frames = std::env::var("RINGFENCE_PAGING_FRAMES").map_or(400, |count| count.parse().expect("a number"));
    let memory = rig.memory.clone();
    let limits = PagingDesc { device_bytes_max: COUNT as u64 * 22_000 / 3, ..Default::default() };
    // SAFETY: every frame is committed before its submission.
    let mut paging = unsafe { Paging::new(&memory, limits) };
    let mut things: Vec<Thing> = (0..COUNT).map(|number| add::<G>(&mut paging, number)).collect();
    let ring = ReadbackRing::new(&memory, Default::default()).expect("there is room");
    let (mut uses, mut shown, mut times) = (PageUses::new(), VecDeque::new(), Vec::new());
    for number in 0..frames {
        let frame: Frame = rig.timeline().begin();
        let writes = number % 4 == 0;
        uses.clear();
        for index in visible(number) {
            match &things[index] {
                Thing::Texture(texture, _) => uses.add(texture),
                Thing::Buffer(buffer, _) if writes => uses.add_written(buffer),
                Thing::Buffer(buffer, _) => uses.add(buffer),
            }
        }
        let mut list = Transfers::default();
        let started = Instant::now();
        // SAFETY: the list is submitted as this frame, and all work is on one queue. The textures are in the layout that
        // the test kit expects.
        let step = unsafe { paging.commit(&uses, &frame, &mut list) }.expect("no allocation is refused");
        times.push(started.elapsed().as_micros());
        assert_eq!(step.away_count, 0);
        // SAFETY: the same list and frame; the commands read and write what was added to the uses.
        let mut commands = unsafe { Commands::new(&memory, &frame, &mut list) }.expect("its own frame");
        let value = writes.then_some(number as u32 | 1 << 24);
        let mip = (number % 7) as u32;
        let results = visible(number)
            .map(|index| show((&paging, &ring), &mut commands, &mut things[index], (mip, value)))
            .collect();
        shown.push_back((rig.submit(frame, &[Command::Transfers(list)]), results));
        compare(rig, &mut shown, 2);
        memory.reclaim();
    }
    compare(rig, &mut shown, 0);
    times.sort_unstable();
    let totals = paging.totals();
    println!(
        "{frames} frames: a commit takes p50 {} us, p99 {} us; {totals:?}",
        times[times.len() / 2],
        times[times.len() * 99 / 100]
    );
    let leaves = !memory.capabilities().residency && frames > 100;
    assert_eq!(totals.left_bytes > 0, leaves, "{totals:?}");
    assert_eq!(totals.written_back_bytes > 0, leaves, "{totals:?}");
    drop((things, paging, ring));
    memory.reclaim();
    memory.debug().validate().expect("the allocator is sound");
}
