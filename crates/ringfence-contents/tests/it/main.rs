//! Tests on the simulated device: generated changes compared with a model on the host.

mod exact;
mod mesh_arena;
mod program;
mod texture_data;
mod vec;
