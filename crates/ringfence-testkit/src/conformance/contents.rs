//! Vectors on the device, compared with a vector on the host over generated steps.

use crate::{Command, Gpu};
use ringfence::contents::{GpuVec, GpuVecDesc};
use ringfence::sim::rng::Rng;
use ringfence::{UploadBatch, UploadDesc, UploadRing};

use crate::rig::Rig;

const FRAMES: usize = 400;
const STEPS: usize = 25;

/// Ten thousand changes in 400 frames. One frame in eight is discarded, and its upload is lost.
pub fn a_vector_on_the_device_equals_its_model<G: Gpu>(rig: &mut Rig<G>) {
    let ring = UploadRing::new(&rig.memory, UploadDesc { capacity: 4 << 20, ..Default::default() }).expect("room");
    let mut vector = GpuVec::<_, u32>::new(&rig.memory, GpuVecDesc { name: "vector", ..Default::default() });
    let (mut model, mut dice, mut moves) = (Vec::new(), Rng::new(39), 0);
    for number in 0..FRAMES {
        (0..STEPS).for_each(|_| change(&mut dice, &mut vector, &mut model));
        vector.validate().expect("sound");
        assert_eq!(vector.as_slice(), model);
        let (frame, mut batch) = (rig.timeline().begin(), UploadBatch::new());
        let updated = vector.update(&ring, &mut batch, &frame).expect("the ring has room");
        assert_eq!(updated.waiting, 0);
        moves += u32::from(updated.is_moved);
        if dice.below(8) == 0 {
            drop(batch);
            frame.discard();
            continue;
        }
        rig.submit(frame, &[Command::Upload(Box::new(batch))]);
        rig.memory.reclaim();
        if number % 20 == 0 {
            check(rig, &vector);
        }
    }
    let (frame, mut batch) = (rig.timeline().begin(), UploadBatch::new());
    vector.update(&ring, &mut batch, &frame).expect("the ring has room");
    rig.submit(frame, &[Command::Upload(Box::new(batch))]);
    check(rig, &vector);
    assert!(moves >= 2, "the vector has outgrown its buffer");
}

fn check<G: Gpu>(rig: &mut Rig<G>, vector: &GpuVec<G::Device, u32>) {
    let Some(buffer) = vector.buffer().filter(|_| !vector.is_empty()) else { return };
    let bytes = rig.download(buffer, vector.len() as u64 * 4);
    let found = bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("four bytes")));
    assert!(found.eq(vector.as_slice().iter().copied()), "{vector:?}");
}

fn change<D: ringfence::device::Device>(dice: &mut Rng, vector: &mut GpuVec<D, u32>, model: &mut Vec<u32>) {
    let value = dice.below(1 << 32) as u32;
    let at = dice.below(model.len() as u64) as usize;
    match dice.below(8) {
        0 | 1 => {
            vector.push(value);
            model.push(value);
        }
        2 if dice.below(4) == 0 => {
            let more: Vec<u32> = (0..200).map(|step| value ^ step).collect();
            vector.extend_from_slice(&more);
            model.extend(more);
        }
        3 if !model.is_empty() => assert_eq!(vector.swap_remove(at), model.swap_remove(at)),
        4 if !model.is_empty() => assert_eq!(vector.remove(at), model.remove(at)),
        5 => {
            vector.insert(at, value);
            model.insert(at, value);
        }
        _ if !model.is_empty() => assert_eq!(vector.set(at, value), std::mem::replace(&mut model[at], value)),
        _ => {}
    }
}
