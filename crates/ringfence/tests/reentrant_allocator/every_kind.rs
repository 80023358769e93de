//! Objects of every kind are dropped within every host allocation and release of every operation. None of the drops
//! waits for a lock that the operation holds.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use ringfence::contents::{GpuVec, GpuVecDesc, Mesh, MeshArena, MeshArenaDesc};
use ringfence::debugging::{DebugDesc, Finding};
use ringfence::defrag::DefragDesc;
use ringfence::descriptor::{
    BindlessDesc, CpuDescriptorHeap, CpuDescriptors, CpuHeapDesc, SamplerTable, ShaderVisibleDesc, View,
};
use ringfence::device::descriptors::{BufferView, BufferViewKind, HeapKind, SamplerDesc};
use ringfence::device::{BufferDesc, BufferUsage, Requirements, ResourceClass, TextureDesc};
use ringfence::lifetime::RetireBin;
use ringfence::memory::PoolDesc;
use ringfence::placement::{BufferRequest, Dynamism, FastConstantsDesc, Placement, PlacementDesc};
use ringfence::sharing::ShareKind;
use ringfence::sim::{Command, Device};
use ringfence::sparse::SparseBuffer;
use ringfence::transient::TransientDesc;
use ringfence::upload::{
    ConstantsDesc, Readback, ReadbackDesc, StaticConstants, TransferQueue, UploadDesc, UploadWriter, WhenFull,
};
use ringfence::{
    AllocationDesc, AllocatorDesc, BindlessTable, Buffer, ConstantBuffers, Dedicated, FastConstants, Frame, Location,
    Pool, ReadbackRing, ShaderVisibleHeap, TransientAllocator, UploadBatch, UploadRing,
};
use ringfence_testkit::fixture::{Fixture, FixtureDesc, Recording};

use crate::hooked;

/// An allocator, with one of each object that is created once per allocator.
struct World {
    base: Fixture,
    ring: UploadRing<Device>,
    readback: ReadbackRing<Device>,
    constants: ConstantBuffers<Device>,
    cpu: CpuDescriptorHeap<Device>,
    visible: ShaderVisibleHeap<Device>,
    sampler_heap: ShaderVisibleHeap<Device>,
    table: BindlessTable<Device>,
    samplers: SamplerTable<Device>,
    transient: TransientAllocator<Device>,
    placement: Placement<Device>,
    fast: FastConstants<Device>,
    pool: Pool<Device>,
    shown: Buffer<Device>,
    movable: Vec<Buffer<Device>>,
    bin: RetireBin<Vec<u8>>,
    arena: RefCell<MeshArena<Device, u32>>,
    frame: Frame,
}

const USAGE: BufferUsage = BufferUsage::COPY_SRC.union(BufferUsage::COPY_DST).union(BufferUsage::STORAGE);

fn info(size: u64) -> BufferDesc {
    BufferDesc { size, usage: USAGE }
}

fn needs(size: u64) -> Requirements {
    Requirements {
        size,
        alignment: 256,
        memory_type_bits: u32::MAX,
        class: ResourceClass::Buffer,
        prefers_dedicated: false,
        requires_dedicated: false,
    }
}

fn named<'a>() -> AllocationDesc<'a> {
    AllocationDesc { name: "a name of some length", ..Default::default() }
}

fn sampler(level_bias: f32) -> SamplerDesc {
    SamplerDesc { level_bias, ..Default::default() }
}

fn small_ring<'a>() -> UploadDesc<'a> {
    UploadDesc { capacity: 64 << 10, when_full: WhenFull::Fail, ..Default::default() }
}

fn small_readback<'a>() -> ReadbackDesc<'a> {
    ReadbackDesc { capacity: 64 << 10, ..Default::default() }
}

fn few_constants<'a>() -> ConstantsDesc<'a> {
    ConstantsDesc { dynamic_slots: 64, static_slots: 8, ..Default::default() }
}

fn small_heaps<'a>() -> TransientDesc<'a> {
    TransientDesc { heap_bytes: 1 << 20, ..Default::default() }
}

