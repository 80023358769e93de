//! Queues of two families: uploads transfer ownership to the copy queue and back. The device reports a missing half of
//! a transfer.

use ringfence::device::{BufferDesc, BufferUsage, TextureDesc, TextureUsage};
use ringfence::sim::{BufferRange, Command, Device, Fence, HazardKind, Profile, SimOptions};
use ringfence::upload::{TexelTarget, Texels, TransferQueue, UploadDesc};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Buffer, Location, SyncPoint, Texture, Timeline, UploadRing};
use std::time::Duration;

const MAIN: u32 = 0;
const COPY: u32 = 7;
const SIDE: u32 = 32;

/// The part of a transfer that the program omits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Forgets {
    Nothing,
    Release,
    Acquire,
    Both,
}

struct Program {
    device: Device,
    fences: [Fence; 2],
    memory: Allocator<Device>,
    timeline: Timeline<Device>,
    transfer: TransferQueue<Device>,
    buffer: Buffer<Device>,
    texture: Texture<Device>,
    back: Buffer<Device>,
}

impl Program {
    fn new() -> Self {
        let device = Device::new(Profile::h200(), SimOptions { queues: 2, seed: 3, ..Default::default() });
        device.set_family(1, COPY);
        let memory = Allocator::over(device.clone(), AllocatorDesc::default());
        let fences = [(); 2].map(|()| device.create_fence(0));
        // SAFETY: the fences belong to the device, and every submission signals its frame's value.
        let [timeline, copies] = fences.map(|fence| unsafe { memory.timeline(fence) }.expect("the device is not lost"));
        let ring =
            UploadRing::new(&memory, UploadDesc { capacity: 64 << 10, ..Default::default() }).expect("there is room");
        let buffer = |usage, location| {
            let info = BufferDesc { size: 1024, usage };
            memory.create_buffer(&info, AllocationDesc { location, ..Default::default() }).expect("there is room")
        };
        let usage = TextureUsage::COPY_DST | TextureUsage::COPY_SRC;
        let info = TextureDesc { width: SIDE, height: SIDE, usage, ..Default::default() };
        Self {
            buffer: buffer(BufferUsage::COPY_DST | BufferUsage::COPY_SRC, Location::Device),
            back: buffer(BufferUsage::COPY_DST, Location::Readback),
            texture: memory.create_texture(&info, AllocationDesc::default()).expect("there is room"),
            transfer: TransferQueue::new(copies, ring),
            timeline,
            memory,
            fences,
            device,
        }
    }

    fn both(&self) -> (Vec<ringfence::sim::BufferId>, Vec<ringfence::sim::TextureId>) {
        (vec![*self.buffer.object()], vec![*self.texture.object()])
    }

    fn release(&self, to: u32) -> Command {
        let (buffers, textures) = self.both();
        Command::Release { buffers, textures, to }
    }

    fn acquire(&self, from: u32) -> Command {
        let (buffers, textures) = self.both();
        Command::Acquire { buffers, textures, from }
    }

    /// Uploads on the copy queue. If the main queue has released the buffer, waits for the value of that release.
    fn upload(&mut self, bytes: &[u8], offset: u64, released: Option<u64>, forgets: Forgets) -> SyncPoint {
        let texels = Texels::new(8, 8, 4, &bytes[..256]);
        let corner = TexelTarget { discard: released.is_none(), ..Default::default() };
        self.transfer.upload(bytes, &self.buffer, offset).expect("there is room");
        self.transfer.upload_texels(&texels, &self.texture, corner).expect("there is room");
        let (acquire, release) = (self.acquire(MAIN), self.release(MAIN));
        let point = self.transfer.submit(|batch, value| {
            let mut commands: Vec<_> = released.map(|_| acquire).into_iter().collect();
            // SAFETY: the copied resources outlive the work.
            unsafe { batch.record(&mut commands) }.expect("its frame is open");
            if !matches!(forgets, Forgets::Release | Forgets::Both) {
                commands.push(release);
            }
            let waits: Vec<_> = released.iter().map(|&value| (self.fences[0], value)).collect();
            self.device.submit(1, &waits, commands, (self.fences[1], value))
        });
        point.expect("submitted").expect("something was gathered")
    }

