//! Middleware that makes calls to the driver fail, to test the library's error handling.
//!
//! ```text
//!   library ──▶ FaultInjector<D> ──▶ D
//!                   │ counts each call of the list `Call`, and applies the rules in turn:
//!                   └ Rule { call, bytes_min, memory_types, skip: 2, count: 1, error }   the third such call fails
//! ```
//!
//! [`FaultInjector::failed`] returns the number of injected failures of a call. A hook ([`FaultInjector::set_hook`])
//! runs at each injected failure, so a test can apply the side effect of a real fault, for example lose the device.
//!
//! If a failure is injected, the call is not forwarded to the device. The device creates no object, and the caller has
//! nothing to undo, as the traits require of failed calls. Calls that are not in the list [`Call`] are always
//! forwarded.
//!
//! ```
//! use ringfence_hal::fault::{Call, FaultInjector, Rule};
//! use ringfence_hal::{DeviceError, Driver, MemoryDesc, Priority, ResourceClass};
//!
//! /// Works with any device, such as `ringfence_sim::Device`.
//! fn memory_runs_out<D: Driver>(device: D) {
//!     let (device, faults) = FaultInjector::new(device);
//!     faults.add(Rule { call: Some(Call::AllocateMemory), ..Rule::new(DeviceError::OutOfDeviceMemory) });
//!     let (class, priority) = (ResourceClass::Buffer, Priority::Normal);
//!     let desc = MemoryDesc { memory_type: 0, size: 1 << 20, alignment: 1, class, priority, name: "", share: None };
//!     // SAFETY: the device has a memory type 0.
//!     let refused = unsafe { device.allocate_memory(&desc) };
//!     assert!(matches!(refused, Err(DeviceError::OutOfDeviceMemory)));
//!     assert_eq!(faults.injected(), 1);
//! }
//! ```

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::lock::Lock;
pub use record::Recorder;

use super::record::TextureParts;
use super::sharing::{ShareKind, ShareSupport};
use super::{
    Capabilities, Create, DeviceError, Driver, Format, FormatSupport, HeapBudgets, InfoKey, Kind, Mapped, MemoryDesc,
    Placed, Priority, Requirements,
};

/// Methods of a trait that forward to the inner device. If a method has the attribute `fails(Call, desc)`, it first
/// calls [`FaultInjector::pass`] with this [`Call`] and this description of memory, and returns the injected error, if
/// any.
macro_rules! forward {
    () => {};
    (
        $(#[fails($call:ident $(, $memory:ident)?)])?
        fn $name:ident $(<$life:lifetime>)? (&self $(, $arg:ident: $type:ty)* $(,)?) $(-> $result:ty)?;
        $($rest:tt)*
    ) => {
        fn $name $(<$life>)? (&self $(, $arg: $type)*) $(-> $result)? {
            $(self.pass(Call::$call, None $(.or(Some($memory)))?)?;)?
            self.inner.$name($($arg),*)
        }
        forward! { $($rest)* }
    };
    (
        $(#[fails($call:ident $(, $memory:ident)?)])?
        unsafe fn $name:ident(&self $(, $arg:ident: $type:ty)* $(,)?) $(-> $result:ty)?;
        $($rest:tt)*
    ) => {
        unsafe fn $name(&self $(, $arg: $type)*) $(-> $result)? {
            $(self.pass(Call::$call, None $(.or(Some($memory)))?)?;)?
            // SAFETY: the objects are the inner device's, for which the caller makes the same promise.
            unsafe { self.inner.$name($($arg),*) }
        }
        forward! { $($rest)* }
    };
}

mod descriptors;
mod record;
mod sharing;
mod sparse;
#[cfg(test)]
mod tests;
mod transfer;

/// The calls, each with its function and the trait of the function.
macro_rules! calls {
    ($($name:ident = $function:ident of $of:literal;)*) => {
        /// A call of a device that a rule can fail.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Call {
            $(#[doc = concat!("[`", stringify!($function), "`](crate::", $of, "::", stringify!($function), ").")] $name,)*
        }

        impl Call {
            /// Every call, in declaration order.
            pub const ALL: [Self; [$(stringify!($name)),*].len()] = [$(Self::$name),*];

            /// Returns the name of the function in its trait.
            #[must_use]
            pub const fn function(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($function),)*
                }
            }
        }
    };
}

