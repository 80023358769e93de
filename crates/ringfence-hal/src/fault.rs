//! Middleware that makes calls to the driver fail, so that a test can see what the library does then.
//!
//! ```text
//!   library ──▶ FaultInjector<D> ──▶ D
//!                   │ counts each call that can fail, and applies the rules in turn:
//!                   └ Rule { call, bytes, memory_type, skip 2, count 1, error }   the third such call fails
//! ```
//!
//! [`FaultInjector::failed`] counts how often a call was made to fail; [`FaultInjector::set_hook`] lets a test do at
//! that moment what a real fault would do to the device, for example lose it.
//!
//! A call that is made to fail never reaches the device: nothing is made, and nothing has to be undone, as the
//! traits promise of failed calls. What cannot fail is passed on.
//!
//! ```
//! use ringfence_hal::fault::{Call, FaultInjector, Rule};
//! use ringfence_hal::{DeviceError, Driver, MemoryDesc, Priority, ResourceClass};
//! use ringfence_sim::{Device, Profile, SimOptions};
//!
//! let (device, faults) = FaultInjector::new(Device::new(Profile::h200(), SimOptions::default()));
//! faults.add(Rule { call: Some(Call::AllocateMemory), ..Rule::new(DeviceError::OutOfDeviceMemory) });
//! let (class, priority) = (ResourceClass::Buffer, Priority::Normal);
//! let desc = MemoryDesc { memory_type: 0, size: 1 << 20, alignment: 1, class, priority, name: "", share: None };
//! // SAFETY: the device has a memory type 0.
//! let refused = unsafe { device.allocate_memory(&desc) };
//! assert_eq!(refused.unwrap_err(), DeviceError::OutOfDeviceMemory);
//! assert_eq!(faults.injected(), 1);
//! ```

mod descriptors;
mod record;
mod sharing;
mod sparse;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
pub use record::Recorder;

use super::record::TextureParts;
use super::sharing::{ShareKind, ShareSupport};
use super::{
    Capabilities, Create, DeviceError, Driver, HeapBudgets, InfoKey, Kind, Mapped, MemoryDesc, Placed, Priority,
    Requirements,
};

/// A call of a device that can fail.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Call {
    /// [`Driver::allocate_memory`].
    AllocateMemory,
    /// [`Create::allocate_memory_for`].
    AllocateMemoryFor,
    /// [`Driver::flush`].
    Flush,
    /// [`Driver::read_back`].
    ReadBack,
    /// [`Driver::make_resident`].
    MakeResident,
    /// [`Driver::evict`].
    Evict,
    /// [`Driver::completed`].
    Completed,
    /// [`Driver::wait`].
    Wait,
    /// [`Share::export_memory`](super::sharing::Share::export_memory).
    ExportMemory,
    /// [`Share::import_memory`](super::sharing::Share::import_memory).
    ImportMemory,
    /// [`Sparse::make_sparse`](super::sparse::Sparse::make_sparse).
    MakeSparse,
    /// [`Sparse::bind_pages`](super::sparse::Sparse::bind_pages).
    BindPages,
    /// [`Sparse::make_sparse_texture`](super::sparse::Sparse::make_sparse_texture).
    MakeSparseTexture,
    /// [`Sparse::bind_tiles`](super::sparse::Sparse::bind_tiles).
    BindTiles,
    /// [`Create::describe`].
    Describe,
    /// [`Create::prepare`].
    Prepare,
    /// [`Create::prepare_shared`].
    PrepareShared,
    /// [`Create::place`].
    Place,
    /// [`Create::dedicate`].
    Dedicate,
    /// [`Descriptors::describe_view`](super::descriptors::Descriptors::describe_view).
    DescribeView,
    /// [`Descriptors::make_heap`](super::descriptors::Descriptors::make_heap).
    MakeHeap,
    /// [`Descriptors::write_view`](super::descriptors::Descriptors::write_view).
    WriteView,
    /// [`Descriptors::bind_heap`](super::descriptors::Descriptors::bind_heap).
    BindHeap,
}

impl Call {
    /// Every call that can fail, in the order of the contract.
    pub const ALL: [Self; 23] = [
        Self::AllocateMemory,
        Self::AllocateMemoryFor,
        Self::Flush,
        Self::ReadBack,
        Self::MakeResident,
        Self::Evict,
        Self::Completed,
        Self::Wait,
        Self::ExportMemory,
        Self::ImportMemory,
        Self::MakeSparse,
        Self::BindPages,
        Self::MakeSparseTexture,
        Self::BindTiles,
        Self::Describe,
        Self::Prepare,
        Self::PrepareShared,
        Self::Place,
        Self::Dedicate,
        Self::DescribeView,
        Self::MakeHeap,
        Self::WriteView,
        Self::BindHeap,
    ];

