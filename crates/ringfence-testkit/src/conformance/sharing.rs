//! Shared memory. Two allocators stand for two processes: one exports memory, the other imports it.

use crate::{Command, Gpu};
use ringfence::defrag::{Defrag, DefragDesc};
use ringfence::device::{BufferDesc, BufferUsage, Buffers, Create, ResourceClass, TextureDesc, TextureUsage};
use ringfence::memory::{Error, PoolDesc};
use ringfence::sharing::{Share, ShareError, ShareKind, SharedMemory};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Buffer, Location, Pool, sharing};

use crate::rig::{self, PATIENCE, Rig, skipped};

const BYTES: u64 = 100_000;

/// Returns the kinds of handles that the device can export and import for buffers. Reports a skip if there is none.
fn kinds<G: Gpu>(memory: &Allocator<G::Device>) -> Vec<ShareKind> {
    let works = |kind: &ShareKind| {
        let support = sharing::buffer_support(memory, &SHARED, *kind);
        support.can_export && support.can_import
    };
    let found: Vec<_> = G::SHARE_KINDS.iter().copied().filter(works).collect();
    if found.is_empty() {
        skipped("the device cannot share buffers");
        // Mesa's driver supports file descriptors; the simulated device supports its own kind.
        let is_required = G::NAME == "sim" || std::env::var_os("RINGFENCE_REQUIRE_VULKAN").is_some();
        assert!(!is_required || G::NAME == "d3d12", "required");
    }
    found
}

/// Returns the first kind that the device can export and import.
fn kind<G: Gpu>(memory: &Allocator<G::Device>) -> Option<ShareKind> {
    kinds::<G>(memory).into_iter().next()
}

const SHARED: BufferDesc = BufferDesc { size: BYTES, usage: BufferUsage::COPY_SRC.union(BufferUsage::COPY_DST) };

fn shared(kind: ShareKind) -> AllocationDesc<'static> {
    AllocationDesc { name: "shared", share: Some(kind), ..Default::default() }
}

/// Exports a buffer. Returns `None` on implementations of Direct3D 12 that do not support it; Windows does.
fn export<G: Gpu>(buffer: &Buffer<G::Device>) -> Option<(<G::Device as Share>::Handle, SharedMemory)> {
    match buffer.export() {
        Ok(exported) => Some(exported),
        Err(ShareError::Device(error)) if G::NAME == "d3d12" => {
            skipped(&error.to_string());
            None
        }
        Err(error) => panic!("{error}"),
    }
}

pub fn an_exported_buffer_is_the_importers_too<G: Gpu>(rig: &mut Rig<G>) {
    for kind in kinds::<G>(&rig.memory) {
        eprintln!("{kind:?}");
        share_a_buffer(rig, kind);
    }
}

fn share_a_buffer<G: Gpu>(rig: &mut Rig<G>, kind: ShareKind) {
    let (other, _timelines) = rig.allocator(AllocatorDesc::default());
    let buffer = rig.memory.create_buffer(&SHARED, shared(kind)).expect("there is room");
    assert!(buffer.is_dedicated(), "it has its own memory, so that its neighbours are not shared");
    let Some((handle, shared)) = export::<G>(&buffer) else { return };
    assert_eq!((shared.kind, shared.offset, shared.memory_bytes), (kind, 0, buffer.memory_bytes()));
    let shared = SharedMemory::from_bytes(&shared.to_bytes()).expect("its own bytes");
    let desc = AllocationDesc { name: "imported", user_data: 5, ..Default::default() };
    // SAFETY: the handle was just exported, and the host does not read the memory.
    let imported = unsafe { sharing::import_buffer(&other, &SHARED, handle, &shared, desc) }.expect("the same device");
    assert_eq!((imported.size(), imported.user_data(), imported.is_dedicated()), (buffer.size(), 5, true));
    assert_eq!(other.statistics().total().dedicated_count, 1);

    // In both directions, work writes through one buffer and copies out of the other.
    for (seed, (from, to)) in [(1, (&buffer, &imported)), (2, (&imported, &buffer))] {
        let expected = rig::pattern(seed, BYTES as usize);
        let mut source = rig.buffer(BYTES, Location::Upload, "source");
        source.write(0, &expected).expect("it is mapped");
        rig.run(&[rig::copy(&source, 0, from, 0, BYTES)]);
        assert_eq!(rig.download(to, BYTES), expected, "the same bytes");
    }
    // SAFETY: all work is complete.
    unsafe { imported.destroy_now() };
    other.shutdown(PATIENCE).expect("nothing waits");
    assert_eq!(other.statistics().total().dedicated_count, 0);
}

