//! The traits of a device: its memory and fences, and the creation of resources.

use std::fmt;
use std::time::Duration;

use super::capabilities::{Capabilities, HeapBudgets, Priority};
use super::error::DeviceError;
use super::format::{Format, TextureParts};
use super::format_support::FormatSupport;
use super::kind::{Buffers, Kind, Textures};
use super::memory::{Mapped, MemoryDesc, Placed, Requirements, ShareKind, ShareSupport};

/// The memory and the fences of a device. The [crate](crate) documentation shows the other traits.
///
/// # Safety
/// A [`Mapped`] pointer is valid for reads and writes of the whole memory object until the memory is freed, or of the
/// whole resource until the resource is destroyed. All returned objects are objects that the driver created.
pub unsafe trait Driver: Sized + Send + Sync + 'static {
    /// The driver's memory object (`VkDeviceMemory`, `ID3D12Heap`).
    type Memory: Send + Sync + 'static;
    /// A fence with a monotonically increasing value (timeline semaphore, `ID3D12Fence`).
    type Fence: Clone + Send + Sync + 'static;
    /// The object that [`Driver::make_resident`] and [`Driver::evict`] take for a memory object (`ID3D12Pageable`);
    /// `()` if the system controls residency. If it outlives the memory object, these calls have no effect on it.
    type Pageable: Clone + Send + Sync + 'static;

    /// Returns the properties and limits of the device. They never change.
    fn capabilities(&self) -> &Capabilities;

    /// Returns the uses of a format that the device supports. The device refuses textures and views for other uses.
    fn format_support(&self, format: Format) -> FormatSupport;

    /// Allocates a memory object. If its type is host-visible and the API maps memory objects ([`Driver::mapped`]), the
    /// memory object is mapped until it is freed.
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
    /// This device allocated `memory`, no resource is placed in it, and no pending work uses it.
    unsafe fn free_memory(&self, memory: Self::Memory);

    /// Makes host writes to bytes `offset..offset + size` of the memory visible to the device. The library calls this
    /// after the writes, and only if [`Capabilities::needs_flush`] returns `true`.
    ///
    /// # Errors
    /// Device lost or out of memory.
    ///
    /// # Safety
    /// The memory belongs to this device and is mapped, the range is inside it, and no thread writes to the range
    /// during the call. If the memory is non-coherent, the range begins at a multiple of
    /// [`Capabilities::non_coherent_atom_bytes`], and ends at such a multiple or at the end of the memory. If the
    /// memory is coherent, the range is exactly the written bytes.
    unsafe fn flush(&self, memory: &Self::Memory, offset: u64, size: u64) -> Result<(), DeviceError>;

    /// Copies `into.len()` bytes of the memory, from `offset` on, into `into`. If the memory is non-coherent,
    /// invalidates the host's caches first.
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

    /// Waits until the fence reaches `value`, for at most `timeout`. Returns `true` if the fence reached `value`, and
    /// `false` if the time ran out.
    ///
    /// # Errors
    /// Device lost or out of memory.
    ///
    /// # Safety
    /// The fence belongs to this device and is alive.
    unsafe fn wait(&self, fence: &Self::Fence, value: u64, timeout: Duration) -> Result<bool, DeviceError>;

    /// Notifies the device before a range of memory is used for aliased resources (`may_overlap` is `true`), and after
    /// this use has ended (`false`). If a device checks lifetimes, it must permit resources to overlap in the range
    /// between the two calls. Does nothing by default.
    fn note_aliasing(&self, memory: &Self::Memory, offset: u64, size: u64, may_overlap: bool) {
        let _ = (memory, offset, size, may_overlap);
    }

    /// Returns a pointer to the first byte of the memory. Returns `None` if the memory is not host-visible, if it is
    /// imported and the driver cannot map it, or if the API maps resources instead of memory objects (Direct3D 12). The
    /// default is `None`.
    fn mapped(&self, memory: &Self::Memory) -> Option<Mapped> {
        let _ = memory;
        None
    }

    /// Returns a pointer to the first byte of the memory, for debugging. Calls [`Driver::mapped`] by default. If the
    /// API maps only resources, the device may create a buffer that covers the memory, and destroys the buffer when the
    /// memory is freed. Returns `None` if the memory is not host-visible, or if there is no such buffer.
    fn map_whole(&self, memory: &Self::Memory) -> Option<Mapped> {
        self.mapped(memory)
    }

    /// Returns `true` if the API permits only one resource in the memory: the resource that the memory was allocated
    /// for ([`Create::dedicate`], [`Create::allocate_memory_for`]). The default is `false`.
    fn is_tied(&self, memory: &Self::Memory) -> bool {
        let _ = memory;
        false
    }

    /// Returns the object that [`Driver::evict`] and [`Driver::make_resident`] take for this memory. Returns `None` if
    /// [`Capabilities::residency`] is `false`.
    fn pageable(&self, memory: &Self::Memory) -> Option<Self::Pageable> {
        let _ = memory;
        None
    }

    /// Makes evicted memory resident. Waits until the memory may be used.
    ///
    /// # Errors
    /// Out of memory or device lost; the memory is then still evicted. The default returns
    /// [`DeviceError::Unsupported`].
    ///
    /// # Safety
    /// All of the memory belongs to this device and is evicted.
    unsafe fn make_resident(&self, memory: &[Self::Pageable]) -> Result<(), DeviceError> {
        let _ = memory;
        Err(DeviceError::unsupported("residency"))
    }

    /// Evicts memory. Its contents are preserved. Evicted memory does not count as usage of its heap.
    ///
    /// # Errors
    /// Out of memory or device lost; the memory is then still resident. The default returns
    /// [`DeviceError::Unsupported`].
    ///
    /// # Safety
    /// All of the memory belongs to this device and is resident. No pending work uses the memory, and no work that uses
    /// it is submitted before [`Driver::make_resident`] returns.
    unsafe fn evict(&self, memory: &[Self::Pageable]) -> Result<(), DeviceError> {
        let _ = memory;
        Err(DeviceError::unsupported("residency"))
    }

    /// Sets the priority of existing memory. Does nothing unless [`Capabilities::memory_priority`] is
    /// [`AtAnyTime`](super::MemoryPriority::AtAnyTime).
    ///
    /// # Safety
    /// The memory belongs to this device and is alive.
    unsafe fn set_priority(&self, memory: &Self::Memory, priority: Priority) {
        let _ = (memory, priority);
    }

    /// Returns the current usage and budget of each memory heap. Returns `None` if the driver does not report them.
    fn budgets(&self) -> Option<HeapBudgets>;

    /// Returns the time for which the library may reuse a result of [`Driver::budgets`] if no memory object is
    /// allocated or freed meanwhile. The default is zero. If a call of `budgets` takes microseconds, the device should
    /// return more than zero.
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
    /// A resource that is not bound to memory. Its requirements are known. A clone refers to the same resource.
    type Unplaced: Clone + Send + Sync;
    /// The driver's object, bound to memory. A clone refers to the same object. Two values are equal only if they refer
    /// to the same live object.
    type Object: Clone + PartialEq + Send + Sync + fmt::Debug + 'static;
    /// The type in which the API's functions take the object: a handle (`vk::Buffer`), or a reference to an interface
    /// (`&ID3D12Resource`).
    type Raw<'a>;

    /// Returns the object in the type that the API's functions take.
    fn raw(object: &Self::Object) -> Self::Raw<'_>;

    /// Converts a portable description to the device's own.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] if the device does not support such a resource.
    fn describe(&self, desc: &K::Desc) -> Result<Self::Info<'static>, DeviceError>;

    /// Converts the device's own description to a portable one, for the checks of views. Omits usages that the portable
    /// description cannot express. Returns `None` if the portable description cannot express the format or the shape.
    /// The default is `None`. Middleware forwards this call.
    fn portable(&self, info: &Self::Info<'_>) -> Option<K::Desc> {
        let _ = info;
        None
    }

    /// Returns the size, subresources and format of a texture, for copies. Returns `None` for buffers and for formats
    /// with several planes. Uses the portable description by default. Middleware forwards this call.
    fn parts(&self, info: &Self::Info<'_>) -> Option<TextureParts> {
        self.portable(info).as_ref().and_then(K::parts)
    }

    /// Returns `true` if the usage of the resource includes copies from it and to it. Only such resources can be moved.
    /// Uses the portable description by default, and returns `true` if there is none. Middleware forwards this call.
    fn is_copied(&self, info: &Self::Info<'_>) -> bool {
        self.portable(info).as_ref().is_none_or(K::is_copied)
    }

    /// Returns a key of the description. Objects are cached by this key for later requests (`TransientAllocator`), so
    /// descriptions with equal keys must have equal requirements and interchangeable objects. Returns `None` if the
    /// description does not fit into a key; its objects are then not cached. The default is `None`.
    fn key(&self, info: &Self::Info<'_>) -> Option<InfoKey> {
        let _ = info;
        None
    }

    /// Returns the key of the description if its objects can be recycled: once the device has finished with an object,
    /// the object can be passed to another owner without being rebound, in a state that a new object could have.
    /// Returns `None` if the state of the object depends on its previous owner. Calls [`Create::key`] by default.
    /// Middleware forwards this call.
    fn recycle_key(&self, info: &Self::Info<'_>) -> Option<InfoKey> {
        self.key(info)
    }

    /// Returns the description with its size replaced by `round(size)`, and the number of added bytes. `round` must not
    /// return a smaller size. Returns `None` for textures, and if the device cannot change the size. Middleware
    /// forwards this call.
    fn rounded<'a>(&self, info: &Self::Info<'a>, round: fn(u64) -> u64) -> Option<(Self::Info<'a>, u64)> {
        let _ = (info, round);
        None
    }

    /// Prepares a bound object for its next owner, and returns the object that this owner uses. If a device checks
    /// lifetimes, it returns an object with a new identity, and detects uses of the old identity. The default returns
    /// the same object. Middleware forwards this call.
    ///
    /// # Safety
    /// The object belongs to this device and is alive, and no pending work uses it.
    unsafe fn recycle(&self, object: Self::Object) -> Self::Object {
        object
    }

    /// Returns a resource without memory, and its memory requirements. If the API creates objects before it binds them
    /// to memory (Vulkan), also creates the object.
    ///
    /// # Errors
    /// Out of memory, or the description is invalid or unsupported. A failed call leaves no object behind.
    ///
    /// # Safety
    /// Everything that `info` points to is valid according to the API.
    unsafe fn prepare(&self, info: &Self::Info<'_>) -> Result<(Self::Unplaced, Requirements), DeviceError>;

    /// Returns the device's support of shared memory for a resource of this description. The default is no support.
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
    /// No call of [`Create::place`], [`Create::dedicate`] or [`Create::discard`] has succeeded for `unplaced`.
    unsafe fn discard(&self, unplaced: Self::Unplaced);

    /// Binds the resource to `memory` at `offset`, in bytes. If the API creates objects with their memory (Direct3D
    /// 12), creates the object there.
    ///
    /// # Errors
    /// Out of memory or device lost. `unplaced` is then unchanged and may be placed again or discarded.
    ///
    /// # Safety
    /// `unplaced` belongs to this device, and no call of [`Create::place`], [`Create::dedicate`] or [`Create::discard`]
    /// has succeeded for it. Its requirements allow the type and class of the memory. The range is inside the memory
    /// and aligned.
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
    /// `unplaced` belongs to this device, and no call of [`Create::place`], [`Create::dedicate`] or [`Create::discard`]
    /// has succeeded for it. Its requirements allow `desc`.
    unsafe fn dedicate(
        &self,
        unplaced: &Self::Unplaced,
        desc: &MemoryDesc<'_>,
    ) -> Result<(Placed<Self::Object>, Self::Memory), DeviceError>;

    /// Allocates dedicated memory for this resource. The caller then binds the resource to this memory. Calls
    /// [`Driver::allocate_memory`] by default, for APIs without dedicated memory.
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

    /// Notifies the device that the owner has released an object that pending work may still use. Work that begins
    /// later does not use the object. The object is destroyed or recycled once all work that has begun before this call
    /// is complete. If a device writes whole descriptor sets from a heap, it omits the object from later sets. Does
    /// nothing by default. Middleware forwards this call.
    fn note_retired(&self, object: &Self::Object) {
        let _ = object;
    }

    /// Destroys the resource, but not its memory.
    ///
    /// # Safety
    /// The object belongs to this device and is alive, and no pending work uses it.
    unsafe fn destroy(&self, object: Self::Object);

    /// Sets the name that debuggers and validation messages show for the driver's object.
    ///
    /// # Safety
    /// The object belongs to this device and is alive.
    unsafe fn set_name(&self, object: &Self::Object, name: &str);
}

/// A description as up to 20 words of 32 bits, for caches of objects ([`Create::key`]).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct InfoKey {
    /// The words, two per number, the first one in the low bits. Unused words are 0.
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

    /// Returns the words of the key, two per number, the first one in the low bits.
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

#[cfg(test)]
mod tests;
