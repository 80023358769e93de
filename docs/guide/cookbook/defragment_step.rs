use std::error::Error;

use ringfence::Frame;
use ringfence::defrag::{Defrag, DefragState};
use ringfence::vulkan::{Buffer, CopyRecorder, Device};

/// Moves some buffers closer together. Returns the indices of moved buffers: their descriptors must be written anew.
///
/// The buffers were created with `movable: true` and their index as `user_data`.
pub fn defragment_step(
    run: &mut Defrag<Device>,
    buffers: &mut [Buffer],
    frame: &Frame,
    recorder: &mut CopyRecorder<'_>,
) -> Result<Vec<usize>, Box<dyn Error>> {
    let mut moved = Vec::new();
    if run.state() == DefragState::Done {
        return Ok(moved);
    }
    let mut pass = run.begin_pass(frame)?;
    let owners: Vec<_> = pass.moves().iter().map(|planned| planned.user_data as usize).collect();
    for index in owners {
        pass.copy_buffer(&mut buffers[index])?;
        moved.push(index);
    }
    // SAFETY: the commands of the recorder are submitted as this frame.
    unsafe { pass.record(recorder) };
    Ok(moved)
}