fn small_blocks() -> PlacementDesc {
    PlacementDesc {
        default_buffer_bytes_max: 1 << 20,
        small_block_bytes: 256 << 10,
        big_block_bytes: 512 << 10,
        default_block_bytes: 1 << 20,
        texture_block_bytes: 1 << 20,
        ..Default::default()
    }
}

fn small_meshes<'a>() -> MeshArenaDesc<'a> {
    MeshArenaDesc { block_vertices: 64, block_indices: 64, ..Default::default() }
}

fn pool_desc<'a>() -> PoolDesc<'a> {
    PoolDesc { block_bytes: 1 << 20, name: "a pool", ..Default::default() }
}

impl World {
    fn new(debug: DebugDesc, records: bool) -> Self {
        let allocator = AllocatorDesc {
            debug,
            empty_block_grace: 1,
            device_block_bytes_max: 4 << 20,
            host_block_bytes_max: 1 << 20,
            ..Default::default()
        };
        let base = Fixture::new(FixtureDesc { allocator, ..Default::default() });
        let memory = &base.memory;
        if records {
            memory.trace().start(Recording::default()).expect("no object is created yet");
        }
        let desc = small_ring();
        let ring = UploadRing::new(memory, desc).expect("small");
        let readback = ReadbackRing::new(memory, small_readback());
        let desc = few_constants();
        let constants = ConstantBuffers::new(memory, desc, ()).expect("small");
        let cpu = CpuDescriptorHeap::new(memory, CpuHeapDesc { block_slots: 8, ..Default::default() }).expect("small");
        let desc = ShaderVisibleDesc { frame_slots: 64, persistent_slots: 64, chunk_slots: 8, ..Default::default() };
        let visible = ShaderVisibleHeap::new(memory, desc).expect("small");
        let sampler_heap =
            ShaderVisibleHeap::new(memory, ShaderVisibleDesc { kind: HeapKind::Samplers, ..desc }).expect("small");
        let desc = BindlessDesc { capacity: 8, clear_freed: true };
        let table = BindlessTable::new(memory, &visible, desc).expect("room");
        let samplers = SamplerTable::new(memory, &sampler_heap, desc).expect("room");
        let shown = memory.create_buffer(&info(4096), named()).expect("room");
        let movable = AllocationDesc { movable: true, ..named() };
        let movable =
            (0..8).map(|_| memory.create_buffer(&info(256 << 10), movable).expect("room")).step_by(2).collect();
        Self {
            ring,
            readback: readback.expect("small"),
            constants,
            cpu,
            visible,
            sampler_heap,
            table,
            samplers,
            transient: TransientAllocator::new(memory, small_heaps()),
            placement: Placement::new(memory, small_blocks()).expect("sound"),
            fast: FastConstants::new(memory, FastConstantsDesc::default()),
            pool: memory.create_pool(pool_desc()).expect("small"),
            shown,
            movable,
            bin: RetireBin::new(),
            arena: RefCell::new(MeshArena::new(memory, small_meshes())),
            frame: base.timeline().begin(),
            base,
        }
    }

