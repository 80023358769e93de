//! A device with numbers as descriptors, so that a measurement contains only the library's time. All other calls
//! go to the simulated device.

use std::time::Duration;

use ringfence::device::descriptors::{
    DescriptorSupport, Descriptors, HeapDesc, HeapKind, HeapStart, PortableView, ViewCopy, ViewTypes,
};
use ringfence::device::{
    Capabilities, Create, DeviceError, Driver, Format, FormatSupport, HeapBudgets, Kind, Mapped, MemoryDesc, Placed,
    Requirements,
};
use ringfence::sim::{self, Fence, Memory};

#[derive(Clone, Debug)]
pub struct Nowhere(pub sim::Device);

// SAFETY: every call is forwarded to the simulated device, which keeps the promises.
unsafe impl Driver for Nowhere {
    type Pageable = ();
    type Memory = Memory;
    type Fence = Fence;

    fn capabilities(&self) -> &Capabilities {
        self.0.capabilities()
    }

    fn format_support(&self, format: Format) -> FormatSupport {
        self.0.format_support(format)
    }

    unsafe fn allocate_memory(&self, desc: &MemoryDesc<'_>) -> Result<Memory, DeviceError> {
        // SAFETY: the caller makes the same promise. This also holds for all following methods.
        unsafe { self.0.allocate_memory(desc) }
    }

    unsafe fn free_memory(&self, memory: Memory) {
        // SAFETY: as above.
        unsafe { self.0.free_memory(memory) }
    }

    unsafe fn flush(&self, memory: &Memory, offset: u64, size: u64) -> Result<(), DeviceError> {
        // SAFETY: as above.
        unsafe { self.0.flush(memory, offset, size) }
    }

    unsafe fn read_back(&self, memory: &Memory, offset: u64, at: Mapped, into: &mut [u8]) -> Result<(), DeviceError> {
        // SAFETY: as above.
        unsafe { self.0.read_back(memory, offset, at, into) }
    }

    unsafe fn completed(&self, fence: &Fence) -> Result<u64, DeviceError> {
        // SAFETY: as above.
        unsafe { self.0.completed(fence) }
    }

    unsafe fn wait(&self, fence: &Fence, value: u64, timeout: Duration) -> Result<bool, DeviceError> {
        // SAFETY: as above.
        unsafe { self.0.wait(fence, value, timeout) }
    }

    fn budgets(&self) -> Option<HeapBudgets> {
        self.0.budgets()
    }
}

// SAFETY: as for `Driver`.
unsafe impl<K: Kind> Create<K> for Nowhere
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

    fn portable(&self, info: &Self::Info<'_>) -> Option<K::Desc> {
        Create::<K>::portable(&self.0, info)
    }

    unsafe fn prepare(&self, info: &Self::Info<'_>) -> Result<(Self::Unplaced, Requirements), DeviceError> {
        // SAFETY: as above.
        unsafe { Create::<K>::prepare(&self.0, info) }
    }

    unsafe fn discard(&self, unplaced: Self::Unplaced) {
        // SAFETY: as above.
        unsafe { Create::<K>::discard(&self.0, unplaced) }
    }

    unsafe fn place(
        &self,
        unplaced: &Self::Unplaced,
        memory: &Memory,
        offset: u64,
    ) -> Result<Placed<Self::Object>, DeviceError> {
        // SAFETY: as above.
        unsafe { Create::<K>::place(&self.0, unplaced, memory, offset) }
    }

    unsafe fn dedicate(
        &self,
        unplaced: &Self::Unplaced,
        desc: &MemoryDesc<'_>,
    ) -> Result<(Placed<Self::Object>, Memory), DeviceError> {
        // SAFETY: as above.
        unsafe { Create::<K>::dedicate(&self.0, unplaced, desc) }
    }

    unsafe fn destroy(&self, object: Self::Object) {
        // SAFETY: as above.
        unsafe { Create::<K>::destroy(&self.0, object) }
    }

    unsafe fn set_name(&self, object: &Self::Object, name: &str) {
        // SAFETY: as above.
        unsafe { Create::<K>::set_name(&self.0, object, name) }
    }
}

// SAFETY: heaps are numbers, and no descriptor is ever read through them.
unsafe impl Descriptors for Nowhere {
    type Heap = u32;
    type Bound = u32;
    type View<'a> = ();
    type Leftover = std::convert::Infallible;

    fn descriptor_support(&self) -> DescriptorSupport {
        self.0.descriptor_support()
    }

    fn visible_slots_max(&self, kind: HeapKind, types: ViewTypes) -> u32 {
        self.0.visible_slots_max(kind, types)
    }

    fn describe_view<'a>(&self, _: &PortableView<'a, Self>) -> Result<(), DeviceError> {
        Ok(())
    }

    fn make_heap(&self, desc: &HeapDesc<'_>) -> Result<(u32, HeapStart), DeviceError> {
        Ok((desc.slots, HeapStart { cpu: 0, gpu: desc.shader_visible.then_some(0), increment: 1 }))
    }

    unsafe fn destroy_heap(&self, _: u32) {}

    unsafe fn write_view(&self, _: &u32, _: u32, (): &()) -> Result<Option<Self::Leftover>, DeviceError> {
        Ok(None)
    }

    unsafe fn clear_view(&self, _: &u32, _: u32) -> Option<Self::Leftover> {
        None
    }

    unsafe fn copy_views(&self, _: &[ViewCopy<'_, u32>]) {}

    unsafe fn bind_heap(&self, heap: &u32) -> Result<u32, DeviceError> {
        Ok(*heap)
    }

    unsafe fn unbind_heap(&self, _: &u32, _: u32) {}

    unsafe fn discard_leftover(&self, leftover: Self::Leftover) {
        match leftover {}
    }
}
