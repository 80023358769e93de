//! Shared parts of these tests: a small device, the caller's code, and the watchdog.

use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ringfence::device::{BufferDesc, BufferUsage, Requirements, ResourceClass};
use ringfence::sim::{Device, Live, Profile};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Buffer, Dedicated, Frame, Location};
use ringfence_testkit::fixture::{Fixture, FixtureDesc};

/// Action of the caller's code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    CallsBack,
    Panics,
    WaitsForAnotherThread,
}

/// Time after which a test counts as hung. It is long, because a busy machine must not fail the test.
fn patience() -> Duration {
    let seconds = std::env::var("RINGFENCE_WATCHDOG_S").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(240))
}

/// Maximum number of bytes that an allocator takes of each heap.
pub const LIMIT: u64 = 64 << 20;

pub struct Limited(pub Fixture);

impl Deref for Limited {
    type Target = Fixture;

    fn deref(&self) -> &Fixture {
        &self.0
    }
}

impl Limited {
    /// Creates an allocator over a device with a single memory type: a shortage then affects all requests.
    pub fn new(desc: AllocatorDesc) -> Self {
        Self(Fixture::new(FixtureDesc { profile: Profile::lavapipe(), allocator: desc, ..Default::default() }))
    }

    pub fn submit(&self, frame: Frame) {
        self.device.submit(0, &[], vec![], (self.fence(), frame.value())).expect("the device is not lost");
        self.timeline().submitted(frame).expect("in order");
        assert!(self.device.run_until_idle());
    }

    /// Allocates all memory that is left below the limit.
    pub fn hog(&self) -> Option<ringfence::memory::Allocation<Device>> {
        let budget = self.memory.budgets().heap(0);
        let size = budget.limit_bytes.saturating_sub(budget.reserved_bytes);
        let needs = Requirements {
            size,
            alignment: 256,
            memory_type_bits: 1,
            class: ResourceClass::Buffer,
            prefers_dedicated: false,
            requires_dedicated: false,
        };
        let desc = AllocationDesc { dedicated: Dedicated::Always, ..Default::default() };
        (size > 0).then(|| self.memory.allocate(needs, desc).expect("all the remaining memory"))
    }
}

pub fn limited() -> AllocatorDesc {
    AllocatorDesc { heap_bytes_max: [LIMIT; 16], ..Default::default() }
}

pub fn usage() -> BufferUsage {
    BufferUsage::COPY_SRC | BufferUsage::COPY_DST | BufferUsage::STORAGE
}

pub fn buffer(memory: &Allocator<Device>, size: u64, name: &str) -> Option<Buffer<Device>> {
    memory.create_buffer(&BufferDesc { size, usage: usage() }, AllocationDesc { name, ..Default::default() }).ok()
}

/// Calls every operation that takes a lock of the allocator. Failures for lack of memory are ignored.
pub fn everything(memory: &Allocator<Device>) {
    let _ = buffer(memory, 256, "");
    let _ = buffer(memory, 40 << 10, "called back");
    let _ = buffer(memory, 9 << 20, "called back");
    let slots: Vec<_> = (0..40).map(|_| buffer(memory, 512, "")).collect();
    drop(slots);
    let desc = BufferDesc { size: 64, usage: BufferUsage::COPY_SRC };
    let _ = memory.create_small_buffer(desc, Location::Upload);
    let _ = memory.budgets().reserve(ResourceClass::Buffer, 1 << 20, Default::default());
    memory.reclaim();
    memory.budgets().maintain();
    memory.budgets().trim();
    let _ = memory.statistics();
    let _ = memory.snapshot();
    let _ = memory.debug().check_guards();
    let _ = (memory.debug().live(), memory.debug().take_findings(), memory.debug().history());
    let _ = memory.shutdown(Duration::ZERO);
}

type Work = Box<dyn Fn(&Allocator<Device>) + Send + Sync>;

/// The caller's code: the body of a callback, a closure, a `Write` or a `Drop` of the test.
#[derive(Clone)]
pub struct Inside(Arc<State>);

struct State {
    mode: Mode,
    memory: Mutex<Option<Allocator<Device>>>,
    /// Additional work of this thread when it calls back.
    also: Mutex<Option<Arc<Work>>>,
    busy: AtomicBool,
    armed: AtomicBool,
    calls: AtomicU64,
}

/// Payload of a test's panic.
pub struct Own;

impl Inside {
    pub fn new(mode: Mode, memory: &Allocator<Device>) -> Self {
        Self(Arc::new(State {
            mode,
            memory: Mutex::new(Some(memory.clone())),
            also: Mutex::new(None),
            busy: AtomicBool::new(false),
            armed: AtomicBool::new(true),
            calls: AtomicU64::new(0),
        }))
    }

    pub fn mode(&self) -> Mode {
        self.0.mode
    }

