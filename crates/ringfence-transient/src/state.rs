//! The heaps and objects of a transient allocator, and the search for an object.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::marker::PhantomData;
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::barrier::Barriers;
use super::desc::{TransientDesc, TransientFigures};
use super::error::TransientError;
use super::frame::Described;
use super::handle::Transient;
use super::heap::{Cache, Fit, Heap, Object, ObjectKey, Tenancy, TransientKind, WordHasher};
use super::order::Order;
use super::pass::{Clock, Pass, TransientId};
use super::plans::Plans;
use super::spans::{NO_OBJECT, Spans};
use crate::device::{Buffers, Create, Device, DeviceError, Requirements, ResourceClass, Textures};
use ringfence_memory::extend::{Backing, Place, Shared};
use ringfence_memory::memory::Location;
use ringfence_memory::trace::Event;
use ringfence_memory::{AllocationDesc, Allocator, Dedicated, Error};

/// Minimum alignment of a heap, in bytes.
const HEAP_ALIGNMENT: u64 = 64 << 10;

/// State of a transient allocator: its heaps, objects and plans.
pub(super) struct State<D: Device> {
    pub(super) shared: Arc<Shared<D>>,
    pub(super) desc: TransientDesc<'static>,
    pub(super) name: Box<str>,
    /// Source location at which the allocator was created.
    at: &'static panic::Location<'static>,
    /// Number of this transient allocator in its passes and handles. Passes and handles with another number are
    /// rejected.
    pub(super) owner: u32,
    pub(super) order: Order,
    pub(super) barriers: Barriers,
    /// Heaps by number; `None` if the heap was moved to the cache.
    pub(super) heaps: Vec<Option<Heap<D>>>,
    /// Cache of empty heaps.
    pub(super) idle_heaps: Vec<Heap<D>>,
    /// Objects by number; `None` for a released object.
    pub(super) objects: Vec<Option<Object<D>>>,
    pub(super) free_objects: Vec<u32>,
    /// For each object number, the number of released objects that had this number.
    pub(super) generations: Vec<u32>,
    /// Objects with dedicated memory.
    pub(super) solo: Cache,
    /// Memory requirements, by description.
    measured: HashMap<ObjectKey, Requirements, BuildHasherDefault<WordHasher>>,
    /// For each heap, the end of the highest range that this execution has used, in bytes.
    pub(super) peaks: Vec<u64>,
    /// Numbers of the objects that this execution has acquired. An object may be listed twice.
    pub(super) acquired: Vec<u32>,
    /// Scratch list for `release_unused`, kept to reuse its allocation.
    pub(super) scratch: Vec<(u64, u32)>,
    pub(super) plans: Plans,
    pub(super) execution: u64,
    pub(super) frame: u64,
    pub(super) figures: TransientFigures,
    pub(super) acquires: u32,
    /// `true` from the begin of an execution to its end.
    pub(super) is_open: bool,
}

/// Maximum number of cached memory requirements.
const MEASURED_MAX: usize = 4096;

/// A request for an object.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) key: Option<ObjectKey>,
    pub(super) needs: Requirements,
    pub(super) name: &'a str,
}

impl<D: Device> State<D> {
    pub(super) fn new(memory: &Allocator<D>, desc: TransientDesc<'_>, at: &'static panic::Location<'static>) -> Self {
        static OWNERS: AtomicU32 = AtomicU32::new(1);
        let owner = OWNERS.fetch_add(1, Ordering::Relaxed);
        Self {
            shared: Arc::clone(memory.shared()),
            name: desc.name.into(),
            at,
            desc: TransientDesc { name: "", ..desc },
            owner,
            order: Order::new(owner).of_allocator(memory.shared().owner()),
            barriers: Barriers::default(),
            heaps: Vec::new(),
            idle_heaps: Vec::new(),
            objects: Vec::new(),
            free_objects: Vec::new(),
            generations: Vec::new(),
            solo: Cache::default(),
            measured: HashMap::default(),
            peaks: Vec::new(),
            acquired: Vec::new(),
            scratch: Vec::new(),
            plans: Plans::default(),
            execution: 0,
            frame: 0,
            figures: TransientFigures::default(),
            acquires: 0,
            is_open: false,
        }
    }

