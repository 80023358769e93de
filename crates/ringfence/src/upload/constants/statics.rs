//! Static constants: a place in device memory for life, and new content staged once a frame.
//!
//! ```text
//!   create, update ──▶ pending: content by slot, the latest only
//!                          │ upload_statics, once a frame
//!                          ▼ sorted by pool and slot
//!   ring of the class  [ 3 │ 4 │ 5 │ 9 ]   slots that are neighbours are staged and copied as one
//!                          │ copies in the frame's batch: two barriers a pool
//!                          ▼
//!   pools  ▢ ▢ ▢ ■ ■ ■ ▢ ▢ ▢ ■ ▢     never moved, never dropped while the buffers exist
//! ```
//!
//! A slot that is released is given out again once every submission that had begun by then is complete.

use std::collections::HashMap;
use std::fmt;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use ringfence_core::retire::RetireQueue;
use ringfence_core::sync::SyncSet;

use super::{BoundConstants, CLASS_BYTES, ConstantBuffers, ConstantViews, ConstantWriter, LARGE, Shared, classify};
use crate::device::{BufferUsage, Device};
use crate::upload::fill::copy;
use crate::upload::segment::divided_buffer;
use crate::upload::{UploadBatch, UploadError};
use ringfence_memory::extend::{Lock, Passed, ReclaimRing, retry_after_eviction};
use ringfence_memory::memory::{Location, RingSnapshot};
use ringfence_memory::{Allocator, Buffer, Error};

/// What one write of staged content has at most, in bytes: a page of the smallest class.
const RUN_BYTES_MAX: usize = 8 << 10;

/// A buffer in device memory, cut into slots; for large constants one slot.
struct Pool<D: Device, V: ConstantViews<D>> {
    id: u64,
    class: usize,
    buffer: Buffer<D>,
    address: Option<u64>,
    slot_bytes: u64,
    heap: Option<V::Heap>,
    /// Set when the only slot of a large pool is released.
    gone: AtomicBool,
}

/// A slot of a pool, as a key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct SlotKey {
    pool: u64,
    slot: u32,
}

/// A slot and its pool.
struct Place<D: Device, V: ConstantViews<D>> {
    pool: Arc<Pool<D, V>>,
    /// The pool's index in its class.
    index: usize,
    slot: u32,
}

/// Content that is not on the device yet.
struct Pending<D: Device, V: ConstantViews<D>> {
    key: SlotKey,
    pool: Arc<Pool<D, V>>,
    /// Where it stands in the bytes that go with the list.
    first: usize,
    size: usize,
}

/// What is to be staged: the latest content of each slot.
struct Gathered<D: Device, V: ConstantViews<D>> {
    list: Vec<Pending<D, V>>,
    bytes: Vec<u8>,
    /// Where a slot stands in the list.
    known: HashMap<SlotKey, u32>,
}

impl<D: Device, V: ConstantViews<D>> Gathered<D, V> {
    fn new() -> Self {
        Self { list: Vec::new(), bytes: Vec::new(), known: HashMap::new() }
    }

    fn put(&mut self, pool: &Arc<Pool<D, V>>, slot: u32, content: &[u8]) {
        let key = SlotKey { pool: pool.id, slot };
        if let Some(&index) = self.known.get(&key) {
            let held = &mut self.list[index as usize];
            if content.len() <= held.size {
                self.bytes[held.first..][..content.len()].copy_from_slice(content);
            } else {
                held.first = self.bytes.len();
                self.bytes.extend_from_slice(content);
            }
            held.size = content.len();
            return;
        }
        let (first, size) = (self.bytes.len(), content.len());
        self.bytes.extend_from_slice(content);
        self.known.insert(key, self.list.len() as u32);
        self.list.push(Pending { key, pool: Arc::clone(pool), first, size });
    }

    fn remove(&mut self, key: SlotKey) {
        let Some(index) = self.known.remove(&key) else { return };
        self.list.swap_remove(index as usize);
        if let Some(moved) = self.list.get(index as usize) {
            self.known.insert(moved.key, index);
        }
    }

    fn clear(&mut self) {
        self.list.clear();
        self.bytes.clear();
        self.known.clear();
    }
}

/// A pool and which of its slots are free.
struct Listed<D: Device, V: ConstantViews<D>> {
    pool: Arc<Pool<D, V>>,
    free: Vec<u32>,
    in_use: Vec<bool>,
}

struct Books<D: Device, V: ConstantViews<D>> {
    /// By class; none for large constants.
    pools: [Vec<Listed<D, V>>; LARGE],
    /// Slots that were released, by class, index of the pool and slot.
    retired: RetireQueue<(usize, usize, u32)>,
    pending: Gathered<D, V>,
    large_count: usize,
}

