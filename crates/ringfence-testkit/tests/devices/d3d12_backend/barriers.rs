//! The barriers that reach the driver, observed in the calls of a command list. Only the API's debug layer checks their
//! rules, and Wine does not have it.

use std::cell::RefCell;

use ringfence::d3d12::{CopyRecorder, Device};
use ringfence::device::record::{CopyRegion, Record, TextureAspects, TextureCopy, TextureTarget};
use ringfence::device::{BufferDesc, BufferUsage, Buffers, Create, Driver, ResourceClass, TextureDesc, Textures};
use ringfence::transient::TransientDesc;
use ringfence::{Allocator, AllocatorDesc, TransientAllocator};
use ringfence_testkit::Gpu;
use windows::Win32::Graphics::Direct3D12::*;
use windows::core::Interface;

/// A barrier: its type, its resource, and the states of a transition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Seen {
    Transition(*mut std::ffi::c_void, D3D12_RESOURCE_STATES, D3D12_RESOURCE_STATES),
    Aliasing(*mut std::ffi::c_void),
    UnorderedAccess,
}

type ResourceBarrier = unsafe extern "system" fn(*mut std::ffi::c_void, u32, *const D3D12_RESOURCE_BARRIER);

thread_local! {
    static SEEN: RefCell<Vec<Seen>> = const { RefCell::new(Vec::new()) };
    static REAL: RefCell<Option<ResourceBarrier>> = const { RefCell::new(None) };
}

/// Records the barriers, then calls the driver.
unsafe extern "system" fn note(this: *mut std::ffi::c_void, count: u32, barriers: *const D3D12_RESOURCE_BARRIER) {
    // SAFETY: the caller passes an array with this number of barriers.
    let listed = unsafe { std::slice::from_raw_parts(barriers, count as usize) };
    let seen = listed.iter().map(|barrier| match barrier.Type {
        D3D12_RESOURCE_BARRIER_TYPE_TRANSITION => {
            // SAFETY: the type names the active member.
            let held = unsafe { &*barrier.Anonymous.Transition };
            let object = held.pResource.as_ref().map_or(std::ptr::null_mut(), Interface::as_raw);
            Seen::Transition(object, held.StateBefore, held.StateAfter)
        }
        D3D12_RESOURCE_BARRIER_TYPE_ALIASING => {
            // SAFETY: as above.
            let held = unsafe { &*barrier.Anonymous.Aliasing };
            Seen::Aliasing(held.pResourceAfter.as_ref().map_or(std::ptr::null_mut(), Interface::as_raw))
        }
        _ => Seen::UnorderedAccess,
    });
    SEEN.with_borrow_mut(|all| all.extend(seen));
    let real = REAL.with_borrow(|real| *real).expect("set while the list is watched");
    // SAFETY: the driver's own function, with the caller's arguments.
    unsafe { real(this, count, barriers) };
}

/// Runs `record` on a new list of this type and closes the list without executing it. Returns its barriers in order.
fn barriers_of(
    device: &Device,
    kind: D3D12_COMMAND_LIST_TYPE,
    record: impl FnOnce(&ID3D12GraphicsCommandList),
) -> Vec<Seen> {
    let own: ID3D12CommandAllocator =
        // SAFETY: the device is alive.
        unsafe { device.raw().CreateCommandAllocator(kind) }.unwrap();
    let list: ID3D12GraphicsCommandList =
        // SAFETY: as above; only this thread records the list, and the list's allocator is dropped after it.
        unsafe { device.raw().CreateCommandList(0, kind, &own, None) }.unwrap();
    let object = list.as_raw().cast::<*const ID3D12GraphicsCommandList_Vtbl>();
    // SAFETY: a COM object starts with the address of its table, which has at least the methods of its interface.
    let (table, mut watched) = unsafe { (*object, std::ptr::read(*object)) };
    REAL.with_borrow_mut(|real| *real = Some(watched.ResourceBarrier));
    watched.ResourceBarrier = note;
    // SAFETY: only this thread has the list, and only methods of this interface are called until the table is restored.
    unsafe { *object = &raw const watched };
    record(&list);
    // SAFETY: as above.
    unsafe { *object = table };
    // SAFETY: the list is open.
    unsafe { list.Close() }.expect("the recorded commands are valid");
    SEEN.with_borrow_mut(std::mem::take)
}

fn target(texture: &ID3D12Resource) -> TextureTarget<ID3D12Resource> {
    TextureTarget { texture: texture.clone(), mip: 0, layer: 0, aspects: TextureAspects::COLOR, discard: true }
}

fn aliasing(seen: &[Seen]) -> Vec<*mut std::ffi::c_void> {
    let objects = seen.iter().filter_map(|held| match held {
        Seen::Aliasing(object) => Some(*object),
        _ => None,
    });
    objects.collect()
}