    pub(super) fn start(&mut self) {
        self.end_forgotten();
        self.is_open = true;
        let Self { order, shared, .. } = self;
        order.refresh(|timeline| shared.seen(timeline));
        self.execution += 1;
        self.acquired.clear();
        self.barriers.begin();
        self.peaks.fill(0);
        self.figures.begin();
    }

    /// Returns the id of the present object with this number.
    fn id_of(&self, object: u32) -> TransientId {
        TransientId { owner: self.owner, object, generation: self.generations[object as usize] }
    }

    pub(super) fn object_of<K: TransientKind>(&self, handle: Transient<K>) -> Result<&Object<D>, TransientError> {
        let current = handle.owner == self.owner && handle.execution == self.execution;
        let object = self.objects.get(handle.object as usize).and_then(Option::as_ref).filter(|_| current);
        object.ok_or(TransientError::Stale { id: handle.id() })
    }

    /// Returns the object as [`State::object_of`] does. Fails if the object was acquired again, or if it was discarded
    /// and another resource was acquired over its bytes. In a planned frame, does not fail for these reasons: every
    /// resource has its bytes during its passes, whenever they are recorded.
    pub(super) fn own_object_of<K: TransientKind>(&self, handle: Transient<K>) -> Result<&Object<D>, TransientError> {
        let object = self.object_of(handle)?;
        let other = match object.heap {
            _ if !self.plans.placed.is_empty() => None,
            _ if object.last_acquire != handle.acquire => Some(handle.object),
            Some(heap) if object.tenancy.is_none() => {
                let spans = self.heaps[heap as usize].as_ref().map(|heap| &heap.spans);
                let touching =
                    spans.map_or(&[][..], |spans| spans.touching(object.offset, object.offset + object.size));
                touching.iter().map(|span| span.tenant).find(|tenant| ![handle.object, NO_OBJECT].contains(tenant))
            }
            _ => None,
        };
        let taken = |object| TransientError::Taken { id: handle.id(), by: self.id_of(object) };
        other.map_or(Ok(object), |other| Err(taken(other)))
    }

    pub(super) fn figures(&self) -> TransientFigures {
        let bytes = |heaps: &mut dyn Iterator<Item = &Heap<D>>| {
            heaps.fold((0, 0), |(count, bytes), heap| (count + 1, bytes + heap.bytes))
        };
        let (heap_count, heap_bytes) = bytes(&mut self.heaps.iter().flatten());
        let (idle_heap_count, idle_heap_bytes) = bytes(&mut self.idle_heaps.iter());
        let list = self.barriers.list();
        TransientFigures {
            heap_count,
            heap_bytes,
            idle_heap_count,
            idle_heap_bytes,
            object_count: self.objects.len() - self.free_objects.len(),
            peak_bytes: self.peaks.iter().sum::<u64>() + self.solo_bytes(),
            aliasing_count: list.iter().filter(|barrier| barrier.aliases).count(),
            dependency_count: list.iter().filter(|barrier| barrier.depends).count(),
            ..self.figures
        }
    }

    /// Returns the size of the objects with dedicated memory that this execution uses, in bytes.
    fn solo_bytes(&self) -> u64 {
        let used = |object: &&Object<D>| object.heap.is_none() && object.last_execution == self.execution;
        self.objects.iter().flatten().filter(used).map(|object| object.size).sum()
    }

    /// Returns the memory requirements for a description, and its key. Caches up to [`MEASURED_MAX`] requirements;
    /// calls the driver for others, and for a description without a key.
    pub(super) fn measure<K: TransientKind>(
        &mut self,
        info: &<D as Create<K>>::Info<'_>,
    ) -> Result<(Option<ObjectKey>, Requirements), TransientError>
    where
        D: Create<K>,
    {
        let key = Create::<K>::key(&self.shared.device, info).map(ObjectKey::new::<K>);
        if let Some(needs) = key.and_then(|key| self.measured.get(&key)) {
            return Ok((key, *needs));
        }
        let needs = self.shared.measure::<K>(info)?;
        let max = self.shared.device.capabilities().memory_object_bytes_max;
        if needs.size > max {
            return Err(Error::TooLarge { size: needs.size, max }.into());
        }
        if let Some(key) = key {
            if self.measured.len() >= MEASURED_MAX {
                self.measured.clear();
            }
            self.measured.insert(key, needs);
        }
        Ok((key, needs))
    }

