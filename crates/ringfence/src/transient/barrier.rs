//! The barriers that aliasing needs, as data for the caller's own barrier code.
//!
//! ```text
//!   pass      1        2        3        4        5
//!   bytes A   ▓▓▓▓▓▓▓▓▓         ░░░░░░░░░              depth, then blur
//!   bytes B   ▓▓▓▓▓▓▓▓▓                  ░░░░░░░░░     normals, then bloom
//!                               ▲        ▲
//!                        dependency      none: the one before pass 3 comes after pass 2 too
//! ```
//!
//! Two things are needed where one resource takes over bytes of another:
//!
//! - A *dependency*: the earlier commands of the same queue that used the bytes have to be over, and what they wrote
//!   available, before the pass writes there (a memory barrier; on Direct3D 12 an unordered-access barrier for all
//!   resources, since of the uses of one resource only those are in no order of their own). A dependency covers all
//!   commands before it, so that one at the beginning of a pass suffices for everything that was last used before that
//!   pass, and for later passes too, whatever stages they use. Each is placed as late as possible, at the first pass
//!   that needs one, which gives the fewest. A use on another queue needs none: the wait between the queues orders it,
//!   or it is complete already.
//! - The new owner has to be *activated*: on Direct3D 12 by an aliasing barrier, if other resources used bytes of it
//!   since it was last active, and then for render targets and depth by a discard, a clear or a copy of the whole; on
//!   Vulkan a texture's layout begins as `UNDEFINED`.

use super::error::TransientError;
use super::pass::{Clock, Pass, QUEUES_MAX, TransientId};
use super::spans::NO_OBJECT;

/// What has to be recorded at the beginning of a pass.
///
/// | | Vulkan | Direct3D 12 |
/// |---|---|---|
/// | `depends` | one memory barrier for the pass: all commands, memory writes → all commands, memory reads and writes | one unordered-access barrier for the pass, without a resource |
/// | `aliases` | – | aliasing barrier from `before` (null for `None`) to `after` |
/// | `discards` | image barrier from layout `UNDEFINED`: all commands, memory writes → what the pass does with it | `DiscardResource`, clear or whole copy first |
///
/// On Vulkan the memory barrier is for all that comes, not for its pass alone: a later pass of the queue, with other
/// stages, gets bytes that are covered by it and no barrier of its own. For the same reason the image barrier begins
/// with all commands (or with the stages that use the texture), and not with `TOP_OF_PIPE`: it has to come after the
/// memory barrier of its pass or an earlier one. Waits between queues are for all commands too.
///
/// The image barrier's transition writes the texture's bytes, which may be another resource's: memory writes as its
/// source access order it after those. Synchronization validation reports a hazard without them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Barrier {
    /// At whose beginning.
    pub pass: Pass,
    /// The resource that had these bytes; `None` if several resources had them, or if it was released.
    pub before: Option<TransientId>,
    /// The resource that begins here.
    pub after: TransientId,
    /// Whether all earlier commands on the pass's queue have to be complete. At most one barrier of a pass has it.
    pub depends: bool,
    /// Whether other resources used bytes of it since it was last active.
    pub aliases: bool,
    /// Whether it is a texture, whose layout and contents are undefined now.
    pub discards: bool,
}

/// A [`Barrier`] as recorded on Direct3D 12, with the names of that API.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Direct3d12Barrier {
    /// `D3D12_RESOURCE_BARRIER_TYPE_UAV` without a resource: an object that is used again has the same bytes and may be
    /// in the same state, so that neither an aliasing barrier nor a transition lies between two passes that write it.
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
    /// The barriers to record on Direct3D 12, in this order; `TransientAllocator::record_barriers` records them. The
    /// program records changes of state, and the discard that [`discards`](Self::discards) asks for.
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
    /// Of each queue the pass before which the latest dependency lies.
    last_dependency: [u64; QUEUES_MAX],
    /// That of the executions before this one.
    last_at_begin: [u64; QUEUES_MAX],
    /// Of each queue the latest pass that acquired something.
    last_acquire: [u64; QUEUES_MAX],
}

impl Barriers {
    pub(super) fn list(&self) -> &[Barrier] {
        &self.list
    }

    /// Forgets the barriers; what they order stays ordered.
    pub(super) fn begin(&mut self) {
        self.list.clear();
        self.last_at_begin = self.last_dependency;
    }

    /// The barriers are not recorded: what they would order is not ordered.
    pub(super) fn forget(&mut self) {
        self.last_dependency = self.last_at_begin;
    }

    /// Refuses an acquire for a pass before one that has acquired already.
    pub(super) fn check(&self, pass: Pass) -> Result<(), TransientError> {
        let latest = self.last_acquire[pass.queue as usize];
        if pass.number < latest { Err(TransientError::OutOfOrder { pass, latest }) } else { Ok(()) }
    }

    /// Notes that `object` begins in `pass` on bytes whose last tenants and uses are these. With `is_forgotten` others
    /// used them since it was last active, of whom the tenants do not tell.
    pub(super) fn acquire<'a>(
        &mut self,
        pass: Pass,
        object: u32,
        (is_texture, is_forgotten): (bool, bool),
        past: impl Iterator<Item = (u32, &'a Clock)>,
    ) {
        let queue = pass.queue as usize;
        let id = |object| TransientId { owner: pass.owner, object };
        self.last_acquire[queue] = self.last_acquire[queue].max(pass.number);
        let (mut before, mut others, mut last_use) = (None, if is_forgotten { 2 } else { 0 }, 0);
        for (tenant, users) in past {
            last_use = last_use.max(users.on(pass.queue));
            if tenant != object && tenant != NO_OBJECT && before != Some(id(tenant)) {
                before = Some(id(tenant));
                others += 1;
            } else if tenant == NO_OBJECT && *users != Clock::default() {
                // An object that no longer exists.
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
