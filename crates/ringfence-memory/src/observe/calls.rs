//! What statistics count: calls to the driver, and what is counted beside them.

use ringfence_core::counter::Counter;

use super::Event;
use super::debugging::Watched;

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Call {
    /// The driver made a memory object.
    AllocateMemory,
    /// The driver freed one.
    FreeMemory,
    /// The driver made a buffer or a texture.
    CreateObject,
    /// The driver destroyed one.
    DestroyObject,
    /// One was bound to a range.
    Place,
    /// The host waited for the device.
    Wait,
    /// Writes to rings: no calls.
    Stage,
}

/// How often each was made.
#[derive(Default)]
pub(crate) struct Calls([Counter; Call::Stage as usize + 1]);

impl Calls {
    pub(crate) fn get(&self, call: Call) -> u64 {
        self.0[call as usize].get()
    }

    #[inline(always)]
    pub(super) fn on<M: Watched>(&self, event: &Event<'_, M>) {
        match event {
            Event::Called(call) => self.0[*call as usize].add(1),
            Event::Staged { writes, .. } => self.0[Call::Stage as usize].add(*writes),
            _ => {}
        }
    }
}
