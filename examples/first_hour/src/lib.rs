//! Modules that the programs in `src/bin` share. The guide's chapter "First hour" explains them step by step.

pub mod frames;
pub mod gpu;
pub mod heap;
pub mod mesh;
pub mod pass;
pub mod picture;
pub mod pipeline;
pub mod scene;
pub mod shapes;