    pub(super) fn measure_any(
        &mut self,
        info: Described<'_, '_, D>,
    ) -> Result<(Option<ObjectKey>, Requirements), TransientError> {
        match info {
            Described::Buffer(info) => self.measure::<Buffers>(info),
            Described::Texture(info) => self.measure::<Textures>(info),
        }
    }

    /// Returns an object for a pass that begins at `clock`, without a planned offset: a cached object, or a new one.
    pub(super) fn find_or_make<K: TransientKind>(
        &mut self,
        info: &<D as Create<K>>::Info<'_>,
        wanted: Wanted<'_>,
        clock: &Clock,
    ) -> Result<u32, TransientError>
    where
        D: Create<K>,
    {
        if wanted.needs.requires_dedicated {
            return self.find_or_make_solo::<K>(info, wanted, clock);
        }
        let (heap, fit) = self.find_fit(wanted, clock)?;
        match fit.object {
            Some(object) => {
                self.figures.hits += 1;
                Ok(object)
            }
            None => self.make_in_heap::<K>(info, wanted, heap, fit.offset),
        }
    }

    /// Returns a location in an existing heap or in a new one. Tries the memory types in order of preference.
    fn find_fit(&mut self, wanted: Wanted<'_>, clock: &Clock) -> Result<(u32, Fit), TransientError> {
        let shared = Arc::clone(&self.shared);
        let bits = wanted.needs.memory_type_bits;
        let mut result = Err(Error::NoMemoryType { location: Location::Device, memory_type_bits: bits }.into());
        for memory_type in shared.candidates(Location::Device, bits) {
            let arena = shared.arena_index(memory_type, wanted.needs.class);
            result = self.find_in_arena(arena, wanted, clock);
            match &result {
                Err(TransientError::Memory(error)) if error.may_fit_elsewhere() => {}
                _ => break,
            }
        }
        result
    }

    fn find_in_arena(&mut self, arena: u32, wanted: Wanted<'_>, clock: &Clock) -> Result<(u32, Fit), TransientError> {
        let Wanted { key, needs, .. } = wanted;
        let find = |heap: &Heap<D>| {
            let fits = heap.arena == arena && heap.alignment >= needs.alignment;
            fits.then(|| heap.find(key.as_ref(), needs.size, needs.alignment, clock)).flatten()
        };
        for (number, heap) in (0..).zip(&self.heaps) {
            if let Some(fit) = heap.as_ref().filter(|heap| !heap.is_planned).and_then(find) {
                return Ok((number, fit));
            }
        }
        if let Some((at, fit)) = (0..).zip(&self.idle_heaps).find_map(|(at, heap)| Some((at, find(heap)?))) {
            let heap = self.idle_heaps.remove(at);
            return Ok((self.add_heap(Heap { is_planned: false, ..heap }), fit));
        }
        let heap = self.make_heap(arena, needs.size.max(self.desc.heap_bytes), needs)?;
        Ok((self.add_heap(heap), Fit { offset: 0, object: None }))
    }

    /// Creates a heap of `bytes` bytes. If there is no memory for it, creates a heap for the request alone.
    pub(super) fn make_heap(&self, arena: u32, bytes: u64, needs: Requirements) -> Result<Heap<D>, TransientError> {
        let capabilities = self.shared.device.capabilities();
        let group = |class: ResourceClass| capabilities.class_groups[class as usize];
        let holds_targets = group(needs.class) == group(ResourceClass::RenderTarget);
        let for_targets = if holds_targets { capabilities.target_memory_alignment } else { 1 };
        let alignment = needs.alignment.max(HEAP_ALIGNMENT).max(for_targets);
        let max = capabilities.memory_object_bytes_max;
        if needs.size > max {
            return Err(Error::TooLarge { size: needs.size, max }.into());
        }
        let rounded = |bytes: u64| bytes.checked_next_multiple_of(HEAP_ALIGNMENT).map_or(max, |bytes| bytes.min(max));
        let mut made = Err(DeviceError::OutOfDeviceMemory.into());
        for bytes in [rounded(bytes), rounded(needs.size)] {
            let backing = self.shared.make_heap(arena, bytes, alignment, &self.name, self.at);
            made = backing.map(|backing| (backing, bytes));
            if !made.as_ref().is_err_and(Error::may_fit_elsewhere) {
                break;
            }
        }
        let (Backing::Heap { memory, number, .. }, bytes) = made? else { unreachable!("a heap was requested") };
        self.shared.device.note_aliasing(&memory.object, 0, bytes, true);
        Ok(Heap {
            whole: Arc::new(Place::heap(memory, arena, number)),
            arena,
            bytes,
            alignment,
            spans: Spans::new(bytes),
            cache: Cache::default(),
            object_count: 0,
            is_planned: false,
            idle_since: None,
            last_plan: None,
        })
    }

