//! A small program's view of a simulated device: buffers with dedicated memory, and one fence per queue.

use ringfence::device::{
    BufferDesc, BufferUsage, Buffers, Create, Driver, MemoryDesc, MemoryProperties, Placed, Requirements,
    ResourceClass, TextureDesc, Textures,
};
use ringfence::sim::{
    BufferId as Buffer, BufferRange, Command, Device, Fence, Hazard, HazardKind, Memory, Profile, SimOptions,
    TextureId as Texture,
};
use std::time::Duration;

pub const COPIED: BufferUsage = BufferUsage::COPY_SRC.union(BufferUsage::COPY_DST);
pub const QUEUES: usize = 3;

pub type Point = (Fence, u64);

pub struct Gpu {
    pub device: Device,
    fences: [Fence; QUEUES],
    next: [u64; QUEUES],
}

/// A buffer with its own memory.
#[derive(Clone, Copy)]
pub struct Owned {
    pub memory: Memory,
    pub buffer: Buffer,
    pub mapped: Option<ringfence::device::Mapped>,
}

impl Owned {
    pub const fn range(&self, offset: u64, size: u64) -> BufferRange {
        BufferRange::new(self.buffer, offset, size)
    }
}

impl Gpu {
    pub fn new(profile: Profile, seed: u64) -> Self {
        Self::over(Device::new(profile, SimOptions { seed, queues: QUEUES, ..Default::default() }))
    }

    /// Creates a program over a device with as many queues.
    pub fn over(device: Device) -> Self {
        let fences = std::array::from_fn(|_| device.create_fence(0));
        Self { device, fences, next: [0; QUEUES] }
    }

    pub fn h200() -> Self {
        Self::new(Profile::h200(), 1)
    }

    /// Returns the first memory type with all of these properties.
    pub fn memory_type(&self, properties: MemoryProperties) -> u32 {
        let types = &self.device.capabilities().memory_types;
        types.iter().position(|held| held.properties.contains(properties)).expect("a memory type") as u32
    }

    pub fn memory(&self, name: &str, memory_type: u32, size: u64) -> Memory {
        let class = ResourceClass::Buffer;
        // SAFETY: the memory type is one of the device's.
        unsafe {
            self.device.allocate_memory(&MemoryDesc {
                share: None,
                priority: Default::default(),
                memory_type,
                size,
                alignment: 1 << 22,
                class,
                name,
            })
        }
        .unwrap()
    }

    pub fn unplaced(&self, size: u64) -> (Buffer, Requirements) {
        // SAFETY: the description holds no pointer.
        unsafe { Create::<Buffers>::prepare(&self.device, &BufferDesc { size, usage: COPIED | BufferUsage::STORAGE }) }
            .unwrap()
    }

    /// Places a buffer at an offset of memory; only the device checks it.
    pub fn place(&self, name: &str, size: u64, memory: Memory, offset: u64) -> Placed<Buffer> {
        let (buffer, _) = self.unplaced(size);
        // SAFETY: the simulated device rejects resources that do not fit.
        let placed = unsafe { Create::<Buffers>::place(&self.device, &buffer, &memory, offset) }.unwrap();
        // SAFETY: just made.
        unsafe { Create::<Buffers>::set_name(&self.device, &buffer, name) };
        placed
    }

    pub fn buffer(&self, name: &str, properties: MemoryProperties, size: u64) -> Owned {
        let (measured, needs) = self.unplaced(size);
        // SAFETY: prepared and not placed.
        unsafe { Create::<Buffers>::discard(&self.device, measured) };
        let memory = self.memory(&format!("memory of {name}"), self.memory_type(properties), needs.size);
        let Placed { object: buffer, mapped } = self.place(name, size, memory, 0);
        Owned { memory, buffer, mapped }
    }

    pub fn host_buffer(&self, name: &str, size: u64) -> Owned {
        self.buffer(name, MemoryProperties::HOST_VISIBLE, size)
    }

    pub fn device_buffer(&self, name: &str, size: u64) -> Owned {
        self.buffer(name, MemoryProperties::DEVICE_LOCAL, size)
    }

