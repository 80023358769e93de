//! Static constants: a fixed location in device memory. New content is staged once a frame.
//!
//! ```text
//!   create, update ──▶ pending: content by slot, the latest only
//!                          │ upload_statics, once a frame
//!                          ▼ sorted by pool and slot
//!   ring of the class  [ 3 │ 4 │ 5 │ 9 ]   adjacent slots are staged and copied as one
//!                          │ copies in the frame's batch: two barriers for each pool
//!                          ▼
//!   pools  ▢ ▢ ▢ ■ ■ ■ ▢ ▢ ▢ ■ ▢     never moved; released after a number of reclaims without a slot in use
//! ```
//!
//! A slot of a dropped buffer is handed out again once every submission that had begun at the drop is complete. Staged
//! content is kept until its frame is submitted. If the frame is discarded or dropped, the content is pending again,
//! unless newer content of the slot was set or staged meanwhile.

use std::fmt;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::device::lock::Lock;
use ringfence_core::retire::RetireQueue;
use ringfence_core::sync::SyncSet;
use ringfence_lockfree::clock::Watch;

use super::pending::{Contents, Gathered, Pending, SlotKey};
use super::pools::Pools;
use super::{BoundConstants, CLASS_BYTES, ConstantBuffers, ConstantViews, ConstantWriter, LARGE, Shared, classify};
use crate::device::{BufferUsage, Device};
use crate::fill::copy;
use crate::segment::divided_buffer;
use crate::{UploadBatch, UploadError};
use ringfence_memory::extend::{Passed, ReclaimRing, is_locked, retry_after_eviction, run_unlocked};
use ringfence_memory::memory::{Location, RingSnapshot};
use ringfence_memory::{Allocator, Buffer, Error};

/// Largest size of one write of staged content, in bytes: a page of the smallest class.
const RUN_BYTES_MAX: usize = 8 << 10;

/// A buffer in device memory that is divided into slots. A pool for large constants has one slot.
struct Pool<D: Device, V: ConstantViews<D>> {
    id: u64,
    class: usize,
    buffer: Buffer<D>,
    address: Option<u64>,
    slot_bytes: u64,
    heap: Option<V::Heap>,
    /// For each slot, `true` if it is in use. Changed only under the lock of `Locked`.
    in_use: Box<[AtomicBool]>,
}

impl<D: Device, V: ConstantViews<D>> Pool<D, V> {
    fn key(&self, slot: u32) -> SlotKey {
        SlotKey { pool: self.id, slot }
    }

    fn is_in_use(&self, slot: u32) -> bool {
        self.in_use[slot as usize].load(Ordering::Relaxed)
    }

    fn set_in_use(&self, slot: u32, in_use: bool) {
        self.in_use[slot as usize].store(in_use, Ordering::Relaxed);
    }
}

/// A slot and its pool.
struct Place<D: Device, V: ConstantViews<D>> {
    pool: Arc<Pool<D, V>>,
    /// The pool's index in its class.
    index: usize,
    slot: u32,
}

struct Locked<D: Device, V: ConstantViews<D>> {
    /// Pools of each class. Large constants are not listed: each has a pool of its own.
    pools: [Pools<Arc<Pool<D, V>>>; LARGE],
    /// Released slots: class, index of the pool, slot.
    retired: RetireQueue<(usize, usize, u32)>,
    contents: Contents<Arc<Pool<D, V>>>,
    large_count: usize,
    /// Number of calls of reclaim: the clock for empty pools.
    ticks: u64,
}

impl<D: Device, V: ConstantViews<D>> Locked<D, V> {
    fn take(&mut self, class: usize) -> Option<Place<D, V>> {
        let (pool, index, slot) = self.pools[class].take()?;
        pool.set_in_use(slot, true);
        Some(Place { pool, index, slot })
    }

    fn take_idle(&mut self, grace: u64) -> Option<Arc<Pool<D, V>>> {
        let ticks = self.ticks;
        self.pools.iter_mut().find_map(|pools| pools.take_idle(ticks, grace))
    }
}

/// The static pools of [`ConstantBuffers`].
pub(super) struct Statics<D: Device, V: ConstantViews<D>> {
    memory: Allocator<D>,
    books: Lock<Locked<D, V>>,
    /// Held while the buffer of a pool is created, so that usually only one thread creates a pool. Not held while the
    /// program's code creates the views. Never taken while `books` is held.
    making: Lock<()>,
    /// Number of calls of reclaim after which an empty pool is released.
    grace: u64,
}

impl<D: Device, V: ConstantViews<D>> Statics<D, V> {
    pub(super) fn new(memory: &Allocator<D>, shrink_after: u32) -> Arc<Self> {
        let books = Locked {
            pools: [(); LARGE].map(|()| Pools::new()),
            retired: RetireQueue::new(),
            contents: Contents::new(),
            large_count: 0,
            ticks: 0,
        };
        let statics = Arc::new(Self {
            memory: memory.clone(),
            books: Lock::new(books),
            making: Lock::new(()),
            grace: shrink_after.max(1).into(),
        });
        let listed: Arc<dyn ReclaimRing> = statics.clone();
        memory.shared().add_ring(&listed);
        statics
    }