calls! {
    AllocateMemory = allocate_memory of "Driver";
    AllocateMemoryFor = allocate_memory_for of "Create";
    Flush = flush of "Driver";
    ReadBack = read_back of "Driver";
    MakeResident = make_resident of "Driver";
    Evict = evict of "Driver";
    Completed = completed of "Driver";
    Wait = wait of "Driver";
    ExportMemory = export_memory of "sharing::Share";
    ImportTypes = import_types of "sharing::Share";
    ImportMemory = import_memory of "sharing::Share";
    MakeSparse = make_sparse of "sparse::Sparse";
    BindPages = bind_pages of "sparse::Sparse";
    MakeSparseTexture = make_sparse_texture of "sparse::Sparse";
    BindTiles = bind_tiles of "sparse::Sparse";
    Describe = describe of "Create";
    Prepare = prepare of "Create";
    PrepareShared = prepare_shared of "Create";
    Place = place of "Create";
    Dedicate = dedicate of "Create";
    DescribeView = describe_view of "descriptors::Descriptors";
    MakeHeap = make_heap of "descriptors::Descriptors";
    WriteView = write_view of "descriptors::Descriptors";
    BindHeap = bind_heap of "descriptors::Descriptors";
}

/// A rule that selects calls and the error that they fail with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rule {
    /// The call that fails; `None` for all calls.
    pub call: Option<Call>,
    /// The rule applies only to calls that allocate or import at least this many bytes of memory. Calls that do neither
    /// count as 0 bytes.
    pub bytes_min: u64,
    /// Memory types that the rule applies to, one bit each. Calls that do not allocate or import memory always match.
    pub memory_types: u32,
    /// Number of matching calls that are forwarded before the rule fails any.
    pub skip: u64,
    /// Number of matching calls that fail after the skipped ones. Later calls are forwarded.
    pub count: u64,
    /// The error that the failing calls return.
    pub error: DeviceError,
}

impl Rule {
    /// Returns a rule by which every call fails with `error`. Set the other fields to select calls.
    #[must_use]
    pub const fn new(error: DeviceError) -> Self {
        Self { call: None, bytes_min: 0, memory_types: u32::MAX, skip: 0, count: u64::MAX, error }
    }

    /// Returns a rule by which the `nth` call (counted from 0, over all kinds) fails with `error`.
    #[must_use]
    pub const fn nth(nth: u64, error: DeviceError) -> Self {
        Self { skip: nth, count: 1, ..Self::new(error) }
    }

    /// Counts a call. Returns the rule's error if the call must fail; otherwise, `None`.
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

/// A device that forwards calls to an inner device, and makes calls fail by the rules of a test.
///
/// Clones share their rules. The type `FaultInjector<()>`, the default, has no device: a test keeps it to change the
/// rules and to count calls.
#[derive(Clone, Default, Debug)]
pub struct FaultInjector<D = ()> {
    inner: D,
    state: Arc<Lock<State>>,
}

#[derive(Default)]
struct State {
    rules: Vec<Rule>,
    made: u64,
    failed: [u64; Call::ALL.len()],
    hook: Option<Hook>,
}

/// The function that is set by [`FaultInjector::set_hook`].
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
    /// Wraps a device. Returns the wrapper, and an injector without a device, which shares the rules of the wrapper.
    /// There are no rules at first, so no call fails.
    #[must_use]
    pub fn new(inner: D) -> (Self, FaultInjector) {
        let faults = FaultInjector::default();
        (Self::with(inner, faults.clone()), faults)
    }

    /// Wraps a device. The wrapper shares the rules of `faults`.
    #[must_use]
    pub fn with(inner: D, faults: FaultInjector) -> Self {
        Self { inner, state: faults.state }
    }

    /// Returns the inner device.
    #[must_use]
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// Adds a rule. A call is checked against the rules in the order in which they were added, and the first rule that
    /// fails it gives the error. Later rules do not count this call.
    pub fn add(&self, rule: Rule) {
        self.state.lock().rules.push(rule);
    }

    /// Removes all rules.
    pub fn clear(&self) {
        self.state.lock().rules.clear();
    }

    /// Returns the number of calls so far that a rule could have failed.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.state.lock().made
    }

    /// Returns the number of injected failures so far.
    #[must_use]
    pub fn injected(&self) -> u64 {
        self.state.lock().failed.iter().sum()
    }

    /// Returns the number of injected failures of `call` so far.
    #[must_use]
    pub fn failed(&self, call: Call) -> u64 {
        self.state.lock().failed[call as usize]
    }

    /// Sets a function that runs for each injected failure, before the failed call returns. `None` removes the
    /// function. The function runs on the thread of the failed call, and no lock of the injector is held. The function
    /// may use the inner device, but must not use the injector.
    pub fn set_hook(&self, hook: Option<Box<dyn Fn(Call, DeviceError) + Send + Sync>>) {
        let replaced = std::mem::replace(&mut self.state.lock().hook, hook.map(Arc::from));
        // The hook's `Drop` is the caller's code, so it runs without a lock.
        drop(replaced);
    }

    /// Counts a call. If a rule fails the call, runs the hook and returns the error.
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

// SAFETY: memory, objects and mapped pointers belong to the inner device, which guarantees that they stay valid.
unsafe impl<D: Driver> Driver for FaultInjector<D> {
    type Memory = D::Memory;
    type Fence = D::Fence;
    type Pageable = D::Pageable;

