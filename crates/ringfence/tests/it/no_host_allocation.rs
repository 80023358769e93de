//! A steady frame makes no host allocation. The test counts with its own device, which allocates nothing itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ringfence::descriptor::{BindlessDesc, CpuDescriptorHeap, CpuHeapDesc, SamplerTable, ShaderVisibleDesc, View};
use ringfence::device::descriptors::{
    BufferView, BufferViewKind, DescriptorModel, DescriptorSupport, Descriptors, HeapDesc, HeapKind, HeapStart,
    PortableView, SamplerDesc, ViewCopy, ViewTypes,
};
use ringfence::device::{
    BufferDesc, BufferUsage, Buffers, Capabilities, Create, DeviceError, Driver, Format, FormatSupport, HeapBudgets,
    InfoKey, Kind, Mapped, MemoryDesc, Placed, Requirements, ResourceClass, TextureDesc, TextureUsage, Textures,
};
use ringfence::lifetime::RetireBin;
use ringfence::placement::{BufferRequest, Dynamism, Placement, PlacementDesc};
use ringfence::transient::{Described, FramePass, FrameResource, TransientDesc};
use ringfence::{
    AllocationDesc, Allocator, AllocatorDesc, BindlessTable, Location, ShaderVisibleHeap, Timeline, TransientAllocator,
    sim,
};
use ringfence_testkit::counting_allocator::host_allocation_count;

/// A device with numbers as objects, counters as fences, and memory that no code writes.
struct Bare {
    capabilities: Capabilities,
    next: AtomicU64,
}

// SAFETY: no memory is mapped.
unsafe impl Driver for Bare {
    type Memory = u64;
    type Fence = Arc<AtomicU64>;
    type Pageable = ();

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn format_support(&self, _: Format) -> FormatSupport {
        FormatSupport::default()
    }

    unsafe fn allocate_memory(&self, _: &MemoryDesc<'_>) -> Result<u64, DeviceError> {
        Ok(self.next.fetch_add(1, Ordering::Relaxed))
    }

    unsafe fn free_memory(&self, _: u64) {}

    unsafe fn flush(&self, _: &u64, _: u64, _: u64) -> Result<(), DeviceError> {
        Ok(())
    }

    unsafe fn read_back(&self, _: &u64, _: u64, _: Mapped, _: &mut [u8]) -> Result<(), DeviceError> {
        Ok(())
    }

    unsafe fn completed(&self, fence: &Self::Fence) -> Result<u64, DeviceError> {
        Ok(fence.load(Ordering::Relaxed))
    }

    unsafe fn wait(&self, fence: &Self::Fence, value: u64, _: Duration) -> Result<bool, DeviceError> {
        Ok(fence.load(Ordering::Relaxed) >= value)
    }

    fn budgets(&self) -> Option<HeapBudgets> {
        None
    }
}

macro_rules! creates {
    ($kind:ty, $class:ident) => {
        // SAFETY: as for `Driver`.
        unsafe impl Create<$kind> for Bare {
            type Info<'a> = <$kind as Kind>::Desc;
            type Unplaced = u64;
            type Object = u64;
            type Raw<'a> = u64;

            fn raw(object: &Self::Object) -> Self::Raw<'_> {
                *object
            }

            fn describe(&self, desc: &<$kind as Kind>::Desc) -> Result<<$kind as Kind>::Desc, DeviceError> {
                Ok(*desc)
            }

            fn portable(&self, info: &<$kind as Kind>::Desc) -> Option<<$kind as Kind>::Desc> {
                Some(*info)
            }

            /// All descriptions in these tests are equal.
            fn key(&self, _: &<$kind as Kind>::Desc) -> Option<InfoKey> {
                Some(InfoKey::new(&[1]))
            }

            unsafe fn prepare(&self, _: &<$kind as Kind>::Desc) -> Result<(u64, Requirements), DeviceError> {
                let needs = Requirements {
                    size: 4096,
                    alignment: 256,
                    memory_type_bits: !0,
                    class: ResourceClass::$class,
                    prefers_dedicated: false,
                    requires_dedicated: false,
                };
                Ok((self.next.fetch_add(1, Ordering::Relaxed), needs))
            }

            unsafe fn discard(&self, _: u64) {}

            unsafe fn place(&self, unplaced: &u64, _: &u64, _: u64) -> Result<Placed<u64>, DeviceError> {
                Ok(Placed { object: *unplaced, mapped: None })
            }

            unsafe fn dedicate(&self, unplaced: &u64, _: &MemoryDesc<'_>) -> Result<(Placed<u64>, u64), DeviceError> {
                Ok((Placed { object: *unplaced, mapped: None }, *unplaced))
            }

            unsafe fn destroy(&self, _: u64) {}

            unsafe fn set_name(&self, _: &u64, _: &str) {}
        }
    };
}