    fn view(&self) -> View<'_, Device> {
        let kind = BufferViewKind::Storage { stride: 0, writes: true };
        View::buffer(&self.shown, BufferView { kind, offset: 0, size: 256 }).expect("made for it")
    }

    fn written(&self, count: u32) -> CpuDescriptors<Device> {
        let mut slots = self.cpu.allocate(count).expect("room");
        (0..count).for_each(|slot| slots.write(slot, &self.view()).expect("a slot"));
        slots
    }

    fn constant(&self, bytes: usize) -> StaticConstants<Device, ()> {
        self.constants.create_static(&vec![7; bytes]).expect("room")
    }

    fn read(&self) -> Readback<Device> {
        self.readback.reserve(&self.frame, 256, 4).expect("room")
    }

    fn writer(&self) -> UploadWriter<Device> {
        let mut writer = self.ring.writer(&self.frame).expect("its frame");
        writer.write(&[1; 100], 4).expect("room");
        writer
    }

    fn batch(&self) -> UploadBatch<Device> {
        let mut batch = UploadBatch::new();
        let staged = self.ring.write_for(&self.frame, &[1; 64], 4).expect("room");
        batch.copy(&staged, &self.shown, 0).expect("it fits");
        batch
    }

    fn mesh(&self) -> Mesh<Device> {
        let inserted =
            self.arena.borrow_mut().insert(&[1; 4], &[0; 6], &self.ring, &mut UploadBatch::new(), &self.frame);
        inserted.expect("room")
    }

    fn vector(&self) -> GpuVec<Device, u32> {
        let mut vector = GpuVec::new(&self.base.memory, GpuVecDesc::default());
        vector.extend(0..10);
        vector.update(&self.ring, &mut UploadBatch::new(), &self.frame).expect("room");
        vector
    }

    fn transfer(&self) -> TransferQueue<Device> {
        let desc = small_ring();
        let ring = UploadRing::new(&self.base.memory, desc).expect("small");
        let mut queue = TransferQueue::new(self.base.timeline().clone(), ring);
        queue.upload(&[1; 64], &self.shown, 0).expect("room");
        queue
    }

    /// Releases everything, and checks that nothing is leaked.
    fn finish(self) {
        let Self { base, ring, readback, constants, cpu, visible, sampler_heap, table, samplers, .. } = self;
        let Self { transient, placement, fast, pool, shown, movable, bin, arena, frame, .. } = self;
        drop((ring, readback, constants, cpu, visible, sampler_heap, table, samplers));
        drop((transient, placement, fast, pool, shown, movable, bin, arena));
        base.timeline().discard_dropped();
        base.complete(frame);
        base.memory.reclaim();
        _ = base.memory.trace().stop();
        // Batches that are not recorded lose the contents of their destinations.
        let found = base.memory.debug().take_findings();
        assert!(found.iter().all(|finding| matches!(finding, Finding::LostContent(_))), "{found:?}");
        base.finish();
    }
}