    /// The function of the contract, as its trait names it.
    #[must_use]
    pub const fn function(self) -> &'static str {
        match self {
            Self::AllocateMemory => "allocate_memory",
            Self::AllocateMemoryFor => "allocate_memory_for",
            Self::Flush => "flush",
            Self::ReadBack => "read_back",
            Self::MakeResident => "make_resident",
            Self::Evict => "evict",
            Self::Completed => "completed",
            Self::Wait => "wait",
            Self::ExportMemory => "export_memory",
            Self::ImportMemory => "import_memory",
            Self::MakeSparse => "make_sparse",
            Self::BindPages => "bind_pages",
            Self::MakeSparseTexture => "make_sparse_texture",
            Self::BindTiles => "bind_tiles",
            Self::Describe => "describe",
            Self::Prepare => "prepare",
            Self::PrepareShared => "prepare_shared",
            Self::Place => "place",
            Self::Dedicate => "dedicate",
            Self::DescribeView => "describe_view",
            Self::MakeHeap => "make_heap",
            Self::WriteView => "write_view",
            Self::BindHeap => "bind_heap",
        }
    }
}

/// Which calls fail, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rule {
    /// Calls of this kind; of every kind if `None`.
    pub call: Option<Call>,
    /// Only calls for memory of at least this number of bytes ([`Call::AllocateMemory`], [`Call::Dedicate`]); others
    /// count as 0 bytes.
    pub bytes_min: u64,
    /// Only calls for memory of these types, a bit each; calls that are not for memory match always.
    pub memory_types: u32,
    /// How many matching calls succeed first.
    pub skip: u64,
    /// How many fail then.
    pub count: u64,
    /// With this.
    pub error: DeviceError,
}

impl Rule {
    /// Every call fails with this, without end. The fields restrict the rule.
    #[must_use]
    pub const fn new(error: DeviceError) -> Self {
        Self { call: None, bytes_min: 0, memory_types: u32::MAX, skip: 0, count: u64::MAX, error }
    }

    /// The `nth` call that can fail (counted from 0), of whatever kind, fails with this.
    #[must_use]
    pub const fn nth(nth: u64, error: DeviceError) -> Self {
        Self { skip: nth, count: 1, ..Self::new(error) }
    }

    /// Counts a call down, and returns its error if it fails.
    fn strikes(&mut self, call: Call, memory: Option<&MemoryDesc<'_>>) -> Option<DeviceError> {
        if !self.matches(call, memory) {
            return None;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        self.count = self.count.checked_sub(1)?;
        Some(self.error)
    }

    fn matches(&self, call: Call, memory: Option<&MemoryDesc<'_>>) -> bool {
        let bytes = memory.map_or(0, |desc| desc.size);
        let type_matches = memory.is_none_or(|desc| self.memory_types >> desc.memory_type & 1 == 1);
        self.call.is_none_or(|wanted| wanted == call) && bytes >= self.bytes_min && type_matches
    }
}

/// A device whose calls fail when a test wants them to. See the [module](self).
///
/// A copy has the same rules. Without a device it is the set of rules alone, for the test to hold.
#[derive(Clone, Default, Debug)]
pub struct FaultInjector<D = ()> {
    inner: D,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    rules: Vec<Rule>,
    made: u64,
    failed: [u64; Call::ALL.len()],
    hook: Option<Hook>,
}

/// See [`FaultInjector::set_hook`].
type Hook = Arc<dyn Fn(Call, DeviceError) + Send + Sync>;

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let State { rules, made, failed, .. } = self;
        f.debug_struct("State")
            .field("rules", rules)
            .field("made", made)
            .field("failed", failed)
            .finish_non_exhaustive()
    }
}

impl<D> FaultInjector<D> {
    /// Wraps a device; nothing fails until a rule is added. The rules come with it, for the test.
    #[must_use]
    pub fn new(inner: D) -> (Self, FaultInjector) {
        let faults = FaultInjector::default();
        (Self::with(inner, faults.clone()), faults)
    }

    /// Wraps a device under a set of rules that others are under too.
    #[must_use]
    pub fn with(inner: D, faults: FaultInjector) -> Self {
        Self { inner, state: faults.state }
    }

    /// The device underneath.
    #[must_use]
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// Adds a rule. Rules apply in the order in which they were added.
    pub fn add(&self, rule: Rule) {
        self.state.lock().rules.push(rule);
    }

    /// Forgets every rule.
    pub fn clear(&self) {
        self.state.lock().rules.clear();
    }

