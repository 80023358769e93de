//! Bindless: materials that shaders access by index. They are created and dropped while frames are in flight. The scene
//! runs on the simulated device and, with the feature `vulkan`, on a Vulkan device with any kind of descriptor heap.
//!
//! `cargo run -p ringfence --features vulkan --example bindless`
//!
//! The shader is in WGSL, with a GLSL copy (`shader.comp`). If you pass the path of a SPIR-V file, the program runs
//! that file instead.

mod simulated;
#[cfg(all(feature = "vulkan", not(windows)))]
mod vulkan;

use std::collections::VecDeque;
use std::time::Duration;

use ringfence::descriptor::{Binding, BindlessDesc, BindlessEntry, DescriptorError, ShaderVisibleDesc, View};
use ringfence::device::descriptors::{BufferView, BufferViewKind, Descriptors, HeapKind, ViewTypes};
use ringfence::device::{BufferDesc, BufferUsage, Driver};
use ringfence::{
    AllocationDesc, Allocator, AllocatorDesc, BindlessTable, Buffer, Location, ShaderVisibleHeap, Timeline,
};

/// Number of materials that each frame draws with.
const PICKS: usize = 4;
const MATERIALS: usize = 8;
const FRAMES: u32 = 200;
const IN_FLIGHT: usize = 3;
const PATIENCE: Duration = Duration::from_secs(10);
const BYTES: u64 = 256;

type Failure = Box<dyn std::error::Error>;

/// Parameters of the shader: the slot of the destination, and the slots of the sources. All are slots of one heap.
#[derive(Clone, Copy)]
struct Draw {
    to: u32,
    from: [u32; PICKS],
}

/// A device that can run the shader. It sets word i of the buffer in slot `to` to the first word of the buffer in slot
/// `from[i]`.
trait Gpu {
    type Device: Descriptors;
    fn device(&self) -> Self::Device;
    fn fence(&self) -> <Self::Device as Driver>::Fence;
    /// Submits one command list that uses the binding, and signals the fence with `value`.
    fn submit(
        &mut self,
        binding: &mut Binding<Self::Device>,
        slots: u32,
        draw: Draw,
        value: u64,
    ) -> Result<(), Failure>;
}

/// A colour in a buffer that shaders read, and the buffer's entry in the table.
struct Material<D: Descriptors> {
    colour: u32,
    entry: BindlessEntry<D>,
    _buffer: Buffer<D>,
}

/// A frame that the device may still execute, with its destination and the expected result.
struct InFlight<D: Descriptors> {
    value: u64,
    expected: [u32; PICKS],
    _entry: BindlessEntry<D>,
    result: Buffer<D>,
}

fn main() -> Result<(), Failure> {
    run(simulated::Simulated::new())?;
    #[cfg(all(feature = "vulkan", not(windows)))]
    run(vulkan::Vulkan::new()?)?;
    Ok(())
}

fn run<G: Gpu>(mut gpu: G) -> Result<(), Failure> {
    let memory = Allocator::over(gpu.device(), AllocatorDesc::default());
    // SAFETY: every submission signals the fence with the value of its frame, and the program waits for it below.
    let timeline = unsafe { memory.timeline(gpu.fence()) }?;
    // Every device supports this many slots; a program would use thousands if `visible_slots_max` allows it.
    let types = ViewTypes::STORAGE_BUFFER;
    let slots = memory.device().visible_slots_max(HeapKind::Resources, types).min(1024);
    let desc = ShaderVisibleDesc { types, frame_slots: 0, persistent_slots: slots, ..Default::default() };
    let heap = ShaderVisibleHeap::new(&memory, desc)?;
    let table = BindlessTable::new(&memory, &heap, BindlessDesc { capacity: slots, ..Default::default() })?;
    let mut next = 1..;
    let mut materials: VecDeque<_> =
        (&mut next).take(MATERIALS).map(|colour| material(&memory, &table, colour)).collect::<Result<_, _>>()?;
    let mut flights = VecDeque::new();

    for colour in next.take(FRAMES as usize) {
        // Drops the oldest material while frames that draw with it are in flight. Its slot is reused after these
        // frames.
        drop(materials.pop_front().expect("there are some"));
        materials.push_back(material(&memory, &table, colour)?);

        let result = buffer(&memory, Location::Readback)?;
        let entry = table.insert(&view(&result)?)?;
        let picks: [&Material<_>; PICKS] =
            std::array::from_fn(|pick| &materials[(pick * 3 + colour as usize) % MATERIALS]);
        let draw = Draw { to: entry.slot(), from: picks.map(|material| material.entry.slot()) };
        let frame = timeline.begin();
        let mut binding = heap.bind(&frame)?;
        gpu.submit(&mut binding, heap.slots(), draw, frame.value())?;
        flights.push_back(InFlight {
            value: frame.value(),
            expected: picks.map(|material| material.colour),
            _entry: entry,
            result,
        });
        timeline.submitted(frame)?;
        drop(binding);
        if flights.len() == IN_FLIGHT {
            land(&timeline, flights.pop_front())?;
        }
        memory.reclaim();
    }
    while !flights.is_empty() {
        land(&timeline, flights.pop_front())?;
    }
    memory.reclaim();
    println!(
        "{}, descriptors as {:?}",
        memory.device().capabilities().name,
        memory.device().descriptor_support().model
    );
    println!("  {FRAMES} frames, {} materials created, every word correct", FRAMES as usize + MATERIALS);
    for region in memory.snapshot().descriptors {
        println!("  {}: {} of {} slots in use", region.region, region.used_count, region.slot_count);
    }
    drop((materials, table, heap));
    memory.shutdown(PATIENCE)?;
    Ok(())
}

/// Waits for a frame and checks the words that the shader has read.
fn land<D: Descriptors>(timeline: &Timeline<D>, flight: Option<InFlight<D>>) -> Result<(), Failure> {
    let InFlight { value, expected, result, .. } = flight.expect("a frame is in flight");
    assert!(timeline.wait(value, PATIENCE)?, "a frame takes less than ten seconds");
    let mut bytes = [0; PICKS * 4];
    result.read(0, &mut bytes)?;
    let found: Vec<_> =
        bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect();
    assert_eq!(found, expected, "the shader reads the materials that the frame was recorded with");
    Ok(())
}

fn material<D: Descriptors>(
    memory: &Allocator<D>,
    table: &BindlessTable<D>,
    colour: u32,
) -> Result<Material<D>, Failure> {
    let mut buffer = buffer(memory, Location::Upload)?;
    buffer.write(0, &colour.to_le_bytes())?;
    let entry = table.insert(&view(&buffer)?)?;
    Ok(Material { colour, entry, _buffer: buffer })
}

fn buffer<D: Descriptors>(memory: &Allocator<D>, location: Location) -> Result<Buffer<D>, Failure> {
    let desc = BufferDesc { size: BYTES, usage: BufferUsage::STORAGE };
    Ok(memory.create_buffer(&desc, AllocationDesc { location, ..Default::default() })?)
}

fn view<D: Descriptors>(buffer: &Buffer<D>) -> Result<View<'_, D>, DescriptorError> {
    View::buffer(
        buffer,
        BufferView { kind: BufferViewKind::Storage { stride: 0, writes: true }, offset: 0, size: BYTES },
    )
}
