//! New bytes on their way to the device: several threads stage them, each through pages of its own, and the copies of a
//! frame go in one batch a queue.
//!
//! ```text
//!   jobs  0 1 2 3 4 5 6 7 8        thread 0: 0 1 2  ─ page ─┐
//!                                  thread 1: 3 4 5  ─ page ─┼─▶ ring ──▶ batch: copies merged, barriers grouped
//!                                  thread 2: 6 7 8  ─ page ─┘
//! ```
//!
//! On the simulated device the threads take turns, so that which of them gets which page, and what waits for what, is
//! the same in every run.

use ringfence::device::Device;
use ringfence::upload::BatchFigures;
use ringfence::{
    Allocator, Buffer, Frame, Staged, TexelTarget, Texels, Texture, UploadBatch, UploadDesc, UploadError, UploadRing,
    UploadWriter,
};

use super::error::StreamError;

/// A thing's resource on the device.
pub enum Body<D: Device> {
    Buffer(Buffer<D>),
    Texture(Texture<D>),
}

/// Small enough that the ring wraps often and is full now and then.
const RING_BYTES: u64 = 1 << 20;
const PAGE_BYTES: u64 = 16 << 10;
/// The upload ring's name.
pub const STAGING: &str = "staging";
/// Threads that stage.
pub const THREADS: usize = 4;

/// Bytes for a thing.
pub struct Job {
    /// Which thing, by its number.
    pub thing: u64,
    /// First byte there.
    pub offset: u64,
    pub bytes: Vec<u8>,
    /// Texels across and down, of a square texture.
    pub side: Option<u32>,
}

/// Where a job's bytes are in the ring.
enum Held<D: Device> {
    Bytes(Staged<D>),
    Texels(Texels<Staged<D>>),
}

/// The ring and its writers.
pub struct Staging<D: Device> {
    pub ring: UploadRing<D>,
    writers: Vec<UploadWriter<D>>,
    takes_turns: bool,
    /// Of all batches.
    pub figures: BatchFigures,
}

impl<D: Device> Staging<D> {
    pub fn new(memory: &Allocator<D>, takes_turns: bool) -> Result<Self, StreamError> {
        let desc = UploadDesc { capacity: RING_BYTES, page_bytes: PAGE_BYTES, name: STAGING, ..Default::default() };
        let ring = UploadRing::new(memory, desc)?;
        Ok(Self { ring, writers: Vec::new(), takes_turns, figures: BatchFigures::default() })
    }

    /// Stages all jobs for the submission of `frame` and gathers their copies, in the order of the jobs.
    pub fn stage<'b>(
        &mut self,
        frame: &Frame,
        jobs: &[Job],
        body: impl Fn(u64) -> Option<&'b Body<D>>,
    ) -> Result<UploadBatch<D>, StreamError> {
        while self.writers.len() < THREADS {
            self.writers.push(self.ring.writer(frame)?);
        }
        let held = self.run(frame, jobs)?;
        let mut batch = UploadBatch::new();
        for (job, held) in jobs.iter().zip(&held) {
            match (held, body(job.thing)) {
                (Held::Bytes(staged), Some(Body::Buffer(buffer))) => batch.copy(staged, buffer, job.offset)?,
                (Held::Texels(staged), Some(Body::Texture(texture))) => {
                    batch.copy_texels(staged, texture, TexelTarget { discard: true, ..TexelTarget::default() })?;
                }
                _ => {}
            }
        }
        Ok(batch)
    }

    /// Has each thread stage its share; the places come in the order of the jobs.
    fn run(&mut self, frame: &Frame, jobs: &[Job]) -> Result<Vec<Held<D>>, StreamError> {
        let takes_turns = self.takes_turns;
        // Neighbours go to one thread: what follows each other in the ring too is copied as one.
        let shares = jobs.chunks(jobs.len().div_ceil(THREADS).max(1));
        std::thread::scope(|scope| {
            let mut running = Vec::new();
            for (writer, jobs) in self.writers.iter_mut().zip(shares) {
                let thread = scope.spawn(move || share(frame, writer, jobs));
                running.push(if takes_turns { Ok(thread.join()) } else { Err(thread) });
            }
            let mut held = Vec::with_capacity(jobs.len());
            for thread in running {
                let end = thread.unwrap_or_else(|running| running.join());
                held.extend(end.expect("a thread that stages does not panic")?);
            }
            Ok(held)
        })
    }

    /// Adds to the figures what a batch does.
    pub fn count(&mut self, batch: &mut UploadBatch<D>) {
        let (all, more) = (&mut self.figures, batch.figures());
        all.copy_count += more.copy_count;
        all.copy_bytes += more.copy_bytes;
        all.region_count += more.region_count;
        all.call_count += more.call_count;
        all.target_count += more.target_count;
        all.hidden_bytes += more.hidden_bytes;
    }
}

/// What one thread does.
fn share<D: Device>(frame: &Frame, writer: &mut UploadWriter<D>, jobs: &[Job]) -> Result<Vec<Held<D>>, UploadError> {
    writer.begin(frame)?;
    let held = jobs.iter().map(|job| match job.side {
        Some(side) => writer.write_texels(&Texels::new(side, side, 4, &job.bytes)).map(Held::Texels),
        None => writer.write(&job.bytes, 4).map(Held::Bytes),
    });
    held.collect()
}
