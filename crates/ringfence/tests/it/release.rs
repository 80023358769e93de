//! Releases on the simulated device: exactly when their points have passed, once, whatever happens to the device.

mod lost;
mod placement;
mod queues;
mod threads;
mod world;