pub fn an_imported_buffer_is_released_by_sync_points_and_outlives_its_exporter<G: Gpu>(rig: &mut Rig<G>) {
    let Some(kind) = kind::<G>(&rig.memory) else { return };
    let (other, _timelines) = rig.allocator(AllocatorDesc::default());
    let exported = other.create_buffer(&SHARED, shared(kind)).expect("there is room");
    let Some((handle, shared)) = export::<G>(&exported) else { return };
    let desc = AllocationDesc::default();
    // SAFETY: the handle was just exported, and the host does not read the memory.
    let imported = unsafe { sharing::import_buffer(&rig.memory, &SHARED, handle, &shared, desc) };
    let imported = imported.expect("the same device");
    // The exporter is destroyed first. The importer is then the only owner of the bytes.
    // SAFETY: no submission uses it.
    unsafe { exported.destroy_now() };
    drop(other);
    let expected = rig::pattern(3, BYTES as usize);
    let mut source = rig.buffer(BYTES, Location::Upload, "source");
    source.write(0, &expected).expect("it is mapped");
    rig.run(&[rig::copy(&source, 0, &imported, 0, BYTES)]);
    let back = rig.buffer(BYTES, Location::Readback, "back");
    let frame = rig.timeline().begin();
    rig.submit_behind_gate(1, frame, &[rig::copy(&imported, 0, &back, 0, BYTES)]);
    let before = rig.memory.statistics().retired_count;
    drop(imported);
    rig.memory.reclaim();
    assert_eq!(rig.memory.statistics().retired_count, before + 1, "it waits for the submission that reads it");
    rig.gpu.open_gate(1).expect("the device is not lost");
    rig.gpu.wait_idle().expect("the device is not lost");
    rig.memory.reclaim();
    assert_eq!(rig.memory.statistics().retired_count, before);
    let mut bytes = vec![0; BYTES as usize];
    back.read(0, &mut bytes).expect("it is mapped");
    assert_eq!(bytes, expected);
}

pub fn a_pool_that_shares_shows_its_blocks<G: Gpu>(rig: &mut Rig<G>) {
    let Some(kind) = kind::<G>(&rig.memory) else { return };
    if sharing::buffer_support(&rig.memory, &SHARED, kind).needs_dedicated {
        return skipped("the device cannot share blocks");
    }
    let memory_type = memory_type::<G>(&rig.memory, kind);
    let desc = PoolDesc { memory_type, block_bytes: 4 << 20, share: Some(kind), ..Default::default() };
    let pool: Pool<G::Device> = rig.memory.create_pool(desc).expect("there is such a type");
    let buffers: Vec<_> =
        (0..3).map(|_| pool.create_buffer(&SHARED, AllocationDesc::default()).expect("room")).collect();
    assert_eq!(pool.statistics().block_count, 1);
    let Some((handle, shared)) = export::<G>(&buffers[0]) else { return };
    assert_eq!((shared.memory_bytes, shared.is_tied), (4 << 20, false));
    let others: Vec<_> = buffers.iter().map(Buffer::offset).collect();

    let (other, _timelines) = rig.allocator(AllocatorDesc::default());
    // SAFETY: the handle was just exported.
    let block =
        unsafe { sharing::import_memory(&other, handle, &shared, ResourceClass::Buffer, AllocationDesc::default()) };
    let mut block = block.expect("the same device");
    let imported: Vec<Buffer<G::Device>> = others
        .iter()
        .map(|offset| block.create_aliasing_buffer(&SHARED, *offset, "in the block").expect("it fits"))
        .collect();
    for (seed, (from, to)) in (10..).zip(buffers.iter().zip(&imported)) {
        let expected = rig::pattern(seed, BYTES as usize);
        let mut source = rig.buffer(BYTES, Location::Upload, "source");
        source.write(0, &expected).expect("it is mapped");
        rig.run(&[rig::copy(&source, 0, from, 0, BYTES)]);
        assert_eq!(rig.download(to, BYTES), expected, "the same bytes");
    }
    let wrong = AllocationDesc { share: Some(unlike(kind)), ..Default::default() };
    let refused = pool.create_buffer(&SHARED, wrong).expect_err("another kind");
    assert!(matches!(refused, Error::WrongShare { pool: Some(held), .. } if held == kind), "{refused}");
    drop((imported, block));
    other.shutdown(PATIENCE).expect("all is complete");
    other.debug().validate().expect("the allocator is sound");
}