    pub(super) fn add_heap(&mut self, heap: Heap<D>) -> u32 {
        let heap = Heap { idle_since: None, ..heap };
        match self.heaps.iter().position(Option::is_none) {
            Some(number) => {
                self.heaps[number] = Some(heap);
                number as u32
            }
            None => {
                self.heaps.push(Some(heap));
                self.peaks.push(0);
                self.heaps.len() as u32 - 1
            }
        }
    }

    pub(super) fn heap(&mut self, number: u32) -> &mut Heap<D> {
        self.heaps[number as usize].as_mut().expect("a heap is not released while it has objects or is being filled")
    }

    pub(super) fn object(&mut self, number: u32) -> &mut Object<D> {
        self.objects[number as usize].as_mut().expect("an acquired object is not released before the flush")
    }

    /// Creates an object at an offset of a heap, regardless of other objects at these bytes.
    pub(super) fn make_in_heap<K: TransientKind>(
        &mut self,
        info: &<D as Create<K>>::Info<'_>,
        wanted: Wanted<'_>,
        heap: u32,
        offset: u64,
    ) -> Result<u32, TransientError>
    where
        D: Create<K>,
    {
        let shared = Arc::clone(&self.shared);
        let place = Place::aliased(&self.heap(heap).whole, offset);
        let desc = AllocationDesc { name: wanted.name, location: Location::Device, ..Default::default() };
        // SAFETY: the returned object was placed here. Descriptions with equal keys have equal requirements (see
        // `Create::key`), and a description without a key was measured for this acquire. So the heap has the right
        // memory type and class, and the range is inside it and aligned.
        let ((placed, place), _) =
            unsafe { shared.create_with::<K>(info, desc, |unplaced, _| Ok(shared.place_at::<K>(unplaced, place)?)) }?;
        let traced = shared.transient_number();
        // SAFETY: this allocator has just created the place.
        let block = unsafe { shared.memory_under(&place) }.block;
        shared.record(|| Event::TransientMade {
            object: traced,
            block,
            offset,
            bytes: wanted.needs.size,
            name: wanted.name,
        });
        let object = self.add_object::<K>((placed.object, info), place, wanted, Some((heap, offset)), traced);
        let heap = self.heap(heap);
        heap.object_count += 1;
        if let Some(key) = wanted.key {
            heap.cache.insert(key, offset, object);
        }
        Ok(object)
    }

    /// Returns an object with dedicated memory: a cached object, or a new one.
    fn find_or_make_solo<K: TransientKind>(
        &mut self,
        info: &<D as Create<K>>::Info<'_>,
        wanted: Wanted<'_>,
        clock: &Clock,
    ) -> Result<u32, TransientError>
    where
        D: Create<K>,
    {
        let free = |number: u32| {
            let object = self.objects[number as usize].as_ref();
            object.is_some_and(|object| object.tenancy.is_none() && clock.covers(&object.users))
        };
        let made = wanted.key.as_ref().map_or(&[][..], |key| self.solo.all(key));
        if let Some(&(_, object)) = made.iter().find(|(_, object)| free(*object)) {
            self.figures.hits += 1;
            return Ok(object);
        }
        let dedicated = Dedicated::Always;
        let desc = AllocationDesc { name: wanted.name, location: Location::Device, dedicated, ..Default::default() };
        let ((placed, place), _) = self.shared.create::<K>(info, desc)?;
        // SAFETY: this allocator has just created the place.
        unsafe { self.shared.note_line(&place, self.at) };
        let object = self.add_object::<K>((placed.object, info), place, wanted, None, 0);
        if let Some(key) = wanted.key {
            self.solo.insert(key, u64::from(object), object);
        }
        Ok(object)
    }