    /// Reads the buffer on the main queue, which then releases it. Returns the value of the release.
    fn read(&self, uploaded: SyncPoint, forgets: Forgets) -> (u64, Vec<u8>) {
        let frame = self.timeline.begin();
        let value = frame.value();
        let mut commands = Vec::new();
        if !matches!(forgets, Forgets::Acquire | Forgets::Both) {
            commands.push(self.acquire(COPY));
        }
        let (src, dst) = (*self.buffer.object(), *self.back.object());
        commands.push(Command::CopyBuffer { src, src_offset: 0, dst, dst_offset: 0, size: 1024 });
        commands.push(self.release(COPY));
        let wait = [(self.fences[1], uploaded.value)];
        self.device.submit(0, &wait, commands, (self.fences[0], value)).expect("the device is not lost");
        self.timeline.submitted(frame).expect("in order");
        assert!(self.timeline.wait(value, Duration::MAX).expect("the device is not lost"));
        let mut read = vec![0; 1024];
        self.back.read(0, &mut read).expect("readback memory is mapped");
        (value, read)
    }

    fn hazards(&self) -> Vec<String> {
        self.device.take_hazards().iter().map(ToString::to_string).collect()
    }
}

#[test]
fn uploads_hand_their_targets_over_and_get_them_back_for_a_part() {
    let mut program = Program::new();
    let mut bytes: Vec<u8> = (0..1024_u32).map(|at| (at * 7 % 251) as u8).collect();
    let uploaded = program.upload(&bytes, 0, None, Forgets::Nothing);
    let (mut value, read) = program.read(uploaded, Forgets::Nothing);
    assert_eq!(read, bytes);
    for number in 0..5 {
        let part = vec![number; 300];
        let uploaded = program.upload(&part, 100, Some(value), Forgets::Nothing);
        bytes[100..400].copy_from_slice(&part);
        let read;
        (value, read) = program.read(uploaded, Forgets::Nothing);
        assert_eq!(read, bytes, "the rest is kept");
        program.memory.reclaim();
    }
    assert_eq!(program.hazards(), Vec::<String>::new());
}

#[test]
fn a_forgotten_half_of_a_handover_is_found() {
    for (forgets, detail) in [
        (Forgets::Release, "acquired, but not released to this family"),
        (Forgets::Acquire, "it was released, and no queue has acquired it"),
        (Forgets::Both, "another family owns it and has not released it"),
    ] {
        let mut program = Program::new();
        let uploaded = program.upload(&[1; 1024], 0, None, forgets);
        assert!(program.device.hazards().is_empty(), "so far all is the copy queue's");
        program.read(uploaded, forgets);
        let found = program.device.take_hazards();
        assert!(!found.is_empty() && found.iter().all(|hazard| hazard.kind == HazardKind::NotOwned), "{found:?}");
        assert!(found.iter().all(|hazard| hazard.detail == detail && hazard.queue == Some(0)), "{found:?}");
    }
}

#[test]
fn what_is_overwritten_as_a_whole_needs_no_handing_back() {
    let mut program = Program::new();
    let uploaded = program.upload(&[1; 1024], 0, None, Forgets::Nothing);
    let (value, _) = program.read(uploaded, Forgets::Nothing);
    // The copy queue fills the whole buffer and so takes it without a transfer of its contents. After that, the main
    // queue does not own it, and filling a part of it is a hazard.
    let frame = program.timeline.begin();
    let fill = |size| vec![Command::FillBuffer { dst: *program.back.object(), offset: 0, size, value: 9 }];
    program.device.submit(1, &[(program.fences[0], value)], fill(1024), (program.fences[1], 100)).expect("not lost");
    assert_eq!(program.hazards(), Vec::<String>::new(), "the whole buffer: the main queue's contents are given up");
    let wait = [(program.fences[1], 100)];
    program.device.submit(0, &wait, fill(64), (program.fences[0], frame.value())).expect("not lost");
    program.timeline.submitted(frame).expect("in order");
    let found = program.hazards();
    assert!(found.len() == 1 && found[0].contains("does not own it"), "{found:?}");
    assert!(program.device.run_until_idle());
    let range = BufferRange::new(*program.back.object(), 0, 1024);
    assert_eq!(program.device.peek(range), Some(vec![9; 1024]));
}
