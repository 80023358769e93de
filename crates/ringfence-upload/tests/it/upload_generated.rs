//! Generated copies compared with a naive model, and threads that break the rules on purpose.

use ringfence::device::{BufferDesc, BufferUsage};
use ringfence::sim::{Device, Fence, Profile, SimOptions};
use ringfence::upload::{Staged, UploadDesc, UploadError};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Buffer, Location, Timeline, UploadBatch, UploadRing};
use ringfence_core::testing::rng::Rng;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

struct Program {
    device: Device,
    fence: Fence,
    timeline: Timeline<Device>,
    memory: Allocator<Device>,
}

impl Program {
    fn new(seed: u64) -> Self {
        let device = Device::new(Profile::h200(), SimOptions { seed, lateness: 2, ..Default::default() });
        let fence = device.create_fence(0);
        let memory = Allocator::over(device.clone(), AllocatorDesc::default());
        // SAFETY: the fence belongs to the device, and every frame below signals it.
        let timeline = unsafe { memory.timeline(fence) }.expect("the device is not lost");
        Self { device, fence, timeline, memory }
    }

    fn buffer(&self, size: u64) -> Buffer<Device> {
        let info = BufferDesc { size, usage: BufferUsage::COPY_DST };
        let desc = AllocationDesc { location: Location::Device, ..Default::default() };
        self.memory.create_buffer(&info, desc).expect("there is room")
    }
}

/// Merged copies have the same result as the model, which executes the copies one by one.
#[test]
fn merged_copies_do_what_the_copies_one_by_one_do() {
    const SIZE: usize = 2048;
    let program = Program::new(1);
    let (sources, targets) = ([(); 2].map(|()| program.buffer(8192)), [(); 3].map(|()| program.buffer(SIZE as u64)));
    let mut dice = Rng::new(9);
    let content: Vec<Vec<u8>> = (0..2).map(|_| (0..8192).map(|_| dice.below(256) as u8).collect()).collect();
    let mut batch = UploadBatch::new();
    for round in 0..400 {
        batch.clear();
        let mut twin = vec![vec![0_u8; SIZE]; targets.len()];
        let count = 1 + dice.below(40);
        let (mut ring, mut bytes) = (0, 0);
        for _ in 0..count {
            let (source, target) = (dice.below(2) as usize, dice.below(3) as usize);
            let size = 1 + dice.below([16, 64, 600][round % 3]);
            // Half of the sources are contiguous, like those of a ring; some rounds have no overlap.
            ring = if dice.below(2) == 0 { ring } else { dice.below(7000) };
            let from = ring.min(8192 - size);
            ring = from + size;
            let to = dice.below(SIZE as u64 - size + 1);
            let staged = Staged::of(&sources[source], from, size).expect("inside");
            batch.copy(&staged, &targets[target], to).expect("it fits");
            let bytes_from = &content[source][from as usize..][..size as usize];
            twin[target][to as usize..][..size as usize].copy_from_slice(bytes_from);
            bytes += size;
            // Merged copies are merged again with later ones.
            if dice.below(16) == 0 {
                batch.figures();
            }
        }
        let figures = batch.figures();
        let (mut copied, mut regions_seen, mut calls) = (0, 0, 0);
        let mut image = vec![vec![0_u8; SIZE]; targets.len()];
        let mut written = vec![vec![false; SIZE]; targets.len()];
        for (src, dst, regions) in batch.merged() {
            calls += 1;
            let source = sources.iter().position(|held| held.object() == src).expect("a known source");
            let target = targets.iter().position(|held| held.object() == dst).expect("a known target");
            for pair in regions.windows(2) {
                let (end, src_end) = (pair[0].dst_offset + pair[0].size, pair[0].src_offset + pair[0].size);
                assert!(end <= pair[1].dst_offset, "in order");
                assert!((end, src_end) != (pair[1].dst_offset, pair[1].src_offset), "neighbours are joined");
            }
            for region in regions {
                let (from, to, size) = (region.src_offset as usize, region.dst_offset as usize, region.size as usize);
                image[target][to..to + size].copy_from_slice(&content[source][from..from + size]);
                for byte in &mut written[target][to..to + size] {
                    assert!(!std::mem::replace(byte, true), "no byte is copied to twice");
                }
                (copied, regions_seen) = (copied + region.size, regions_seen + 1);
            }
        }
        assert_eq!(image, twin, "round {round}");
        assert_eq!((figures.copy_count, figures.copy_bytes), (count, bytes));
        assert_eq!((figures.region_count, figures.call_count), (regions_seen, calls));
        assert_eq!(figures.copy_bytes - figures.hidden_bytes, copied, "round {round}: {figures:?}");
    }
}

