//! The traits of a device: its memory and fences, and how it makes resources.

use std::fmt;
use std::time::Duration;

use super::capabilities::{Capabilities, HeapBudgets, Priority};
use super::error::DeviceError;
use super::format::TextureParts;
use super::kind::{Buffers, Kind, Textures};
use super::memory::{Mapped, MemoryDesc, Placed, Requirements, ShareKind, ShareSupport};

/// The memory and the fences of a device. See the [crate](crate) for how the parts fit.
///
/// # Safety
/// Implementers promise that [`Mapped`] pointers stay valid for reads and writes of the whole memory object until it
/// is freed (of the whole resource until it is destroyed), and that objects are what the driver made.
pub unsafe trait Driver: Sized + Send + Sync + 'static {
    /// The driver's memory object (`VkDeviceMemory`, `ID3D12Heap`).
    type Memory: Send + Sync + 'static;
    /// A fence whose value only rises (timeline semaphore, `ID3D12Fence`).
    type Fence: Clone + Send + Sync + 'static;
    /// What makes a memory object resident or evicts it, where the API leaves that to the program (`ID3D12Pageable`).
    /// It may outlive the memory object, and has no effect then. `()` where there is no such thing.
    type Pageable: Clone + Send + Sync + 'static;

    /// What the device is and can do. Never changes.
    fn capabilities(&self) -> &Capabilities;

    /// Makes a memory object, mapped for its whole life if its type is host-visible.
    ///
    /// # Errors
    /// Out of memory, too many objects, map failed, device lost. Nothing is left behind.
    ///
    /// # Safety
    /// `desc.memory_type` is an index into [`Capabilities::memory_types`].
    unsafe fn allocate_memory(&self, desc: &MemoryDesc<'_>) -> Result<Self::Memory, DeviceError>;

    /// Frees a memory object; unmaps it first.
    ///
    /// # Safety
    /// This device made it; no resource is placed in it; no work that uses it is pending.
    unsafe fn free_memory(&self, memory: Self::Memory);

    /// Makes host writes in `offset..offset + size` visible to the device. Called after the writes, and only where
    /// [`Capabilities::needs_flush`] says so.
    ///
    /// # Errors
    /// Device lost or out of memory.
    ///
    /// # Safety
    /// The memory is this device's and mapped; the range lies inside it. If the memory is non-coherent, the range is
    /// aligned to [`Capabilities::non_coherent_atom_bytes`] or ends with the memory; if it is coherent, the range is
    /// what was written and no byte more. Nothing writes to the range meanwhile.
    unsafe fn flush(&self, memory: &Self::Memory, offset: u64, size: u64) -> Result<(), DeviceError>;

    /// Copies what the device wrote at `offset..` into `into`, invalidating the host's caches first where needed.
    ///
    /// # Errors
    /// Device lost or out of memory.
    ///
    /// # Safety
    /// The memory is this device's and was mapped at `mapped` for the byte at `offset`; the range lies inside it.
    unsafe fn read_back(
        &self,
        memory: &Self::Memory,
        offset: u64,
        mapped: Mapped,
        into: &mut [u8],
    ) -> Result<(), DeviceError>;

    /// The value that the fence has reached. Does not wait.
    ///
    /// # Errors
    /// Device lost or out of memory.
    ///
    /// # Safety
    /// The fence is this device's and alive.
    unsafe fn completed(&self, fence: &Self::Fence) -> Result<u64, DeviceError>;

    /// Waits until the fence reaches `value`, at most for `timeout`; returns whether it did.
    ///
    /// # Errors
    /// Device lost or out of memory.
    ///
    /// # Safety
    /// The fence is this device's and alive.
    unsafe fn wait(&self, fence: &Self::Fence, value: u64, timeout: Duration) -> Result<bool, DeviceError>;

    /// Called before (`may_overlap`) and after a range of memory is used for aliased resources (transient memory): for
    /// a device that checks lifetimes. Does nothing by default.
    fn note_aliasing(&self, memory: &Self::Memory, offset: u64, size: u64, may_overlap: bool) {
        let _ = (memory, offset, size, may_overlap);
    }

    /// Where the host sees the memory's first byte, if the API maps memory objects and this one is of a host-visible
    /// type; `None` for imported memory that the driver cannot map. Direct3D 12 maps resources, not heaps: `None`, as by default.
    fn mapped(&self, memory: &Self::Memory) -> Option<Mapped> {
        let _ = memory;
        None
    }

    /// Where the host sees the memory's first byte, for debugging: as [`Driver::mapped`], by default. Where the API
    /// maps resources only, a device may make one buffer over all of the memory, which is destroyed with it. `None`
    /// where the host does not see the memory, or the device makes none.
    fn map_whole(&self, memory: &Self::Memory) -> Option<Mapped> {
        self.mapped(memory)
    }

    /// Whether the memory was made for one resource and takes no other ([`Create::dedicate`],
    /// [`Create::allocate_memory_for`], where the API ties both). `false` by default.
    fn is_tied(&self, memory: &Self::Memory) -> bool {
        let _ = memory;
        false
    }

    /// The object with which this memory is evicted and made resident; `None` without [`Capabilities::residency`].
    fn pageable(&self, memory: &Self::Memory) -> Option<Self::Pageable> {
        let _ = memory;
        None
    }

    /// Makes evicted memory resident. Returns when it may be used.
    ///
    /// # Errors
    /// Out of memory or device lost: nothing has changed then. [`DeviceError::Unsupported`] by default.
    ///
    /// # Safety
    /// All of it is this device's, and evicted.
    unsafe fn make_resident(&self, memory: &[Self::Pageable]) -> Result<(), DeviceError> {
        let _ = memory;
        Err(DeviceError::unsupported("residency"))
    }

    /// Evicts memory; its contents are kept. It does not count as usage of its heap any more.
    ///
    /// # Errors
    /// As [`Driver::make_resident`].
    ///
    /// # Safety
    /// All of it is this device's, and resident; no work that uses it is pending, or is submitted before it is made
    /// resident again.
    unsafe fn evict(&self, memory: &[Self::Pageable]) -> Result<(), DeviceError> {
        let _ = memory;
        Err(DeviceError::unsupported("residency"))
    }

    /// Sets the priority of memory that exists, where [`Capabilities::memory_priority`] says that the system takes one.
    /// Does nothing by default.
    ///
    /// # Safety
    /// The memory is this device's and alive.
    unsafe fn set_priority(&self, memory: &Self::Memory, priority: Priority) {
        let _ = (memory, priority);
    }

    /// Usage and budget of each memory heap now, as the driver reports them; `None` if it does not.
    fn budgets(&self) -> Option<HeapBudgets>;

    /// For how long a result of [`Driver::budgets`] may be used while no memory object is made or freed: the call takes
    /// some drivers microseconds. Zero by default.
    fn budgets_hold_for(&self) -> Duration {
        Duration::ZERO
    }
}

