//! The traits of a device: its memory and fences, and the creation of resources.

use std::fmt;
use std::time::Duration;

use super::capabilities::{Capabilities, HeapBudgets, Priority};
use super::error::DeviceError;
use super::format::TextureParts;
use super::kind::{Buffers, Kind, Textures};
use super::memory::{Mapped, MemoryDesc, Placed, Requirements, ShareKind, ShareSupport};

/// The memory and the fences of a device. The [crate](crate) documentation shows the other traits.
///
/// # Safety
/// [`Mapped`] pointers stay valid for reads and writes of the whole memory object until it is freed, or of the whole
/// resource until it is destroyed. Objects are those that the driver created.
pub unsafe trait Driver: Sized + Send + Sync + 'static {
    /// The driver's memory object (`VkDeviceMemory`, `ID3D12Heap`).
    type Memory: Send + Sync + 'static;
    /// A fence with a monotonically increasing value (timeline semaphore, `ID3D12Fence`).
    type Fence: Clone + Send + Sync + 'static;
    /// The object that makes a memory object resident or evicts it, if the program controls residency
    /// (`ID3D12Pageable`). It may outlive the memory object, and then has no effect. `()` if the system controls
    /// residency.
    type Pageable: Clone + Send + Sync + 'static;

    /// Returns the properties and limits of the device. They never change.
    fn capabilities(&self) -> &Capabilities;

    /// Allocates a memory object. It stays mapped until it is freed if its type is host-visible.
    ///
    /// # Errors
    /// Out of memory, too many objects, map failed, device lost. A failed call leaves no object behind.
    ///
    /// # Safety
    /// `desc.memory_type` is an index into [`Capabilities::memory_types`].
    unsafe fn allocate_memory(&self, desc: &MemoryDesc<'_>) -> Result<Self::Memory, DeviceError>;

    /// Unmaps and frees a memory object.
    ///
    /// # Safety
    /// This device allocated it, no resource is placed in it, and no pending work uses it.
    unsafe fn free_memory(&self, memory: Self::Memory);

    /// Makes host writes in `offset..offset + size` visible to the device. Called after the writes, and only if
    /// [`Capabilities::needs_flush`] returns `true`.
    ///
    /// # Errors
    /// Device lost or out of memory.
    ///
    /// # Safety
    /// The memory belongs to this device and is mapped, the range is inside it, and no thread writes to the range
    /// during the call. If the memory is non-coherent, the range is aligned to
    /// [`Capabilities::non_coherent_atom_bytes`] or ends with the memory. If it is coherent, the range is exactly the
    /// written bytes.
    unsafe fn flush(&self, memory: &Self::Memory, offset: u64, size: u64) -> Result<(), DeviceError>;

    /// Copies the bytes at `offset` into `into`, after it has invalidated the host's caches if necessary.
    ///
    /// # Errors
    /// Device lost or out of memory.
    ///
    /// # Safety
    /// The memory belongs to this device, the byte at `offset` is mapped at `mapped`, and the range is inside the
    /// memory.
    unsafe fn read_back(
        &self,
        memory: &Self::Memory,
        offset: u64,
        mapped: Mapped,
        into: &mut [u8],
    ) -> Result<(), DeviceError>;

    /// Returns the current value of the fence. Does not wait.
    ///
    /// # Errors
    /// Device lost or out of memory.
    ///
    /// # Safety
    /// The fence belongs to this device and is alive.
    unsafe fn completed(&self, fence: &Self::Fence) -> Result<u64, DeviceError>;

    /// Waits up to `timeout` until the fence reaches `value`. Returns `true` if the fence has reached it.
    ///
    /// # Errors
    /// Device lost or out of memory.
    ///
    /// # Safety
    /// The fence belongs to this device and is alive.
    unsafe fn wait(&self, fence: &Self::Fence, value: u64, timeout: Duration) -> Result<bool, DeviceError>;

    /// Notifies the device that a range of memory is about to be used for aliased resources (`may_overlap` is `true`)
    /// or no longer is (`false`). For devices that check lifetimes. Does nothing by default.
    fn note_aliasing(&self, memory: &Self::Memory, offset: u64, size: u64, may_overlap: bool) {
        let _ = (memory, offset, size, may_overlap);
    }

    /// Returns a pointer to the first byte of the memory, if the API maps memory objects and this one is host-visible.
    /// Returns `None` for imported memory that the driver cannot map. Direct3D 12 maps resources instead of heaps, so
    /// it returns `None`, as the default does.
    fn mapped(&self, memory: &Self::Memory) -> Option<Mapped> {
        let _ = memory;
        None
    }

    /// Returns a pointer to the first byte of the memory, for debugging. Calls [`Driver::mapped`] by default. If the
    /// API maps resources only, a device may create one buffer over the whole memory, which is destroyed with the
    /// memory. Returns `None` if the memory is not host-visible or the device does not create such a buffer.
    fn map_whole(&self, memory: &Self::Memory) -> Option<Mapped> {
        self.mapped(memory)
    }

    /// Returns `true` if the API ties the memory to the one resource that it was allocated for ([`Create::dedicate`],
    /// [`Create::allocate_memory_for`]). `false` by default.
    fn is_tied(&self, memory: &Self::Memory) -> bool {
        let _ = memory;
        false
    }

    /// Returns the object for evictions of this memory; `None` without [`Capabilities::residency`].
    fn pageable(&self, memory: &Self::Memory) -> Option<Self::Pageable> {
        let _ = memory;
        None
    }

    /// Makes evicted memory resident. Returns when the memory may be used.
    ///
    /// # Errors
    /// Out of memory or device lost; then nothing has changed. [`DeviceError::Unsupported`] by default.
    ///
    /// # Safety
    /// All of the memory belongs to this device and is evicted.
    unsafe fn make_resident(&self, memory: &[Self::Pageable]) -> Result<(), DeviceError> {
        let _ = memory;
        Err(DeviceError::unsupported("residency"))
    }

    /// Evicts memory and keeps its contents. The memory no longer counts as usage of its heap.
    ///
    /// # Errors
    /// Those of [`Driver::make_resident`].
    ///
    /// # Safety
    /// All of the memory belongs to this device and is resident. No pending work uses it, and no work that uses it is
    /// submitted before it is resident again.
    unsafe fn evict(&self, memory: &[Self::Pageable]) -> Result<(), DeviceError> {
        let _ = memory;
        Err(DeviceError::unsupported("residency"))
    }

    /// Sets the priority of existing memory, if [`Capabilities::memory_priority`] says that the system accepts one.
    /// Does nothing by default.
    ///
    /// # Safety
    /// The memory belongs to this device and is alive.
    unsafe fn set_priority(&self, memory: &Self::Memory, priority: Priority) {
        let _ = (memory, priority);
    }

    /// Returns the current usage and budget of each memory heap; `None` if the driver does not report them.
    fn budgets(&self) -> Option<HeapBudgets>;

    /// Returns the time for which a result of [`Driver::budgets`] may be reused, as long as no memory object is
    /// allocated or freed. The call takes microseconds on some drivers. Zero by default.
    fn budgets_hold_for(&self) -> Duration {
        Duration::ZERO
    }
}