    /// Adds a new object and returns its number. `heap` contains the number of the heap, and the object's offset in the
    /// heap; `None` for dedicated memory.
    fn add_object<K: TransientKind>(
        &mut self,
        (object, info): (<D as Create<K>>::Object, &<D as Create<K>>::Info<'_>),
        place: Place<D>,
        wanted: Wanted<'_>,
        heap: Option<(u32, u64)>,
        traced: u64,
    ) -> u32
    where
        D: Create<K>,
    {
        self.figures.misses += 1;
        let texture = Create::<K>::portable(&self.shared.device, info).and_then(K::texture_desc);
        let object = Object {
            raw: K::raw(object),
            place,
            key: wanted.key,
            heap: heap.map(|(heap, _)| heap),
            offset: heap.map_or(0, |(_, offset)| offset),
            size: wanted.needs.size,
            is_texture: K::IS_TEXTURE,
            texture,
            traced,
            tenancy: None,
            users: Clock::default(),
            is_forgotten: false,
            last_acquire: 0,
            last_frame: self.frame,
            last_execution: self.execution,
        };
        match self.free_objects.pop() {
            Some(number) => {
                self.objects[number as usize] = Some(object);
                number
            }
            None => {
                self.objects.push(Some(object));
                self.generations.push(0);
                self.objects.len() as u32 - 1
            }
        }
    }

    /// Makes the object the owner of its bytes from `pass` on, and records the barriers. If `over` is given, the bytes
    /// are freed immediately, and can be reused once the passes of `over` are over.
    pub(super) fn occupy(&mut self, number: u32, pass: Pass, over: Option<Clock>) {
        let (frame, execution) = (self.frame, self.execution);
        let Self { objects, generations, heaps, barriers, peaks, figures, .. } = self;
        let object = objects[number as usize].as_mut().expect("the object was just found or created");
        object.last_frame = frame;
        object.last_execution = execution;
        let kind = (object.is_texture, std::mem::take(&mut object.is_forgotten));
        figures.requested_bytes += object.size;
        match object.heap {
            Some(heap_number) => {
                let heap = heaps[heap_number as usize].as_mut().expect("the heap of an object is not released");
                let past = heap.spans.touching(object.offset, object.offset + object.size);
                let past = past.iter().map(|span| (span.tenant, &span.users));
                barriers.acquire(pass, number, generations, kind, past);
                match over {
                    Some(users) => heap.spans.free(object.offset, object.size, number, users),
                    None => heap.spans.take(object.offset, object.size, number),
                }
                heap.last_plan = None;
                let peak = &mut peaks[heap_number as usize];
                *peak = (*peak).max(object.offset + object.size);
            }
            None => barriers.acquire(pass, number, generations, kind, std::iter::once((number, &object.users))),
        }
        if let Some(users) = over {
            object.tenancy = None;
            object.users = users;
        }
        self.acquired.push(number);
    }

    /// Frees the object's bytes. They can be reused once the passes of `users` are over.
    pub(super) fn vacate(&mut self, number: u32, users: Clock) {
        let object = self.object(number);
        object.tenancy = None;
        object.users = users;
        let (offset, size) = (object.offset, object.size);
        if let Some(heap) = object.heap {
            self.heap(heap).spans.free(offset, size, number, users);
        }
    }

    /// Returns the handle of an object that was just occupied, and marks the object as in use.
    pub(super) fn handle<K>(&mut self, object: u32, first: Pass) -> Transient<K> {
        self.acquires = self.acquires.wrapping_add(1);
        let acquire = self.acquires;
        let held = self.object(object);
        (held.tenancy, held.last_acquire) = (Some(Tenancy { first, acquire }), acquire);
        let generation = self.generations[object as usize];
        Transient { owner: self.owner, object, execution: self.execution, acquire, generation, kind: PhantomData }
    }
}
