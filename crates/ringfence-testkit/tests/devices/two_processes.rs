//! Two processes share one buffer, on Mesa's driver. A file descriptor is sent over a Unix socket, and each process
//! reads the bytes that the device of the other process wrote.
//!
//! ```text
//!   the test                                      the same program, in a second process
//!   creates a shared buffer, writes its first half
//!   ── descriptor, SharedMemory ────────────────▶ imports it, reads the first half, writes the second
//!   reads the second half             ◀────────── one byte: done
//! ```

use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command as Process};
use std::time::{Duration, Instant};

use ringfence::device::{BufferDesc, BufferUsage, Buffers, Create};
use ringfence::sharing::{ShareKind, SharedMemory};
use ringfence::vulkan::{Allocator, Buffer, Timeline};
use ringfence::{AllocationDesc, AllocatorDesc, Location};
use ringfence_testkit::vulkan::VulkanGpu;
use ringfence_testkit::{Command, Gpu, OpenError, Options};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};

const HALF: u64 = 300_000;
const PATIENCE: Duration = Duration::from_secs(60);
/// Environment variable for the second process. It contains the path of the socket.
const SOCKET: &str = "RINGFENCE_TEST_SOCKET";

/// An open device. Each of the two processes opens one.
struct Opened {
    memory: Allocator,
    timeline: Timeline,
    gpu: VulkanGpu,
}

impl Opened {
    fn open() -> Option<Self> {
        let validation = std::env::var_os("RINGFENCE_NO_VALIDATION").is_none();
        let gpu = match VulkanGpu::open(&Options { validation, ..Default::default() }) {
            Ok(gpu) => gpu,
            Err(OpenError::Absent(what)) if std::env::var_os("RINGFENCE_REQUIRE_VULKAN").is_none() => {
                ringfence_testkit::report::skipped(what);
                return None;
            }
            Err(error) => panic!("no Vulkan device: {error}"),
        };
        let memory = Allocator::over(gpu.device(), AllocatorDesc::default());
        // SAFETY: each submission signals the fence with the value of its frame, and the device is closed last.
        let timeline = unsafe { memory.timeline(gpu.fence(0)) }.expect("the device is not lost");
        Some(Self { memory, timeline, gpu })
    }

    fn info(&self, size: u64) -> ringfence::vulkan::BufferInfo<'static> {
        let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
        Create::<Buffers>::describe(self.memory.device(), &BufferDesc { size, usage }).expect("a plain buffer")
    }

    fn host_buffer(&self, location: Location) -> Buffer {
        let desc = AllocationDesc { location, ..Default::default() };
        self.memory.create_buffer(&self.info(HALF), desc).expect("there is room")
    }

    /// Copies on the device, and waits for the copy.
    fn copy(&mut self, (from, src_offset): (&Buffer, u64), (to, dst_offset): (&Buffer, u64)) {
        let frame = self.timeline.begin();
        let value = frame.value();
        let (src, dst) = (from.raw(), to.raw());
        let copy = Command::CopyBuffer { src, src_offset, dst, dst_offset, size: HALF };
        self.gpu.submit(0, &[], &[copy], value).expect("the device is not lost");
        self.timeline.submitted(frame).expect("in order");
        assert!(self.timeline.wait(value, PATIENCE).expect("the device is not lost"));
    }

    /// Writes one half of the shared buffer, on the device.
    fn write(&mut self, to: &Buffer, offset: u64, bytes: &[u8]) {
        let mut source = self.host_buffer(Location::Upload);
        source.write(0, bytes).expect("it is mapped");
        self.copy((&source, 0), (to, offset));
    }

    /// Reads one half of the shared buffer, through the device.
    fn read(&mut self, from: &Buffer, offset: u64) -> Vec<u8> {
        let back = self.host_buffer(Location::Readback);
        self.copy((from, offset), (&back, 0));
        let mut bytes = vec![0; HALF as usize];
        back.read(0, &mut bytes).expect("it is mapped");
        bytes
    }

    fn close(self) {
        let Self { memory, timeline, gpu } = self;
        memory.shutdown(PATIENCE).expect("all work is complete");
        let total = memory.statistics().total();
        assert_eq!(total.range_count + total.dedicated_count, 0, "no object is leaked");
        drop((timeline, memory));
        assert_eq!(gpu.close(), Vec::<String>::new(), "validation messages");
    }
}