/// Creation of resources of one kind.
///
/// # Safety
/// The rules of [`Driver`].
pub unsafe trait Create<K: Kind>: Driver {
    /// The device's own description of a resource (`vk::BufferCreateInfo`, `D3D12_RESOURCE_DESC`).
    type Info<'a>;
    /// A resource that is described and measured, but not bound to memory. A clone refers to the same resource.
    type Unplaced: Clone + Send + Sync;
    /// The driver's object, bound to memory. A clone refers to the same object. Two values are equal only if they refer
    /// to the same live object.
    type Object: Clone + PartialEq + Send + Sync + fmt::Debug + 'static;
    /// The object as the API's own calls take it: a handle (`vk::Buffer`), or a reference to an interface
    /// (`&ID3D12Resource`).
    type Raw<'a>;

    /// Returns the object as the API's own calls take it.
    fn raw(object: &Self::Object) -> Self::Raw<'_>;

    /// Returns the device's own description for a portable one.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] if the device does not support such a resource.
    fn describe(&self, desc: &K::Desc) -> Result<Self::Info<'static>, DeviceError>;

    /// Returns the portable description for the device's own one, without usages that the portable description lacks.
    /// Returns `None` if the portable description lacks the format or the shape. Views are checked against it.
    /// Middleware forwards this call.
    fn portable(&self, info: &Self::Info<'_>) -> Option<K::Desc> {
        let _ = info;
        None
    }