#[test]
fn only_placed_textures_get_aliasing_barriers() {
    let Some(mut gpu) = super::open(1) else { return };
    let device = gpu.device();
    let desc = TextureDesc { width: 128, height: 128, ..TextureDesc::default() };
    let (unplaced, needs) = super::measured::<Textures>(&device, &desc);
    let memory = super::heap(&device, 0, 2 * super::MEBIBYTE, ResourceClass::Texture).unwrap();
    let far = needs.size.next_multiple_of(needs.alignment);
    let [placed, other] =
        // SAFETY: just measured; the ranges are inside the heap, aligned and disjoint.
        [0, far].map(|at| unsafe { Create::<Textures>::place(&device, &unplaced, &memory, at) }.unwrap().object);
    let (committed, own) = super::dedicated::<Textures>(&device, &desc, 0);
    let (source, source_own) = super::dedicated::<Textures>(&device, &desc, 0);
    let parts = Create::<Textures>::parts(&device, &Create::<Textures>::describe(&device, &desc).unwrap()).unwrap();
    for (dst, expected) in [(&placed, 1), (&committed.object, 0)] {
        let seen = barriers_of(&device, D3D12_COMMAND_LIST_TYPE_DIRECT, |list| {
            // SAFETY: the list is open and belongs to this thread; the textures are alive and unused.
            unsafe {
                let mut recorder = CopyRecorder::new(&device, list);
                recorder.begin_copies(&[], &[target(dst)]);
                recorder.end_copies(&[], &[target(dst)]);
            }
        });
        assert_eq!(aliasing(&seen), vec![dst.as_raw(); expected], "an upload that discards");
        let src = if expected == 1 { other.clone() } else { source.object.clone() };
        let seen = barriers_of(&device, D3D12_COMMAND_LIST_TYPE_DIRECT, |list| {
            let copy = TextureCopy { src, dst: dst.clone(), parts };
            // SAFETY: as above; both textures have the same description.
            unsafe { CopyRecorder::new(&device, list).copy_textures(&[copy]) };
        });
        assert_eq!(aliasing(&seen), vec![dst.as_raw(); expected], "a move");
    }
    // SAFETY: no work uses them.
    unsafe {
        for texture in [placed, other, committed.object, source.object] {
            Create::<Textures>::destroy(&device, texture);
        }
        [memory, own, source_own].into_iter().for_each(|memory| device.free_memory(memory));
    }
    super::assert_silent(&mut gpu);
}

/// A copy promotes its buffers from the common state. One call then returns them to the common state for later commands
/// of the list.
#[test]
fn buffers_are_promoted_by_copies_without_a_barrier() {
    let Some(mut gpu) = super::open(1) else { return };
    let device = gpu.device();
    let types = [D3D12_HEAP_TYPE_UPLOAD, D3D12_HEAP_TYPE_DEFAULT, D3D12_HEAP_TYPE_DEFAULT, D3D12_HEAP_TYPE_READBACK];
    let [from, old, to, back] = types
        .map(|held| super::dedicated::<Buffers>(&device, &super::buffer_desc(4096), super::memory_type(&device, held)));
    let region = CopyRegion { src_offset: 0, dst_offset: 0, size: 4096 };
    let targets = [to.0.object.clone(), back.0.object.clone()];
    for kind in [D3D12_COMMAND_LIST_TYPE_DIRECT, D3D12_COMMAND_LIST_TYPE_COPY] {
        let seen = barriers_of(&device, kind, |list| {
            // SAFETY: the list is open and belongs to this thread; the buffers are alive, and the region is inside
            // them.
            unsafe {
                let mut recorder = CopyRecorder::new(&device, list);
                recorder.begin_copies(&targets, &[]);
                recorder.copy_buffer(&from.0.object, &targets[0], &[region]);
                recorder.copy_buffer(&from.0.object, &targets[1], &[region]);
                recorder.copy_buffer(&old.0.object, &targets[0], &[region]);
                recorder.copy_buffer(&old.0.object, &targets[1], &[region]);
                recorder.end_copies(&targets, &[]);
                // The source of the first copies is no source of these.
                recorder.begin_copies(&targets[..1], &[]);
                recorder.copy_buffer(&from.0.object, &targets[0], &[region]);
                recorder.end_copies(&targets[..1], &[]);
            }
        });
        let after =
            |object: &ID3D12Resource, state| Seen::Transition(object.as_raw(), state, D3D12_RESOURCE_STATE_COMMON);
        let written = after(&targets[0], D3D12_RESOURCE_STATE_COPY_DEST);
        let read = after(&old.0.object, D3D12_RESOURCE_STATE_COPY_SOURCE);
        assert_eq!(seen, [written, read, written], "{kind:?}: no barrier before, none of upload and readback buffers");
    }
    drop(targets);
    for (placed, memory) in [from, old, to, back] {
        // SAFETY: no work uses it.
        unsafe {
            Create::<Buffers>::destroy(&device, placed.object);
            device.free_memory(memory);
        }
    }
    super::assert_silent(&mut gpu);
}

/// Lists for copy queues accept transitions only.
#[test]
fn a_copy_list_gets_no_barriers_of_transient_memory() {
    let Some(mut gpu) = super::open(1) else { return };
    let device = gpu.device();
    let memory = Allocator::over(device.clone(), AllocatorDesc::default());
    // SAFETY: the fence lives as long as the device, and no work is submitted.
    let timeline = unsafe { memory.timeline(gpu.fence(0)) }.unwrap();
    for (kind, expected) in
        [(D3D12_COMMAND_LIST_TYPE_DIRECT, 5), (D3D12_COMMAND_LIST_TYPE_COMPUTE, 5), (D3D12_COMMAND_LIST_TYPE_COPY, 0)]
    {
        let mut transient = TransientAllocator::new(&memory, TransientDesc::default());
        let mut execution = transient.begin();
        let seen = barriers_of(&device, kind, |list| {
            for size in [4096, 4096, 1 << 20, 4096] {
                let pass = execution.pass(timeline.id(), &[]).unwrap();
                let desc = BufferDesc { size, usage: BufferUsage::STORAGE };
                let info = Create::<Buffers>::describe(&device, &desc).unwrap();
                let held = execution.acquire_buffer(&info, pass, "").unwrap();
                // SAFETY: the list is open, and belongs to this device and this thread.
                unsafe { execution.record_barriers(pass, list) };
                execution.discard(held, &[]).unwrap();
            }
        });
        assert_eq!(seen.len(), expected, "{kind:?}: {seen:?}");
    }
    drop((timeline, memory));
    super::assert_silent(&mut gpu);
}