/// How a device makes resources of one kind.
///
/// # Safety
/// As for [`Driver`].
pub unsafe trait Create<K: Kind>: Driver {
    /// What the user describes a resource with (`vk::BufferCreateInfo`, `D3D12_RESOURCE_DESC`).
    type Info<'a>;
    /// Described and measured, not yet in memory. A copy names the same thing.
    type Unplaced: Clone + Send + Sync;
    /// The driver's object, in memory. A copy names the same object and equals it, as no other object that is alive
    /// does.
    type Object: Clone + PartialEq + Send + Sync + fmt::Debug + 'static;
    /// What the API's own calls take: a handle (`vk::Buffer`), or a reference to an interface (`&ID3D12Resource`).
    type Raw<'a>;

    /// The object for the API's own calls.
    fn raw(object: &Self::Object) -> Self::Raw<'_>;

    /// The device's own description for a portable one.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] if the device has no such resource.
    fn describe(&self, desc: &K::Desc) -> Result<Self::Info<'static>, DeviceError>;

    /// The portable description of the device's own one, without usages that the portable one lacks; `None` if the
    /// portable one lacks the format or the shape. Views are checked against it. Middleware forwards it.
    fn portable(&self, info: &Self::Info<'_>) -> Option<K::Desc> {
        let _ = info;
        None
    }

    /// The subresources of a texture of this description, to copy it as a whole; `None` for buffers and for formats of
    /// several planes. By default, those of the portable description. Middleware forwards it.
    fn parts(&self, info: &Self::Info<'_>) -> Option<TextureParts> {
        self.portable(info).as_ref().and_then(K::parts)
    }

