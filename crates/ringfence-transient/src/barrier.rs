//! The barriers that aliasing needs, as a list for the caller's own barrier code.
//!
//! ```text
//!   pass      1        2        3        4        5
//!   bytes A   ▓▓▓▓▓▓▓▓▓         ░░░░░░░░░              depth, then blur
//!   bytes B   ▓▓▓▓▓▓▓▓▓                  ░░░░░░░░░     normals, then bloom
//!                               ▲        ▲
//!                        dependency      no dependency: the one at pass 3 covers pass 1 for B too
//! ```
//!
//! If one resource reuses bytes of another, up to two things are needed:
//!
//! - A *dependency* orders the pass after the earlier commands of the same queue that used the bytes, and makes their
//!   writes available. On Vulkan, it is a memory barrier. On Direct3D 12, it is an unordered-access barrier for all
//!   resources, because only unordered accesses need one (transitions order all other uses of a resource). A dependency
//!   covers all commands before it. Therefore a dependency at the beginning of a pass suffices for all bytes that were
//!   last used before that pass. It also suffices for later passes, whatever stages they use. Each dependency is placed
//!   as late as possible, at the first pass that needs it, which gives the fewest dependencies. A use on another queue
//!   needs no dependency: the wait between the queues orders it, or it is already complete.
//! - The new owner is *activated*. On Direct3D 12, this needs an aliasing barrier if other resources used some of the
//!   owner's bytes since the owner was last active. Render targets and depth buffers then need a discard, a clear or a
//!   copy to the whole resource. On Vulkan, the layout of a texture starts as `UNDEFINED`.

use super::error::TransientError;
use super::pass::{Clock, Pass, QUEUES_MAX, TransientId};
use super::spans::NO_OBJECT;

/// A barrier that must be recorded at the beginning of a pass.
///
/// `TransientAllocator::record_barriers` (features `vulkan` and `d3d12`) records these barriers:
///
/// | | Vulkan | Direct3D 12 |
/// |---|---|---|
/// | `depends` | one memory barrier for the pass: all commands, memory writes → all commands, memory reads and writes | one unordered-access barrier for the pass, without a resource |
/// | `aliases` | – | aliasing barrier from `before` (null for `None`) to `after` |
/// | `discards` | image barrier from layout `UNDEFINED`: all commands, memory writes → the uses of the pass | `DiscardResource`, a clear or a whole copy first |
///
/// On Vulkan, the memory barrier is for all later commands, not only for its pass. A later pass of the queue, with
/// other stages, may reuse bytes that this barrier covers, and gets no barrier of its own. For the same reason, the
/// source stages of the image barrier are all commands (or the stages that use the texture), not `TOP_OF_PIPE`. The
/// image barrier must come after the memory barrier of its pass or of an earlier pass. Waits between queues must also
/// be for all commands.
///
/// The transition of the image barrier writes the texture's bytes, which another resource may have written. Memory
/// writes as source access order the transition after those writes. Without this access, synchronization validation
/// reports a hazard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Barrier {
    /// The pass that begins with the barrier.
    pub pass: Pass,
    /// Previous resource in these bytes. `None` if there was none or several, or if the previous one was released.
    pub before: Option<TransientId>,
    /// Resource that the pass acquires.
    pub after: TransientId,
    /// `true` if all earlier commands on the queue of the pass must be complete. At most one barrier of a pass sets
    /// this.
    pub depends: bool,
    /// `true` if other resources used some bytes of `after` since `after` was last active.
    pub aliases: bool,
    /// `true` if `after` is a texture. Its layout and contents are undefined at the beginning of the pass.
    pub discards: bool,
}

