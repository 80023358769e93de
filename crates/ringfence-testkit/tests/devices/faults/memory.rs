//! Scenarios of memory: buffers and textures, blocks, pools, and dedicated memory.

use ringfence::device::{
    BufferDesc, BufferUsage, Driver, Native, Requirements, ResourceClass, TextureDesc, TextureUsage,
};
use ringfence::memory::{Error, PoolDesc};
use ringfence::{AllocationDesc, Dedicated, Location};
use ringfence_testkit::{Command, Gpu};

use crate::faults::{COPIED, KIB, MIB};
use ringfence_testkit::faults::{Outcome, Stage, copy, pattern};

fn needs(size: u64) -> Requirements {
    Requirements {
        size,
        alignment: 64 * KIB,
        memory_type_bits: u32::MAX,
        class: ResourceClass::Buffer,
        prefers_dedicated: false,
        requires_dedicated: false,
    }
}

/// Writes, copies and reads back buffers, one in each location.
pub fn buffers<G: Gpu>(stage: &mut Stage<G>) -> Outcome {
    let bytes = pattern(1, 4 * KIB);
    let upload = stage.filled(&bytes)?;
    let device = stage.buffer(4 * KIB, Location::Device)?;
    stage.run(&[copy::<G>(&upload, &device, 4 * KIB)])?;
    drop(upload);
    stage.memory.reclaim();
    stage.expect(&device, &bytes)
}

pub fn textures<G: Gpu>(stage: &mut Stage<G>) -> Outcome {
    let usage = TextureUsage::COPY_SRC | TextureUsage::COPY_DST;
    let desc = TextureDesc { width: 32, height: 32, usage, ..Default::default() };
    let texture = stage.texture(desc, AllocationDesc { name: "texture", ..Default::default() })?;
    let region = stage.region(32, 32, 0);
    let bytes = pattern(2, region.row_bytes * 32);
    let (upload, back) = (stage.filled(&bytes)?, stage.buffer(bytes.len() as u64, Location::Readback)?);
    let object = texture.object().clone();
    stage.run(&[
        Command::CopyBufferToTexture { src: upload.object().clone(), dst: object.clone(), region, discard: true },
        Command::CopyTextureToBuffer { src: object, dst: back.object().clone(), region },
    ])?;
    let mut read = vec![0; bytes.len()];
    stage.trial().run(|| back.read(0, &mut read))?;
    let rows =
        |bytes: &[u8]| bytes.chunks(region.row_bytes as usize).map(|row| row[..128].to_vec()).collect::<Vec<_>>();
    assert!(rows(&read) == rows(&bytes), "wrong texels");
    Ok(())
}

/// Creates and frees blocks.
pub fn growth<G: Gpu>(stage: &mut Stage<G>) -> Outcome {
    let mut held = Vec::new();
    for size in [MIB, 3 * MIB, 3 * MIB, 100, 3 * MIB] {
        held.push(stage.buffer(size, Location::Device)?);
    }
    held.drain(1..4);
    stage.memory.reclaim();
    stage.memory.budgets().trim();
    held.push(stage.buffer(2 * MIB, Location::Device)?);
    drop(held);
    stage.memory.reclaim();
    stage.memory.budgets().maintain();
    stage.memory.budgets().trim_to(0);
    Ok(())
}

pub fn dedicated<G: Gpu>(stage: &mut Stage<G>) -> Outcome {
    let alone = AllocationDesc { dedicated: Dedicated::Always, name: "alone", ..Default::default() };
    let bytes = pattern(3, KIB);
    let held = stage.buffer_for(KIB, COPIED, alone)?;
    let usage = TextureUsage::COPY_DST | TextureUsage::RENDER_TARGET;
    let target = stage.texture(TextureDesc { width: 64, height: 64, usage, ..Default::default() }, alone)?;
    let upload = stage.filled(&bytes)?;
    stage.run(&[copy::<G>(&upload, &held, KIB)])?;
    drop((upload, target));
    stage.memory.reclaim();
    stage.expect(&held, &bytes)
}

/// Allocates memory without a resource, and creates resources that share it.
pub fn aliasing<G: Gpu>(stage: &mut Stage<G>) -> Outcome {
    let trial = stage.trial();
    let mut memory = trial.run(|| stage.memory.allocate(needs(256 * KIB), AllocationDesc::default()))?;
    let device = stage.memory.device();
    let describe = || {
        ringfence::device::Create::<ringfence::device::Buffers>::describe(
            device,
            &BufferDesc { size: 4 * KIB, usage: COPIED },
        )
    };
    let first = trial.run(|| memory.create_aliasing_buffer(&Native(&describe()?), 0, "first"))?;
    let second = trial.run(|| memory.create_aliasing_buffer(&Native(&describe()?), 0, "second"))?;
    drop((memory, first));
    stage.memory.reclaim();
    let bytes = pattern(4, 4 * KIB);
    let upload = stage.filled(&bytes)?;
    stage.run(&[copy::<G>(&upload, &second, 4 * KIB)])?;
    stage.expect(&second, &bytes)
}

