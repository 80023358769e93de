//! A program on the simulated device with two frames in flight: it draws by reading texels back.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ringfence::device::{BufferDesc, BufferUsage};
use ringfence::paging::{PageUses, PagedBuffer, PagedTexture, Paging, PagingDesc, PagingError, PagingStep};
use ringfence::sim::{Barrier, BufferLayout, Command, Device, Fence, Profile, SimOptions, TextureRegion};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Buffer, Frame, Location, Timeline};

const PATIENCE: Duration = Duration::from_secs(60);

pub struct Program {
    pub device: Device,
    pub timeline: Timeline<Device>,
    pub memory: Allocator<Device>,
    pub paging: Paging<Device>,
    fence: Fence,
    /// Readbacks of submitted frames: value, buffer, expected bytes.
    pending: Vec<(u64, Buffer<Device>, Vec<u8>)>,
    /// Number of bytes that were compared.
    pub compared_bytes: u64,
}

impl Program {
    pub fn new(profile: Profile, allocator: AllocatorDesc, desc: PagingDesc) -> Self {
        let options = SimOptions { seed: 9, lateness: 3, watches_barriers: true, ..Default::default() };
        let device = Device::new(profile, options);
        let fence = device.create_fence(0);
        let memory = Allocator::over(device.clone(), allocator);
        // SAFETY: the fence belongs to the device, and every submitted frame below signals it.
        let timeline = unsafe { memory.timeline(fence) }.expect("the device is not lost");
        // SAFETY: every frame below is committed before its submission.
        let paging = unsafe { Paging::new(&memory, desc) };
        Self { device, timeline, memory, paging, fence, pending: Vec::new(), compared_bytes: 0 }
    }

    /// A program whose paged resources have at most this many bytes on the device.
    pub fn limited(device_bytes_max: u64) -> Self {
        let desc = PagingDesc { device_bytes_max, ..Default::default() };
        Self::new(Profile::h200(), AllocatorDesc::default(), desc)
    }

    pub fn commit(
        &mut self,
        uses: &PageUses,
        frame: &Frame,
        commands: &mut Vec<Command>,
    ) -> Result<PagingStep, PagingError> {
        // SAFETY: the list is submitted as the frame; all work is on one queue.
        unsafe { self.paging.commit(uses, frame, commands) }
    }

    pub fn submit(&self, frame: Frame, commands: Vec<Command>) {
        self.device.submit(0, &[], commands, (self.fence, frame.value())).expect("the device is not lost");
        self.timeline.submitted(frame).expect("in order");
        self.memory.reclaim();
    }

    /// Returns a second timeline, and an open frame of it.
    pub fn other_queue(&self) -> (Timeline<Device>, Frame) {
        let fence = self.device.create_fence(0);
        // SAFETY: as in `new`.
        let timeline = unsafe { self.memory.timeline(fence) }.expect("the device is not lost");
        let frame = timeline.begin();
        (timeline, frame)
    }

    /// Commits and submits a frame that only uses these resources.
    pub fn frame(&mut self, uses: &PageUses) -> PagingStep {
        let (frame, mut commands) = (self.timeline.begin(), Vec::new());
        let step = self.commit(uses, &frame, &mut commands).expect("there is room");
        self.submit(frame, commands);
        step
    }

    fn readback(&self, size: u64) -> Buffer<Device> {
        let desc = BufferDesc { size, usage: BufferUsage::COPY_DST };
        let how = AllocationDesc { location: Location::Readback, ..Default::default() };
        self.memory.create_buffer(&desc, how).expect("there is room")
    }

    /// Records a copy of the first `expected.len() / 4` texels of a mip level of the whole texture to the host. They are
    /// compared once the frame is complete.
    pub fn look(
        &mut self,
        frame: &Frame,
        commands: &mut Vec<Command>,
        texture: &PagedTexture,
        mip: u32,
        expected: Vec<u8>,
    ) {
        let back = self.readback(expected.len() as u64);
        let (of, first) = self.paging.texture(texture).expect("the commit has brought it");
        let layout = BufferLayout { offset: 0, row_bytes: expected.len() as u64 };
        let width = expected.len() as u32 / 4;
        let region = TextureRegion { mip: mip - first, layer: 0, x: 0, y: 0, width, height: 1 };
        let copy = Command::CopyTextureToBuffer { src: *of.object(), region, dst: *back.object(), layout };
        commands.extend([Command::Barrier(Barrier::All), copy]);
        self.pending.push((frame.value(), back, expected));
    }

    /// Records a copy of a whole buffer to the host, as [`Program::look`] does.
    pub fn look_at_buffer(
        &mut self,
        frame: &Frame,
        commands: &mut Vec<Command>,
        buffer: &PagedBuffer,
        expected: Vec<u8>,
    ) {
        let back = self.readback(expected.len() as u64);
        let src = *self.paging.buffer(buffer).expect("the commit has brought it").object();
        let size = expected.len() as u64;
        let copy = Command::CopyBuffer { src, src_offset: 0, dst: *back.object(), dst_offset: 0, size };
        commands.extend([Command::Barrier(Barrier::All), copy]);
        self.pending.push((frame.value(), back, expected));
    }

    /// Waits until at most `in_flight` frames are under way, and compares the readbacks of the others.
    pub fn pace(&mut self, in_flight: u64) {
        let done = self.timeline.submitted_value().saturating_sub(in_flight);
        assert!(self.timeline.wait(done, PATIENCE).expect("the device is not lost"));
        let (ready, pending) = std::mem::take(&mut self.pending).into_iter().partition(|(value, ..)| *value <= done);
        self.pending = pending;
        let ready: Vec<_> = ready;
        for (value, back, expected) in ready {
            let mut bytes = vec![0; expected.len()];
            back.read(0, &mut bytes).expect("it is mapped");
            assert!(bytes == expected, "frame {value}: {:?} is not {:?}", &bytes[..8], &expected[..8]);
            self.compared_bytes += expected.len() as u64;
        }
        self.memory.reclaim();
    }

    /// Completes all work, and checks that the device has found no mistake and that nothing is left.
    pub fn end(mut self) {
        self.pace(0);
        let Self { device, memory, paging, timeline, .. } = self;
        drop(paging);
        drop(timeline);
        memory.debug().validate().expect("sound");
        memory.shutdown(PATIENCE).expect("all work is complete");
        drop(memory);
        assert_eq!(device.hazards(), []);
        assert_eq!(device.live(), Default::default());
    }
}

/// A trace in memory.
#[derive(Clone, Default)]
pub struct Shared(pub Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("not poisoned").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