    /// Sets the work to do in a callback in addition to [`everything`].
    pub fn also(&self, work: impl Fn(&Allocator<Device>) + Send + Sync + 'static) {
        *self.0.also.lock().expect("no panic under it") = Some(Arc::new(Box::new(work)));
    }

    pub fn run(&self) {
        let state = &*self.0;
        if !state.armed.load(Ordering::SeqCst) || state.busy.swap(true, Ordering::SeqCst) {
            return; // a nested call while the callback runs
        }
        let calls = state.calls.fetch_add(1, Ordering::SeqCst);
        let is_over = match state.mode {
            // A second panic while the first one unwinds would abort the program.
            Mode::Panics => calls > 0,
            Mode::CallsBack | Mode::WaitsForAnotherThread => calls >= 4,
        };
        if is_over {
            return state.busy.store(false, Ordering::SeqCst);
        }
        let memory = state.memory.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(memory) = memory else { return };
        match state.mode {
            Mode::CallsBack => {
                everything(&memory);
                let also = state.also.lock().unwrap_or_else(PoisonError::into_inner).clone();
                if let Some(also) = also {
                    also(&memory);
                }
            }
            Mode::WaitsForAnotherThread => {
                std::thread::spawn(move || everything(&memory)).join().expect("it succeeds there");
            }
            Mode::Panics => {
                state.busy.store(false, Ordering::SeqCst);
                // Bypasses the panic hook, which would print the panic.
                resume_unwind(Box::new(Own));
            }
        }
        state.busy.store(false, Ordering::SeqCst);
    }

    pub fn calls(&self) -> u64 {
        self.0.calls.load(Ordering::SeqCst)
    }

    pub fn disarm(&self) {
        self.0.armed.store(false, Ordering::SeqCst);
    }

    pub fn is_disarmed(&self) -> bool {
        !self.0.armed.load(Ordering::SeqCst)
    }

    pub fn over(&self) {
        let memory = self.0.memory.lock().unwrap_or_else(PoisonError::into_inner).take();
        let also = self.0.also.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop((memory, also));
    }
}

/// Runs `work`, and fails instead of hanging.
pub fn watched(name: &str, work: impl FnOnce() + Send + 'static) {
    let (done, waiting) = channel();
    let thread = std::thread::spawn(move || {
        work();
        let _ = done.send(());
    });
    match waiting.recv_timeout(patience()) {
        Err(RecvTimeoutError::Timeout) => panic!("{name}: it hangs"),
        Ok(()) | Err(RecvTimeoutError::Disconnected) => {
            if let Err(panic) = thread.join() {
                eprintln!("{name}: it failed");
                resume_unwind(panic);
            }
        }
    }
}

/// Tests one place in all three ways. `run` runs the caller's code once, and must leave nothing behind.
pub fn place(name: &'static str, desc: AllocatorDesc, run: impl Fn(&Limited, &Inside) + Clone + Send + 'static) {
    for mode in [Mode::CallsBack, Mode::WaitsForAnotherThread, Mode::Panics] {
        let run = run.clone();
        watched(name, move || {
            let world = Limited::new(desc);
            let inside = Inside::new(mode, &world.memory);
            let outcome = catch_unwind(AssertUnwindSafe(|| run(&world, &inside)));
            assert!(inside.calls() > 0, "{name}, {mode:?}: the caller's code was reached");
            match outcome {
                Err(panic) if mode != Mode::Panics || !panic.is::<Own>() => resume_unwind(panic),
                _ => {}
            }
            // The frame that a panic dropped was not submitted.
            world.timeline().discard_dropped();
            inside.disarm();
            world.memory.debug().validate().unwrap_or_else(|error| panic!("{name}, {mode:?}: {error}"));
            world.memory.reclaim();
            run(&world, &inside);
            inside.over();
            drop(inside);
            finish(name, mode, world);
        });
    }
}

/// Checks that nothing is leaked.
fn finish(name: &str, mode: Mode, world: Limited) {
    let Limited(Fixture { device, memory, timelines, .. }) = world;
    memory.debug().validate().unwrap_or_else(|error| panic!("{name}, {mode:?}: {error}"));
    memory.shutdown(Duration::MAX).expect("everything is complete");
    let statistics = memory.statistics();
    let (total, calls) = (statistics.total(), statistics.calls);
    assert_eq!(
        (total.range_count, total.range_bytes, total.dedicated_count, total.block_count, statistics.retired_count),
        (0, 0, 0, 0, 0),
        "{name}, {mode:?}: nothing is leaked"
    );
    assert_eq!(calls.create_object, calls.destroy_object, "{name}, {mode:?}: each object is destroyed once");
    assert_eq!(calls.allocate_memory, calls.free_memory, "{name}, {mode:?}: each memory object is freed once");
    drop((memory, timelines));
    assert_eq!(device.live(), Live::default(), "{name}, {mode:?}: the device has no live object");
    assert_eq!(device.take_hazards(), [], "{name}, {mode:?}");
}
