//! A device with validation, and resources that are destroyed when the test ends, without an allocator. Every resource
//! has its own memory unless a test says otherwise.

use ash::vk;
use ringfence::device::{
    BufferDesc, BufferUsage, Buffers, Create, Driver, Mapped, MemoryDesc, MemoryProperties, Placed, Requirements,
    TextureDesc, Textures,
};
use ringfence::vulkan::{BufferInfo, Device, Memory};
use ringfence_testkit::vulkan::VulkanGpu;
use ringfence_testkit::{Command, Gpu, OpenError, Options, TextureRegion};

/// A device, and the objects that were created with it.
pub struct Rig {
    pub device: Device,
    pub gpu: VulkanGpu,
    memories: Vec<Memory>,
    buffers: Vec<vk::Buffer>,
    textures: Vec<vk::Image>,
    submitted: u64,
}

/// A buffer of the rig.
#[derive(Clone, Copy)]
pub struct Buffer {
    pub raw: vk::Buffer,
    /// Size, in bytes.
    pub size: u64,
    memory: usize,
    offset: u64,
    mapped: Option<Mapped>,
}

impl Rig {
    pub fn options() -> Options {
        Options { validation: true, ..Options::default() }
    }

    pub fn open() -> Option<Self> {
        Self::open_with(&Self::options())
    }

    /// Opens a device. If there is none, reports that and returns `None`.
    pub fn open_with(options: &Options) -> Option<Self> {
        let gpu = VulkanGpu::open(options).inspect_err(skip).ok()?;
        let device = gpu.device();
        Some(Self { device, gpu, memories: vec![], buffers: vec![], textures: vec![], submitted: 0 })
    }

    /// Destroys all objects. Fails if the validation layers have reported a message during the test.
    pub fn close(mut self) {
        self.gpu.wait_idle().expect("the device is not lost");
        // SAFETY: the device is idle, and each object is destroyed once, resources before their memory.
        unsafe {
            self.buffers.drain(..).for_each(|buffer| Create::<Buffers>::destroy(&self.device, buffer));
            self.textures.drain(..).for_each(|texture| Create::<Textures>::destroy(&self.device, texture));
            self.memories.drain(..).for_each(|memory| self.device.free_memory(memory));
        }
        let messages = self.gpu.close();
        assert!(messages.is_empty(), "{messages:#?}");
    }

    /// Submits commands to queue 0 and waits for them.
    pub fn run(&mut self, commands: &[Command<Device>]) {
        self.submitted += 1;
        self.gpu.submit(0, &[], commands, self.submitted).expect("a submission");
        self.gpu.wait_idle().expect("the device is not lost");
    }

    /// Returns the first host-visible memory type among these bits.
    pub fn host_type(&self, memory_type_bits: u32) -> Option<u32> {
        let types = &self.device.capabilities().memory_types;
        (0..types.len() as u32).find(|&index| {
            memory_type_bits & (1 << index) != 0
                && types[index as usize].properties.contains(MemoryProperties::HOST_VISIBLE)
        })
    }

    /// Returns the memory types that are not protected, special or lazily allocated.
    pub fn plain_types(&self) -> Vec<u32> {
        let special = MemoryProperties::PROTECTED | MemoryProperties::SPECIAL | MemoryProperties::LAZILY_ALLOCATED;
        let types = (0..).zip(&self.device.capabilities().memory_types);
        types.filter(|(_, held)| !held.properties.intersects(special)).map(|(index, _)| index).collect()
    }

    /// Returns the layout of a subresource in a buffer, with the row alignment of the device.
    pub fn region(&self, width: u32, height: u32, texel_bytes: u32, mip: u32, layer: u32) -> TextureRegion {
        let row_alignment = self.device.capabilities().texture_copy_row_alignment;
        let row_bytes = (u64::from(width) * u64::from(texel_bytes)).next_multiple_of(row_alignment);
        TextureRegion { buffer_offset: 0, row_bytes, mip, layer, width, height, texel_bytes }
    }

    /// Records two copies that overlap, without a barrier between them. Does not submit them.
    pub fn unsynchronized_copies(&self, buffer: Buffer) {
        let device = self.device.raw();
        let copy = |src_offset, dst_offset| [vk::BufferCopy { src_offset, dst_offset, size: 16 }];
        let once = vk::CommandBufferBeginInfo::default();
        let family = vk::CommandPoolCreateInfo::default().queue_family_index(self.gpu.queue_family());
        // SAFETY: the pool belongs to the device's family; the buffer is alive; the commands are not submitted.
        unsafe {
            let pool = device.create_command_pool(&family, None).expect("a pool");
            let info = vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(1);
            let commands = device.allocate_command_buffers(&info).expect("a command buffer")[0];
            device.begin_command_buffer(commands, &once).expect("an empty command buffer");
            device.cmd_copy_buffer(commands, buffer.raw, buffer.raw, &copy(0, 16));
            device.cmd_copy_buffer(commands, buffer.raw, buffer.raw, &copy(16, 32));
            device.end_command_buffer(commands).expect("two copies");
            device.destroy_command_pool(pool, None);
        }
    }