/// Frames are submitted and completed, and their ring space is reused, while threads still write for them. The result
/// is an error or wrong bytes on the device, but two threads never write the same bytes.
#[test]
fn writers_never_meet_even_if_frames_are_submitted_under_their_hands() {
    const THREADS: u8 = 6;
    let program = Program::new(4);
    let Program { device, fence, timeline, memory } = &program;
    let desc = UploadDesc { capacity: 16 << 10, page_bytes: 1 << 10, ..Default::default() };
    let ring = UploadRing::new(memory, desc).expect("there is room");
    let (over, refused, written) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    // Each write sets all its bytes to the thread's own value, waits a moment, and finds them unchanged.
    let mark = |id: u8, to: &mut [MaybeUninit<u8>]| {
        to.fill(MaybeUninit::new(id));
        std::thread::yield_now();
        // SAFETY: all bytes were written just now.
        assert!(to.iter().all(|byte| unsafe { byte.assume_init_read() } == id), "another thread wrote here");
    };
    let current = moment::Shared::new(timeline.begin());
    std::thread::scope(|scope| {
        for id in 0..THREADS {
            let (ring, over, refused, written, current) = (&ring, &over, &refused, &written, &current);
            scope.spawn(move || {
                // The other threads end however this thread ends.
                let _end = Ends(over);
                let mut writer = current.with(|frame| ring.writer(frame)).expect("the allocator's own");
                let mut size = 100;
                while !over.load(Ordering::Relaxed) {
                    size = size * 7 % 701 + 40;
                    match writer.write_with(size, 4, |to| mark(id, to)) {
                        Ok(_) => _ = written.fetch_add(1, Ordering::Relaxed),
                        Err(UploadError::FrameOver { .. }) => {
                            refused.fetch_add(1, Ordering::Relaxed);
                            current.with(|frame| writer.begin(frame)).expect("the allocator's own");
                        }
                        // The open frame uses the whole ring: the submitting thread must continue first.
                        Err(UploadError::Full { .. } | UploadError::Timeout { .. }) => {
                            std::thread::sleep(Duration::from_micros(20));
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        // The other threads end even if this one fails.
        let _end = Ends(&over);
        let done = || (refused.load(Ordering::Relaxed), written.load(Ordering::Relaxed));
        let enough = || done().0 > 100 && done().1 > 2000;
        // There is no time limit, because machines differ; there must only be progress.
        let (mut seen, mut since) = (done(), Instant::now());
        while !enough() && !over.load(Ordering::Relaxed) {
            if done() != seen {
                (seen, since) = (done(), Instant::now());
            }
            assert!(since.elapsed() < Duration::from_secs(120), "the threads come forward: {seen:?}");
            let frame = current.replace(timeline.begin());
            device.submit(0, &[], vec![], (*fence, frame.value())).expect("the device is not lost");
            timeline.submitted(frame).expect("in order");
            memory.reclaim();
            ring.validate().expect("the ring is sound");
        }
    });
    drop(current);
    timeline.discard_dropped();
    let last = timeline.submitted_value();
    assert!(timeline.wait(last, Duration::MAX).expect("the device is not lost"));
    // No frame is open now, so the dropped frame holds nothing any more.
    memory.reclaim();
    // If the last write of a frame came too late, later frames can still reuse its ring space.
    let frame = timeline.begin();
    ring.write_for(&frame, &[1; 10_000], 4).expect("there is room");
}

struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The current frame, shared by threads.
mod moment {
    use ringfence::Frame;
    use std::sync::Mutex;

    pub struct Shared(Mutex<Frame>);

    impl Shared {
        pub fn new(frame: Frame) -> Self {
            Self(Mutex::new(frame))
        }

        pub fn with<T>(&self, work: impl FnOnce(&Frame) -> T) -> T {
            work(&self.0.lock().expect("no thread fails"))
        }

        pub fn replace(&self, frame: Frame) -> Frame {
            std::mem::replace(&mut self.0.lock().expect("no thread fails"), frame)
        }
    }
}
