//! Releases on the simulated device: each happens once, exactly when its points have passed, even if the device is
//! lost.

mod counts;
mod lost;
mod placement;
mod queues;
mod threads;
mod world;