    /// Returns the subresources of a texture, for copies of the whole texture. Returns `None` for buffers and for
    /// formats with several planes. Uses the portable description by default. Middleware forwards this call.
    fn parts(&self, info: &Self::Info<'_>) -> Option<TextureParts> {
        self.portable(info).as_ref().and_then(K::parts)
    }

    /// Returns `true` if the usage of the resource includes copies from it and to it, which a move needs. Uses the
    /// portable description by default, and returns `true` if there is none. Middleware forwards this call.
    fn is_copied(&self, info: &Self::Info<'_>) -> bool {
        self.portable(info).as_ref().is_none_or(K::is_copied)
    }

    /// Returns a key of the description, by which objects are cached for later requests (`TransientAllocator`). The
    /// implementer ensures that descriptions with equal keys have equal requirements and interchangeable objects.
    /// Returns `None` if a key cannot hold the whole description; such objects are not cached.
    fn key(&self, info: &Self::Info<'_>) -> Option<InfoKey> {
        let _ = info;
        None
    }

    /// Returns the key of the description if an object of it may be passed to another owner, still bound, once the
    /// device has finished with it: its state is then one that a new object could have. Returns `None` if the state in
    /// which the previous owner left it matters. [`Create::key`] by default. Middleware forwards this call.
    fn recycle_key(&self, info: &Self::Info<'_>) -> Option<InfoKey> {
        self.key(info)
    }

    /// Returns the same description with the size that `round` returns, which must not be smaller, and the number of
    /// added bytes. Returns `None` for textures, and if the device cannot change the size. Middleware forwards this
    /// call.
    fn rounded<'a>(&self, info: &Self::Info<'a>, round: fn(u64) -> u64) -> Option<(Self::Info<'a>, u64)> {
        let _ = (info, round);
        None
    }

    /// Called before a bound object that the device has finished with is passed to another owner. Returns the object
    /// for the new owner. A device that checks lifetimes returns a new identity, so that it detects uses of the old
    /// one. Returns the same object by default. Middleware forwards this call.
    ///
    /// # Safety
    /// The object belongs to this device and is alive, and no pending work uses it.
    unsafe fn recycle(&self, object: Self::Object) -> Self::Object {
        object
    }

    /// Measures a resource. Also creates its object if the API creates objects before their memory.
    ///
    /// # Errors
    /// Out of memory, or the description is invalid or unsupported. A failed call leaves no object behind.
    ///
    /// # Safety
    /// Everything that `info` points to is valid according to the API.
    unsafe fn prepare(&self, info: &Self::Info<'_>) -> Result<(Self::Unplaced, Requirements), DeviceError>;

    /// Returns the device's support of shared memory for a resource of this description. No support by default.
    fn share_support(&self, info: &Self::Info<'_>, kind: ShareKind) -> ShareSupport {
        let _ = (info, kind);
        ShareSupport::default()
    }

    /// Does the same as [`Create::prepare`] for a resource in memory that is shared with other processes.
    ///
    /// # Errors
    /// Those of [`Create::prepare`], and [`DeviceError::Unsupported`] if the device cannot share such a resource.
    ///
    /// # Safety
    /// The rules of [`Create::prepare`].
    unsafe fn prepare_shared(
        &self,
        info: &Self::Info<'_>,
        kind: ShareKind,
    ) -> Result<(Self::Unplaced, Requirements), DeviceError> {
        let _ = (info, kind);
        Err(DeviceError::unsupported("sharing memory with other processes"))
    }

    /// Destroys a result of [`Create::prepare`] or [`Create::prepare_shared`].
    ///
    /// # Safety
    /// It was neither placed, dedicated nor discarded before.
    unsafe fn discard(&self, unplaced: Self::Unplaced);

    /// Binds or creates the resource at `offset` of `memory`.
    ///
    /// # Errors
    /// Out of memory or device lost. `unplaced` is then unchanged and may be placed again or discarded.
    ///
    /// # Safety
    /// `unplaced` belongs to this device and is not used up. Its requirements allow the type and class of the memory.
    /// The range is inside the memory and aligned. A successful call uses up `unplaced`.
    unsafe fn place(
        &self,
        unplaced: &Self::Unplaced,
        memory: &Self::Memory,
        offset: u64,
    ) -> Result<Placed<Self::Object>, DeviceError>;

    /// Creates the resource with dedicated memory.
    ///
    /// # Errors
    /// Out of memory, too many objects, map failed, device lost. `unplaced` is then unchanged.
    ///
    /// # Safety
    /// `unplaced` belongs to this device and is not used up, and its requirements allow `desc`. A successful call uses
    /// up `unplaced`.
    unsafe fn dedicate(
        &self,
        unplaced: &Self::Unplaced,
        desc: &MemoryDesc<'_>,
    ) -> Result<(Placed<Self::Object>, Self::Memory), DeviceError>;

    /// Allocates dedicated memory for this resource, which the caller will bind. If the API has no dedicated memory,
    /// allocates other memory; this is the default.
    ///
    /// # Errors
    /// Those of [`Driver::allocate_memory`].
    ///
    /// # Safety
    /// The rules of [`Driver::allocate_memory`]. `unplaced` belongs to this device and is alive, its requirements allow
    /// `desc`, and `desc` has the required size.
    unsafe fn allocate_memory_for(
        &self,
        unplaced: &Self::Unplaced,
        desc: &MemoryDesc<'_>,
    ) -> Result<Self::Memory, DeviceError> {
        let _ = unplaced;
        // SAFETY: the caller promises that the memory type exists, which `allocate_memory` requires.
        unsafe { self.allocate_memory(desc) }
    }

    /// Returns `true` if a resource of this description has a device address.
    fn has_address(&self, info: &Self::Info<'_>) -> bool {
        let _ = info;
        false
    }

    /// Returns the device address of the resource.
    ///
    /// # Safety
    /// The object belongs to this device and is alive, and [`Create::has_address`] returned `true` for its description.
    unsafe fn address(&self, object: &Self::Object) -> u64 {
        let _ = object;
        0
    }

    /// Called when the owner has released an object that pending work may still use. Work that begins later does not
    /// use it. The object is destroyed or recycled once all work that has begun is complete. A device that writes whole
    /// descriptor sets from a heap omits the object from later sets. Does nothing by default. Middleware forwards this
    /// call.
    fn note_retired(&self, object: &Self::Object) {
        let _ = object;
    }

    /// Destroys the resource, but not its memory.
    ///
    /// # Safety
    /// The object belongs to this device and is not destroyed, and no pending work uses it.
    unsafe fn destroy(&self, object: Self::Object);

    /// Sets the name of the driver's object that debuggers and validation messages show.
    ///
    /// # Safety
    /// The object belongs to this device and is alive.
    unsafe fn set_name(&self, object: &Self::Object, name: &str);
}

