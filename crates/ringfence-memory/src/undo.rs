//! What is undone unless the call that it is for succeeds: also if that call panics, as a program's own device may.

use std::mem::ManuallyDrop;

/// Calls a closure when it is dropped, unless [`Undo::done`] was called.
#[must_use = "it undoes at once if it is not kept"]
pub struct Undo<F: FnOnce()>(ManuallyDrop<F>);

impl<F: FnOnce()> Undo<F> {
    /// What is to be undone.
    pub fn new(undo: F) -> Self {
        Self(ManuallyDrop::new(undo))
    }

    /// Everything has succeeded.
    pub fn done(self) {
        let mut held = ManuallyDrop::new(self);
        // SAFETY: `held` is never dropped nor used again, so that the closure is dropped once.
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
