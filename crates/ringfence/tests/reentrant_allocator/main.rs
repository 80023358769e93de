//! A global allocator whose hooks call back into the library, for example one that drops cached objects on each
//! allocation. The hooks must find and leave valid state.

mod every_kind;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, RefCell};
use std::sync::mpsc;
use std::time::Duration;

use ringfence::device::{BufferDesc, BufferUsage};
use ringfence::lifetime::RetireBin;
use ringfence::sim::Device;
use ringfence::{Allocator, Buffer};
use ringfence_testkit::fixture::{Fixture, FixtureDesc};

/// The system's allocator, which calls the thread's hook first.
struct Hooked;

type Hook = Box<dyn FnMut()>;

thread_local! {
    static ARMED: Cell<bool> = const { Cell::new(false) };
    static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
}

fn call_hook() {
    // Not within a hook, and not while the thread is destroyed.
    if ARMED.try_with(|armed| armed.replace(false)) == Ok(true) {
        _ = HOOK.try_with(|hook| {
            if let Some(hook) = hook.borrow_mut().as_mut() {
                hook();
            }
        });
        ARMED.set(true);
    }
}

// SAFETY: forwards to the system's allocator; the hook runs before it.
unsafe impl GlobalAlloc for Hooked {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        call_hook();
        // SAFETY: the caller makes the same promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        call_hook();
        // SAFETY: the caller makes the same promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Hooked = Hooked;

/// Does `work`, and calls `hook` before each allocation of this thread.
fn hooked<R>(hook: impl FnMut() + 'static, work: impl FnOnce() -> R) -> R {
    HOOK.set(Some(Box::new(hook)));
    ARMED.set(true);
    let result = work();
    ARMED.set(false);
    drop(HOOK.take());
    result
}

/// Runs a test on its own thread, and fails if it does not end.
fn ends(test: impl FnOnce() + Send + 'static) {
    let (done, is_done) = mpsc::channel();
    let running = std::thread::spawn(move || {
        test();
        _ = done.send(());
    });
    match is_done.recv_timeout(Duration::from_secs(120)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it waits for itself"),
        _ => running.join().expect("no panic"),
    }
}

fn world() -> Fixture {
    Fixture::new(FixtureDesc::default())
}

/// The first chunk of a thread is full. While the next one is allocated, the hook begins a frame and retires an object.
#[test]
fn what_is_retired_after_a_hook_has_begun_a_frame_waits_for_it() {
    ends(|| {
        let world = world();
        for many in [1, 3, 4, 5, 12, 28, 60] {
            let bin = RetireBin::with_shards(64);
            let frame = world.timeline().begin();
            (0..many).for_each(|item| world.memory.retirement().retire_into(&bin, item));
            let second = std::rc::Rc::new(Cell::new(None));
            let (memory, timeline, begun) = (world.memory.clone(), world.timeline().clone(), second.clone());
            // SAFETY: the hook is dropped before the bin.
            let shared: &'static RetireBin<i32> = unsafe { &*std::ptr::from_ref(&bin) };
            let hook = move || {
                let first = begun.take().unwrap_or_else(|| timeline.begin());
                begun.set(Some(first));
                memory.retirement().retire_into(shared, 1000);
            };
            hooked(hook, || (many..many + 70).for_each(|item| world.memory.retirement().retire_into(&bin, item)));
            let second = second.take().expect("memory was allocated");
            world.memory.retirement().retire_into(&bin, 2000);
            world.complete(frame);
            let mut out = Vec::new();
            world.memory.retirement().collect_from(&bin, usize::MAX, &mut out).expect("the device is not lost");
            assert!(!out.contains(&2000), "{many}: the second frame may use it");
            assert!(!out.contains(&1000), "{many}: and what the hook retired after it was begun");
            bin.validate().expect("sound");
            world.complete(second);
            world.memory.retirement().collect_from(&bin, usize::MAX, &mut out).expect("the device is not lost");
            let mut own: Vec<_> = out.iter().copied().filter(|item| *item != 1000).collect();
            own.sort_unstable();
            assert!(own.into_iter().eq((0..many + 70).chain([2000])), "{many}: each once: {out:?}");
            assert!(bin.is_empty());
        }
    });
}

/// A thread without its own shard locks the only shared one; its hook uses the same shard.
#[test]
fn a_hook_that_retires_where_the_thread_is_does_not_wait_for_it() {
    ends(|| {
        let bin: &'static RetireBin<u32> = Box::leak(Box::new(RetireBin::with_shards(1)));
        // One thread may have the only shard; each of the two threads retires into the shard that the other may use.
        let work = move || {
            hooked(
                move || bin.retire(&Default::default(), 1),
                || (0..200).for_each(|_| bin.retire(&Default::default(), 0)),
            );
        };
        std::thread::spawn(move || {
            bin.retire(&Default::default(), 0);
            std::thread::spawn(work).join().expect("no panic");
        })
        .join()
        .expect("no panic");
        work();
        let mut out = Vec::new();
        bin.collect_all(&mut out);
        assert_eq!(out.iter().filter(|item| **item == 0).count(), 401);
        bin.validate().expect("sound");
    });
}

/// A complete program in which each host allocation and release drops a buffer.
#[test]
fn a_hook_that_drops_buffers_disturbs_nothing() {
    ends(|| {
        let world = world();
        let small = |memory: &Allocator<Device>| -> Buffer<Device> {
            let desc = BufferDesc { size: 64, usage: BufferUsage::COPY_DST };
            memory.create_buffer(&desc, Default::default()).expect("there is room")
        };
        // Fewer than a thread keeps retired: if it destroys some, the library takes its own locks.
        let mut cached: Vec<_> = (0..900).map(|_| small(&world.memory)).collect();
        let mut kept = Vec::with_capacity(1_000);
        for step in 0..30 {
            let taken: Vec<_> = cached.drain(..30).collect();
            let thread_cache = RefCell::new(taken.into_iter());
            let hook = move || _ = thread_cache.borrow_mut().next().map(drop);
            let frame = world.timeline().begin();
            hooked(hook, || {
                for item in 0..20 {
                    let made = small(&world.memory);
                    if item % 3 == 0 { kept.push(made) } else { drop(made) }
                }
            });
            world.complete(frame);
            world.memory.reclaim();
            world.memory.debug().validate().unwrap_or_else(|error| panic!("step {step}: {error}"));
        }
        drop((kept, cached));
        world.memory.shutdown(Duration::MAX).expect("the work is complete");
        let Fixture { device, memory, timelines, .. } = world;
        drop((timelines, memory));
        assert_eq!(device.live(), Default::default());
        assert!(device.take_hazards().is_empty());
    });
}
