//! One execution of a graph: passes, and the resources that they acquire and discard as they go.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use ringfence_core::sync::{SyncPoint, TimelineId};

use super::allocator::{TransientAllocator, Wanted};
use super::barrier::TransientId;
use super::error::TransientError;
use super::flush::Flushed;
use super::heap::{Tenancy, TransientKind};
use super::order::{Clock, Pass};
use crate::device::{BufferInfo, Buffers, Create, Device, TextureInfo, Textures};

/// A transient resource of the execution that acquired it. Stale once the next execution begins.
pub struct Transient<K> {
    pub(super) owner: u32,
    pub(super) object: u32,
    pub(super) execution: u64,
    /// Which acquire of the execution it was.
    pub(super) acquire: u32,
    pub(super) kind: PhantomData<K>,
}

/// A transient buffer. See [`Transient`].
pub type TransientBuffer = Transient<Buffers>;
/// A transient texture. See [`Transient`].
pub type TransientTexture = Transient<Textures>;

impl<K> Transient<K> {
    /// What barriers call it.
    #[must_use]
    pub fn id(self) -> TransientId {
        TransientId(self.object)
    }
}

impl<K> Clone for Transient<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Transient<K> {}

impl<K> PartialEq for Transient<K> {
    fn eq(&self, other: &Self) -> bool {
        let parts = |handle: &Self| (handle.owner, handle.object, handle.execution, handle.acquire);
        parts(self) == parts(other)
    }
}

impl<K> Eq for Transient<K> {}

impl<K> fmt::Debug for Transient<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Transient({} of execution {})", self.object, self.execution)
    }
}

/// A graph execution under way. Dropping it ends it like [`Execution::finish`] without points.
///
/// Everything of [`TransientAllocator`] that reads can be called on it.
pub struct Execution<'a, D: Device> {
    transient: &'a mut TransientAllocator<D>,
    is_over: bool,
}

impl<'a, D: Device> Execution<'a, D> {
    pub(super) fn new(transient: &'a mut TransientAllocator<D>) -> Self {
        Self { transient, is_over: false }
    }

    pub(super) fn transient(&mut self) -> &mut TransientAllocator<D> {
        self.transient
    }

    /// The next pass of a queue, which begins once the passes of `waits` are over. Those may be of earlier executions.
    ///
    /// Passes are numbered in the order in which their queue is given them; `waits` are what the caller makes the queue
    /// wait for, by semaphores or fences. O(waits).
    ///
    /// # Errors
    /// A pass of another transient allocator; a timeline of another allocator; or more than [`QUEUES_MAX`](super::QUEUES_MAX) queues.
    pub fn pass(&mut self, queue: TimelineId, waits: &[Pass]) -> Result<Pass, TransientError> {
        self.transient.order.pass(queue, waits)
    }

    /// A buffer from `pass` on. What it holds at first is of no meaning. See [`Execution::acquire_texture`].
    ///
    /// # Errors
    /// As there.
    pub fn acquire_buffer(
        &mut self,
        info: &BufferInfo<'_, D>,
        pass: Pass,
        name: &str,
    ) -> Result<TransientBuffer, TransientError> {
        self.acquire(info, pass, name)
    }

    /// A texture from `pass` on, which is its first use: all others come after that pass. What it holds at first is of no
    /// meaning, and [`TransientAllocator::barriers`] says what has to be recorded at the beginning of the pass.
    ///
    /// The name is given to a driver object that is made, and stays with it when it is used again. Passes of one queue
    /// acquire in their order. O(spans of the heaps at hand); makes an object or a heap only where there is none to hand.
    ///
    /// # Errors
    /// No memory; the driver refuses the description; a pass that is not of this execution, or earlier than one that has
    /// acquired something. Nothing has changed then.
    pub fn acquire_texture(
        &mut self,
        info: &TextureInfo<'_, D>,
        pass: Pass,
        name: &str,
    ) -> Result<TransientTexture, TransientError> {
        self.acquire(info, pass, name)
    }

    fn acquire<K: TransientKind>(
        &mut self,
        info: &<D as Create<K>>::Info<'_>,
        pass: Pass,
        name: &str,
    ) -> Result<Transient<K>, TransientError>
    where
        D: Create<K>,
    {
        let transient = &mut *self.transient;
        transient.shared.check_lost()?;
        transient.order.check_current(pass)?;
        transient.barriers.check(pass)?;
        let (key, needs) = transient.measure::<K>(info)?;
        let clock = transient.order.begin_of(pass);
        let object = transient.find_or_make::<K>(info, Wanted { key, needs, name }, &clock)?;
        transient.occupy(object, pass);
        Ok(transient.handle(object, pass))
    }

    /// Ends a resource's use: `last` are the passes after which nobody uses it, each after the one that acquired it. With
    /// none, that pass itself was the only one. Its bytes may then be another's; the object stays for the next time, and
    /// the handle gives it until the next execution begins. O(log spans).
    ///
    /// # Errors
    /// The handle is stale, or discarded already; or a last use is not ordered after the first. Nothing has changed then.
    pub fn discard<K: TransientKind>(&mut self, handle: Transient<K>, last: &[Pass]) -> Result<(), TransientError> {
        let stale = TransientError::Stale { id: handle.id() };
        let transient = &mut *self.transient;
        let current = handle.owner == transient.owner && handle.execution == transient.execution;
        let object = transient.objects.get(handle.object as usize).and_then(Option::as_ref).filter(|_| current);
        let tenancy = object.and_then(|object| object.tenancy).filter(|held| held.acquire == handle.acquire);
        let Tenancy { first, .. } = tenancy.ok_or(stale)?;
        let mut users = Clock::of(first);
        for &pass in last {
            transient.order.check_current(pass)?;
            if !transient.order.ends_after(pass, first) {
                return Err(TransientError::NotAfter { first, last: pass });
            }
            users.join(&Clock::of(pass));
        }
        transient.vacate(handle.object, users);
        Ok(())
    }

    /// Ends the execution and flushes: objects that were not used for long are let go of, beyond a number that each heap
    /// keeps, and heaps without objects go to the cache.
    ///
    /// `ends` holds for each queue the point at which the execution's passes there are complete: that of the last frame
    /// that holds them ([`Frame::point`](crate::Frame::point)). From it the next executions know what is complete; without
    /// it (points of other allocators' timelines say nothing) they take passes of other queues to be still running, and give nobody bytes that those have used.
    ///
    /// What is still in use is taken to be used by every pass. O(heaps · objects).
    pub fn finish(mut self, ends: &[SyncPoint]) -> Flushed {
        self.is_over = true;
        self.transient.end(ends)
    }
}

impl<D: Device> TransientAllocator<D> {
    /// Notes the use of an object that was occupied just now.
    pub(super) fn handle<K>(&mut self, object: u32, first: Pass) -> Transient<K> {
        self.acquires = self.acquires.wrapping_add(1);
        let acquire = self.acquires;
        self.object(object).tenancy = Some(Tenancy { first, acquire });
        Transient { owner: self.owner, object, execution: self.execution, acquire, kind: PhantomData }
    }
}

impl<D: Device> Deref for Execution<'_, D> {
    type Target = TransientAllocator<D>;

    fn deref(&self) -> &TransientAllocator<D> {
        self.transient
    }
}

impl<D: Device> Drop for Execution<'_, D> {
    fn drop(&mut self) {
        if !self.is_over {
            self.transient.end(&[]);
        }
    }
}

impl<D: Device> fmt::Debug for Execution<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Execution({})", self.transient.execution)
    }
}
