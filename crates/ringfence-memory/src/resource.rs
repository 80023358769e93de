//! Buffers and textures: the driver's object and the memory that it is bound to, with one owner.

use std::fmt;
use std::mem::ManuallyDrop;
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use ringfence_core::sync::SyncSet;
use ringfence_decision::{Error, rounded};
use ringfence_lockfree::delivery::{Content, Delivery, Target};
use ringfence_lockfree::recycled::Wanted;
use ringfence_observe::{Debugger, RangeId};
use ringfence_timeline::{Frame, OpenFrame};

use crate::debugging::{Leak, MemoryAddress};
use crate::device::sharing::{Share, ShareKind};
use crate::device::{BufferUsage, Capabilities, Create, Describe, Device, Mapped, Placed, Priority, Requirements};
use crate::memory::{
    AllocationDesc, ArenaRef, Location, Memory, Origin, Place, PlacedObject, PlacementRequest, PoolState, RawObject,
    Shared,
};

mod allocation;
mod buffer;
mod export;
mod host;
mod pool;
mod replace;
mod slice;
mod small;
mod texture;

use host::HostBytes;

pub use crate::memory::ResourceKind;
pub use allocation::Allocation;
pub use buffer::Buffer;
pub use export::{ShareError, SharedMemory};
pub use host::AccessError;
pub use pool::{Pool, PoolDesc};
pub use replace::{BufferCopy, MipCopy, MipSwap, ReplaceError};
pub use slice::{AsBufferSlice, BufferSlice};
pub use small::SmallBuffer;
pub use texture::Texture;

/// Returns the memory alignment, in bytes, for a buffer of `bytes` bytes that is suballocated. With this alignment, an
/// offset that is aligned in the buffer is aligned in memory too. For a buffer without an address, the result is the
/// largest alignment that the API requires for ranges of this usage. For a buffer with an address, the result is also
/// at least the largest power of two up to `bytes`, or 64 KiB if that is less. 64 KiB is the alignment of every
/// Direct3D 12 buffer without tight alignment.
pub fn shared_alignment(capabilities: &Capabilities, usage: BufferUsage, bytes: u64, has_address: bool) -> u64 {
    const ADDRESSED: u64 = 64 << 10;
    let by_rule = capabilities.range_alignment(usage);
    if has_address && bytes > 0 { by_rule.max(ADDRESSED.min(1 << bytes.ilog2())) } else { by_rule }
}

/// A resource of the driver with its memory, owned by the holder of this value.
///
/// A drop only *retires* the resource, because the GPU may still use it. Once every submission that began before the
/// drop is complete, the next [`Allocator::reclaim`](crate::Allocator::reclaim) destroys or recycles the resource (see
/// [`Allocator::create_buffer`](crate::Allocator::create_buffer)). If many objects are retired, a later drop also
/// destroys some; if memory is short, a later request does. A handle is two pointers.
pub struct Resource<D: Create<K> + Device, K: ResourceKind> {
    shared: ManuallyDrop<Arc<Shared<D>>>,
    bound: ManuallyDrop<Box<PlacedObject<D, K>>>,
}

impl<D: Create<K> + Device, K: ResourceKind> Resource<D, K> {
    /// Creates a resource in `pool`; if `pool` is `None`, in the allocator's own memory.
    #[track_caller]
    pub(crate) fn create(
        shared: &Arc<Shared<D>>,
        info: &impl Describe<D, K>,
        desc: AllocationDesc<'_>,
        pool: Option<&Arc<PoolState<D>>>,
    ) -> Result<Self, Error> {
        let at = panic::Location::caller();
        info.with_info(&shared.device, |info| Self::create_at(shared, info, desc, pool, at))?
    }

    /// As `create`, for the device's own description, requested by line `at`.
    #[inline]
    pub(crate) fn create_at(
        shared: &Arc<Shared<D>>,
        info: &<D as Create<K>>::Info<'_>,
        desc: AllocationDesc<'_>,
        pool: Option<&Arc<PoolState<D>>>,
        at: &'static panic::Location<'static>,
    ) -> Result<Self, Error> {
        if desc.may_be_larger {
            return Self::create_rounded(shared, info, desc, pool, at);
        }
        Self::recycle_or_make(shared, info, desc, pool, at)
    }