    pub(super) fn pool_count(&self) -> usize {
        let books = self.books.lock();
        books.pools.iter().map(Pools::len).sum::<usize>() + books.large_count
    }

    /// Takes a free slot of the class, from a new pool if all pools are full.
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
        // The views are created by the program's code, so no lock is held.
        let pool = Arc::new(self.pool(shared, class, buffer, CLASS_BYTES[class], slots)?);
        let mut books = self.books.lock();
        let tick = books.ticks;
        books.pools[class].add(pool, slots, tick);
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
        let in_use = (0..slots).map(|_| AtomicBool::new(false)).collect();
        Ok(Pool { id, class, buffer, address, slot_bytes, heap, in_use })
    }
}

impl<D: Device, V: ConstantViews<D>> ReclaimRing for Statics<D, V> {
    fn reclaim(&self, passed: &Passed, device_lost: bool, is_short: bool) -> bool {
        let mut books = self.books.lock();
        let Locked { pools, retired, ticks, .. } = &mut *books;
        *ticks += u64::from(!is_short);
        let mut free = |(class, index, slot): (usize, usize, u32)| pools[class].free(index, slot, *ticks);
        if device_lost {
            retired.release_all(&mut free);
        } else {
            retired.reclaim(passed, &mut free);
        }
        pools.iter_mut().any(|pools| pools.has_idle(*ticks, self.grace))
    }

    fn upkeep(&self) {
        // The program's code drops the views of a pool. If this thread holds a lock, the next reclaim tries again.
        if !is_locked() {
            let idle = || self.books.lock().take_idle(self.grace);
            std::iter::from_fn(idle).for_each(drop);
        }
    }

    fn figures(&self) -> Option<RingSnapshot> {
        None
    }
}

/// Frees a slot if the program's code panics while it creates the slot's view.
struct Untaken<'a, D: Device, V: ConstantViews<D>> {
    statics: &'a Statics<D, V>,
    pool: &'a Pool<D, V>,
    index: usize,
    slot: u32,
}

impl<D: Device, V: ConstantViews<D>> Drop for Untaken<'_, D, V> {
    fn drop(&mut self) {
        let mut books = self.statics.books.lock();
        self.pool.set_in_use(self.slot, false);
        if self.pool.class == LARGE {
            books.large_count -= 1;
            return;
        }
        // No submission uses the slot.
        let tick = books.ticks;
        books.pools[self.pool.class].free(self.index, self.slot, tick);
    }
}

/// A constant buffer in device memory whose content rarely changes, at a fixed location. Created by
/// [`ConstantBuffers::create_static`].
///
/// If it is dropped, its slot is handed out again once every submission that had begun at the drop is complete.
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
            pool.set_in_use(0, true);
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
        shared.statics.books.lock().contents.pending.put(pool.key(slot), &pool, content);
        Ok(Self { shared, pool, index, slot, bound })
    }

    /// Returns the location of the constants for shaders. It never changes.
    #[must_use]
    pub fn bound(&self) -> &BoundConstants<D, V::View> {
        &self.bound
    }

    /// Sets new content; the rest of the slot becomes 0. The next [`ConstantBuffers::upload_statics`] stages the
    /// content, and adds the copy to its batch. If several updates precede that call, only the last one is uploaded.
    /// The frame of the upload, and later frames on the same queue, read the new content.
    ///
    /// # Errors
    /// [`UploadError::ZeroSize`]; or [`UploadError::TooLarge`] if the content does not fit into its slot. After an
    /// error, the content is unchanged.
    pub fn update(&mut self, content: &[u8]) -> Result<(), UploadError> {
        let (size, capacity) = (content.len() as u64, self.pool.slot_bytes);
        match size {
            0 => return Err(UploadError::ZeroSize),
            _ if size > capacity => return Err(UploadError::TooLarge { size, capacity }),
            _ => {}
        }
        self.shared.statics.books.lock().contents.pending.put(self.pool.key(self.slot), &self.pool, content);
        Ok(())
    }
}

impl<D: Device, V: ConstantViews<D>> Drop for StaticConstants<D, V> {
    fn drop(&mut self) {
        let place = Place { pool: Arc::clone(&self.pool), index: self.index, slot: self.slot };
        let shared = Arc::clone(&self.shared);
        run_unlocked(move || shared.statics.release(place));
    }
}

