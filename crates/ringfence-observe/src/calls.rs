//! Counters of driver calls and of other operations, for statistics.

use ringfence_lockfree::counter::Counters;

use crate::event::Event;
use crate::watched::Watched;

/// Calls and other operations that are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    /// The driver allocated a memory object.
    AllocateMemory,
    /// The driver freed a memory object.
    FreeMemory,
    /// The driver created a buffer or a texture.
    CreateObject,
    /// The driver destroyed a buffer or a texture.
    DestroyObject,
    /// A resource was bound to a range.
    Place,
    /// The host waited for the device.
    Wait,
    /// Writes to rings; not driver calls.
    Stage,
    /// Moves of a defragmentation.
    Move,
    /// Bytes that the moves of a defragmentation copied.
    MovedBytes,
    /// Bytes by which buffers in use are larger than described.
    RoundedBytes,
}

/// The counters, one for each [`Call`].
#[derive(Default)]
pub struct Calls(Counters<{ Call::RoundedBytes as usize + 1 }>);

impl Calls {
    /// Returns the count of `call`.
    pub fn get(&self, call: Call) -> u64 {
        self.0.get(call as usize)
    }

    /// Records a move of `bytes`.
    pub fn add_moved(&self, bytes: u64) {
        self.0.add(Call::Move as usize, 1);
        self.0.add(Call::MovedBytes as usize, bytes);
    }

    /// Records a buffer that is `bytes` larger than described.
    pub fn add_rounded(&self, bytes: u64) {
        self.0.add(Call::RoundedBytes as usize, bytes);
    }

    /// Records that a buffer that is `bytes` larger than described was released.
    pub fn sub_rounded(&self, bytes: u64) {
        self.0.sub(Call::RoundedBytes as usize, bytes);
    }

    #[inline(always)]
    pub(crate) fn on<M: Watched>(&self, event: &Event<'_, M>) {
        match event {
            Event::Called(call) => self.0.add(*call as usize, 1),
            Event::Staged { writes, .. } => self.0.add(Call::Stage as usize, *writes),
            _ => {}
        }
    }
}