    /// Creates a resource that may be larger than described.
    fn create_rounded(
        shared: &Arc<Shared<D>>,
        info: &<D as Create<K>>::Info<'_>,
        desc: AllocationDesc<'_>,
        pool: Option<&Arc<PoolState<D>>>,
        at: &'static panic::Location<'static>,
    ) -> Result<Self, Error> {
        let rounded = rounded::<D, K>(&desc, &shared.device, info);
        let (info, added) = rounded.as_ref().map_or((info, 0), |(info, added)| (info, *added));
        Ok(Self::recycle_or_make(shared, info, desc, pool, at)?.with_added_bytes(added))
    }

    #[inline]
    fn recycle_or_make(
        shared: &Arc<Shared<D>>,
        info: &<D as Create<K>>::Info<'_>,
        desc: AllocationDesc<'_>,
        pool: Option<&Arc<PoolState<D>>>,
        at: &'static panic::Location<'static>,
    ) -> Result<Self, Error> {
        let key = if pool.is_none() { shared.recycle_key::<K>(info, &desc) } else { None };
        let wanted = key.as_ref().map(|key| shared.recycled.wanted(key));
        if let Some(wanted) = &wanted
            && let Some((bound, owner)) = shared.take_recycled::<K>(wanted, &desc)
        {
            return Ok(Self { shared: ManuallyDrop::new(owner), bound: ManuallyDrop::new(bound) });
        }
        Self::make(shared, info, &desc, pool, wanted.as_ref(), at)
    }

    /// Creates a new resource. Not inlined, so that the path to a recycled object stays short.
    #[inline(never)]
    fn make(
        shared: &Arc<Shared<D>>,
        info: &<D as Create<K>>::Info<'_>,
        desc: &AllocationDesc<'_>,
        pool: Option<&Arc<PoolState<D>>>,
        wanted: Option<&Wanted<'_>>,
        at: &'static panic::Location<'static>,
    ) -> Result<Self, Error> {
        let desc_of_pool;
        let desc = match pool {
            None => desc,
            Some(pool) => {
                desc_of_pool = AllocationDesc { share: effective_share(desc, pool)?, ..*desc };
                &desc_of_pool
            }
        };
        let resource = shared.create_measured::<K, _>(info, desc, |unplaced, needs| {
            let (memory_bytes, memory_type_bits) = (needs.size, needs.memory_type_bits);
            // Before the resource is placed, because this calls the driver.
            let is_full = |portable| shared.is_complete_desc::<K>(&portable, info);
            let is_desc_full = desc.movable && Create::<K>::portable(&shared.device, info).is_some_and(is_full);
            let made = move |placed, place: Place<D>, origin: Origin<D>| {
                let owner =
                    origin.owner().or_else(|| shared.recycled.take_owner()).unwrap_or_else(|| Arc::clone(shared));
                let portable = Create::<K>::portable(&shared.device, info);
                let key = || Create::<K>::key(&shared.device, info).map(Box::new);
                let recycle = |wanted| shared.recycling_of(wanted, &place, desc, memory_type_bits);
                let bound = PlacedObject {
                    memory_bytes,
                    location: desc.location,
                    has_address: Create::<K>::has_address(&shared.device, info),
                    added: 0,
                    user_data: desc.user_data,
                    is_desc_full,
                    key: if portable.is_none() { key() } else { None },
                    desc: portable,
                    parts: K::parts_of(|| Create::<K>::parts(&shared.device, info)),
                    is_altered: AtomicBool::new(false),
                    recycling: wanted.and_then(recycle),
                    content: OnceLock::new(),
                    placed,
                    place,
                };
                Self { bound: ManuallyDrop::new(K::boxed(&shared.boxes, bound)), shared: ManuallyDrop::new(owner) }
            };
            match pool {
                None => shared.place_requested::<K, _>(unplaced, PlacementRequest::new(needs, desc), made),
                Some(pool) => place_in_pool::<D, K, _>(shared, pool, unplaced, needs, desc, made),
            }
        })?;
        shared.name_new::<K>(resource.object(), desc.name);
        resource.note_made_at(at);
        shared.write_due();
        Ok(resource)
    }

