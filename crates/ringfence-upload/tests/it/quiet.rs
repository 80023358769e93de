//! A wrapper around the simulated device that excludes the device's own host allocations from the count.

use ringfence::device::{
    Capabilities, Create, DeviceError, Driver, Format, FormatSupport, HeapBudgets, Kind, Mapped, MemoryDesc, Placed,
    Requirements,
};
use ringfence::sim::{self, Fence, Memory, Profile, SimOptions};
use ringfence_testkit::counting_allocator::uncounted;
use std::time::Duration;

/// A simulated device that excludes its host allocations from the count.
#[derive(Clone, Debug)]
pub struct Quiet(sim::Device);

impl Quiet {
    pub fn new() -> Self {
        Self(sim::Device::new(Profile::h200(), SimOptions { seed: 3, ..Default::default() }))
    }

    pub fn create_fence(&self) -> Fence {
        self.0.create_fence(0)
    }

    pub fn submit(&self, fence: Fence, value: u64) {
        self.0.submit(0, &[], vec![], (fence, value)).expect("the device is not lost");
    }

    pub fn finish(&self) {
        assert!(self.0.run_until_idle());
        assert_eq!(self.0.take_hazards(), []);
    }
}

// SAFETY: every call is forwarded to the simulated device, which keeps the promises.
unsafe impl Driver for Quiet {
    type Memory = Memory;
    type Fence = Fence;
    type Pageable = Memory;

    fn capabilities(&self) -> &Capabilities {
        self.0.capabilities()
    }

    fn format_support(&self, format: Format) -> FormatSupport {
        self.0.format_support(format)
    }

    unsafe fn allocate_memory(&self, desc: &MemoryDesc<'_>) -> Result<Memory, DeviceError> {
        // SAFETY: the caller makes the same promise.
        uncounted(|| unsafe { self.0.allocate_memory(desc) })
    }

    unsafe fn free_memory(&self, memory: Memory) {
        // SAFETY: the caller makes the same promise.
        uncounted(|| unsafe { self.0.free_memory(memory) });
    }

    unsafe fn flush(&self, memory: &Memory, offset: u64, size: u64) -> Result<(), DeviceError> {
        // SAFETY: the caller makes the same promise.
        uncounted(|| unsafe { self.0.flush(memory, offset, size) })
    }

    unsafe fn read_back(
        &self,
        memory: &Memory,
        offset: u64,
        mapped: Mapped,
        into: &mut [u8],
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller makes the same promise.
        uncounted(|| unsafe { self.0.read_back(memory, offset, mapped, into) })
    }

    unsafe fn completed(&self, fence: &Fence) -> Result<u64, DeviceError> {
        // SAFETY: the caller makes the same promise.
        uncounted(|| unsafe { self.0.completed(fence) })
    }

    unsafe fn wait(&self, fence: &Fence, value: u64, timeout: Duration) -> Result<bool, DeviceError> {
        // SAFETY: the caller makes the same promise.
        uncounted(|| unsafe { self.0.wait(fence, value, timeout) })
    }

    fn budgets(&self) -> Option<HeapBudgets> {
        self.0.budgets()
    }
}

// SAFETY: as for `Driver`.
unsafe impl<K: Kind> Create<K> for Quiet
where
    sim::Device: Create<K> + Driver<Memory = Memory>,
{
    type Info<'a> = <sim::Device as Create<K>>::Info<'a>;
    type Unplaced = <sim::Device as Create<K>>::Unplaced;
    type Object = <sim::Device as Create<K>>::Object;
    type Raw<'a> = <sim::Device as Create<K>>::Raw<'a>;

    fn raw(object: &Self::Object) -> Self::Raw<'_> {
        <sim::Device as Create<K>>::raw(object)
    }

    fn describe(&self, desc: &K::Desc) -> Result<Self::Info<'static>, DeviceError> {
        Create::<K>::describe(&self.0, desc)
    }

    unsafe fn prepare(&self, info: &Self::Info<'_>) -> Result<(Self::Unplaced, Requirements), DeviceError> {
        // SAFETY: the caller makes the same promise.
        uncounted(|| unsafe { Create::<K>::prepare(&self.0, info) })
    }

    unsafe fn discard(&self, unplaced: Self::Unplaced) {
        // SAFETY: the caller makes the same promise.
        uncounted(|| unsafe { Create::<K>::discard(&self.0, unplaced) });
    }

    unsafe fn place(
        &self,
        unplaced: &Self::Unplaced,
        memory: &Memory,
        offset: u64,
    ) -> Result<Placed<Self::Object>, DeviceError> {
        // SAFETY: the caller makes the same promise.
        uncounted(|| unsafe { Create::<K>::place(&self.0, unplaced, memory, offset) })
    }

    unsafe fn dedicate(
        &self,
        unplaced: &Self::Unplaced,
        desc: &MemoryDesc<'_>,
    ) -> Result<(Placed<Self::Object>, Memory), DeviceError> {
        // SAFETY: the caller makes the same promise.
        uncounted(|| unsafe { Create::<K>::dedicate(&self.0, unplaced, desc) })
    }

    unsafe fn destroy(&self, object: Self::Object) {
        // SAFETY: the caller makes the same promise.
        uncounted(|| unsafe { Create::<K>::destroy(&self.0, object) });
    }

    unsafe fn set_name(&self, object: &Self::Object, name: &str) {
        // SAFETY: the caller makes the same promise.
        uncounted(|| unsafe { Create::<K>::set_name(&self.0, object, name) });
    }
}