impl<D: Device, V: ConstantViews<D>> Books<D, V> {
    fn take(&mut self, class: usize) -> Option<Place<D, V>> {
        let (index, listed) = self.pools[class].iter_mut().enumerate().find(|(_, listed)| !listed.free.is_empty())?;
        let slot = listed.free.pop()?;
        listed.in_use[slot as usize] = true;
        Some(Place { pool: Arc::clone(&listed.pool), index, slot })
    }

    fn is_in_use(&self, pool: &Pool<D, V>, slot: u32) -> bool {
        match self.pools.get(pool.class) {
            Some(pools) => {
                let listed = pools.iter().find(|listed| listed.pool.id == pool.id);
                listed.is_some_and(|listed| listed.in_use[slot as usize])
            }
            None => !pool.gone.load(Ordering::Acquire),
        }
    }
}

/// The static pools of [`ConstantBuffers`].
pub(super) struct Statics<D: Device, V: ConstantViews<D>> {
    memory: Allocator<D>,
    books: Mutex<Books<D, V>>,
    /// Held while a pool is made, so that one is made and not one a thread. Never taken under `books`.
    making: Lock<()>,
    /// Room for what is being staged: empty, and kept so that a steady frame makes nothing.
    staging: Mutex<Gathered<D, V>>,
}

impl<D: Device, V: ConstantViews<D>> Statics<D, V> {
    pub(super) fn new(memory: &Allocator<D>) -> Arc<Self> {
        let books = Books {
            pools: [const { Vec::new() }; LARGE],
            retired: RetireQueue::new(),
            pending: Gathered::new(),
            large_count: 0,
        };
        let statics = Arc::new(Self {
            memory: memory.clone(),
            books: Mutex::new(books),
            making: Lock::new(()),
            staging: Mutex::new(Gathered::new()),
        });
        let listed: Arc<dyn ReclaimRing> = statics.clone();
        memory.shared().add_ring(&listed);
        statics
    }

    pub(super) fn pool_count(&self) -> usize {
        let books = self.books.lock();
        books.pools.iter().map(Vec::len).sum::<usize>() + books.large_count
    }

    /// A slot of the class: a free one, or one of a new pool.
    fn take(&self, shared: &Shared<D, V>, class: usize) -> Result<Place<D, V>, Error> {
        if let Some(taken) = self.books.lock().take(class) {
            return Ok(taken);
        }
        let slots = shared.desc.static_slots.max(1);
        let made = retry_after_eviction(|| {
            let _making = self.making.lock();
            if let Some(taken) = self.books.lock().take(class) {
                return Ok(Err(taken));
            }
            self.buffer(shared, CLASS_BYTES[class], slots).map(Ok)
        });
        let buffer = match made? {
            Ok(buffer) => buffer,
            Err(taken) => return Ok(taken),
        };
        // Its views are made by the program's code: no lock is held.
        let pool = Arc::new(self.pool(shared, class, buffer, CLASS_BYTES[class], slots)?);
        let mut books = self.books.lock();
        let free = (0..slots).rev().collect();
        books.pools[class].push(Listed { pool, free, in_use: vec![false; slots as usize] });
        Ok(books.take(class).expect("all slots of a new pool are free"))
    }

    fn buffer(&self, shared: &Shared<D, V>, slot_bytes: u64, slots: u32) -> Result<Buffer<D>, Error> {
        let usage = shared.desc.usage | BufferUsage::COPY_DST;
        let (bytes, named) = (slot_bytes * u64::from(slots), (&*shared.name, shared.at));
        divided_buffer(&self.memory, bytes, usage, Location::Device, named)
    }

    fn pool(
        &self,
        shared: &Shared<D, V>,
        class: usize,
        buffer: Buffer<D>,
        slot_bytes: u64,
        slots: u32,
    ) -> Result<Pool<D, V>, Error> {
        static IDS: AtomicU64 = AtomicU64::new(0);
        let heap = if class == LARGE { None } else { Some(shared.views.make(&buffer, slot_bytes, slots)?) };
        let address = buffer.device_address();
        let id = IDS.fetch_add(1, Ordering::Relaxed);
        Ok(Pool { id, class, buffer, address, slot_bytes, heap, gone: AtomicBool::new(false) })
    }
}

impl<D: Device, V: ConstantViews<D>> ReclaimRing for Statics<D, V> {
    fn reclaim(&self, passed: &Passed, device_lost: bool) -> bool {
        let mut books = self.books.lock();
        let Books { pools, retired, .. } = &mut *books;
        let mut free = |(class, index, slot): (usize, usize, u32)| pools[class][index].free.push(slot);
        if device_lost {
            retired.release_all(&mut free);
        } else {
            retired.reclaim(passed, &mut free);
        }
        false
    }