    /// Creates a resource from a driver's object and the place of `memory_bytes` bytes that the object is bound to. The
    /// resource has no address, name or description yet.
    ///
    /// # Safety
    /// Object and place belong to the allocator and have no other owner. The object is bound to the place, covers
    /// `memory_bytes`, and is mapped at the address in `placed`.
    pub unsafe fn new(
        shared: Arc<Shared<D>>,
        placed: Placed<<D as Create<K>>::Object>,
        place: Place<D>,
        memory_bytes: u64,
        location: Location,
    ) -> Self {
        let bound = PlacedObject {
            placed,
            place,
            memory_bytes,
            location,
            has_address: false,
            added: 0,
            user_data: 0,
            desc: None,
            is_desc_full: false,
            key: None,
            parts: K::parts_of(|| None),
            is_altered: AtomicBool::new(false),
            recycling: None,
            content: OnceLock::new(),
        };
        let bound = ManuallyDrop::new(K::boxed(&shared.boxes, bound));
        Self { shared: ManuallyDrop::new(shared), bound }
    }

    #[inline]
    fn with_added_bytes(mut self, added: u64) -> Self {
        if added > 0 {
            self.bound.added = added;
            self.shared.observers.calls.add_rounded(added);
        }
        self
    }

    pub(crate) fn with_user_data(mut self, user_data: u64) -> Self {
        self.bound.user_data = user_data;
        self
    }

    /// Sets the values that the device derives from the description of the object: the portable description, the
    /// subresources, and whether the object has an address.
    ///
    /// # Safety
    /// The object was created with this description.
    pub unsafe fn made_as(mut self, info: &<D as Create<K>>::Info<'_>) -> Self {
        let (device, bound) = (&self.shared.device, &mut self.bound);
        bound.has_address = Create::<K>::has_address(device, info);
        bound.desc = Create::<K>::portable(device, info);
        if bound.desc.is_none() {
            bound.key = Create::<K>::key(device, info).map(Box::new);
        }
        bound.parts = K::parts_of(|| Create::<K>::parts(device, info));
        self
    }

    /// Sets the description that the object was created with, if the program knows it. If this description differs from
    /// the one that the device derived, the object is not recycled.
    ///
    /// # Safety
    /// The object was created with this description.
    pub unsafe fn described(mut self, desc: K::Desc) -> Self {
        let desc = Some(desc);
        *self.bound.is_altered.get_mut() |= self.bound.desc != desc;
        self.bound.desc = desc;
        self
    }

    /// Returns `true` if the resource was created with this description, as far as the device can compare them.
    pub(crate) fn is_made_as(&self, info: &<D as Create<K>>::Info<'_>) -> bool {
        let device = &self.shared.device;
        let given = Create::<K>::portable(device, info);
        let is = |made: &K::Desc| given.as_ref().is_some_and(|given| K::is_same(made, given));
        // The device may describe the same resource in more detail than the program has.
        let is_once_described = |made| {
            let described = Create::<K>::describe(device, made);
            described.is_ok_and(|made| Create::<K>::portable(device, &made).is_some_and(|made| is(&made)))
        };
        let is_same = match self.bound.desc.as_ref() {
            Some(made) => is(made) || is_once_described(made),
            None => self.bound.key.as_deref().is_none_or(|made| Create::<K>::key(device, info) == Some(*made)),
        };
        is_same && self.bound.parts == K::parts_of(|| Create::<K>::parts(device, info))
    }

