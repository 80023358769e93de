//! Commands on data, on every device: written, read back, and compared with the bytes that the host computes.

mod boxes;
mod chains;
mod clears;
mod levels;
mod picture;
mod readback;

use ringfence::commands::{BufferTexels, CommandError, Commands};
use ringfence::device::transfer::TransferSupport;
use ringfence::device::{BufferDesc, BufferUsage, Format, TexelBox, TextureDesc, TextureUsage};
use ringfence::memory::Error;
use ringfence::{AllocationDesc, Location, ReadbackRing, Texture};
use ringfence_testkit::transfers::Transfers;
use ringfence_testkit::{Command, Gpu};

use crate::device_suite::rig::{PATIENCE, Rig, pattern};

pub use boxes::boxes_of_textures_and_buffers_are_copied_like_their_model;
pub use chains::whole_textures_are_uploaded_in_one_call;
pub use clears::{clears_write_all_texels_of_their_subresources, depth_and_stencil_are_cleared_together_and_apart};
pub use levels::{mip_levels_are_averages_of_the_previous_level, resolved_texels_are_averages_of_their_samples};
pub use readback::results_of_commands_are_the_bytes_of_their_model;

type Recorder<'a, G> = Commands<'a, <G as Gpu>::Device, Transfers<<G as Gpu>::Device>>;

