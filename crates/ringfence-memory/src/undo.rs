//! Undoes a step unless its call succeeds, also if the call panics, as the program's own device may.

use std::mem::ManuallyDrop;

/// Calls a closure when it is dropped, unless [`Undo::done`] was called.
#[must_use = "the step is undone at once if the guard is not kept"]
pub struct Undo<F: FnOnce()>(ManuallyDrop<F>);

impl<F: FnOnce()> Undo<F> {
    /// Creates a guard that calls `undo` when it is dropped.
    pub fn new(undo: F) -> Self {
        Self(ManuallyDrop::new(undo))
    }

    /// Disarms the guard: the call has succeeded, and `undo` is not called.
    pub fn done(self) {
        let mut held = ManuallyDrop::new(self);
        // SAFETY: `held` is never dropped or used again, so the closure is dropped once.
        unsafe { ManuallyDrop::drop(&mut held.0) };
    }
}

impl<F: FnOnce()> Drop for Undo<F> {
    fn drop(&mut self) {
        // SAFETY: a value is dropped once, and nothing reads the field afterwards.
        let undo = unsafe { ManuallyDrop::take(&mut self.0) };
        undo();
    }
}