pub fn what_is_moved_in_a_pool_that_shares_is_shared_there<G: Gpu>(rig: &mut Rig<G>) {
    let Some(kind) = kind::<G>(&rig.memory) else { return };
    if sharing::buffer_support(&rig.memory, &SHARED, kind).needs_dedicated {
        return skipped("the device cannot share blocks");
    }
    let memory_type = memory_type::<G>(&rig.memory, kind);
    let desc = PoolDesc { memory_type, block_bytes: 1 << 20, share: Some(kind), ..Default::default() };
    let pool: Pool<G::Device> = rig.memory.create_pool(desc).expect("there is such a type");
    let make = |_| {
        let desc = AllocationDesc { movable: true, ..Default::default() };
        pool.create_buffer(&SHARED, desc).expect("room")
    };
    // A buffer of the second block is moved to the first.
    let mut held: Vec<_> = (0..8).map(make).collect();
    while pool.statistics().block_count < 2 {
        held.push(make(held.len()));
    }
    let mut moved = held.pop().expect("it is there");
    held.remove(1);
    rig.memory.reclaim();
    let expected = rig::pattern(77, BYTES as usize);
    let mut source = rig.buffer(BYTES, Location::Upload, "source");
    source.write(0, &expected).expect("it is mapped");
    rig.run(&[rig::copy(&source, 0, &moved, 0, BYTES)]);

    let before = moved.offset();
    let mut run = Defrag::of_pool(&pool, DefragDesc { host_memory: true, ..Default::default() });
    let frame = rig.timeline().begin();
    let mut pass = run.begin_pass(&frame).expect("the frame is the allocator's own");
    let copy = pass.copy_buffer(&mut moved).expect("the block contains only this buffer and can be emptied");
    let copy = Command::CopyBuffer { src: copy.src, src_offset: 0, dst: copy.dst, dst_offset: 0, size: copy.size };
    drop(pass);
    let value = rig.submit(frame, &[copy]);
    assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
    assert_ne!(moved.offset(), before);
    let Some((handle, shared)) = export::<G>(&moved) else { return };
    assert_eq!((shared.offset, shared.kind), (moved.offset(), kind));
    let (other, _timelines) = rig.allocator(AllocatorDesc::default());
    // SAFETY: the handle was just exported, and the host does not read the memory.
    let imported = unsafe { sharing::import_buffer(&other, &SHARED, handle, &shared, AllocationDesc::default()) };
    let imported = imported.expect("the same device");
    assert_eq!(rig.download(&imported, BYTES), expected);
    drop(imported);
    other.shutdown(PATIENCE).expect("all is complete");
}

pub fn an_imported_buffer_is_not_evicted<G: Gpu>(rig: &mut Rig<G>) {
    let Some(kind) = kind::<G>(&rig.memory) else { return };
    let buffer = rig.memory.create_buffer(&SHARED, shared(kind)).expect("there is room");
    let Some((handle, shared)) = export::<G>(&buffer) else { return };
    let (other, timelines) = rig.allocator(AllocatorDesc::default());
    // SAFETY: the handle was just exported, and the host does not read the memory.
    let imported = unsafe { sharing::import_buffer(&other, &SHARED, handle, &shared, AllocationDesc::default()) };
    let imported = imported.expect("the same device");
    // SAFETY: no resource is evictable.
    let residency = unsafe { other.residency() }.with_evictions(u64::MAX).with_headroom(u64::MAX / 2);
    let frame = timelines[0].begin();
    let committed = residency.commit(&residency.list(), &frame).expect("no memory has to become resident");
    assert_eq!((committed.evicted_count, residency.absent_bytes()), (0, 0), "{residency:?}");
    frame.discard();
    drop(imported);
    other.shutdown(PATIENCE).expect("all is complete");
}

/// Returns a kind of handle that differs from `kind`.
fn unlike(kind: ShareKind) -> ShareKind {
    if kind == ShareKind::OpaqueFd { ShareKind::Simulated } else { ShareKind::OpaqueFd }
}

fn memory_type<G: Gpu>(memory: &Allocator<G::Device>, kind: ShareKind) -> u32 {
    let info = Create::<Buffers>::describe(memory.device(), &SHARED).expect("a plain buffer");
    // SAFETY: the prepared resource is discarded.
    let bits = unsafe {
        let (unplaced, needs) =
            Create::<Buffers>::prepare_shared(memory.device(), &info, kind).expect("it can be shared");
        Create::<Buffers>::discard(memory.device(), unplaced);
        needs.memory_type_bits
    };
    memory.plan().memory_type(bits, AllocationDesc::default()).expect("there is a type")
}