/// Allocates memory for a resource that the program itself places.
pub fn memory_for_a_resource<G: Gpu>(stage: &mut Stage<G>) -> Outcome {
    use ringfence::device::{Buffers, Create};
    let trial = stage.trial();
    let memory = stage.memory.clone();
    let device = memory.device();
    for dedicated in [Dedicated::Always, Dedicated::Never] {
        let info = trial.run(|| Create::<Buffers>::describe(device, &BufferDesc { size: 8 * KIB, usage: COPIED }))?;
        // SAFETY: the description comes from the device.
        let (unplaced, needs) = trial.run(|| unsafe { Create::<Buffers>::prepare(device, &info) })?;
        let desc = AllocationDesc { dedicated, ..Default::default() };
        // SAFETY: `unplaced` is fresh, and `needs` are its requirements.
        let held = trial.run(|| unsafe { memory.allocate_for::<Buffers>(&unplaced, needs, desc) });
        let placed = held.and_then(|held| {
            let placed =
                // SAFETY: the memory was allocated for the buffer.
                trial.run(|| unsafe { Create::<Buffers>::place(device, &unplaced, held.memory(), held.offset()) });
            placed.map(|placed| (held, placed))
        });
        match placed {
            Ok((held, placed)) => {
                // SAFETY: no work uses it.
                unsafe { Create::<Buffers>::destroy(device, placed.object) };
                drop(held);
            }
            Err(failure) => {
                // SAFETY: it was not placed.
                unsafe { Create::<Buffers>::discard(device, unplaced) };
                return Err(failure);
            }
        }
    }
    Ok(())
}

pub fn small_buffers<G: Gpu>(stage: &mut Stage<G>) -> Outcome {
    let trial = stage.trial();
    let desc = BufferDesc { size: 100, usage: BufferUsage::VERTEX | BufferUsage::COPY_SRC };
    let mut held = Vec::new();
    for number in 0..20_u8 {
        let mut small = trial.run(|| stage.memory.create_small_buffer(desc, Location::Upload))?;
        trial.run(|| small.write(0, &[number; 100]))?;
        held.push(small);
    }
    let back = stage.buffer(2000, Location::Readback)?;
    let copies: Vec<_> = (0_u64..)
        .zip(&held)
        .map(|(at, small)| Command::CopyBuffer {
            src: small.object().clone(),
            src_offset: small.offset(),
            dst: back.object().clone(),
            dst_offset: at * 100,
            size: 100,
        })
        .collect();
    stage.run(&copies)?;
    stage.expect_back(&back, &(0..20_u8).flat_map(|number| [number; 100]).collect::<Vec<_>>())
}

pub fn pools<G: Gpu>(stage: &mut Stage<G>) -> Outcome {
    let trial = stage.trial();
    let describe = || {
        let desc = BufferDesc { size: 300 * KIB, usage: COPIED };
        ringfence::device::Create::<ringfence::device::Buffers>::describe(stage.memory.device(), &desc)
    };
    let desc = AllocationDesc::default();
    let bits = trial.run(|| stage.memory.plan().buffer(&Native(&describe()?), desc))?.memory_type;
    let pool = trial.run(|| {
        let desc =
            PoolDesc { memory_type: bits, block_bytes: MIB, block_count_min: 2, name: "pool", ..Default::default() };
        stage.memory.create_pool(desc)
    })?;
    let mut held = Vec::new();
    for _ in 0..8 {
        held.push(trial.run(|| -> Result<_, Error> { pool.create_buffer(&Native(&describe()?), desc) })?);
    }
    drop(pool);
    let last = held.pop().expect("eight");
    drop(held);
    stage.memory.reclaim();
    let bytes = pattern(5, KIB);
    let upload = stage.filled(&bytes)?;
    stage.run(&[copy::<G>(&upload, &last, KIB)])?;
    stage.expect(&last, &bytes)
}

/// If memory is short, the program's eviction callback is called, on any thread.
pub fn eviction<G: Gpu>(stage: &mut Stage<G>) -> Outcome {
    let spare = stage.buffer(MIB, Location::Device)?;
    let spare = std::sync::Mutex::new(Some(spare));
    stage.memory.budgets().set_eviction(Some(Box::new(move |_| spare.lock().expect("no panic").take().is_some())));
    let made = stage.buffer(3 * MIB, Location::Device);
    stage.memory.budgets().set_eviction(None);
    made.map(drop)
}

/// A plan makes only the driver calls that it needs, and changes nothing.
pub fn plans<G: Gpu>(stage: &mut Stage<G>) -> Outcome {
    let trial = stage.trial();
    let before = stage.memory.statistics().total();
    trial.run(|| stage.memory.plan().memory(needs(MIB), AllocationDesc::default()))?;
    let texture = TextureDesc { width: 64, height: 64, ..Default::default() };
    trial.run(|| -> Result<_, Error> {
        let device = stage.memory.device();
        let info = ringfence::device::Create::<ringfence::device::Textures>::describe(device, &texture)?;
        stage.memory.plan().texture(&Native(&info), AllocationDesc::default())
    })?;
    assert_eq!(stage.memory.statistics().total(), before);
    assert!(!stage.memory.device().capabilities().memory_types.is_empty());
    Ok(())
}