    /// Whether what this description makes can be copied from and to, as when it is moved. By default what the portable
    /// description says, and `true` where there is none. Middleware forwards it.
    fn is_copied(&self, info: &Self::Info<'_>) -> bool {
        self.portable(info).as_ref().is_none_or(K::is_copied)
    }

    /// What distinguishes this description from others, so that objects made from it can be kept for the next request
    /// (`TransientAllocator`). Equal keys have equal requirements and give
    /// objects that can stand for one another: the implementer ensures that. `None` if the description
    /// holds more than a key does; such objects are made anew each time.
    fn key(&self, info: &Self::Info<'_>) -> Option<InfoKey> {
        let _ = info;
        None
    }

    /// As [`Create::key`], if an object of this description may be given to another owner, bound as it is, once the
    /// device is done with it: its state is then one that a new object could be in. `None` if the state in which its
    /// owner left it matters. [`Create::key`] by default. Middleware forwards it.
    fn recycle_key(&self, info: &Self::Info<'_>) -> Option<InfoKey> {
        self.key(info)
    }

    /// The same description with the size that `round` returns, which is no smaller; and by how many bytes it is
    /// larger. `None` for textures, and if the device cannot change the size. Middleware forwards it.
    fn rounded<'a>(&self, info: &Self::Info<'a>, round: fn(u64) -> u64) -> Option<(Self::Info<'a>, u64)> {
        let _ = (info, round);
        None
    }

    /// Called when the device is done with an object that will be given to another owner, bound as it is; returns the
    /// object for the new owner. A device that checks lifetimes gives it another identity, so that a use of the old one
    /// is detected. The same object by default. Middleware forwards it.
    ///
    /// # Safety
    /// It is this device's and alive; no work that uses it is pending.
    unsafe fn recycle(&self, object: Self::Object) -> Self::Object {
        object
    }

    /// Measures the resource (and makes its object, where the API makes it before its memory).
    ///
    /// # Errors
    /// Out of memory, or the description is invalid or unsupported. Nothing is left behind.
    ///
    /// # Safety
    /// What `info` points to is valid, as the API demands.
    unsafe fn prepare(&self, info: &Self::Info<'_>) -> Result<(Self::Unplaced, Requirements), DeviceError>;

    /// What the device supports of shared memory for a resource of this description: nothing by default.
    fn share_support(&self, info: &Self::Info<'_>, kind: ShareKind) -> ShareSupport {
        let _ = (info, kind);
        ShareSupport::default()
    }

    /// As [`Create::prepare`], for a resource in memory that is shared with other processes.
    ///
    /// # Errors
    /// As [`Create::prepare`]; [`DeviceError::Unsupported`] where the device shares no such resource.
    ///
    /// # Safety
    /// As [`Create::prepare`].
    unsafe fn prepare_shared(
        &self,
        info: &Self::Info<'_>,
        kind: ShareKind,
    ) -> Result<(Self::Unplaced, Requirements), DeviceError> {
        let _ = (info, kind);
        Err(DeviceError::unsupported("sharing memory with other processes"))
    }

    /// Drops what [`Create::prepare`] or [`Create::prepare_shared`] made.
    ///
    /// # Safety
    /// It was neither placed, nor dedicated, nor discarded.
    unsafe fn discard(&self, unplaced: Self::Unplaced);

    /// Makes the resource at `offset` of `memory`.
    ///
    /// # Errors
    /// Out of memory or device lost; `unplaced` is then as before and may be tried again or discarded.
    ///
    /// # Safety
    /// `unplaced` is this device's and not used up; the memory is of a type and class that its requirements allow, and
    /// the range lies inside it, aligned. On success `unplaced` is used up.
    unsafe fn place(
        &self,
        unplaced: &Self::Unplaced,
        memory: &Self::Memory,
        offset: u64,
    ) -> Result<Placed<Self::Object>, DeviceError>;

    /// Makes the resource with dedicated memory.
    ///
    /// # Errors
    /// Out of memory, too many objects, map failed, device lost; `unplaced` is then as before.
    ///
    /// # Safety
    /// `unplaced` is this device's and not used up, and its requirements allow `desc`. On success `unplaced` is used
    /// up.
    unsafe fn dedicate(
        &self,
        unplaced: &Self::Unplaced,
        desc: &MemoryDesc<'_>,
    ) -> Result<(Placed<Self::Object>, Self::Memory), DeviceError>;

    /// Allocates dedicated memory for this resource, which its owner will bind. Plain memory if the API has no
    /// dedicated memory, which is the default.
    ///
    /// # Errors
    /// As [`Driver::allocate_memory`].
    ///
    /// # Safety
    /// As [`Driver::allocate_memory`]; `unplaced` is this device's and alive, its requirements allow `desc`, and the
    /// size is the one that they say.
    unsafe fn allocate_memory_for(
        &self,
        unplaced: &Self::Unplaced,
        desc: &MemoryDesc<'_>,
    ) -> Result<Self::Memory, DeviceError> {
        let _ = unplaced;
        // SAFETY: the caller promises that the memory type exists, as `allocate_memory` demands.
        unsafe { self.allocate_memory(desc) }
    }

    /// Whether a resource of this description has a device address.
    fn has_address(&self, info: &Self::Info<'_>) -> bool {
        let _ = info;
        false
    }

    /// The device address of the resource.
    ///
    /// # Safety
    /// The object is this device's and alive, and [`Create::has_address`] was `true` for its description.
    unsafe fn address(&self, object: &Self::Object) -> u64 {
        let _ = object;
        0
    }

    /// Called when the owner has released an object that pending work may still use: no work that begins from now on
    /// uses it, and it is destroyed, or recycled, when what had begun by now is complete. A device that writes whole
    /// descriptor sets from a heap leaves it out of later ones. Does nothing by default. Middleware forwards it.
    fn note_retired(&self, object: &Self::Object) {
        let _ = object;
    }

    /// Destroys the resource; its memory stays.
    ///
    /// # Safety
    /// It is this device's and not destroyed yet; no work that uses it is pending.
    unsafe fn destroy(&self, object: Self::Object);

    /// Gives the driver's object a name that debuggers and validation messages show.
    ///
    /// # Safety
    /// The object is this device's and alive.
    unsafe fn set_name(&self, object: &Self::Object, name: &str);
}