    /// Calls that could have failed, so far.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.state.lock().made
    }

    /// Calls that were made to fail, so far.
    #[must_use]
    pub fn injected(&self) -> u64 {
        self.state.lock().failed.iter().sum()
    }

    /// How often this call was made to fail, so far.
    #[must_use]
    pub fn failed(&self, call: Call) -> u64 {
        self.state.lock().failed[call as usize]
    }

    /// Sets what is called whenever a call is made to fail, before it returns. It runs on the caller's thread without a
    /// lock of this set held, and may talk to the device underneath; it must not go through the injector. `None`
    /// removes it.
    pub fn set_hook(&self, hook: Option<Box<dyn Fn(Call, DeviceError) + Send + Sync>>) {
        let replaced = std::mem::replace(&mut self.state.lock().hook, hook.map(Arc::from));
        // Its `Drop` is the caller's code, so it runs with no lock held.
        drop(replaced);
    }

    /// Counts a call; fails it if a rule does.
    fn pass(&self, call: Call, memory: Option<&MemoryDesc<'_>>) -> Result<(), DeviceError> {
        let mut state = self.state.lock();
        state.made += 1;
        let Some(error) = state.rules.iter_mut().find_map(|rule| rule.strikes(call, memory)) else { return Ok(()) };
        state.failed[call as usize] += 1;
        let hook = state.hook.clone();
        drop(state);
        if let Some(hook) = hook {
            hook(call, error);
        }
        Err(error)
    }
}

// SAFETY: memory, objects and mapped pointers are the inner device's, which promises that they stay valid.
unsafe impl<D: Driver> Driver for FaultInjector<D> {
    type Memory = D::Memory;
    type Fence = D::Fence;
    type Pageable = D::Pageable;

    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    unsafe fn allocate_memory(&self, desc: &MemoryDesc<'_>) -> Result<D::Memory, DeviceError> {
        self.pass(Call::AllocateMemory, Some(desc))?;
        // SAFETY: the objects are the inner device's, for which the caller makes the same promise.
        unsafe { self.inner.allocate_memory(desc) }
    }

    unsafe fn free_memory(&self, memory: D::Memory) {
        // SAFETY: the objects are the inner device's, for which the caller makes the same promise.
        unsafe { self.inner.free_memory(memory) }
    }

    unsafe fn flush(&self, memory: &D::Memory, offset: u64, size: u64) -> Result<(), DeviceError> {
        self.pass(Call::Flush, None)?;
        // SAFETY: the objects are the inner device's, for which the caller makes the same promise.
        unsafe { self.inner.flush(memory, offset, size) }
    }

    unsafe fn read_back(
        &self,
        memory: &D::Memory,
        offset: u64,
        mapped: Mapped,
        into: &mut [u8],
    ) -> Result<(), DeviceError> {
        self.pass(Call::ReadBack, None)?;
        // SAFETY: the objects are the inner device's, for which the caller makes the same promise.
        unsafe { self.inner.read_back(memory, offset, mapped, into) }
    }

    unsafe fn completed(&self, fence: &D::Fence) -> Result<u64, DeviceError> {
        self.pass(Call::Completed, None)?;
        // SAFETY: the objects are the inner device's, for which the caller makes the same promise.
        unsafe { self.inner.completed(fence) }
    }

    unsafe fn wait(&self, fence: &D::Fence, value: u64, timeout: Duration) -> Result<bool, DeviceError> {
        self.pass(Call::Wait, None)?;
        // SAFETY: the objects are the inner device's, for which the caller makes the same promise.
        unsafe { self.inner.wait(fence, value, timeout) }
    }

    fn note_aliasing(&self, memory: &D::Memory, offset: u64, size: u64, may_overlap: bool) {
        self.inner.note_aliasing(memory, offset, size, may_overlap);
    }

    fn mapped(&self, memory: &D::Memory) -> Option<Mapped> {
        self.inner.mapped(memory)
    }

    fn map_whole(&self, memory: &D::Memory) -> Option<Mapped> {
        self.inner.map_whole(memory)
    }

    fn pageable(&self, memory: &D::Memory) -> Option<D::Pageable> {
        self.inner.pageable(memory)
    }

    unsafe fn make_resident(&self, memory: &[D::Pageable]) -> Result<(), DeviceError> {
        self.pass(Call::MakeResident, None)?;
        // SAFETY: the objects are the inner device's, for which the caller makes the same promise.
        unsafe { self.inner.make_resident(memory) }
    }

    unsafe fn evict(&self, memory: &[D::Pageable]) -> Result<(), DeviceError> {
        self.pass(Call::Evict, None)?;
        // SAFETY: the objects are the inner device's, for which the caller makes the same promise.
        unsafe { self.inner.evict(memory) }
    }

    unsafe fn set_priority(&self, memory: &D::Memory, priority: Priority) {
        // SAFETY: the objects are the inner device's, for which the caller makes the same promise.
        unsafe { self.inner.set_priority(memory, priority) }
    }

    fn budgets(&self) -> Option<HeapBudgets> {
        self.inner.budgets()
    }

    fn budgets_hold_for(&self) -> Duration {
        self.inner.budgets_hold_for()
    }
}

