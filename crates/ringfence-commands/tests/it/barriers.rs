//! Each command has the barriers that separate it from shaders before it and after it.

use ringfence::commands::{BufferTexels, CommandError};
use ringfence::device::{BufferUsage, TexelBox};
use ringfence::sim::{BufferRange, Command, HazardKind, Kernel, Profile};
use ringfence::{Buffer, Location, ReadbackRing};

use super::program::{Program, Recorder, desc};

const SIZE: u64 = 4096;

/// Returns a kernel that writes the whole buffer.
fn kernel(buffer: &Buffer<ringfence::sim::Device>) -> Command {
    let range = BufferRange::new(*buffer.object(), 0, SIZE);
    Command::Kernel(Kernel::new(vec![], vec![range], |memory| memory.writes[0].fill(1)))
}

/// Runs a command between kernels that use the same buffers, and returns the number of hazards.
fn hazards(
    program: &Program,
    buffers: &[&Buffer<ringfence::sim::Device>],
    work: impl FnOnce(&mut Recorder<'_>) -> Result<(), CommandError>,
) -> usize {
    let (frame, list, result) = program.record(work);
    result.expect("the command is valid");
    let kernels = || buffers.iter().map(|buffer| kernel(buffer));
    program.submit(frame, kernels().chain(list).chain(kernels()).collect());
    let found = program.device.take_hazards();
    assert!(found.iter().all(|hazard| hazard.kind == HazardKind::MissingBarrier), "{found:?}");
    found.len()
}

#[test]
fn commands_are_separated_from_the_shaders_around_them() {
    for profile in [Profile::h200(), Profile::d3d12_modern()] {
        let program = Program::new(profile, 5);
        let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST | BufferUsage::STORAGE;
        let [one, two] = [(); 2].map(|()| program.buffer(SIZE, usage, Location::Device));
        assert_eq!(hazards(&program, &[&one], |commands| commands.fill_buffer(&one, 0..SIZE, 7)), 0);
        let copied = hazards(&program, &[&one, &two], |commands| commands.copy_buffer((&one, 0), (&two, 0), SIZE));
        assert_eq!(copied, 0);
        let texture = program.texture(desc());
        let texels = TexelBox::mip(texture.parts().expect("a texture"), 2);
        let layout = BufferTexels { offset: 512, row_bytes: 256, layer_bytes: 1024 };
        let into = |commands: &mut Recorder<'_>| commands.copy_buffer_to_box(&one, layout, &texture, &texels);
        assert_eq!(hazards(&program, &[&one], into), 0);
        let from = |commands: &mut Recorder<'_>| commands.copy_box_to_buffer(&texture, &texels, &one, layout);
        assert_eq!(hazards(&program, &[&one], from), 0);
        let ring = ReadbackRing::new(&program.memory, Default::default()).expect("there is room");
        let to_host = |commands: &mut Recorder<'_>| commands.read_buffer(&ring, &one, 0..SIZE).map(drop);
        assert_eq!(hazards(&program, &[&one], to_host), 0);
        program.finish();
    }
}

/// The hazard finder sees the same kernels without barriers.
#[test]
fn a_missing_barrier_is_a_hazard() {
    let program = Program::new(Profile::h200(), 5);
    let usage = BufferUsage::COPY_DST | BufferUsage::STORAGE;
    let buffer = program.buffer(SIZE, usage, Location::Device);
    let (frame, list, result) = program.record(|commands| commands.fill_buffer(&buffer, 0..SIZE, 7));
    result.expect("the command is valid");
    let bare = list.into_iter().filter(|command| !matches!(command, Command::Barrier(_)));
    program.submit(frame, [kernel(&buffer)].into_iter().chain(bare).collect());
    let found = program.device.take_hazards();
    assert!(found.iter().any(|hazard| hazard.kind == HazardKind::MissingBarrier), "{found:?}");
    program.finish();
}

#[test]
fn resources_that_are_dropped_live_until_their_commands_are_complete() {
    let program = Program::new(Profile::h200(), 9);
    let (buffer, texture) = (program.device_buffer(SIZE), program.texture(desc()));
    let texels = TexelBox::mip(texture.parts().expect("a texture"), 0);
    let layout = BufferTexels { offset: 0, row_bytes: 64, layer_bytes: 512 };
    let (frame, list, result) = program.record(|commands| {
        commands.fill_buffer(&buffer, 0..SIZE, 7)?;
        commands.copy_buffer_to_box(&buffer, layout, &texture, &texels)?;
        commands.generate_mips(&texture)
    });
    result.expect("the commands are valid");
    drop((buffer, texture));
    program.memory.reclaim();
    program.submit(frame, list);
    program.finish();
    assert_eq!(program.device.take_hazards(), []);
}
