//! Uploads: several threads write new bytes to the upload ring, each through its own pages. The copies of a frame form
//! one batch per queue.
//!
//! ```text
//!   jobs  0 1 2 3 4 5 6 7 8        thread 0: 0 1 2  ─ page ─┐
//!                                  thread 1: 3 4 5  ─ page ─┼─▶ ring ──▶ batch: copies merged, barriers grouped
//!                                  thread 2: 6 7 8  ─ page ─┘
//! ```
//!
//! On the simulated device the threads run one after the other, so that the pages of each thread and the waits are the
//! same in every run.

use ringfence::device::Device;
use ringfence::upload::{BatchFigures, Staged, TexelTarget, Texels, UploadDesc, UploadError, UploadWriter};
use ringfence::{Allocator, Buffer, Frame, Texture, UploadBatch, UploadRing};

use super::error::StreamError;

/// An object's resource on the device.
pub enum Body<D: Device> {
    Buffer(Buffer<D>),
    Texture(Texture<D>),
}

/// Capacity of the upload ring, in bytes. It is small, so that the ring wraps around often and is sometimes full.
const RING_BYTES: u64 = 1 << 20;
const PAGE_BYTES: u64 = 16 << 10;
/// Name of the upload ring.
pub const STAGING: &str = "staging";
/// Number of threads that write to the ring.
pub const THREADS: usize = 4;

/// Bytes to upload to an object.
pub struct Job {
    /// Number of the object.
    pub thing: u64,
    /// Offset in the object at which the bytes are written.
    pub offset: u64,
    pub bytes: Vec<u8>,
    /// Width and height of a square texture, in texels; `None` for a buffer.
    pub side: Option<u32>,
}

/// Bytes of a job in the upload ring.
enum Held<D: Device> {
    Bytes(Staged<D>),
    Texels(Texels<Staged<D>>),
}

/// The upload ring and a writer for each thread.
pub struct Staging<D: Device> {
    pub ring: UploadRing<D>,
    writers: Vec<UploadWriter<D>>,
    takes_turns: bool,
    /// Sums of the figures of all batches.
    pub figures: BatchFigures,
}

impl<D: Device> Staging<D> {
    pub fn new(memory: &Allocator<D>, takes_turns: bool) -> Result<Self, StreamError> {
        let desc = UploadDesc { capacity: RING_BYTES, page_bytes: PAGE_BYTES, name: STAGING, ..Default::default() };
        let ring = UploadRing::new(memory, desc)?;
        Ok(Self { ring, writers: Vec::new(), takes_turns, figures: BatchFigures::default() })
    }

    /// Writes the bytes of all jobs to the ring for the submission of `frame`, and adds their copies to a batch in the
    /// order of the jobs.
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

    /// Divides the jobs among threads, which write the bytes to the ring. The results are in the order of the jobs.
    fn run(&mut self, frame: &Frame, jobs: &[Job]) -> Result<Vec<Held<D>>, StreamError> {
        let takes_turns = self.takes_turns;
        // A thread gets consecutive jobs, so that adjacent bytes are adjacent in the ring and are copied as one.
        let chunks = jobs.chunks(jobs.len().div_ceil(THREADS).max(1));
        std::thread::scope(|scope| {
            let mut running = Vec::new();
            for (writer, jobs) in self.writers.iter_mut().zip(chunks) {
                let thread = scope.spawn(move || write_jobs(frame, writer, jobs));
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

    /// Adds the figures of a batch to the sums.
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

/// Writes the bytes of the jobs of one thread to the ring.
fn write_jobs<D: Device>(
    frame: &Frame,
    writer: &mut UploadWriter<D>,
    jobs: &[Job],
) -> Result<Vec<Held<D>>, UploadError> {
    writer.begin(frame)?;
    let held = jobs.iter().map(|job| match job.side {
        Some(side) => writer.write_texels(&Texels::new(side, side, 4, &job.bytes)).map(Held::Texels),
        None => writer.write(&job.bytes, 4).map(Held::Bytes),
    });
    held.collect()
}
