//! Constants of a frame: materials that seldom change, instances that change in some frames, and constants for a single
//! draw.
//!
//! ```text
//!   materials   static    a permanent slot in device memory; copied after a change, two barriers per pool
//!   instances   dynamic   bound for each draw; copied only after a change; if often read, moved to device memory
//!   draws       fast      written for one frame, never freed one by one
//! ```

use ringfence::device::{BufferUsage, Device};
use ringfence::placement::{FastConstantsDesc, FastWriter};
use ringfence::upload::{
    BoundConstants, ConstantFigures, ConstantWriter, ConstantsDesc, DynamicConstants, StaticConstants,
};
use ringfence::{Allocator, ConstantBuffers, FastConstants, UploadBatch};
use ringfence_testkit::Command;

use super::checks::Checker;
use super::error::StreamError;
use super::frame::{List, Recording};
use super::staging::Staging;
use super::world::World;

/// Sizes of the constants, in bytes: one or two of each size class, and one above the largest class.
const SIZES: [u64; 6] = [128, 256, 448, 768, 1024, 3072];
const INSTANCES: usize = 24;
const MATERIALS: usize = 32;
/// Number of content changes of instances in a frame.
const CHANGES: usize = 6;
/// Number of binds in a frame whose bytes are read back and compared.
const CHECKS: usize = 3;
/// If constants are read at least this many times in a frame, they are copied to device memory in the next frame.
const PROMOTE_READS: u32 = 6;

/// The constants of the demo.
pub struct Shading<D: Device> {
    buffers: ConstantBuffers<D>,
    fast: FastConstants<D>,
    writers: Option<(ConstantWriter<D, ()>, FastWriter<D>)>,
    instances: Vec<DynamicConstants<D, ()>>,
    materials: Vec<(StaticConstants<D, ()>, Vec<u8>)>,
    pub fast_count: u64,
}

impl<D: Device> Shading<D> {
    pub fn new(memory: &Allocator<D>, world: &mut World) -> Result<Self, StreamError> {
        let usage = BufferUsage::CONSTANT | BufferUsage::COPY_SRC;
        let desc = ConstantsDesc {
            dynamic_slots: 256,
            static_slots: 16,
            promote_reads: Some(PROMOTE_READS),
            usage,
            ..Default::default()
        };
        let buffers = ConstantBuffers::new(memory, desc, ())?;
        let instance = |number| buffers.dynamic(SIZES[number % SIZES.len()]);
        let instances = (0..INSTANCES).map(instance).collect::<Result<_, _>>()?;
        let mut materials = Vec::new();
        for number in 0..MATERIALS {
            let content = world.noise(SIZES[number % SIZES.len()]);
            materials.push((buffers.create_static(&content)?, content));
        }
        let fast = FastConstants::new(memory, FastConstantsDesc::default());
        Ok(Self { buffers, fast, writers: None, instances, materials, fast_count: 0 })
    }

    /// Returns the figures of dynamic and static constants.
    pub fn figures(&mut self) -> ConstantFigures {
        // A writer adds its figures to the buffers when it is dropped.
        self.writers = None;
        self.buffers.figures()
    }

    /// Records the changes and binds of a frame, and the comparison of some binds.
    pub fn record(
        &mut self,
        world: &mut World,
        recording: &mut Recording<D>,
        checker: &Checker<D>,
        staging: &mut Staging<D>,
    ) -> Result<(), StreamError> {
        self.change(world)?;
        let frame = &recording.main_frame;
        if let Some((constants, fast)) = &mut self.writers {
            constants.begin(frame)?;
            fast.begin(frame)?;
        } else {
            self.writers = Some((self.buffers.writer(frame)?, self.fast.writer(frame)?));
        }
        let Some((writer, fast)) = &mut self.writers else { return Ok(()) };
        let mut batch = UploadBatch::new();
        self.buffers.upload_statics(writer, &mut batch)?;
        let mut shown: Vec<(String, BoundConstants<D, ()>, Vec<u8>)> = Vec::new();
        for (number, instance) in self.instances.iter().enumerate() {
            // Instance `number` is drawn 1 to 8 times.
            for _ in 0..=number % 8 {
                let bound = writer.bind(instance)?;
                let draw = fast.write(&(number as u64).to_le_bytes())?;
                self.fast_count += 1;
                if number == 0 {
                    let place = (draw.buffer.clone(), draw.offset);
                    let bytes = (number as u64).to_le_bytes().to_vec();
                    let check = checker.bytes(frame, "constants of a draw".to_owned(), place, bytes)?;
                    recording.later.push(check);
                }
                shown.push((format!("instance {number}"), bound, instance.content().to_vec()));
            }
        }
        let material = world.below(self.materials.len());
        let (held, content) = &self.materials[material];
        let mut compared = vec![(format!("material {material}"), held.bound().clone(), content.clone())];
        for _ in 0..CHECKS {
            compared.push(shown.swap_remove(world.below(shown.len())));
        }
        for (what, bound, content) in compared {
            let check = checker.bytes(frame, what, (bound.buffer, bound.offset), content)?;
            recording.later.push(check);
        }
        // Copies to device memory are recorded before the commands that read them.
        staging.count(&mut batch);
        recording.push(List::Main, Command::Upload(Box::new(batch)));
        recording.push(List::Main, Command::Upload(Box::new(writer.promoted().clone())));
        recording.flush_later();
        Ok(())
    }

    /// Changes the content of some instances. Half of the changes write the same content. In some frames, changes a
    /// material too.
    fn change(&mut self, world: &mut World) -> Result<(), StreamError> {
        let common = world.noise(SIZES[0]);
        for change in 0..CHANGES {
            let number = world.below(INSTANCES);
            let bytes = if change % 2 == 0 { common.clone() } else { world.noise(SIZES[0]) };
            self.instances[number].set(0, &bytes)?;
        }
        if world.below(4) == 0 {
            let number = world.below(MATERIALS);
            let content = world.noise(SIZES[number % SIZES.len()]);
            let (held, known) = &mut self.materials[number];
            held.update(&content)?;
            *known = content;
        }
        Ok(())
    }
}