    forward! {
        fn capabilities(&self) -> &Capabilities;
        fn format_support(&self, format: Format) -> FormatSupport;
        #[fails(AllocateMemory, desc)]
        unsafe fn allocate_memory(&self, desc: &MemoryDesc<'_>) -> Result<D::Memory, DeviceError>;
        unsafe fn free_memory(&self, memory: D::Memory);
        #[fails(Flush)]
        unsafe fn flush(&self, memory: &D::Memory, offset: u64, size: u64) -> Result<(), DeviceError>;
        #[fails(ReadBack)]
        unsafe fn read_back(
            &self,
            memory: &D::Memory,
            offset: u64,
            mapped: Mapped,
            into: &mut [u8],
        ) -> Result<(), DeviceError>;
        #[fails(Completed)]
        unsafe fn completed(&self, fence: &D::Fence) -> Result<u64, DeviceError>;
        #[fails(Wait)]
        unsafe fn wait(&self, fence: &D::Fence, value: u64, timeout: Duration) -> Result<bool, DeviceError>;
        fn note_aliasing(&self, memory: &D::Memory, offset: u64, size: u64, may_overlap: bool);
        fn mapped(&self, memory: &D::Memory) -> Option<Mapped>;
        fn map_whole(&self, memory: &D::Memory) -> Option<Mapped>;
        fn is_tied(&self, memory: &D::Memory) -> bool;
        fn pageable(&self, memory: &D::Memory) -> Option<D::Pageable>;
        #[fails(MakeResident)]
        unsafe fn make_resident(&self, memory: &[D::Pageable]) -> Result<(), DeviceError>;
        #[fails(Evict)]
        unsafe fn evict(&self, memory: &[D::Pageable]) -> Result<(), DeviceError>;
        unsafe fn set_priority(&self, memory: &D::Memory, priority: Priority);
        fn budgets(&self) -> Option<HeapBudgets>;
        fn budgets_hold_for(&self) -> Duration;
    }
}

// SAFETY: every object belongs to the inner device, which upholds the trait.
unsafe impl<K: Kind, D: Create<K>> Create<K> for FaultInjector<D> {
    type Info<'a> = D::Info<'a>;
    type Unplaced = D::Unplaced;
    type Object = D::Object;
    type Raw<'a> = D::Raw<'a>;

    fn raw(object: &Self::Object) -> Self::Raw<'_> {
        D::raw(object)
    }

    forward! {
        #[fails(Describe)]
        fn describe(&self, desc: &K::Desc) -> Result<D::Info<'static>, DeviceError>;
        fn portable(&self, info: &D::Info<'_>) -> Option<K::Desc>;
        fn parts(&self, info: &D::Info<'_>) -> Option<TextureParts>;
        fn is_copied(&self, info: &D::Info<'_>) -> bool;
        fn key(&self, info: &D::Info<'_>) -> Option<InfoKey>;
        fn recycle_key(&self, info: &D::Info<'_>) -> Option<InfoKey>;
        fn rounded<'a>(&self, info: &Self::Info<'a>, round: fn(u64) -> u64) -> Option<(Self::Info<'a>, u64)>;
        unsafe fn recycle(&self, object: D::Object) -> D::Object;
        fn note_retired(&self, object: &D::Object);
        #[fails(Prepare)]
        unsafe fn prepare(&self, info: &D::Info<'_>) -> Result<(D::Unplaced, Requirements), DeviceError>;
        fn share_support(&self, info: &D::Info<'_>, kind: ShareKind) -> ShareSupport;
        #[fails(PrepareShared)]
        unsafe fn prepare_shared(
            &self,
            info: &D::Info<'_>,
            kind: ShareKind,
        ) -> Result<(D::Unplaced, Requirements), DeviceError>;
        unsafe fn discard(&self, unplaced: D::Unplaced);
        #[fails(Place)]
        unsafe fn place(
            &self,
            unplaced: &D::Unplaced,
            memory: &D::Memory,
            offset: u64,
        ) -> Result<Placed<D::Object>, DeviceError>;
        #[fails(Dedicate, desc)]
        unsafe fn dedicate(
            &self,
            unplaced: &D::Unplaced,
            desc: &MemoryDesc<'_>,
        ) -> Result<(Placed<D::Object>, D::Memory), DeviceError>;
        #[fails(AllocateMemoryFor, desc)]
        unsafe fn allocate_memory_for(
            &self,
            unplaced: &D::Unplaced,
            desc: &MemoryDesc<'_>,
        ) -> Result<D::Memory, DeviceError>;
        fn has_address(&self, info: &D::Info<'_>) -> bool;
        unsafe fn address(&self, object: &D::Object) -> u64;
        unsafe fn destroy(&self, object: D::Object);
        unsafe fn set_name(&self, object: &D::Object, name: &str);
    }
}