    fn figures(&self) -> Option<RingSnapshot> {
        None
    }
}

/// A slot that goes back if the program's code, which makes its view, panics.
struct Untaken<'a, D: Device, V: ConstantViews<D>> {
    statics: &'a Statics<D, V>,
    pool: &'a Pool<D, V>,
    index: usize,
    slot: u32,
}

impl<D: Device, V: ConstantViews<D>> Drop for Untaken<'_, D, V> {
    fn drop(&mut self) {
        let mut books = self.statics.books.lock();
        if self.pool.class == LARGE {
            books.large_count -= 1;
            return;
        }
        // No submission knows it.
        let listed = &mut books.pools[self.pool.class][self.index];
        listed.in_use[self.slot as usize] = false;
        listed.free.push(self.slot);
    }
}

/// A constant buffer whose content rarely changes, in device memory, at one place for its life. Made by
/// [`ConstantBuffers::create_static`].
///
/// Dropping it releases its slot, which is given out again once every submission that had begun by then is complete.
pub struct StaticConstants<D: Device, V: ConstantViews<D>> {
    shared: Arc<Shared<D, V>>,
    pool: Arc<Pool<D, V>>,
    /// The pool's index in its class.
    index: usize,
    slot: u32,
    bound: BoundConstants<D, V::View>,
}

impl<D: Device, V: ConstantViews<D>> StaticConstants<D, V> {
    pub(super) fn new(buffers: &ConstantBuffers<D, V>, content: &[u8]) -> Result<Self, UploadError> {
        let shared = Arc::clone(&buffers.shared);
        let (class, bytes) = classify(content.len() as u64, ConstantBuffers::<D, V>::BYTES_MAX)?;
        let Place { pool, index, slot } = if class == LARGE {
            let buffer = shared.statics.buffer(&shared, bytes, 1)?;
            let pool = Arc::new(shared.statics.pool(&shared, LARGE, buffer, bytes, 1)?);
            shared.statics.books.lock().large_count += 1;
            Place { pool, index: 0, slot: 0 }
        } else {
            shared.statics.take(&shared, class)?
        };
        let untaken = Untaken { statics: &shared.statics, pool: &pool, index, slot };
        let offset = u64::from(slot) * pool.slot_bytes;
        let bound = BoundConstants {
            buffer: pool.buffer.object().clone(),
            offset,
            size: pool.slot_bytes,
            address: pool.address.map(|base| base + offset),
            view: pool.heap.as_ref().map(|heap| shared.views.view(heap, slot)),
        };
        std::mem::forget(untaken);
        shared.statics.books.lock().pending.put(&pool, slot, content);
        Ok(Self { shared, pool, index, slot, bound })
    }

    /// Where shaders find it, for its life.
    #[must_use]
    pub fn bound(&self) -> &BoundConstants<D, V::View> {
        &self.bound
    }

    /// Sets new content; the rest of its slot becomes 0. The content is on the device after the next
    /// [`ConstantBuffers::upload_statics`]; of several updates before that the last one is uploaded. The frame that
    /// uploads it and those after see it, on the queue that the upload is recorded for.
    ///
    /// # Errors
    /// [`UploadError::ZeroSize`]; [`UploadError::TooLarge`] if it does not fit into its slot. Nothing has changed then.
    pub fn update(&mut self, content: &[u8]) -> Result<(), UploadError> {
        let (size, capacity) = (content.len() as u64, self.pool.slot_bytes);
        match size {
            0 => return Err(UploadError::ZeroSize),
            _ if size > capacity => return Err(UploadError::TooLarge { size, capacity }),
            _ => {}
        }
        self.shared.statics.books.lock().pending.put(&self.pool, self.slot, content);
        Ok(())
    }
}

impl<D: Device, V: ConstantViews<D>> Drop for StaticConstants<D, V> {
    fn drop(&mut self) {
        let mut users = SyncSet::new();
        self.shared.memory.shared().begun(&mut users);
        let mut books = self.shared.statics.books.lock();
        books.pending.remove(SlotKey { pool: self.pool.id, slot: self.slot });
        if self.pool.class == LARGE {
            // The buffer goes with the last that holds the pool: a thread that stages it just now, or this one.
            self.pool.gone.store(true, Ordering::Release);
            books.large_count -= 1;
            return;
        }
        books.pools[self.pool.class][self.index].in_use[self.slot as usize] = false;
        books.retired.retire(&users, (self.pool.class, self.index, self.slot));
    }
}