    /// Creates a texture with its own memory.
    pub fn texture(&self, name: &str, desc: &TextureDesc) -> (Texture, Memory) {
        // SAFETY: the description holds no pointer.
        let (texture, needs) = unsafe { Create::<Textures>::prepare(&self.device, desc) }.unwrap();
        let memory_type = needs.memory_type_bits.trailing_zeros();
        let desc = MemoryDesc {
            share: None,
            priority: Default::default(),
            memory_type,
            size: needs.size,
            alignment: needs.alignment,
            class: needs.class,
            name,
        };
        // SAFETY: just prepared; the type is one that it allows.
        let (placed, memory) = unsafe { Create::<Textures>::dedicate(&self.device, &texture, &desc) }.unwrap();
        // SAFETY: just made.
        unsafe { Create::<Textures>::set_name(&self.device, &placed.object, name) };
        (placed.object, memory)
    }

    /// Writes through the mapping without a flush.
    pub fn write_unflushed(&self, to: Owned, offset: u64, bytes: &[u8]) {
        let mapped = to.mapped.expect("mapped memory");
        // SAFETY: the tests write inside the buffer, from one thread.
        unsafe { mapped.add(offset).as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    pub fn flush(&self, of: Owned, offset: u64, size: u64) {
        // SAFETY: no thread writes in the meantime; the device checks everything else.
        unsafe { self.device.flush(&of.memory, offset, size) }.unwrap();
    }

    pub fn write(&self, to: Owned, offset: u64, bytes: &[u8]) {
        self.write_unflushed(to, offset, bytes);
        self.flush(to, offset, bytes.len() as u64);
    }

    pub fn read(&self, from: Owned, offset: u64, size: usize) -> Vec<u8> {
        let mut bytes = vec![0; size];
        let mapped = from.mapped.expect("mapped memory");
        // SAFETY: the buffer starts at the mapping, and the device checks the range.
        unsafe { self.device.read_back(&from.memory, offset, mapped.add(offset), &mut bytes) }.unwrap();
        bytes
    }

    pub fn submit(&mut self, queue: usize, waits: &[Point], commands: Vec<Command>) -> Point {
        self.next[queue] += 1;
        let point = (self.fences[queue], self.next[queue]);
        self.device.submit(queue, waits, commands, point).unwrap();
        point
    }

    /// Returns the point that the queue's last submission signals.
    pub fn last(&self, queue: usize) -> Point {
        (self.fences[queue], self.next[queue])
    }

    pub fn completed(&self, queue: usize) -> u64 {
        // SAFETY: the fence belongs to this device.
        unsafe { self.device.completed(&self.fences[queue]) }.unwrap()
    }

    pub fn wait(&self, (fence, value): Point) {
        // SAFETY: the fence belongs to this device.
        assert!(unsafe { self.device.wait(&fence, value, Duration::MAX) }.unwrap());
    }

    pub fn destroy(&self, buffer: Buffer) {
        // SAFETY: the simulated device reports any mistake.
        unsafe { Create::<Buffers>::destroy(&self.device, buffer) };
    }

    pub fn free(&self, memory: Memory) {
        // SAFETY: as above; no test writes through its mapping afterwards.
        unsafe { self.device.free_memory(memory) };
    }

    /// Returns the only hazard found since the last call.
    #[track_caller]
    pub fn only_hazard(&self, kind: HazardKind) -> Hazard {
        let mut hazards = self.device.take_hazards();
        assert_eq!(hazards.iter().map(|hazard| hazard.kind).collect::<Vec<_>>(), [kind], "{hazards:#?}");
        hazards.remove(0)
    }

    #[track_caller]
    pub fn no_hazard(&self) {
        let found: Vec<String> = self.device.take_hazards().iter().map(ToString::to_string).collect();
        assert!(found.is_empty(), "{found:#?}");
    }
}

pub fn copy(src: Buffer, dst: Buffer, size: u64) -> Command {
    Command::CopyBuffer { src, src_offset: 0, dst, dst_offset: 0, size }
}

pub fn fill(dst: Buffer, size: u64, value: u8) -> Command {
    Command::FillBuffer { dst, offset: 0, size, value }
}