impl<D: Device, V: ConstantViews<D>> Statics<D, V> {
    /// Releases the slot of a dropped buffer.
    fn release(&self, Place { pool, index, slot }: Place<D, V>) {
        let mut users = SyncSet::new();
        self.memory.shared().begun(&mut users);
        let mut books = self.books.lock();
        books.contents.remove(pool.key(slot));
        pool.set_in_use(slot, false);
        if pool.class == LARGE {
            // The buffer is dropped with the last reference to the pool, here or in a thread that stages its content.
            books.large_count -= 1;
        } else {
            books.retired.retire(&users, (pool.class, index, slot));
        }
        drop(books);
    }
}

impl<D: Device, V: ConstantViews<D>> fmt::Debug for StaticConstants<D, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticConstants").field("bound", &self.bound).finish_non_exhaustive()
    }
}

/// A list of contents that is being staged for a frame. On drop, also after an error or a panic, the staged contents
/// are kept until the frame is submitted, and the remaining ones are pending again.
struct Staging<'a, D: Device, V: ConstantViews<D>> {
    statics: &'a Statics<D, V>,
    gathered: Gathered<Arc<Pool<D, V>>>,
    /// Number of list entries that are staged.
    done: usize,
    watch: Option<Watch>,
}

impl<D: Device, V: ConstantViews<D>> Staging<'_, D, V> {
    /// Stages the contents of the list, until all are staged or a write fails.
    fn stage_all(&mut self, writer: &mut ConstantWriter<D, V>, batch: &mut UploadBatch<D>) -> Result<(), UploadError> {
        let Gathered { list, bytes, .. } = &self.gathered;
        while self.done < list.len() {
            let mut run = run_length(&list[self.done..]);
            loop {
                match stage(&list[self.done..self.done + run], bytes, writer, batch) {
                    Ok(()) => break,
                    // A shorter run may fit.
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
        let mut gathered = std::mem::replace(&mut self.gathered, Gathered::new());
        let Some(watch) = self.watch.take() else { return };
        let mut rest: Vec<_> = gathered.list.drain(self.done..).collect();
        // The removed entries may have the last references to their pools, so they are dropped without the lock.
        let mut gone = Vec::new();
        let mut books = self.statics.books.lock();
        for list in [&mut gathered.list, &mut rest] {
            list.retain(|Pending { key, pool, .. }| {
                let is_in_use = pool.is_in_use(key.slot);
                gone.extend((!is_in_use).then(|| Arc::clone(pool)));
                is_in_use
            });
        }
        books.contents.put_back(gathered, rest, watch);
        drop(books);
    }
}

impl<D: Device, V: ConstantViews<D>> Statics<D, V> {
    /// Stages all contents that were set since the last call, and returns their number.
    pub(super) fn upload(
        &self,
        writer: &mut ConstantWriter<D, V>,
        batch: &mut UploadBatch<D>,
    ) -> Result<u64, UploadError> {
        let watch = Some(writer.stager(0).watch());
        // Staging may call the program's code, which must run without a lock, so the contents are taken out first.
        let mut gathered = self.books.lock().contents.take();
        gathered.list.sort_unstable_by_key(|pending| (pending.pool.class, pending.key));
        let mut staging = Staging { statics: self, gathered, done: 0, watch };
        let staged = staging.stage_all(writer, batch);
        let done = staging.done as u64;
        writer.count_static(done);
        staged.map(|()| done)
    }
}

/// Returns the length of the run of adjacent slots at the start of the list, limited to [`RUN_BYTES_MAX`] bytes.
fn run_length<D: Device, V: ConstantViews<D>>(list: &[Pending<Arc<Pool<D, V>>>]) -> usize {
    let most = (RUN_BYTES_MAX as u64 / list[0].pool.slot_bytes).max(1) as usize;
    let follows = |pair: &[Pending<Arc<Pool<D, V>>>]| {
        pair[0].key.pool == pair[1].key.pool && pair[0].key.slot + 1 == pair[1].key.slot
    };
    let run = 1 + list.windows(2).take_while(|pair| follows(pair)).count();
    run.min(most)
}

/// Stages adjacent slots with one write and one copy.
fn stage<D: Device, V: ConstantViews<D>>(
    run: &[Pending<Arc<Pool<D, V>>>],
    bytes: &[u8],
    writer: &mut ConstantWriter<D, V>,
    batch: &mut UploadBatch<D>,
) -> Result<(), UploadError> {
    let Pending { key, pool, .. } = &run[0];
    let slot = pool.slot_bytes as usize;
    let size = (run.len() * slot) as u64;
    let staged = writer.stager(pool.class).write_with(size, super::ALIGNMENT, |to| {
        for (pending, to) in run.iter().zip(to.chunks_exact_mut(slot)) {
            let content = pending.content(bytes);
            let (to, rest) = to.split_at_mut(content.len());
            copy(content, to);
            rest.fill(MaybeUninit::new(0));
        }
    })?;
    batch.copy_constants(&staged, &pool.buffer, u64::from(key.slot) * pool.slot_bytes)
}