    /// Returns `info` with the size rounded up, if the resource was created with a rounded size and `info` does not
    /// have that size. Otherwise, returns `None`.
    pub(crate) fn rounded_info<'i>(&self, info: &<D as Create<K>>::Info<'i>) -> Option<<D as Create<K>>::Info<'i>> {
        if self.bound.added == 0 || self.is_made_as(info) {
            return None;
        }
        let desc = AllocationDesc { may_be_larger: true, ..Default::default() };
        rounded::<D, K>(&desc, &self.shared.device, info).map(|(info, _)| info)
    }

    /// Records for debugging which line created the resource.
    pub(crate) fn note_made_at(&self, at: &'static panic::Location<'static>) {
        if self.shared.observers.debug().is_some() {
            self.shared.note_handed_out(&self.bound.place, at, self.address());
        }
    }

    /// Returns the device address of the buffer, if it has one. One driver call.
    fn address(&self) -> Option<u64> {
        if !self.bound.has_address {
            return None;
        }
        // SAFETY: the object is alive, and its description says that it has an address.
        Some(unsafe { Create::<K>::address(&self.shared.device, &self.bound.placed.object) })
    }

    pub(crate) fn note_moved(&self, from: Option<RangeId>) {
        self.shared.note_moved(from, &self.bound.place, self.bound.placed.mapped, || self.address());
    }

    /// Returns the description that the resource was created with, if it describes the object completely.
    pub(crate) fn full_desc(&self) -> Option<&K::Desc> {
        self.bound.desc.as_ref().filter(|_| self.bound.is_desc_full)
    }

    pub(crate) fn place(&self) -> &Place<D> {
        &self.bound.place
    }

    /// Replaces the object and place of this value, and returns the old ones.
    pub(crate) fn exchange(
        &mut self,
        placed: Placed<<D as Create<K>>::Object>,
        place: Place<D>,
    ) -> (Placed<<D as Create<K>>::Object>, Place<D>) {
        self.note_exchanged();
        (std::mem::replace(&mut self.bound.placed, placed), std::mem::replace(&mut self.bound.place, place))
    }

    /// Returns the state of copies to this resource.
    pub(crate) fn content(&self) -> &Arc<Content> {
        if let Some(content) = self.bound.content.get() {
            return content;
        }
        // Created outside of `get_or_init`, because the program's global allocator may call back in here.
        let content = Arc::default();
        self.bound.content.get_or_init(|| content)
    }

    /// Returns the resource as the destination of copies that a library gathers. Until the copies are recorded or the
    /// returned value is dropped, the resource is not moved. `is_restaged` must be `true` if the library stages the
    /// same bytes again whenever the frame of the copies ends without being submitted.
    pub fn destination(&self, is_restaged: bool) -> Target<Leak> {
        let described = |debug: &Debugger<Memory<D>>| debug.described(self.shared.key_of(&self.bound.place)?);
        let known_as = self.shared.observers.debug().and_then(described);
        Target::new(self.content(), self.bound.place.ticket(), self.user_data(), is_restaged, known_as)
    }

    /// Returns `true` if copies to `target` are copies to this resource.
    pub fn is_destination(&self, target: &Target<Leak>) -> bool {
        self.bound.content.get().is_some_and(|content| target.is_of(content))
    }

    /// Returns the number of destinations ([`Resource::destination`]) of this resource whose copies are neither
    /// recorded nor dropped.
    #[must_use]
    pub fn gathered_count(&self) -> u32 {
        self.bound.content.get().map_or(0, |content| content.gathered())
    }

    /// Records that the caller's copies in this frame fill the resource: if the frame ends without being submitted, the
    /// contents count as lost ([`Resource::take_content_lost`]).
    pub fn await_content(&self, frame: &Frame) {
        let mut delivery = Delivery::default();
        delivery.losses = Some(Arc::clone(&self.shared.losses));
        delivery.targets.push(self.destination(false));
        delivery.watch(frame.point(), || Some(OpenFrame::of(frame).watch()));
        Arc::new(delivery).record();
    }

    /// Records that `new` is filled from this resource and replaces it. Copies to this resource that were lost before
    /// this call and are not reported yet, or that are lost later, count as lost for `new` too.
    pub fn pass_losses_to(&self, new: &Self) {
        self.content().pass_losses_to(new.content());
    }

    /// Records that the object was replaced: copies that were gathered for the old object must not be recorded.
    pub(crate) fn note_exchanged(&self) {
        self.bound.content.get().into_iter().for_each(|content| content.note_exchanged());
    }

    /// Replaces the resource by `new`. If `frame` is given, copies in that frame fill `new` from the old resource.
    pub(crate) fn replace_with(&mut self, new: Self, frame: Option<&Frame>) {
        self.note_exchanged();
        if let Some(frame) = frame {
            new.await_content(frame);
            self.pass_losses_to(&new);
        }
        // Drops the old one, which retires it.
        *self = new;
    }

    /// Returns `true` if copies to the resource were lost since the last call of this function, or, at the first call,
    /// since the resource was created. The resource then has its earlier contents. Copies are lost if their frame was
    /// discarded, or dropped without [`Timeline::submitted`](crate::Timeline::submitted), or if a batch gathered them
    /// and did not record them. Copies of a [`Defrag`](crate::defrag::Defrag), of [`Buffer::resize`] and of
    /// [`Texture::swap_mips`] count too.
    ///
    /// If a frame ends without being submitted, call this function for each resource that the frame was to fill, and
    /// fill the resource again if it returns `true`. The function does not report which bytes were lost, and does not
    /// cover the program's own commands. O(frames that have ended since the last reclaim).
    #[must_use = "each loss is reported once"]
    pub fn take_content_lost(&self) -> bool {
        self.shared.settle_losses();
        self.bound.content.get().is_some_and(|content| content.take_lost())
    }

    /// Returns the driver's object.
    #[must_use]
    pub fn object(&self) -> &<D as Create<K>>::Object {
        &self.bound.placed.object
    }

    /// Returns the object for the API's own calls: `vk::Buffer`, `&ID3D12Resource`. Once this value is released and the
    /// submissions that use it are complete, no copy or view of the object may be used. Bytes and object may then
    /// belong to another owner.
    #[must_use]
    pub fn raw(&self) -> <D as Create<K>>::Raw<'_> {
        <D as Create<K>>::raw(&self.bound.placed.object)
    }

    /// Returns the size of a buffer in bytes. With [`AllocationDesc::may_be_larger`], it is the rounded size. For a
    /// texture, or a buffer without a portable description, returns [`Resource::memory_bytes`].
    #[must_use]
    pub fn size(&self) -> u64 {
        self.bound.desc.as_ref().and_then(K::bytes).unwrap_or(self.bound.memory_bytes)
    }

    /// Returns the size of the resource's memory requirements in bytes: for a buffer at least [`Resource::size`].
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.bound.memory_bytes
    }

    /// Returns the location that was requested.
    #[must_use]
    pub fn location(&self) -> Location {
        self.bound.location
    }

    /// Returns the portable description of the resource. Returns `None` if the device has none ([`Create::portable`]).
    #[must_use]
    pub fn desc(&self) -> Option<&K::Desc> {
        self.bound.desc.as_ref()
    }

    /// Returns the memory type that the resource is bound to, an index into
    /// [`memory_types`](crate::device::Capabilities::memory_types).
    #[must_use]
    pub fn memory_type(&self) -> u32 {
        self.shared.memory_of(&self.bound.place).memory_type
    }

    /// Returns the driver's memory object that the resource is bound to.
    #[must_use]
    pub fn memory(&self) -> &D::Memory {
        &self.shared.memory_of(&self.bound.place).object
    }

    pub(crate) fn held_memory(&self) -> &Memory<D> {
        self.shared.memory_of(&self.bound.place)
    }

    /// Returns the offset of the resource's first byte in [`Resource::memory`], in bytes.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.bound.place.offset
    }

    /// Returns `true` if the memory of the resource is mapped.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        self.bound.placed.mapped.is_some()
    }

    /// Returns the place of the resource in memory, for [`Debug::history_of`](crate::memory::Debug::history_of).
    #[must_use]
    pub fn memory_address(&self) -> MemoryAddress {
        MemoryAddress::Block { block: self.shared.memory_of(&self.bound.place).block, offset: self.bound.place.offset }
    }

    /// Returns the `user_data` of the resource's [`AllocationDesc`].
    #[must_use]
    pub fn user_data(&self) -> u64 {
        self.bound.user_data
    }

    /// Returns `true` if the resource has a memory object of its own.
    #[must_use]
    pub fn is_dedicated(&self) -> bool {
        self.bound.place.is_dedicated()
    }

    /// Pins the resource, or unpins it. While the resource is pinned, no [`Defrag`](crate::defrag::Defrag) moves it,
    /// even if the move is already planned. Has no effect on a resource that is not
    /// [`movable`](AllocationDesc::movable).
    pub fn set_pinned(&self, pinned: bool) {
        if let Some(ticket) = self.bound.place.ticket() {
            ticket.set_pinned(pinned);
        }
    }

    /// Returns `true` if the resource can be moved by a [`Defrag`](crate::defrag::Defrag) and is not pinned.
    #[must_use]
    pub fn is_movable(&self) -> bool {
        self.bound.place.ticket().is_some_and(|ticket| !ticket.is_pinned())
    }

    /// Releases the resource at once: keeps it for recycling, or destroys it and frees its memory.
    ///
    /// # Safety
    /// No submission under way uses the resource.
    pub unsafe fn destroy_now(self) {
        let (owner, bound) = self.into_bound();
        // SAFETY: the caller promises that the device does not use it, and it has one owner.
        unsafe { Shared::destroy_now(owner, K::item(bound)) };
    }

    /// Retires the resource. It is released once all of `points` have passed; other submissions do not delay this.
    ///
    /// # Panics
    /// If a point belongs to no timeline of this allocator. The resource is then retired as if it were dropped.
    ///
    /// # Safety
    /// Every submission that uses the resource is complete once `points` have passed.
    pub unsafe fn retire_after(self, points: &SyncSet) {
        let (owner, bound) = self.into_bound();
        Shared::retire_item_after(owner, points, K::item(bound));
    }

    /// Sets the residency priority of the resource's dedicated memory, and returns `true`. If the resource has no
    /// dedicated memory, returns `false` and changes nothing: the priority of a block is that of its [`Pool`]. The
    /// driver gets the new priority only if the device accepts changes ([`Capabilities::memory_priority`]).
    pub fn set_priority(&self, priority: Priority) -> bool {
        let memory = self.held_memory();
        if self.is_dedicated() {
            // SAFETY: the memory belongs to this device, and lives as long as this value.
            unsafe { self.shared.device.set_priority(&memory.object, priority) };
            memory.residence.iter().for_each(|residence| residence.set_priority(priority));
            self.bound.is_altered.store(true, Ordering::Relaxed);
        }
        self.is_dedicated()
    }

    /// Replaces this resource with a new one, and retires the old one, because submissions under way may use it. The
    /// contents of the new resource are undefined. It is created in the same [`Pool`], unless the pool was dropped.
    ///
    /// # Errors
    /// The new resource could not be created; nothing has changed then.
    #[track_caller]
    pub fn replace(&mut self, info: &impl Describe<D, K>, desc: AllocationDesc<'_>) -> Result<(), Error> {
        self.replace_with(Self::create(&self.shared, info, desc, self.pool().as_ref())?, None);
        Ok(())
    }

    /// Returns the pool in which a replacement is created. Returns `None` if the resource is in no pool, or if the pool
    /// was dropped.
    pub(crate) fn pool(&self) -> Option<Arc<PoolState<D>>> {
        let ArenaRef::Pool(pool) = &self.bound.place.arena else { return None };
        (!pool.is_closed.load(Ordering::Acquire)).then(|| Arc::clone(pool))
    }

    /// Creates a handle to the resource's memory object, and returns it with the description that an importer needs.
    /// The handle keeps the memory alive, and is closed when it is dropped. Each call creates a new handle. One driver
    /// call.
    ///
    /// # Errors
    /// [`ShareError::NotShared`], also for an imported resource; or the driver could not create a handle.
    pub fn export(&self) -> Result<(D::Handle, SharedMemory), ShareError>
    where
        D: Share,
    {
        export::export(self)
    }

    /// Takes the resource apart without retiring it, for code that retires or destroys the parts itself.
    pub fn into_parts(self) -> (Arc<Shared<D>>, RawObject<D>, Place<D>) {
        let (shared, bound) = self.into_bound();
        let (object, place) = shared.take_apart(K::item(bound));
        (shared, object.expect("a resource has an object of its own"), place)
    }

    fn into_bound(self) -> (Arc<Shared<D>>, Box<PlacedObject<D, K>>) {
        let mut held = ManuallyDrop::new(self);
        // SAFETY: `held` is never dropped or used again.
        unsafe { held.take() }
    }

    /// # Safety
    /// The value is not used or dropped afterwards.
    unsafe fn take(&mut self) -> (Arc<Shared<D>>, Box<PlacedObject<D, K>>) {
        // SAFETY: the caller promises that each field is taken once, and not used afterwards.
        let (shared, mut bound) =
            unsafe { (ManuallyDrop::take(&mut self.shared), ManuallyDrop::take(&mut self.bound)) };
        if bound.added > 0 {
            shared.observers.calls.sub_rounded(std::mem::take(&mut bound.added));
        }
        if let Some(content) = bound.content.get() {
            content.note_dropped();
        }
        (shared, bound)
    }

    fn host(&self) -> HostBytes<'_, D> {
        HostBytes { shared: &self.shared, place: &self.bound.place, base: self.bound.placed.mapped, size: self.size() }
    }

    /// Returns the allocator that the resource belongs to.
    pub fn shared(&self) -> &Arc<Shared<D>> {
        &self.shared
    }

    /// Returns the mapped address of the resource's first byte, if the resource is mapped.
    pub fn mapped_base(&self) -> Option<Mapped> {
        self.bound.placed.mapped
    }

    /// Sets the resource's name for debuggers, snapshots and traces. Snapshots and traces show resources that share
    /// memory under the name of the allocation. One driver call, one short lock, one host allocation.
    pub fn set_name(&mut self, name: &str) {
        let Self { shared, bound } = self;
        // SAFETY: the object is alive, and `&mut self` excludes other calls on it.
        unsafe { Create::<K>::set_name(&shared.device, &bound.placed.object, name) };
        shared.rename(&mut bound.place, name);
        if let Some(recycling) = &mut bound.recycling {
            recycling.name = crate::memory::name_bits(name);
        }
    }
}