fn pattern(seed: u64) -> Vec<u8> {
    (0..HALF).map(|at| ((at ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8).collect()
}

#[test]
fn two_processes_share_a_buffer() {
    let Some(mut world) = Opened::open() else { return };
    let desc = AllocationDesc { name: "shared", share: Some(ShareKind::OpaqueFd), ..Default::default() };
    let info = world.info(2 * HALF);
    let support = ringfence::sharing::buffer_support(&world.memory, &info, ShareKind::OpaqueFd);
    let required = std::env::var_os("RINGFENCE_REQUIRE_VULKAN").is_some();
    let is_served = support.can_export && support.can_import;
    if !is_served && !required {
        return ringfence_testkit::report::skipped("the device cannot export memory as file descriptors");
    }
    let buffer = world.memory.create_buffer(&info, desc).expect("the device shares memory");
    world.write(&buffer, 0, &pattern(1));
    let (handle, shared) = buffer.export().expect("it was made for that");

    let socket = Socket::listen();
    let mut child = socket.start_the_other();
    let mut stream = socket.accept(&mut child);
    send(&stream, &shared.to_bytes(), &handle);
    drop(handle);
    let mut answer = [0];
    let answered = stream.read_exact(&mut answer);
    let status = child.wait().expect("it was started");
    assert!(status.success() && answered.is_ok() && answer == [42], "the other process failed: {status}");
    assert!(world.read(&buffer, 0) == pattern(1), "the first half contains this process's bytes");
    assert!(world.read(&buffer, HALF) == pattern(2), "the second half contains the other process's bytes");
    drop(buffer);
    world.close();
}

/// The second process. Does nothing unless the test has started it.
#[test]
fn the_other_process() {
    let Some(path) = std::env::var_os(SOCKET) else { return };
    let mut stream = UnixStream::connect(path).expect("the test listens");
    let (bytes, handle) = receive(&stream);
    let shared = SharedMemory::from_bytes(&bytes).expect("the test's message");
    let mut world = Opened::open().expect("the test has opened the device too");
    let info = world.info(2 * HALF);
    // SAFETY: the handle arrived with its description; the host does not access the bytes through it.
    let imported =
        unsafe { ringfence::sharing::import_buffer(&world.memory, &info, handle, &shared, AllocationDesc::default()) };
    let imported = imported.expect("the same device and driver");
    assert!(world.read(&imported, 0) == pattern(1), "the first process's bytes");
    world.write(&imported, HALF, &pattern(2));
    drop(imported);
    world.close();
    stream.write_all(&[42]).expect("the test waits for it");
}

/// A socket in a folder of its own, which is removed when the socket is dropped.
struct Socket {
    listener: UnixListener,
    folder: std::path::PathBuf,
}

impl Socket {
    fn listen() -> Self {
        let folder = std::env::temp_dir().join(format!("ringfence-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for the socket");
        let listener = UnixListener::bind(folder.join("socket")).expect("a socket");
        listener.set_nonblocking(true).expect("a socket");
        Self { listener, folder }
    }

    fn start_the_other(&self) -> Child {
        let program = std::env::current_exe().expect("the test program");
        Process::new(program)
            .args(["two_processes::the_other_process", "--exact", "--nocapture"])
            .env(SOCKET, self.folder.join("socket"))
            .spawn()
            .expect("the test program starts")
    }

    fn accept(&self, child: &mut Child) -> UnixStream {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Ok((stream, _)) = self.listener.accept() {
                stream.set_nonblocking(false).expect("a socket");
                stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
                return stream;
            }
            let ended = child.try_wait().expect("it was started");
            assert!(ended.is_none() && Instant::now() < deadline, "the other process did not come: {ended:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn send(to: &UnixStream, bytes: &[u8], handle: &OwnedFd) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let handles = [handle.as_fd()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&handles)));
    let sent = sendmsg(to, &[IoSlice::new(bytes)], &mut control, SendFlags::empty()).expect("the other one listens");
    assert_eq!(sent, bytes.len());
}

fn receive(from: &UnixStream) -> ([u8; SharedMemory::BYTES], OwnedFd) {
    let mut bytes = [0; SharedMemory::BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(from, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC);
    assert_eq!(received.expect("the test sends").bytes, SharedMemory::BYTES);
    let mut handles = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(handles) => Some(handles),
        _ => None,
    });
    let handle = handles.next().and_then(|mut handles| handles.next()).expect("a descriptor comes along");
    (bytes, handle)
}