/// What distinguishes a description from others: see [`Create::key`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct InfoKey {
    /// Two of its words in each. Those that are not used are 0.
    pairs: [u64; InfoKey::WORDS / 2],
    used: u8,
}

impl InfoKey {
    /// How many words a key holds.
    pub const WORDS: usize = 20;

    /// A key of these words, the rest 0.
    ///
    /// # Panics
    /// If there are more than [`InfoKey::WORDS`].
    #[inline(always)]
    #[must_use]
    pub fn new(words: &[u32]) -> Self {
        let (pairs, last) = words.as_chunks();
        let mut key = Self { pairs: [0; Self::WORDS / 2], used: (pairs.len() + last.len()) as u8 };
        for (at, [low, high]) in pairs.iter().enumerate() {
            key.pairs[at] = u64::from(*low) | u64::from(*high) << 32;
        }
        if let [last] = last {
            key.pairs[pairs.len()] = u64::from(*last);
        }
        key
    }

    /// Its words, two in each number.
    #[inline]
    #[must_use]
    pub const fn pairs(&self) -> &[u64; Self::WORDS / 2] {
        &self.pairs
    }

    /// How many of the pairs hold words that it was made of.
    #[inline]
    #[must_use]
    pub fn used(&self) -> usize {
        self.used.into()
    }
}

/// A whole device: follows from its parts.
pub trait Device: Create<Buffers> + Create<Textures> {}

impl<D: Create<Buffers> + Create<Textures>> Device for D {}

/// The driver's buffer of device `D`: `vk::Buffer`, `ID3D12Resource`.
pub type RawBuffer<D> = <D as Create<Buffers>>::Object;
/// The driver's texture of device `D`: `vk::Image`, `ID3D12Resource`.
pub type RawTexture<D> = <D as Create<Textures>>::Object;
/// What a buffer of device `D` is described with.
pub type BufferInfo<'a, D> = <D as Create<Buffers>>::Info<'a>;
/// What a texture of device `D` is described with.
pub type TextureInfo<'a, D> = <D as Create<Textures>>::Info<'a>;
