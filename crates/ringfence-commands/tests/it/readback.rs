//! Results on the host: the bytes, and the errors of results that are not there.

use std::time::Duration;

use ringfence::commands::{CommandError as E, SubresourceRange};
use ringfence::device::{BufferUsage, TexelBox, TexelError, TextureDesc, TextureUsage};
use ringfence::sim::{Device, Profile};
use ringfence::upload::{ReadbackDesc, ReadbackError, UploadError, WhenFull};
use ringfence::{Location, ReadbackRing};

use super::program::{Program, desc};

const PATIENCE: Duration = Duration::from_secs(60);

fn ring(program: &Program, capacity: u64) -> ReadbackRing<Device> {
    let desc = ReadbackDesc { capacity, when_full: WhenFull::Fail, ..Default::default() };
    ReadbackRing::new(&program.memory, desc).expect("there is room")
}

#[test]
fn results_are_the_bytes_of_buffers_and_texels_once_the_frame_is_complete() {
    for profile in Profile::all() {
        let program = Program::new(profile, 3);
        let (ring, buffer, texture) = (ring(&program, 1 << 16), program.device_buffer(64), program.texture(desc()));
        let (frame, list, results) = program.record(|commands| {
            commands.fill_buffer(&buffer, 0..32, 0x0403_0201)?;
            commands.fill_buffer(&buffer, 32..64, 0x0807_0605)?;
            commands.clear_color(&texture, SubresourceRange::one(1, 1), [0.0, 1.0, 0.0, 1.0])?;
            let texels = TexelBox { layer: 1, ..TexelBox::mip(texture.parts().expect("a texture"), 1) };
            let part = TexelBox { layers: 1, x: 1, y: 2, width: 3, height: 2, ..texels };
            Ok::<_, E>((commands.read_texels(&ring, &texture, &part)?, commands.read_buffer(&ring, &buffer, 30..37)?))
        });
        let (texels, bytes) = results.expect("the commands are valid");
        assert!(matches!(bytes.to_vec(), Err(ReadbackError::NotReady { point }) if point == frame.point()));
        program.submit(frame, list);
        texels.wait(PATIENCE).expect("the device is not lost");
        assert_eq!(bytes.to_vec(), Ok(vec![3, 4, 5, 6, 7, 8, 5]));
        assert_eq!(texels.to_vec(), Ok([0, 255, 0, 255].repeat(3 * 2)), "without the padding between rows");
        assert!(program.device.take_hazards().is_empty());
    }
}

#[test]
fn a_result_of_a_discarded_frame_never_arrives() {
    let program = Program::new(Profile::h200(), 3);
    let (ring, buffer) = (ring(&program, 4096), program.device_buffer(64));
    let (frame, _, result) = program.record(|commands| commands.read_buffer(&ring, &buffer, 0..64));
    let (result, point) = (result.expect("the command is valid"), frame.point());
    frame.discard();
    assert_eq!(result.to_vec(), Err(ReadbackError::NotSubmitted { point }));
}

#[test]
fn results_that_cannot_be_copied_are_refused() {
    let (program, other) = (Program::new(Profile::h200(), 3), Program::new(Profile::h200(), 4));
    let (own, foreign) = (ring(&program, 4096), ring(&other, 4096));
    let (buffer, texture) = (program.device_buffer(64), program.texture(desc()));
    let texels = TexelBox::mip(texture.parts().expect("a texture"), 0);
    let one = TexelBox { layers: 1, ..texels };
    let read = |range| program.refused(|commands| commands.read_buffer(&own, &buffer, range).map(drop));
    assert!(matches!(read(60..65), E::BufferRange { offset: 60, size: 5, buffer_size: 64 }));
    assert!(matches!(read(8..8), E::BufferRange { size: 0, .. }));
    let of_other = program.refused(|commands| commands.read_buffer(&foreign, &buffer, 0..64).map(drop));
    assert!(matches!(of_other, E::Readback(UploadError::ForeignFrame { .. })), "{of_other}");
    let of_other = program.refused(|commands| commands.read_texels(&foreign, &texture, &one).map(drop));
    assert!(matches!(of_other, E::Readback(UploadError::ForeignTexture { .. })), "{of_other}");
    let on_host = program.buffer(64, BufferUsage::COPY_SRC | BufferUsage::COPY_DST, Location::Readback);
    let direct = program.refused(|commands| commands.read_buffer(&own, &on_host, 0..64).map(drop));
    assert!(matches!(direct, E::Location { command: "read_buffer", .. }), "{direct}");
    let outside = TexelBox { x: 14, width: 3, ..one };
    let outside = program.refused(|commands| commands.read_texels(&own, &texture, &outside).map(drop));
    assert!(matches!(outside, E::Texels(TexelError::Outside { .. })), "{outside}");
    let target = program.texture(TextureDesc { usage: TextureUsage::RENDER_TARGET, ..desc() });
    let unused = program.refused(|commands| commands.read_texels(&own, &target, &one).map(drop));
    assert!(matches!(unused, E::TextureUsage { needs: TextureUsage::COPY_SRC, .. }), "{unused}");
    let small = ring(&program, 512);
    let full = program.refused(|commands| commands.read_texels(&small, &texture, &texels).map(drop));
    assert!(matches!(full, E::Readback(UploadError::TooLarge { capacity: 512, .. })), "{full}");
}