// SAFETY: every object is the inner device's, which keeps the promises of the trait.
unsafe impl<K: Kind, D: Create<K>> Create<K> for FaultInjector<D> {
    type Info<'a> = D::Info<'a>;
    type Unplaced = D::Unplaced;
    type Object = D::Object;
    type Raw<'a> = D::Raw<'a>;

    fn raw(object: &Self::Object) -> Self::Raw<'_> {
        D::raw(object)
    }

    fn describe(&self, desc: &K::Desc) -> Result<D::Info<'static>, DeviceError> {
        self.pass(Call::Describe, None)?;
        self.inner.describe(desc)
    }

    fn portable(&self, info: &D::Info<'_>) -> Option<K::Desc> {
        self.inner.portable(info)
    }

    fn parts(&self, info: &D::Info<'_>) -> Option<TextureParts> {
        self.inner.parts(info)
    }

    fn is_copied(&self, info: &D::Info<'_>) -> bool {
        self.inner.is_copied(info)
    }

    fn key(&self, info: &D::Info<'_>) -> Option<InfoKey> {
        self.inner.key(info)
    }

    fn recycle_key(&self, info: &D::Info<'_>) -> Option<InfoKey> {
        self.inner.recycle_key(info)
    }

    fn rounded<'a>(&self, info: &Self::Info<'a>, round: fn(u64) -> u64) -> Option<(Self::Info<'a>, u64)> {
        self.inner.rounded(info, round)
    }

    unsafe fn recycle(&self, object: D::Object) -> D::Object {
        // SAFETY: the objects are the inner device's, for which the caller makes the same promise.
        unsafe { self.inner.recycle(object) }
    }

    fn note_retired(&self, object: &D::Object) {
        self.inner.note_retired(object);
    }

    unsafe fn prepare(&self, info: &D::Info<'_>) -> Result<(D::Unplaced, Requirements), DeviceError> {
        self.pass(Call::Prepare, None)?;
        // SAFETY: the objects are the inner device's, for which the caller makes the same promise.
        unsafe { self.inner.prepare(info) }
    }

    fn share_support(&self, info: &D::Info<'_>, kind: ShareKind) -> ShareSupport {
        self.inner.share_support(info, kind)
    }

    unsafe fn prepare_shared(
        &self,
        info: &D::Info<'_>,
        kind: ShareKind,
    ) -> Result<(D::Unplaced, Requirements), DeviceError> {
        self.pass(Call::PrepareShared, None)?;
        // SAFETY: the objects are the inner device's, for which the caller makes the same promise.
        unsafe { self.inner.prepare_shared(info, kind) }
    }

    unsafe fn discard(&self, unplaced: D::Unplaced) {
        // SAFETY: the objects are the inner device's, for which the caller makes the same promise.
        unsafe { self.inner.discard(unplaced) }
    }

    unsafe fn place(
        &self,
        unplaced: &D::Unplaced,
        memory: &D::Memory,
        offset: u64,
    ) -> Result<Placed<D::Object>, DeviceError> {
        self.pass(Call::Place, None)?;
        // SAFETY: the objects are the inner device's, for which the caller makes the same promise.
        unsafe { self.inner.place(unplaced, memory, offset) }
    }

    unsafe fn dedicate(
        &self,
        unplaced: &D::Unplaced,
        desc: &MemoryDesc<'_>,
    ) -> Result<(Placed<D::Object>, D::Memory), DeviceError> {
        self.pass(Call::Dedicate, Some(desc))?;
        // SAFETY: the objects are the inner device's, for which the caller makes the same promise.
        unsafe { self.inner.dedicate(unplaced, desc) }
    }

    unsafe fn allocate_memory_for(
        &self,
        unplaced: &D::Unplaced,
        desc: &MemoryDesc<'_>,
    ) -> Result<D::Memory, DeviceError> {
        self.pass(Call::AllocateMemoryFor, Some(desc))?;
        // SAFETY: the objects are the inner device's, for which the caller makes the same promise.
        unsafe { self.inner.allocate_memory_for(unplaced, desc) }
    }

    fn has_address(&self, info: &D::Info<'_>) -> bool {
        self.inner.has_address(info)
    }

    unsafe fn address(&self, object: &D::Object) -> u64 {
        // SAFETY: the objects are the inner device's, for which the caller makes the same promise.
        unsafe { self.inner.address(object) }
    }

    unsafe fn destroy(&self, object: D::Object) {
        // SAFETY: the objects are the inner device's, for which the caller makes the same promise.
        unsafe { self.inner.destroy(object) }
    }

    unsafe fn set_name(&self, object: &D::Object, name: &str) {
        // SAFETY: the objects are the inner device's, for which the caller makes the same promise.
        unsafe { self.inner.set_name(object, name) }
    }
}