    /// Creates a host-visible buffer.
    pub fn host_buffer(&mut self, size: u64, usage: BufferUsage) -> Buffer {
        self.buffer(size, usage, None).expect("buffers can be in host-visible memory")
    }

    /// Creates a buffer in a memory type, or in any host-visible type if `None`. Returns `None` if the buffer does not
    /// allow the type.
    pub fn buffer(&mut self, size: u64, usage: BufferUsage, memory_type: Option<u32>) -> Option<Buffer> {
        let info = Create::<Buffers>::describe(&self.device, &BufferDesc { size, usage }).expect("a plain buffer");
        // SAFETY: the description comes from the device.
        let (raw, needs) = unsafe { Create::<Buffers>::prepare(&self.device, &info) }.expect("a plain buffer");
        let Some(memory_type) = memory_type.or_else(|| self.host_type(needs.memory_type_bits)) else {
            panic!("no host-visible type")
        };
        if needs.memory_type_bits & (1 << memory_type) == 0 {
            // SAFETY: the buffer is unused.
            unsafe { Create::<Buffers>::discard(&self.device, raw) };
            return None;
        }
        let memory = self.memory(memory_type, &needs, needs.size);
        Some(self.place(raw, size, memory, 0))
    }

    /// Creates adjacent buffers in one host-visible memory object.
    pub fn buffers_in_one_memory(&mut self, sizes: &[u64], usage: BufferUsage) -> Vec<Buffer> {
        let mut end = 0;
        let mut prepared = Vec::new();
        let mut bits = u32::MAX;
        for &size in sizes {
            let info = Create::<Buffers>::describe(&self.device, &BufferDesc { size, usage }).expect("a plain buffer");
            // SAFETY: the description comes from the device.
            let (raw, needs) = unsafe { Create::<Buffers>::prepare(&self.device, &info) }.expect("a plain buffer");
            let offset = u64::next_multiple_of(end, needs.alignment);
            end = offset + needs.size;
            bits &= needs.memory_type_bits;
            prepared.push((raw, size, offset, needs));
        }
        let memory_type = self.host_type(bits).expect("buffers can be in host-visible memory");
        let memory = self.memory(memory_type, &prepared[0].3, end);
        prepared.into_iter().map(|(raw, size, offset, _)| self.place(raw, size, memory, offset)).collect()
    }

    /// Creates a buffer in memory that is dedicated to it (`VkMemoryDedicatedAllocateInfo`).
    pub fn dedicated_buffer(&mut self, size: u64, usage: BufferUsage) -> Buffer {
        let info = Create::<Buffers>::describe(&self.device, &BufferDesc { size, usage }).expect("a plain buffer");
        self.buffer_from(&info, true)
    }

    /// Creates a host-visible buffer from a description of the backend.
    pub fn buffer_from(&mut self, info: &BufferInfo<'_>, dedicated: bool) -> Buffer {
        // SAFETY: the test passes a valid description.
        let (raw, needs) = unsafe { Create::<Buffers>::prepare(&self.device, info) }.expect("a plain buffer");
        let memory_type = self.host_type(needs.memory_type_bits).expect("buffers can be in host-visible memory");
        if !dedicated {
            let memory = self.memory(memory_type, &needs, needs.size);
            return self.place(raw, info.raw().size, memory, 0);
        }
        // SAFETY: the buffer allows the type, and was not placed before.
        let dedicated = unsafe { Create::<Buffers>::dedicate(&self.device, &raw, &desc(memory_type, &needs)) };
        let (placed, memory) = dedicated.expect("some KiB of memory");
        assert!(placed.mapped.is_some() && placed.mapped == memory.mapped());
        self.memories.push(memory);
        self.own(placed, info.raw().size, self.memories.len() - 1, 0)
    }