creates!(Buffers, Buffer);
creates!(Textures, Texture);

// SAFETY: heaps and views are numbers that no code reads.
unsafe impl Descriptors for Bare {
    type Heap = u64;
    type Bound = u64;
    type View<'a> = ();
    type Leftover = u64;

    fn descriptor_support(&self) -> DescriptorSupport {
        DescriptorSupport {
            model: DescriptorModel::Heaps,
            constant_alignment: 256,
            storage_alignment: 16,
            texel_alignment: 16,
            constant_bytes_max: 64 << 10,
            storage_bytes_max: 1 << 30,
            storage_elements_max: 1 << 27,
            texel_elements_max: 1 << 27,
            slots_own_objects: true,
            anisotropy_max: 16,
        }
    }

    fn visible_slots_max(&self, _: HeapKind, _: ViewTypes) -> u32 {
        1 << 20
    }

    fn describe_view<'a>(&self, _: &PortableView<'a, Self>) -> Result<(), DeviceError> {
        Ok(())
    }

    fn make_heap(&self, desc: &HeapDesc<'_>) -> Result<(u64, HeapStart), DeviceError> {
        let heap = self.next.fetch_add(1, Ordering::Relaxed);
        Ok((heap, HeapStart { cpu: 0, gpu: desc.shader_visible.then_some(0), increment: 1 }))
    }

    unsafe fn destroy_heap(&self, _: u64) {}

    unsafe fn write_view(&self, heap: &u64, _: u32, (): &()) -> Result<Option<u64>, DeviceError> {
        Ok(Some(*heap))
    }

    unsafe fn clear_view(&self, heap: &u64, _: u32) -> Option<u64> {
        Some(*heap)
    }

    unsafe fn copy_views(&self, _: &[ViewCopy<'_, u64>]) {}

    unsafe fn bind_heap(&self, heap: &u64) -> Result<u64, DeviceError> {
        Ok(*heap)
    }

    unsafe fn unbind_heap(&self, _: &u64, _: u64) {}

    unsafe fn discard_leftover(&self, _: u64) {}
}

struct Queues {
    memory: Allocator<Bare>,
    timelines: Vec<Timeline<Bare>>,
    fences: Vec<Arc<AtomicU64>>,
}

impl Queues {
    /// A device with six queues: more points than a set stores inline.
    fn new() -> Self {
        let capabilities = sim::Profile::h200().capabilities;
        let memory = Allocator::over(Bare { capabilities, next: AtomicU64::new(1) }, AllocatorDesc::default());
        let fences: Vec<_> = (0..6).map(|_| Arc::new(AtomicU64::new(0))).collect();
        // SAFETY: the fences live as long as their clones.
        let timeline = |fence: &Arc<AtomicU64>| unsafe { memory.timeline(Arc::clone(fence)) }.expect("never lost");
        let timelines = fences.iter().map(timeline).collect();
        Self { memory, timelines, fences }
    }

    /// Does `work` in a frame of each queue; queue `n` is `n` frames late. Returns the host allocations of the whole
    /// frame.
    fn frame(&self, work: impl FnOnce(&Allocator<Bare>)) -> u64 {
        let before = host_allocation_count();
        let frames: smallvec::SmallVec<[_; 8]> = self.timelines.iter().map(Timeline::begin).collect();
        work(&self.memory);
        for (late, ((timeline, fence), frame)) in self.timelines.iter().zip(&self.fences).zip(frames).enumerate() {
            fence.store(frame.value().saturating_sub(late as u64), Ordering::Relaxed);
            timeline.submitted(frame).expect("in order");
        }
        self.memory.reclaim();
        host_allocation_count() - before
    }
}

#[test]
fn a_steady_frame_that_makes_and_drops_resources_allocates_nothing_on_the_host() {
    let world = Queues::new();
    let buffer = BufferDesc { size: 4096, usage: BufferUsage::COPY_DST };
    let mut counts = (0..300).map(|_| {
        world.frame(|memory| {
            for location in [Location::Device, Location::Upload] {
                let desc = AllocationDesc { location, ..Default::default() };
                (0..20).for_each(|_| drop(memory.create_buffer(&buffer, desc).expect("there is room")));
            }
            drop(memory.create_texture(&TextureDesc::default(), AllocationDesc::default()).expect("there is room"));
        })
    });
    assert!(counts.by_ref().take(100).sum::<u64>() > 0, "the count counts");
    assert_eq!(counts.sum::<u64>(), 0);
    let calls = world.memory.statistics().calls;
    assert!(calls.destroy_object + calls.recycled > 290 * 41);
}

#[test]
fn a_steady_frame_that_retires_objects_of_the_programs_own_allocates_nothing_on_the_host() {
    let world = Queues::new();
    let bin = RetireBin::new();
    let mut passed = Vec::with_capacity(1000);
    let mut counts = (0..300).map(|_| {
        world.frame(|memory| {
            (0..100).for_each(|object| memory.retirement().retire_into(&bin, object));
            memory.retirement().collect_from(&bin, 120, &mut passed).expect("never lost");
            passed.clear();
        })
    });
    assert!(counts.by_ref().take(100).sum::<u64>() > 0, "the count counts");
    assert_eq!(counts.sum::<u64>(), 0);
    assert!(bin.len() < 1000);
}

#[test]
fn a_steady_frame_that_retires_several_in_one_go_allocates_nothing_on_the_host() {
    let world = Queues::new();
    let bin = RetireBin::new();
    let (mut items, mut released) = (Vec::new(), 0);
    let mut counts = (0..300_u64).map(|number| {
        world.frame(|memory| {
            // The number of items varies, and some of them must be released later.
            for part in 0..4 {
                items.extend(0..10 + (number * 7 + part * 13) % 20);
                memory.retirement().retire_all_into(&bin, &mut items);
            }
            memory.retirement().release_from(&bin, 90, |_| released += 1).expect("never lost");
        })
    });
    assert!(counts.by_ref().take(100).sum::<u64>() > 0, "the count counts");
    assert_eq!(counts.sum::<u64>(), 0);
    assert!(released > 200 * 60);
}

#[test]
fn a_steady_frame_of_cpu_only_descriptors_allocates_nothing_on_the_host() {
    let world = Queues::new();
    let heap = CpuDescriptorHeap::<Bare>::new(&world.memory, CpuHeapDesc::default()).expect("small");
    let (mut ones, mut runs) = (Vec::new(), Vec::new());
    let mut counts = (0..300_u32).map(|number| {
        world.frame(|_| {
            for _ in 0..60 + number % 3 * 20 {
                ones.push(heap.allocate(1).expect("blocks grow"));
                ones.push(heap.allocate(1).expect("blocks grow"));
                runs.push(heap.allocate(1 + number % 7).expect("blocks grow"));
            }
            runs.clear();
            ones.clear();
        })
    });
    assert!(counts.by_ref().take(100).sum::<u64>() > 0, "the count counts");
    assert_eq!(counts.sum::<u64>(), 0);
    heap.validate().expect("sound");
}

/// Each reclaim visits every heap.
#[test]
fn a_steady_frame_beside_many_heaps_of_descriptors_allocates_nothing_on_the_host() {
    let world = Queues::new();
    let heap = |_| CpuDescriptorHeap::<Bare>::new(&world.memory, CpuHeapDesc::default()).expect("small");
    let heaps: Vec<_> = (0..40).map(heap).collect();
    let mut counts = (0..300).map(|_| world.frame(|_| drop(heaps[0].allocate(1).expect("blocks grow"))));
    assert!(counts.by_ref().take(100).sum::<u64>() > 0, "the count counts");
    assert_eq!(counts.sum::<u64>(), 0);
}

#[test]
fn a_steady_frame_of_the_placement_policy_allocates_nothing_on_the_host() {
    let world = Queues::new();
    let placement = Placement::new(&world.memory, PlacementDesc::default()).expect("a sound description");
    let target = TextureDesc { usage: TextureUsage::RENDER_TARGET, ..TextureDesc::default() };
    let requests = [
        BufferRequest { size: 1000, dynamism: Dynamism::Dynamic, ..Default::default() },
        BufferRequest { size: 100_000, dynamism: Dynamism::Dynamic, ..Default::default() },
        BufferRequest { size: 4096, usage: BufferUsage::VERTEX, ..Default::default() },
        BufferRequest { size: 4096, usage: BufferUsage::STORAGE, ..Default::default() },
    ];
    let mut counts = (0..300).map(|_| {
        let count = world.frame(|_| {
            for request in requests.iter().cycle().take(20) {
                drop(placement.create_buffer(request).expect("there is room"));
            }
            drop(placement.create_texture(&target, "").expect("there is room"));
        });
        let before = host_allocation_count();
        placement.end_frame();
        count + host_allocation_count() - before
    });
    assert!(counts.by_ref().take(100).sum::<u64>() > 0, "the count counts");
    assert_eq!(counts.sum::<u64>(), 0);
}

#[test]
fn a_steady_frame_of_descriptors_allocates_nothing_on_the_host() {
    let world = Queues::new();
    let heap = |kind| ShaderVisibleHeap::new(&world.memory, ShaderVisibleDesc { kind, ..Default::default() });
    let (heap, samplers) = (heap(HeapKind::Resources).expect("small"), heap(HeapKind::Samplers).expect("small"));
    let table = BindlessTable::new(&world.memory, &heap, BindlessDesc::default()).expect("room");
    let samplers = SamplerTable::new(&world.memory, &samplers, BindlessDesc::default()).expect("room");
    let cpu = CpuDescriptorHeap::<Bare>::new(&world.memory, CpuHeapDesc::default()).expect("small");
    let desc = BufferDesc { size: 4096, usage: BufferUsage::STORAGE };
    let buffer = world.memory.create_buffer(&desc, AllocationDesc::default()).expect("there is room");
    let range = BufferView { kind: BufferViewKind::Storage { stride: 0, writes: false }, offset: 0, size: 256 };
    let fixed = world.timelines[0].begin();
    world.timelines[0].submitted(fixed).expect("in order");
    let mut counts = (0..300).map(|_| {
        world.frame(|_| {
            let view = View::buffer(&buffer, range).expect("in range");
            for number in 0..40_u32 {
                drop(table.insert(&view).expect("six frames' worth fit"));
                let mut one = cpu.allocate(1).expect("blocks grow");
                one.write(0, &view).expect("of its type");
                let mut run = heap.allocate(3).expect("six frames' worth fit");
                run.copy(0, &[one.all()]).expect("fresh");
                let sampler = SamplerDesc { levels: [0.0, number as f32], ..Default::default() };
                drop(samplers.get(sampler).expect("forty distinct"));
            }
        })
    });
    assert!(counts.by_ref().take(100).sum::<u64>() > 0, "the count counts");
    assert_eq!(counts.sum::<u64>(), 0);
}

#[test]
fn a_steady_frame_of_tables_and_binds_allocates_nothing_on_the_host() {
    let world = Queues::new();
    let desc = ShaderVisibleDesc { chunk_slots: 16, ..Default::default() };
    let heap = ShaderVisibleHeap::<Bare>::new(&world.memory, desc).expect("small");
    let cpu = CpuDescriptorHeap::<Bare>::new(&world.memory, CpuHeapDesc::default()).expect("small");
    let desc = BufferDesc { size: 4096, usage: BufferUsage::STORAGE };
    let buffer = world.memory.create_buffer(&desc, AllocationDesc::default()).expect("there is room");
    let range = BufferView { kind: BufferViewKind::Storage { stride: 0, writes: false }, offset: 0, size: 256 };
    let view = View::buffer(&buffer, range).expect("in range");
    let mut shown = cpu.allocate(64).expect("blocks grow");
    (0..64).for_each(|index| shown.write(index, &view).expect("of its type"));
    let mut counts = (0..300_u64).map(|number| {
        let before = host_allocation_count();
        let frame = world.timelines[0].begin();
        let mut tables = heap.frame_descriptors(&frame).expect("its own frame");
        for first in 0..32_u32 {
            let parts = [shown.part(first..first + 2).expect("inside"), shown.part(40..43).expect("inside")];
            let table = tables.table(&parts).expect("room");
            assert_eq!(tables.table(&parts), Ok(table));
            tables.table_of(&[View::buffer(&buffer, range).expect("in range")]).expect("room");
        }
        drop(tables);
        drop(heap.bind(&frame).expect("no object is created"));
        world.fences[0].store(frame.value().saturating_sub(number % 3), Ordering::Relaxed);
        world.timelines[0].submitted(frame).expect("in order");
        world.memory.reclaim();
        host_allocation_count() - before
    });
    assert!(counts.by_ref().take(100).sum::<u64>() > 0, "the count counts");
    assert_eq!(counts.sum::<u64>(), 0);
    assert!(heap.statistics().tables_shared >= 300 * 32);
}

/// Passes on one queue. Each resource is read by the pass after the one that draws it.
const TRANSIENT_PASSES: usize = 20;

#[test]
fn a_steady_frame_of_transient_resources_allocates_nothing_on_the_host() {
    let world = Queues::new();
    let desc = TransientDesc { objects_kept: 4, latency_frames: 2, ..Default::default() };
    let mut transient = TransientAllocator::new(&world.memory, desc);
    let queue = world.timelines[0].id();
    let mut made = 0;
    let mut counts = (0..200).map(|number| {
        let count = world.frame(|_| {
            let mut execution = transient.begin();
            let mut last = None;
            for _ in 0..TRANSIENT_PASSES {
                let pass = execution.pass(queue, &[]).expect("a queue");
                let texture = execution.acquire_texture(&TextureDesc::default(), pass, "drawn").expect("room");
                if let Some(last) = last.replace(texture) {
                    execution.discard(last, &[pass]).expect("in use");
                }
            }
            execution.finish(&[]);
            transient.end_frame();
        });
        if number < 100 {
            made = transient.figures().misses;
        }
        count
    });
    assert!(counts.by_ref().take(100).sum::<u64>() > 0, "the count counts");
    assert_eq!(counts.sum::<u64>(), 0);
    assert_eq!(transient.figures().misses, made);
    assert!(transient.figures().hits > 199 * 18);
}

#[test]
fn a_planned_frame_like_the_last_allocates_nothing_on_the_host() {
    let world = Queues::new();
    let mut transient = TransientAllocator::new(&world.memory, TransientDesc::default());
    let (graphics, compute) = (world.timelines[0].id(), world.timelines[1].id());
    let desc = TextureDesc::default();
    let lasts: Vec<_> = (0..TRANSIENT_PASSES).map(|first| [(first + 1).min(TRANSIENT_PASSES - 1)]).collect();
    let waits: Vec<_> = (0..TRANSIENT_PASSES).map(|pass| [pass.saturating_sub(1)]).collect();
    let pass = |at: usize| FramePass {
        waits: if at == 0 { &[] } else { &waits[at] },
        ..FramePass::on(if at.is_multiple_of(2) { graphics } else { compute })
    };
    let passes: Vec<_> = (0..TRANSIENT_PASSES).map(pass).collect();
    let resource =
        |first: usize| FrameResource { info: Described::Texture(&desc), first, last: &lasts[first], name: "" };
    let resources: Vec<_> = (0..TRANSIENT_PASSES).map(resource).collect();
    let mut counts = (0..200).map(|_| {
        world.frame(|_| {
            let execution = transient.plan(&passes, &resources, |_| true).expect("room");
            assert!(execution.figures().planned_bytes > 0);
            execution.finish(&[]);
            transient.end_frame();
        })
    });
    assert!(counts.by_ref().take(100).sum::<u64>() > 0, "the count counts");
    assert_eq!(counts.sum::<u64>(), 0);
    assert!(transient.figures().misses < 200);
    assert!(transient.figures().is_reused);
}