impl<D: Create<K> + Device, K: ResourceKind> Drop for Resource<D, K> {
    fn drop(&mut self) {
        // SAFETY: a value is dropped once, and nothing reads these fields afterwards.
        let (owner, bound) = unsafe { self.take() };
        Shared::retire_item(owner, K::item(bound));
    }
}

impl<D: Create<K> + Device, K: ResourceKind> fmt::Debug for Resource<D, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(K::NAME)
            .field("object", &self.bound.placed.object)
            .field("size", &self.size())
            .field("memory_type", &self.memory_type())
            .field("offset", &self.offset())
            .finish_non_exhaustive()
    }
}

/// Places `unplaced` in a pool. Not inlined, so that the path without a pool stays short.
#[inline(never)]
fn place_in_pool<D: Create<K> + Device, K: ResourceKind, T>(
    shared: &Shared<D>,
    pool: &Arc<PoolState<D>>,
    unplaced: &<D as Create<K>>::Unplaced,
    needs: Requirements,
    desc: &AllocationDesc<'_>,
    made: impl FnOnce(Placed<<D as Create<K>>::Object>, Place<D>, Origin<D>) -> T,
) -> Result<T, Error> {
    let request = PlacementRequest::of_pool(pool, needs, desc)?;
    shared.place_requested::<K, _>(unplaced, request, made)
}

/// Returns the kind of the handles by which a resource in `pool` can be shared: the pool's kind. A request for another
/// kind is an error.
fn effective_share<D: Device>(desc: &AllocationDesc<'_>, pool: &Arc<PoolState<D>>) -> Result<Option<ShareKind>, Error> {
    match (desc.share, pool.arena.desc.share) {
        (None, held) => Ok(held),
        (wanted, held) if wanted == held => Ok(held),
        (wanted, pool) => Err(Error::WrongShare { wanted, pool }),
    }
}