impl<D: Device, V: ConstantViews<D>> fmt::Debug for StaticConstants<D, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticConstants").field("bound", &self.bound).finish_non_exhaustive()
    }
}

/// What is being staged. What is not when this is dropped, after an error or a panic, waits for the next time.
struct Staging<'a, D: Device, V: ConstantViews<D>> {
    statics: &'a Statics<D, V>,
    gathered: Gathered<D, V>,
    /// How many of the list are staged.
    done: usize,
}

impl<D: Device, V: ConstantViews<D>> Staging<'_, D, V> {
    /// Stages as much of the list as there is room for.
    fn stage_all(&mut self, writer: &mut ConstantWriter<D, V>, batch: &mut UploadBatch<D>) -> Result<(), UploadError> {
        let Gathered { list, bytes, .. } = &self.gathered;
        while self.done < list.len() {
            let mut run = run_length(&list[self.done..]);
            loop {
                match stage(&list[self.done..self.done + run], bytes, writer, batch) {
                    Ok(()) => break,
                    // Less of it may fit.
                    Err(UploadError::Full { .. } | UploadError::TooLarge { .. }) if run > 1 => run /= 2,
                    Err(error) => return Err(error),
                }
            }
            self.done += run;
        }
        Ok(())
    }
}

impl<D: Device, V: ConstantViews<D>> Drop for Staging<'_, D, V> {
    fn drop(&mut self) {
        self.statics.put_back(&self.gathered, self.done);
        self.gathered.clear();
        let room = std::mem::replace(&mut self.gathered, Gathered::new());
        let replaced = std::mem::replace(&mut *self.statics.staging.lock(), room);
        drop(replaced);
    }
}

impl<D: Device, V: ConstantViews<D>> Statics<D, V> {
    /// Stages what was given since the last time, and says how many buffers' content that is.
    pub(super) fn upload(
        &self,
        writer: &mut ConstantWriter<D, V>,
        batch: &mut UploadBatch<D>,
    ) -> Result<u64, UploadError> {
        let statics = self;
        // Taken out: room may have to be made, by the program's code, so that no lock is held. The lock of `staging` is
        // not held while the other is taken.
        let mut gathered = std::mem::replace(&mut *statics.staging.lock(), Gathered::new());
        std::mem::swap(&mut gathered, &mut statics.books.lock().pending);
        gathered.list.sort_unstable_by_key(|pending| (pending.pool.class, pending.key));
        let mut staging = Staging { statics, gathered, done: 0 };
        let staged = staging.stage_all(writer, batch);
        let done = staging.done as u64;
        writer.count_static(done);
        staged.map(|()| done)
    }

    /// What was not staged waits for the next time, unless it was released or given newer content meanwhile.
    fn put_back(&self, staging: &Gathered<D, V>, done: usize) {
        let mut books = self.books.lock();
        for Pending { key, pool, first, size } in &staging.list[done..] {
            if books.is_in_use(pool, key.slot) && !books.pending.known.contains_key(key) {
                books.pending.put(pool, key.slot, &staging.bytes[*first..][..*size]);
            }
        }
    }
}

/// How many of the first slots lie next to each other, up to what is staged at once.
fn run_length<D: Device, V: ConstantViews<D>>(list: &[Pending<D, V>]) -> usize {
    let most = (RUN_BYTES_MAX as u64 / list[0].pool.slot_bytes).max(1) as usize;
    let follows =
        |pair: &[Pending<D, V>]| pair[0].key.pool == pair[1].key.pool && pair[0].key.slot + 1 == pair[1].key.slot;
    let run = 1 + list.windows(2).take_while(|pair| follows(pair)).count();
    run.min(most)
}

/// Stages slots that lie next to each other as one.
fn stage<D: Device, V: ConstantViews<D>>(
    run: &[Pending<D, V>],
    bytes: &[u8],
    writer: &mut ConstantWriter<D, V>,
    batch: &mut UploadBatch<D>,
) -> Result<(), UploadError> {
    let Pending { key, pool, .. } = &run[0];
    let slot = pool.slot_bytes as usize;
    let size = (run.len() * slot) as u64;
    let staged = writer.stager(pool.class).write_with(size, super::ALIGNMENT, |to| {
        for (Pending { first, size, .. }, to) in run.iter().zip(to.chunks_exact_mut(slot)) {
            let (content, rest) = to.split_at_mut(*size);
            copy(&bytes[*first..][..*size], content);
            rest.fill(MaybeUninit::new(0));
        }
    })?;
    let fits = batch.copy(&staged, &pool.buffer, u64::from(key.slot) * pool.slot_bytes);
    fits.expect("a slot lies inside its pool");
    Ok(())
}