pub fn a_shared_texture_holds_the_same_texels<G: Gpu>(rig: &mut Rig<G>) {
    let usage = TextureUsage::COPY_SRC | TextureUsage::COPY_DST;
    let desc = TextureDesc { width: 64, height: 32, usage, ..Default::default() };
    let Some(kind) = G::SHARE_KINDS.iter().copied().find(|kind| {
        let support = sharing::texture_support(&rig.memory, &desc, *kind);
        support.can_export && support.can_import
    }) else {
        return skipped("the device cannot share textures");
    };
    let (other, _timelines) = rig.allocator(AllocatorDesc::default());
    let texture = rig.memory.create_texture(&desc, shared(kind)).expect("there is room");
    let (handle, shared) = match texture.export() {
        Err(ShareError::Device(error)) if G::NAME == "d3d12" => return skipped(&error.to_string()),
        exported => exported.expect("the device has handles"),
    };
    // SAFETY: the handle was just exported.
    let imported = unsafe { sharing::import_texture(&other, &desc, handle, &shared, AllocationDesc::default()) };
    let imported = imported.expect("the same device");
    let region = rig.region(64, 32, 0);
    let bytes = region.row_bytes * 32;
    let expected = rig::pattern(8, bytes as usize);
    let mut source = rig.buffer(bytes, Location::Upload, "source");
    source.write(0, &expected).expect("it is mapped");
    let (src, dst) = (source.object().clone(), texture.object().clone());
    let back = rig.buffer(bytes, Location::Readback, "back");
    rig.run(&[Command::CopyBufferToTexture { src, dst, region, discard: true }]);
    let (src, dst) = (texture.object().clone(), back.object().clone());
    rig.run(&[Command::CopyTextureToBuffer { src, dst, region }]);
    let mut texels = vec![0; bytes as usize];
    back.read(0, &mut texels).expect("it is mapped");
    let row = 64 * 4;
    let rows = |bytes: &[u8]| bytes.chunks(region.row_bytes as usize).flat_map(|line| line[..row].to_vec()).collect();
    let (got, wanted): (Vec<u8>, Vec<u8>) = (rows(&texels), rows(&expected));
    assert_eq!(got, wanted);
    // A real exporter would also pass on the layout. This test only checks the size and the destruction of the import.
    assert_eq!(imported.size(), texture.size());
    // SAFETY: no work uses it.
    unsafe { imported.destroy_now() };
    other.shutdown(PATIENCE).expect("nothing waits");
}

pub fn what_cannot_be_shared_is_refused_by_name<G: Gpu>(rig: &mut Rig<G>) {
    let plain = rig.memory.create_buffer(&SHARED, AllocationDesc::default()).expect("there is room");
    assert!(matches!(plain.export(), Err(ShareError::NotShared)));
    let missing = [ShareKind::Simulated, ShareKind::D3d12Heap].into_iter().find(|kind| !G::SHARE_KINDS.contains(kind));
    let refused = rig.memory.create_buffer(&SHARED, shared(missing.expect("one kind belongs to another device")));
    assert!(matches!(refused, Err(Error::Device(ringfence::device::DeviceError::Unsupported(_)))), "{refused:?}");
    // If the device does not support a kind, the kind is refused, and no object is left.
    for kind in G::SHARE_KINDS {
        let support = sharing::buffer_support(&rig.memory, &SHARED, *kind);
        eprintln!("{kind:?}: {support:?}");
        if support.can_export {
            continue;
        }
        let before = rig.memory.statistics();
        let refused = rig.memory.create_buffer(&SHARED, shared(*kind));
        assert!(matches!(refused, Err(Error::Device(ringfence::device::DeviceError::Unsupported(_)))), "{refused:?}");
        assert_eq!(before.types, rig.memory.statistics().types, "a refused import changes nothing");
    }
    let Some(kind) = kind::<G>(&rig.memory) else { return };
    let buffer = rig.memory.create_buffer(&SHARED, shared(kind)).expect("there is room");
    let Some((_, shared)) = export::<G>(&buffer) else { return };
    let before = rig.memory.statistics();
    let import = |shared: SharedMemory| {
        let (handle, _) = buffer.export().expect("it can be shared");
        // SAFETY: a wrong description is refused before the driver gets the handle.
        let made = unsafe { sharing::import_buffer(&rig.memory, &SHARED, handle, &shared, AllocationDesc::default()) };
        made.expect_err("it is wrong")
    };
    let other = SharedMemory { identity: [0x55; 32], ..shared };
    assert_eq!(import(other), ShareError::OtherDevice { kind });
    let shifted = SharedMemory { offset: 1 << 40, ..shared };
    assert!(matches!(import(shifted), ShareError::DoesNotFit { offset, .. } if offset == 1 << 40));
    let unknown = SharedMemory { memory_type: 31, ..shared };
    assert!(matches!(import(unknown), ShareError::Make(Error::UnknownMemoryType { memory_type: 31, .. })));
    let empty = SharedMemory { memory_bytes: 0, ..shared };
    assert!(matches!(import(empty), ShareError::Make(Error::ZeroSize)));
    let (handle, _) = buffer.export().expect("it can be shared");
    // SAFETY: as above.
    let whole = unsafe {
        sharing::import_memory(&rig.memory, handle, &shared, ResourceClass::Buffer, AllocationDesc::default())
    };
    assert_eq!(whole.expect_err("it is tied"), ShareError::Tied);
    let after = rig.memory.statistics();
    assert_eq!(before.types, after.types, "a refused import changes nothing");
}