/// A [`Barrier`] in the terms of Direct3D 12.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Direct3d12Barrier {
    /// `D3D12_RESOURCE_BARRIER_TYPE_UAV` without a resource. An object that is acquired again has the same bytes and
    /// may be in the same state. Two passes that write the object then have neither an aliasing barrier nor a
    /// transition between them.
    UnorderedAccess,
    /// `D3D12_RESOURCE_BARRIER_TYPE_ALIASING`.
    Aliasing {
        /// `pResourceBefore`: null for `None`.
        before: Option<TransientId>,
        /// `pResourceAfter`.
        after: TransientId,
    },
}

impl Barrier {
    /// Returns the barriers to record on Direct3D 12, in this order; `TransientAllocator::record_barriers` records
    /// them. The program records state transitions, and the discard that [`discards`](Self::discards) requires.
    pub fn on_direct3d_12(&self) -> impl Iterator<Item = Direct3d12Barrier> + use<> {
        let Self { before, after, depends, aliases, .. } = *self;
        let unordered = depends.then_some(Direct3d12Barrier::UnorderedAccess);
        let aliasing = aliases.then_some(Direct3d12Barrier::Aliasing { before, after });
        unordered.into_iter().chain(aliasing)
    }
}

/// The barriers of an execution, in the order of the acquires.
#[derive(Default)]
pub(super) struct Barriers {
    list: Vec<Barrier>,
    /// For each queue, the number of the pass that begins with the latest dependency.
    last_dependency: [u64; QUEUES_MAX],
    /// `last_dependency` at the begin of this execution.
    last_at_begin: [u64; QUEUES_MAX],
    /// For each queue, the latest pass that acquired a resource.
    last_acquire: [u64; QUEUES_MAX],
}

impl Barriers {
    pub(super) fn list(&self) -> &[Barrier] {
        &self.list
    }

    /// Clears the barriers for a new execution. Their dependencies stay in effect.
    pub(super) fn begin(&mut self) {
        self.list.clear();
        self.last_at_begin = self.last_dependency;
    }

    /// Discards the dependencies of this execution, because its barriers are not recorded.
    pub(super) fn forget(&mut self) {
        self.last_dependency = self.last_at_begin;
    }

    /// Rejects an acquire for a pass if a later pass of its queue has already acquired a resource.
    pub(super) fn check(&self, pass: Pass) -> Result<(), TransientError> {
        let latest = self.last_acquire[pass.queue as usize];
        if pass.number < latest { Err(TransientError::OutOfOrder { pass, latest }) } else { Ok(()) }
    }

    /// Records that the use of `object` begins in `pass`. `generations` contains the generation of every object number.
    /// `past` contains the previous owners of the object's bytes, and the passes that used them. `is_forgotten` must be
    /// `true` if other objects, which `past` does not show, used the bytes since `object` was last active.
    pub(super) fn acquire<'a>(
        &mut self,
        pass: Pass,
        object: u32,
        generations: &[u32],
        (is_texture, is_forgotten): (bool, bool),
        past: impl Iterator<Item = (u32, &'a Clock)>,
    ) {
        let queue = pass.queue as usize;
        let id = |object: u32| TransientId { owner: pass.owner, object, generation: generations[object as usize] };
        self.last_acquire[queue] = self.last_acquire[queue].max(pass.number);
        let (mut before, mut others, mut last_use) = (None, if is_forgotten { 2 } else { 0 }, 0);
        for (tenant, users) in past {
            last_use = last_use.max(users.on(pass.queue));
            if tenant != object && tenant != NO_OBJECT && before != Some(id(tenant)) {
                before = Some(id(tenant));
                others += 1;
            } else if tenant == NO_OBJECT && *users != Clock::default() {
                // A released object.
                others += 2;
            }
        }
        let depends = last_use > 0 && last_use >= self.last_dependency[queue];
        if depends {
            self.last_dependency[queue] = pass.number;
        }
        let aliases = others > 0;
        if depends || aliases || is_texture {
            let before = before.filter(|_| others == 1);
            self.list.push(Barrier { pass, before, after: id(object), depends, aliases, discards: is_texture });
        }
    }
}