type Kind = (&'static str, fn(&World) -> Box<dyn Any>);

/// The objects that a program may keep and drop at any time.
const KINDS: &[Kind] = &[
    ("Buffer", |w| Box::new(w.base.memory.create_buffer(&info(256), Default::default()).expect("room"))),
    ("Buffer with a name", |w| Box::new(w.base.memory.create_buffer(&info(256), named()).expect("room"))),
    ("Buffer in a block", |w| Box::new(w.base.memory.create_buffer(&info(256 << 10), named()).expect("room"))),
    ("Buffer with memory of its own", |w| {
        let desc = AllocationDesc { dedicated: Dedicated::Always, ..named() };
        Box::new(w.base.memory.create_buffer(&info(4096), desc).expect("room"))
    }),
    ("Buffer that may be moved", |w| {
        let desc = AllocationDesc { movable: true, ..named() };
        Box::new(w.base.memory.create_buffer(&info(4096), desc).expect("room"))
    }),
    ("Buffer of a pool", |w| Box::new(w.pool.create_buffer(&info(4096), named()).expect("room"))),
    ("the last Buffer of a pool", |w| {
        let pool = w.base.memory.create_pool(pool_desc()).expect("small");
        Box::new(pool.create_buffer(&info(4096), named()).expect("room"))
    }),
    ("shared Buffer", |w| {
        let desc = AllocationDesc { share: Some(ShareKind::Simulated), ..named() };
        Box::new(w.base.memory.create_buffer(&info(4096), desc).expect("room"))
    }),
    ("Texture", |w| Box::new(w.base.memory.create_texture(&TextureDesc::default(), named()).expect("room"))),
    ("SmallBuffer", |w| {
        let desc = BufferDesc { size: 64, usage: BufferUsage::CONSTANT };
        Box::new(w.base.memory.create_small_buffer(desc, Location::Upload).expect("room"))
    }),
    ("Allocation", |w| Box::new(w.base.memory.allocate(needs(256 << 10), named()).expect("room"))),
    ("SparseBuffer", |w| {
        let mut sparse = SparseBuffer::new(&w.base.memory, &info(256 << 10), named()).expect("room");
        sparse.bind(0..2).expect("room");
        Box::new(sparse)
    }),
    ("Pool", |w| Box::new(w.base.memory.create_pool(pool_desc()).expect("small"))),
    ("Pool with a block", |w| {
        Box::new(w.base.memory.create_pool(PoolDesc { block_count_min: 1, ..pool_desc() }).expect("small"))
    }),
    ("Frame", |w| Box::new(w.base.timeline().begin())),
    ("Timeline", |w| Box::new(w.base.timeline().clone())),
    ("Allocator", |w| Box::new(w.base.memory.clone())),
    ("another Allocator", |w| Box::new(Fixture::on(&w.base.device, AllocatorDesc::default()))),
    ("Defrag", |w| Box::new(w.base.memory.defragment(DefragDesc::default()))),
    ("Maintenance", |w| Box::new(w.base.memory.budgets().maintain_in_background().expect("a thread"))),
    ("UseList", |w| {
        // SAFETY: no submission uses memory.
        let residency = unsafe { w.base.memory.residency() };
        let mut list = residency.list();
        list.add(&w.shown);
        Box::new((residency, list))
    }),
    ("RetireBin", |w| {
        let bin = RetireBin::new();
        w.base.memory.retirement().retire_into(&bin, vec![1_u8]);
        Box::new(bin)
    }),
    ("UploadRing", |w| Box::new(UploadRing::new(&w.base.memory, small_ring()).expect("small"))),
    ("Staged", |w| Box::new(w.ring.write_for(&w.frame, &[1; 64], 4).expect("room"))),
    ("UploadWriter", |w| Box::new(w.writer())),
    ("Mesh", |w| Box::new(w.mesh())),
    ("MeshArena", |w| Box::new(MeshArena::<Device, u32>::new(&w.base.memory, small_meshes()))),
    ("GpuVec", |w| Box::new(w.vector())),
    ("UploadBatch", |w| Box::new(w.batch())),
    ("TransferQueue", |w| Box::new(w.transfer())),
    ("ReadbackRing", |w| Box::new(ReadbackRing::new(&w.base.memory, small_readback()).expect("small"))),
    ("Readback", |w| Box::new(w.read())),
    ("ConstantBuffers", |w| Box::new(ConstantBuffers::new(&w.base.memory, few_constants(), ()).expect("small"))),
    ("StaticConstants", |w| Box::new(w.constant(64))),
    ("large StaticConstants", |w| Box::new(w.constant(5000))),
    ("DynamicConstants", |w| Box::new(w.constants.dynamic(64).expect("small"))),
    ("ConstantWriter", |w| {
        let mut writer = w.constants.writer(&w.frame).expect("its frame");
        writer.bind(&w.constants.dynamic(64).expect("small")).expect("room");
        Box::new(writer)
    }),
    ("CpuDescriptorHeap", |w| {
        let heap = CpuDescriptorHeap::<Device>::new(&w.base.memory, CpuHeapDesc::default()).expect("small");
        drop(heap.allocate(3).expect("room"));
        Box::new(heap)
    }),
    ("CpuDescriptors", |w| Box::new(w.written(1))),
    ("CpuDescriptors of three slots", |w| Box::new(w.written(3))),
    ("ShaderVisibleHeap", |w| Box::new((w.visible.clone(), w.sampler_heap.clone()))),
    ("Persistent", |w| Box::new(w.visible.allocate(3).expect("room"))),
    ("Binding", |w| Box::new(w.visible.bind(&w.frame).expect("its frame"))),
    ("BindlessTable", |w| {
        let desc = BindlessDesc { capacity: 4, clear_freed: true };
        let table = BindlessTable::new(&w.base.memory, &w.visible, desc).expect("room");
        table.insert(&w.view()).expect("room").into_index();
        Box::new(table)
    }),
    ("BindlessEntry", |w| Box::new(w.table.insert(&w.view()).expect("room"))),
    ("Sampler", |w| Box::new(w.samplers.get(sampler(0.5)).expect("room"))),
    ("SamplerTable", |w| Box::new(w.samplers.clone())),
    ("TransientAllocator", |w| {
        let mut transient = TransientAllocator::new(&w.base.memory, small_heaps());
        pass(&mut transient, w.base.timeline().id());
        Box::new(transient)
    }),
    ("Placement", |w| Box::new(Placement::new(&w.base.memory, small_blocks()).expect("sound"))),
    ("BufferLocation", |w| Box::new(w.placement.create_buffer(&request(1000)).expect("room"))),
    ("BufferLocation for uploads", |w| {
        let dynamic = BufferRequest { dynamism: Dynamism::Dynamic, ..request(1000) };
        Box::new(w.placement.create_buffer(&dynamic).expect("room"))
    }),
    ("TextureLocation", |w| Box::new(w.placement.create_texture(&TextureDesc::default(), "t").expect("room"))),
    ("AliasedHeap", |w| Box::new(w.placement.aliased_heap(&TextureDesc::default(), 1 << 20, "a").expect("room"))),
    ("FastConstants", |w| Box::new(FastConstants::new(&w.base.memory, FastConstantsDesc::default()))),
    ("FastWriter", |w| {
        let mut writer = w.fast.writer(&w.frame).expect("its frame");
        writer.write(&[1; 64]).expect("room");
        Box::new(writer)
    }),
];

fn request<'a>(size: u64) -> BufferRequest<'a> {
    BufferRequest { size, usage: BufferUsage::STORAGE, name: "b", ..Default::default() }
}

fn pass(transient: &mut TransientAllocator<Device>, queue: ringfence::lifetime::TimelineId) {
    let mut execution = transient.begin();
    let pass = execution.pass(queue, &[]).expect("a queue");
    let one = execution.acquire_buffer(&info(4096), pass, "one").expect("room");
    execution.discard(one, &[]).expect("in use");
    execution.acquire_texture(&TextureDesc::default(), pass, "two").expect("room");
    execution.finish(&[]);
}

type Operation = (&'static str, fn(&mut World));

/// Calls that may allocate on the host.
const OPERATIONS: &[Operation] = &[
    ("create_buffer", |w| drop(w.base.memory.create_buffer(&info(512), Default::default()))),
    ("create_buffer with a name", |w| drop(w.base.memory.create_buffer(&info(512), named()))),
    ("create_buffer in a block", |w| drop(w.base.memory.create_buffer(&info(256 << 10), named()))),
    ("create_buffer in a new block", |w| drop(w.base.memory.create_buffer(&info(2 << 20), named()))),
    ("create_buffer that may be moved", |w| {
        drop(w.base.memory.create_buffer(&info(4096), AllocationDesc { movable: true, ..named() }));
    }),
    ("create_buffer with memory of its own", |w| {
        let desc = AllocationDesc { dedicated: Dedicated::Always, ..named() };
        drop(w.base.memory.create_buffer(&info(4096), desc));
    }),
    ("destroy_now", |w| {
        let buffer = w.base.memory.create_buffer(&info(4096), named()).expect("room");
        // SAFETY: no submission uses it.
        unsafe { buffer.destroy_now() };
    }),
    ("replace", |w| w.shown.replace(&info(8192), named()).expect("room")),
    ("set_name", |w| w.shown.set_name("another name, of which a copy is kept")),
    ("create_texture", |w| drop(w.base.memory.create_texture(&TextureDesc::default(), named()))),
    ("create_small_buffer", |w| {
        let desc = BufferDesc { size: 128, usage: BufferUsage::VERTEX };
        drop(w.base.memory.create_small_buffer(desc, Location::Device));
    }),
    ("allocate", |w| drop(w.base.memory.allocate(needs(256 << 10), named()))),
    ("SparseBuffer::new", |w| {
        let mut sparse = SparseBuffer::new(&w.base.memory, &info(256 << 10), named()).expect("room");
        sparse.bind(0..3).expect("room");
    }),
    ("create_pool", |w| {
        drop(w.base.memory.create_pool(PoolDesc { block_count_min: 2, ..pool_desc() }));
    }),
    ("Pool::create_buffer", |w| drop(w.pool.create_buffer(&info(8192), named()))),
    ("Pool::create_buffer in a new block", |w| drop(w.pool.create_buffer(&info(900 << 10), named()))),
    ("plan", |w| _ = w.base.memory.plan().buffer(&info(256 << 10), named())),
    ("statistics", |w| drop(w.base.memory.statistics())),
    ("snapshot", |w| drop(w.base.memory.snapshot())),
    ("reclaim", |w| _ = w.base.memory.reclaim()),
    ("reclaim of what has passed", |w| {
        w.shown = w.base.memory.create_buffer(&info(4096), named()).expect("room");
        let frame = std::mem::replace(&mut w.frame, w.base.timeline().begin());
        w.base.complete(frame);
        (0..4).for_each(|_| _ = w.base.memory.reclaim());
    }),
    ("trim", |w| _ = w.base.memory.budgets().trim()),
    ("trim_to", |w| _ = w.base.memory.budgets().trim_to(0)),
    ("reserve", |w| {
        _ = w.base.memory.budgets().reserve(ResourceClass::Buffer, 6 << 20, Default::default()).expect("room");
    }),
    ("maintain", |w| _ = w.base.memory.budgets().maintain()),
    ("maintain_in_background", |w| drop(w.base.memory.budgets().maintain_in_background())),
    ("defragment", |w| drop(w.base.memory.defragment(DefragDesc::default()))),
    ("a pass of moves", |w| {
        let mut defrag = w.base.memory.defragment(DefragDesc::default());
        let frame = std::mem::replace(&mut w.frame, w.base.timeline().begin());
        let mut pass = defrag.begin_pass(&frame).expect("its frame");
        for buffer in &mut w.movable {
            if pass.has(buffer) {
                pass.copy_buffer(buffer).expect("it is in the pass");
            }
        }
        let mut commands: Vec<Command> = Vec::new();
        // SAFETY: the commands are submitted in the frame of the pass.
        unsafe { pass.record(&mut commands) };
        drop(pass);
        w.base.submit_frame(frame, commands);
    }),
    ("a timeline", |w| {
        let fence = w.base.device.create_fence(0);
        // SAFETY: no submission is made to it.
        drop(unsafe { w.base.memory.timeline(fence) });
    }),
    ("frames", |w| (0..9).map(|_| w.base.timeline().begin()).collect::<Vec<_>>().into_iter().for_each(Frame::discard)),
    ("retire_into", |w| (0..300).for_each(|_| w.base.memory.retirement().retire_into(&w.bin, vec![1; 9]))),
    ("debug", |w| {
        let debug = w.base.memory.debug();
        drop((debug.live(), debug.history(), debug.check_guards()));
    }),
    ("residency", |w| {
        // SAFETY: no submission uses memory.
        let residency = unsafe { w.base.memory.residency() };
        let mut list = residency.list();
        list.add(&w.shown);
        residency.commit(&list, &w.frame).expect("its frame");
    }),
    ("UploadRing::new", |w| drop(UploadRing::new(&w.base.memory, small_ring()))),
    ("UploadRing::write", |w| drop(w.ring.write_for(&w.frame, &[1; 256], 4))),
    ("UploadRing::writer", |w| drop(w.writer())),
    ("UploadRing::snapshot", |w| drop(w.ring.snapshot())),
    ("UploadBatch::copy and record", |w| {
        let mut commands: Vec<Command> = Vec::new();
        // SAFETY: the commands are not submitted.
        _ = unsafe { w.batch().record(&mut commands) };
    }),
    ("TransferQueue::upload", |w| drop(w.transfer())),
    ("ReadbackRing::new", |w| drop(ReadbackRing::new(&w.base.memory, small_readback()))),
    ("ReadbackRing::reserve", |w| drop(w.read())),
    ("ConstantBuffers::new", |w| drop(ConstantBuffers::new(&w.base.memory, few_constants(), ()))),
    ("create_static", |w| drop((0..20).map(|_| w.constant(64)).collect::<Vec<_>>())),
    ("create_static of large constants", |w| drop(w.constant(9000))),
    ("StaticConstants::update", |w| {
        let mut constants = w.constant(64);
        constants.update(&[3; 40]).expect("it fits");
        constants.update(&[4; 60]).expect("it fits");
    }),
    ("upload_statics", |w| {
        let held: Vec<_> = (0..5).map(|_| w.constant(64)).collect();
        let mut writer = w.constants.writer(&w.frame).expect("its frame");
        let mut batch = UploadBatch::new();
        w.constants.upload_statics(&mut writer, &mut batch).expect("room");
        drop(held);
    }),
    ("ConstantWriter::bind", |w| {
        let dynamic = w.constants.dynamic(300).expect("small");
        let mut writer = w.constants.writer(&w.frame).expect("its frame");
        writer.bind(&dynamic).expect("room");
    }),
    ("CpuDescriptorHeap::new", |w| drop(CpuDescriptorHeap::<Device>::new(&w.base.memory, CpuHeapDesc::default()))),
    ("CpuDescriptorHeap::allocate", |w| drop((0..40).map(|_| w.cpu.allocate(1)).collect::<Vec<_>>())),
    ("CpuDescriptorHeap::allocate of runs", |w| {
        drop([3, 5, 7, 20].map(|count| w.cpu.allocate(count).expect("room")));
    }),
    ("CpuDescriptors::write", |w| drop(w.written(2))),
    ("ShaderVisibleHeap::allocate", |w| drop([1, 3, 5].map(|count| w.visible.allocate(count)))),
    ("Persistent::write and copy", |w| {
        let mut run = w.visible.allocate(3).expect("room");
        run.write(0, &w.view()).expect("unwritten");
        run.copy(1, &[w.written(2).all()]).expect("unwritten");
    }),
    ("FrameDescriptors::table", |w| {
        let sources = w.written(2);
        let mut tables = w.visible.frame_descriptors(&w.frame).expect("its frame");
        tables.table(&[sources.all()]).expect("room");
        tables.table_of(&[w.view()]).expect("room");
    }),
    ("ShaderVisibleHeap::bind", |w| drop(w.visible.bind(&w.frame))),
    ("BindlessTable::new", |w| {
        drop(BindlessTable::new(&w.base.memory, &w.visible, BindlessDesc { capacity: 3, clear_freed: true }));
    }),
    ("BindlessTable::insert, update, replace, remove", |w| {
        let mut entry = w.table.insert(&w.view()).expect("room");
        w.table.update(&entry, &w.view()).expect("live");
        entry.replace(&w.view()).expect("room");
        w.table.remove(entry.into_index()).expect("live");
    }),
    ("SamplerTable::get", |w| drop([0.0, 0.5, 1.0].map(|bias| w.samplers.get(sampler(bias)).expect("room")))),
    ("SamplerTable::new", |w| {
        let desc = BindlessDesc { capacity: 3, clear_freed: true };
        drop(SamplerTable::new(&w.base.memory, &w.sampler_heap, desc));
    }),
    ("TransientAllocator", |w| {
        let queue = w.base.timeline().id();
        pass(&mut w.transient, queue);
        w.transient.end_frame();
        w.transient.trim();
    }),
    ("Placement::new", |w| drop(Placement::new(&w.base.memory, small_blocks()))),
    ("Placement::create_buffer", |w| {
        let dynamic = |size| BufferRequest { dynamism: Dynamism::Dynamic, ..request(size) };
        for request in [request(300), dynamic(300), dynamic(100_000), request(2 << 20)] {
            drop(w.placement.create_buffer(&request).expect("room"));
        }
    }),
    ("Placement::create_texture", |w| drop(w.placement.create_texture(&TextureDesc::default(), "t"))),
    ("Placement::aliased_heap", |w| drop(w.placement.aliased_heap(&TextureDesc::default(), 1 << 20, "a"))),
    ("Placement::end_frame", |w| _ = w.placement.end_frame()),
    ("FastWriter::write", |w| {
        let mut writer = w.fast.writer(&w.frame).expect("its frame");
        (0..3).for_each(|_| _ = writer.write(&[1; 3000]).expect("room"));
    }),
    ("MeshArena", |w| {
        let meshes: Vec<_> = (0..20).map(|_| w.mesh()).collect();
        let mut arena = w.arena.borrow_mut();
        arena.draws(&meshes[10..]).expect("its own meshes");
        drop(meshes);
        arena.compact(1 << 20, &mut UploadBatch::new(), &w.frame).expect("its frame");
        arena.reclaim().expect("the device is not lost");
        _ = arena.take_content_lost();
    }),
    ("GpuVec", |w| drop(w.vector())),
    ("validate", |w| w.base.memory.debug().validate().expect("sound")),
];

/// Current operation, allocation and kind, for the report of a hang.
static NOW: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

/// Does one operation, and drops an object of each kind within its host allocation `nth`. Returns `true` if there was
/// such an allocation.
fn disturb(operation: usize, nth: usize, (debug, records): (DebugDesc, bool)) -> bool {
    let mut world = World::new(debug, records);
    let mut held: Vec<_> = KINDS.iter().map(|(_, make)| Some(make(&world))).collect();
    let (count, come) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
    let (counted, has_come) = (Rc::clone(&count), Rc::clone(&come));
    let held_by_hook = Rc::new(RefCell::new(std::mem::take(&mut held)));
    let dropped = Rc::clone(&held_by_hook);
    let hook = move || {
        let at = counted.replace(counted.get() + 1);
        if at != nth {
            return;
        }
        has_come.set(true);
        let mut held = dropped.borrow_mut();
        let count = held.len();
        for step in 0..count {
            let kind = if nth.is_multiple_of(2) { step } else { count - 1 - step };
            NOW[2].store(kind, Ordering::Relaxed);
            drop(held[kind].take());
        }
    };
    NOW[0].store(operation, Ordering::Relaxed);
    NOW[1].store(nth, Ordering::Relaxed);
    hooked(hook, || OPERATIONS[operation].1(&mut world));
    drop(held_by_hook);
    world.finish();
    come.get()
}

fn disturb_all(watching: (DebugDesc, bool)) {
    let (done, is_done) = mpsc::channel();
    let running = std::thread::spawn(move || {
        for operation in 0..OPERATIONS.len() {
            let mut nth = 0;
            while disturb(operation, nth, watching) {
                nth += 1;
                _ = done.send(());
            }
        }
    });
    loop {
        match is_done.recv_timeout(Duration::from_secs(120)) {
            Ok(()) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => return running.join().expect("no panic"),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let [operation, nth, kind] = [0, 1, 2].map(|at| NOW[at].load(Ordering::Relaxed));
                let (operation, kind) = (OPERATIONS[operation].0, KINDS[kind].0);
                panic!("a {kind} that is dropped within host allocation {nth} of `{operation}` waits for itself");
            }
        }
    }
}

#[test]
fn an_object_of_any_kind_may_be_dropped_within_any_host_allocation() {
    disturb_all((DebugDesc::default(), false));
}

#[test]
fn an_object_of_any_kind_may_be_dropped_within_any_host_allocation_while_all_is_watched() {
    // Without fills, which take time but no lock.
    let debug = DebugDesc { fill_new: None, fill_released: None, ..DebugDesc::everything() };
    disturb_all((debug, true));
}

/// So many objects are retired that a drop destroys some of them, for which it takes the allocator's locks.
#[test]
fn a_drop_in_a_crowd_may_happen_within_any_host_allocation() {
    let (done, is_done) = mpsc::channel();
    let running = std::thread::spawn(move || {
        for operation in 0..OPERATIONS.len() {
            NOW[0].store(operation, Ordering::Relaxed);
            crowd(operation);
            _ = done.send(());
        }
    });
    loop {
        match is_done.recv_timeout(Duration::from_secs(120)) {
            Ok(()) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => return running.join().expect("no panic"),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                panic!("a drop within `{}` waits for itself", OPERATIONS[NOW[0].load(Ordering::Relaxed)].0);
            }
        }
    }
}

fn crowd(operation: usize) {
    let mut world = World::new(DebugDesc::default(), false);
    let memory = world.base.memory.clone();
    let desc = BufferDesc { size: 64, usage: BufferUsage::COPY_DST };
    let pool = memory.create_pool(pool_desc()).expect("small");
    let make = |at: usize| match at % 3 {
        0 => memory.create_buffer(&desc, Default::default()).expect("room"),
        1 => memory.create_buffer(&desc, AllocationDesc { movable: true, ..named() }).expect("room"),
        _ => pool.create_buffer(&desc, named()).expect("room"),
    };
    let mut held: Vec<_> = (0..2_500).map(make).collect();
    held.drain(..1_400).for_each(drop);
    let frame = std::mem::replace(&mut world.frame, world.base.timeline().begin());
    world.base.complete(frame);
    let held = RefCell::new(held.into_iter());
    hooked(move || _ = held.borrow_mut().next().map(drop), || OPERATIONS[operation].1(&mut world));
    drop((pool, memory));
    world.finish();
}