/// Records commands as a frame, submits them, and waits for them.
pub(super) fn run<G: Gpu, R>(rig: &mut Rig<G>, work: impl FnOnce(&mut Recorder<'_, G>) -> Result<R, CommandError>) -> R
where
    G::Device: TransferSupport,
{
    let (frame, mut list) = (rig.timeline().begin(), Transfers::default());
    // SAFETY: the list is submitted as this frame, and the test kit orders its commands. The tests write each
    // subresource before they read it.
    let mut commands = unsafe { Commands::new(&rig.memory, &frame, &mut list) }.expect("its own frame");
    let result = work(&mut commands).expect("the device has the command");
    let value = rig.submit(frame, &[Command::Transfers(list)]);
    assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
    rig.memory.reclaim();
    result
}

/// Returns the error of a command that is refused. Nothing is submitted.
fn refused<G: Gpu>(rig: &Rig<G>, work: impl FnOnce(&mut Recorder<'_, G>) -> Result<(), CommandError>) -> CommandError
where
    G::Device: TransferSupport,
{
    let (frame, mut list) = (rig.timeline().begin(), Transfers::default());
    // SAFETY: the list is not submitted.
    let mut commands = unsafe { Commands::new(&rig.memory, &frame, &mut list) }.expect("its own frame");
    let error = work(&mut commands).expect_err("the command is refused");
    frame.discard();
    error
}

/// Creates a texture for copies and further usages; `None` if the device has no such texture.
fn texture<G: Gpu>(rig: &Rig<G>, desc: TextureDesc, more: TextureUsage) -> Option<Texture<G::Device>> {
    let usage = TextureUsage::COPY_SRC | TextureUsage::COPY_DST | more;
    match rig.memory.create_texture(&TextureDesc { usage, ..desc }, AllocationDesc::default()) {
        Ok(texture) => Some(texture),
        Err(Error::Device(_)) => None,
        Err(error) => panic!("{desc:?}: {error}"),
    }
}

/// Usage with which textures of a format can be cleared.
fn clear_usage<G: Gpu>(rig: &Rig<G>, format: Format) -> TextureUsage
where
    G::Device: TransferSupport,
{
    rig.memory.device().clear_usage(format)
}

/// Small buffers share a driver's buffer, so each command must stay within its own.
pub fn commands_stay_within_their_small_buffers<G: Gpu>(rig: &mut Rig<G>)
where
    G::Device: TransferSupport,
{
    const SIZE: u64 = 1024;
    let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
    let small = |location| rig.memory.create_small_buffer(BufferDesc { size: SIZE, usage }, location).expect("room");
    let [one, two, three] = [(); 3].map(|()| small(Location::Device));
    let mut upload = small(Location::Upload);
    let bytes = pattern(4, SIZE as usize);
    upload.write(0, &bytes).expect("it is mapped");
    let ring = ReadbackRing::new(&rig.memory, Default::default()).expect("there is room");
    let whole = rig.buffer(SIZE, Location::Device, "whole");
    let desc = TextureDesc { width: 4, height: 4, ..Default::default() };
    let texture = texture(rig, desc, TextureUsage::empty()).expect("every device has it");
    let parts = *texture.parts().expect("a plain format");
    let texels = TexelBox::mip(&parts, 0);
    let row_bytes = 256;
    // Offsets of texels are multiples of 512 bytes in the driver's buffer.
    let offset = two.offset().next_multiple_of(512) - two.offset();
    let is_inside = offset + 3 * row_bytes + 16 <= SIZE;
    let results = run(rig, |commands| {
        for small in [&one, &two, &three] {
            commands.fill_buffer(small, 0..SIZE, 0xabab_abab)?;
        }
        commands.copy_buffer((&upload, 0), (&two, 0), SIZE)?;
        commands.fill_buffer(&two, 8..12, 7)?;
        commands.copy_buffer((&two, 0), (&whole, 0), SIZE)?;
        if is_inside {
            commands.copy_buffer_to_box(&two, BufferTexels { offset, row_bytes, layer_bytes: 0 }, &texture, &texels)?;
        }
        let all = [&one, &two, &three].map(|small| commands.read_buffer(&ring, small, 0..SIZE));
        let texels = if is_inside { Some(commands.read_texels(&ring, &texture, &texels)?) } else { None };
        Ok((all, commands.read_buffer(&ring, &whole, 0..SIZE)?, texels))
    });
    let mut expected = bytes;
    expected[8..12].copy_from_slice(&7_u32.to_le_bytes());
    let (all, whole, texels) = results;
    let [one, two, three] = all.map(|result| result.expect("inside").to_vec().expect("the frame is complete"));
    assert!(two == expected && whole.to_vec() == Ok(expected.clone()));
    assert!([one, three].iter().flatten().all(|byte| *byte == 0xab), "the neighbours");
    if let Some(texels) = texels {
        let rows = (0..4).map(|row| (offset + row * row_bytes) as usize);
        let expected: Vec<u8> = rows.flat_map(|at| expected[at..at + 16].to_vec()).collect();
        assert_eq!(texels.to_vec(), Ok(expected));
    }
    let upload = refused(rig, |commands| commands.fill_buffer(&upload, 0..4, 0));
    assert!(matches!(upload, CommandError::Location { .. }), "{upload}");
}

pub fn fills_write_their_words_and_no_byte_more<G: Gpu>(rig: &mut Rig<G>)
where
    G::Device: TransferSupport,
{
    // More than twice the size of the pieces of a fill by copies.
    const SIZE: u64 = 150_000;
    let [from, to] = ["from", "to"].map(|name| rig.buffer(SIZE, Location::Device, name));
    let mut upload = rig.buffer(SIZE, Location::Upload, "upload");
    let mut expected = pattern(3, SIZE as usize);
    upload.write(0, &expected).expect("it is mapped");
    run(rig, |commands| {
        commands.copy_buffer((&upload, 0), (&to, 0), SIZE)?;
        for (range, value) in [(4..140_000, 0x0102_0304), (8..12, 0), (149_996..SIZE, u32::MAX)] {
            commands.fill_buffer(&to, range, value)?;
        }
        commands.fill_buffer(&from, 0..SIZE, 0xaabb_ccdd)?;
        commands.copy_buffer((&from, 1000), (&to, 2000), 300)
    });
    let mut fill = |range: std::ops::Range<usize>, value: u32| {
        expected[range].chunks_mut(4).for_each(|word| word.copy_from_slice(&value.to_le_bytes()));
    };
    fill(4..140_000, 0x0102_0304);
    fill(8..12, 0);
    fill(149_996..150_000, u32::MAX);
    fill(2000..2300, 0xaabb_ccdd);
    assert!(rig.download(&to, SIZE) == expected);
}