/// Key of a description: see [`Create::key`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct InfoKey {
    /// The words, two in each number. Unused words are 0.
    pairs: [u64; InfoKey::WORDS / 2],
    used: u8,
}

impl InfoKey {
    /// Number of words in a key.
    pub const WORDS: usize = 20;

    /// Returns a key of these words. The remaining words are 0.
    ///
    /// # Panics
    /// If there are more than [`InfoKey::WORDS`] words.
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

    /// Returns the words of the key, two in each number.
    #[inline]
    #[must_use]
    pub const fn pairs(&self) -> &[u64; Self::WORDS / 2] {
        &self.pairs
    }

    /// Returns the number of pairs that contain words passed to [`InfoKey::new`].
    #[inline]
    #[must_use]
    pub fn used(&self) -> usize {
        self.used.into()
    }
}

/// A whole device. Implemented for all types that can create buffers and textures.
pub trait Device: Create<Buffers> + Create<Textures> {}

impl<D: Create<Buffers> + Create<Textures>> Device for D {}

/// The driver's buffer of device `D`: `vk::Buffer`, `ID3D12Resource`.
pub type RawBuffer<D> = <D as Create<Buffers>>::Object;
/// The driver's texture of device `D`: `vk::Image`, `ID3D12Resource`.
pub type RawTexture<D> = <D as Create<Textures>>::Object;
/// The buffer description of device `D`.
pub type BufferInfo<'a, D> = <D as Create<Buffers>>::Info<'a>;
/// The texture description of device `D`.
pub type TextureInfo<'a, D> = <D as Create<Textures>>::Info<'a>;
