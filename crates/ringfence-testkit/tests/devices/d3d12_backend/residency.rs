//! Eviction calls that reach the driver. The test replaces two entries of the device's function table to observe them.

use std::ffi::c_void;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use ringfence::device::{BufferDesc, Buffers, Create, Driver, MemoryPriority, Priority};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Dedicated};
use ringfence_testkit::Gpu;
use windows::Win32::Graphics::Direct3D12::{ID3D12Device, ID3D12Device_Vtbl, ID3D12Device1};
use windows::core::{HRESULT, Interface};

use crate::d3d12_backend::{COPIED, MEBIBYTE, open};

type Call = unsafe extern "system" fn(*mut c_void, u32, *const *mut c_void) -> HRESULT;

/// A call, its device and its objects.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Sent {
    is_evict: bool,
    device: usize,
    objects: Vec<usize>,
}

static SENT: Mutex<Vec<Sent>> = Mutex::new(Vec::new());
static REAL: OnceLock<(Call, Call)> = OnceLock::new();

/// Records a call, then calls the driver.
///
/// # Safety
/// The rules of the API's functions.
unsafe fn tell(is_evict: bool, device: *mut c_void, count: u32, objects: *const *mut c_void) {
    // SAFETY: the API promises that `objects` points to `count` objects.
    let objects = unsafe { std::slice::from_raw_parts(objects, count as usize) };
    let objects = objects.iter().map(|object| *object as usize).collect();
    SENT.lock().expect("no thread panicked").push(Sent { is_evict, device: device as usize, objects });
}

unsafe extern "system" fn make_resident(device: *mut c_void, count: u32, objects: *const *mut c_void) -> HRESULT {
    // SAFETY: the driver gets the library's own arguments.
    unsafe {
        tell(false, device, count, objects);
        REAL.get().expect("it was looked up").0(device, count, objects)
    }
}

unsafe extern "system" fn evict(device: *mut c_void, count: u32, objects: *const *mut c_void) -> HRESULT {
    // SAFETY: as above.
    unsafe {
        tell(true, device, count, objects);
        REAL.get().expect("it was looked up").1(device, count, objects)
    }
}

#[link(name = "kernel32")]
unsafe extern "system" {
    fn VirtualProtect(address: *const c_void, size: usize, protect: u32, old: *mut u32) -> i32;
}

/// Replaces the two entries permanently, for every device of the process. The driver still gets all calls unchanged.
fn watch(device: &ID3D12Device) {
    const READ_WRITE: u32 = 4;
    let table = std::ptr::from_ref::<ID3D12Device_Vtbl>(Interface::vtable(device)).cast_mut();
    // SAFETY: the table lives as long as the driver is loaded, and is writable now. An entry is one aligned pointer, so
    // other threads read either the old or the new one.
    unsafe {
        let mut old = 0;
        let done = VirtualProtect(table.cast(), size_of::<ID3D12Device_Vtbl>(), READ_WRITE, &mut old);
        assert_ne!(done, 0, "the table cannot be written");
        let (resident, gone) = (&raw mut (*table).MakeResident, &raw mut (*table).Evict);
        REAL.get_or_init(|| (resident.read(), gone.read()));
        resident.write(make_resident);
        gone.write(evict);
    }
}

#[test]
fn what_is_evicted_and_brought_back_is_reported_to_the_driver() {
    let Some(mut gpu) = open(1) else { return };
    let raw = gpu.device().raw().clone();
    watch(&raw);
    let sent = || -> Vec<(bool, Vec<usize>)> {
        let all = std::mem::take(&mut *SENT.lock().expect("no thread panicked"));
        let mine = all.into_iter().filter(|sent| sent.device == raw.as_raw() as usize);
        mine.map(|sent| (sent.is_evict, sent.objects)).collect()
    };
    let memory = Allocator::over(gpu.device(), AllocatorDesc::default());
    // SAFETY: each frame signals the fence, and the device is closed last.
    let timeline = unsafe { memory.timeline(gpu.fence(0)) }.expect("the device is not lost");
    // SAFETY: resources are committed before they are used.
    let residency = unsafe { memory.residency().with_evictions(u64::MAX).with_headroom(u64::MAX / 2) };
    let info = Create::<Buffers>::describe(memory.device(), &BufferDesc { size: MEBIBYTE, usage: COPIED });
    let info = info.expect("a plain buffer");
    let desc = AllocationDesc { dedicated: Dedicated::Always, evictable: true, ..Default::default() };
    let held = [(); 2].map(|()| memory.create_buffer(&info, desc).expect("there is room"));
    // The evictable objects are committed resources, not heaps.
    let objects = [0, 1].map(|at: usize| held[at].raw().as_raw() as usize);
    let mut commit = |used: &[usize]| {
        let frame = timeline.begin();
        let mut list = residency.list();
        used.iter().for_each(|at| list.add(&held[*at]));
        residency.commit(&list, &frame).expect("there is room");
        let value = frame.value();
        gpu.submit(0, &[], &[], value).expect("the device is not lost");
        timeline.submitted(frame).expect("in order");
        assert!(timeline.wait(value, Duration::from_secs(60)).expect("the device is not lost"));
    };
    commit(&[0, 1]);
    assert_eq!(sent(), [], "both are in use");
    commit(&[1]);
    assert_eq!(sent(), [(true, vec![objects[0]])], "the one that is not used");
    commit(&[0]);
    assert_eq!(sent(), [(true, vec![objects[1]]), (false, vec![objects[0]])]);
    commit(&[0]);
    assert_eq!(sent(), [], "a frame like the previous one makes no calls");
    commit(&[0, 1]);
    assert_eq!(sent(), [(false, vec![objects[1]])]);
    // Priorities need an interface that some devices lack.
    let has_one = raw.cast::<ID3D12Device1>().is_ok();
    let listens = memory.device().capabilities().memory_priority;
    assert_eq!(listens, if has_one { MemoryPriority::AtAnyTime } else { MemoryPriority::None });
    assert!(held[0].set_priority(Priority::High), "it has its own memory, with or without a call");
    drop(held);
    memory.shutdown(Duration::from_secs(60)).expect("all work is complete");
    drop((timeline, memory));
    crate::d3d12_backend::assert_silent(&mut gpu);
}
