//! Commands on data, on every device: written, read back, and compared with the bytes that the host computes.

mod boxes;
mod clears;
mod levels;
mod picture;
mod readback;

use ringfence::commands::{CommandError, Commands};
use ringfence::device::transfer::TransferSupport;
use ringfence::device::{Format, TextureDesc, TextureUsage};
use ringfence::memory::Error;
use ringfence::{AllocationDesc, Location, Texture};
use ringfence_testkit::transfers::Transfers;
use ringfence_testkit::{Command, Gpu};

use crate::device_suite::rig::{PATIENCE, Rig, pattern};

pub use boxes::boxes_of_textures_and_buffers_are_copied_like_their_model;
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