    /// Creates a texture in the first memory type that it allows.
    pub fn texture(&mut self, desc_of: &TextureDesc, dedicated: bool) -> vk::Image {
        let info = Create::<Textures>::describe(&self.device, desc_of).expect("a plain texture");
        // SAFETY: the description comes from the device.
        let (raw, needs) = unsafe { Create::<Textures>::prepare(&self.device, &info) }.expect("a plain texture");
        let memory_type = needs.memory_type_bits.trailing_zeros();
        let texture = if dedicated {
            // SAFETY: the texture allows the type, and was not placed before.
            let made = unsafe { Create::<Textures>::dedicate(&self.device, &raw, &desc(memory_type, &needs)) };
            let (placed, memory) = made.expect("some KiB of memory");
            self.memories.push(memory);
            placed.object
        } else {
            let memory = self.memory(memory_type, &needs, needs.size);
            // SAFETY: the memory was allocated for the texture.
            let placed = unsafe { Create::<Textures>::place(&self.device, &raw, &self.memories[memory], 0) };
            placed.expect("a texture can be bound").object
        };
        // SAFETY: the texture belongs to this device and is alive.
        unsafe { Create::<Textures>::set_name(&self.device, &texture, "texture") };
        self.textures.push(texture);
        texture
    }

    /// Returns the memory of a buffer.
    pub fn memory_of(&self, buffer: Buffer) -> &Memory {
        &self.memories[buffer.memory]
    }

    pub fn name(&self, buffer: Buffer, name: &str) {
        // SAFETY: the buffer belongs to this device and is alive.
        unsafe { Create::<Buffers>::set_name(&self.device, &buffer.raw, name) };
    }

    /// Writes bytes through the mapping, and flushes them.
    pub fn write(&self, buffer: Buffer, bytes: &[u8]) {
        assert!(bytes.len() as u64 <= buffer.size);
        let memory = &self.memories[buffer.memory];
        let mapped = buffer.mapped.expect("the host sees this buffer").as_ptr();
        // SAFETY: the buffer has `bytes.len()` mapped bytes, and the device is idle. The flushed range is inside the
        // memory.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), mapped, bytes.len());
            if self.device.capabilities().needs_flush(memory.memory_type()) {
                self.device.flush(memory, 0, memory.size()).expect("the device is not lost");
            }
        }
    }

    /// Returns the first `size` bytes of a buffer.
    pub fn read(&self, buffer: Buffer, size: u64) -> Vec<u8> {
        assert!(size <= buffer.size);
        let mut bytes = vec![0; size as usize];
        let mapped = buffer.mapped.expect("the host sees this buffer");
        let memory = &self.memories[buffer.memory];
        // SAFETY: the buffer has `bytes.len()` mapped bytes, and the device is idle.
        unsafe { self.device.read_back(memory, buffer.offset, mapped, &mut bytes) }.expect("the device is not lost");
        bytes
    }

    fn memory(&mut self, memory_type: u32, needs: &Requirements, size: u64) -> usize {
        let desc = MemoryDesc { size, ..desc(memory_type, needs) };
        // SAFETY: the type comes from the resource's requirements.
        self.memories.push(unsafe { self.device.allocate_memory(&desc) }.expect("some KiB of memory"));
        self.memories.len() - 1
    }

    fn place(&mut self, raw: vk::Buffer, size: u64, memory: usize, offset: u64) -> Buffer {
        // SAFETY: the memory was allocated for it, and the offset is aligned.
        let placed = unsafe { Create::<Buffers>::place(&self.device, &raw, &self.memories[memory], offset) };
        self.own(placed.expect("a buffer can be bound"), size, memory, offset)
    }

    fn own(&mut self, placed: Placed<vk::Buffer>, size: u64, memory: usize, offset: u64) -> Buffer {
        self.buffers.push(placed.object);
        Buffer { raw: placed.object, size, memory, offset, mapped: placed.mapped }
    }
}

fn desc(memory_type: u32, needs: &Requirements) -> MemoryDesc<'static> {
    MemoryDesc {
        share: None,
        priority: Default::default(),
        memory_type,
        size: needs.size,
        alignment: needs.alignment,
        class: needs.class,
        name: "memory",
    }
}

/// Reports that a test is skipped. Fails the test if Vulkan is required.
pub fn skip(error: &OpenError) {
    assert!(std::env::var_os("RINGFENCE_REQUIRE_VULKAN").is_none(), "Vulkan is required: {error}");
    ringfence_testkit::report::skipped(error);
}

/// Returns pseudo-random bytes that depend on the seed.
pub fn pattern(size: usize, seed: u32) -> Vec<u8> {
    (0..size as u32).map(|i| (i.wrapping_mul(2_654_435_761) ^ seed.wrapping_mul(40_503)).to_le_bytes()[3]).collect()
}
