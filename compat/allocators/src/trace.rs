//! The requests to the allocators, the same in each run.

use ash::vk;

use crate::random::Random;

/// Location of an allocation.
#[derive(Clone, Copy)]
pub enum Place {
    Device,
    Upload,
    Readback,
}

/// An allocation or a free.
#[derive(Clone, Copy)]
pub enum Step {
    Allocate { id: usize, requirements: vk::MemoryRequirements, place: Place, linear: bool },
    Free { id: usize },
}

pub struct Trace {
    pub name: &'static str,
    pub what: &'static str,
    pub steps: Vec<Step>,
    pub count: usize,
}

/// Builds a trace and tracks its live allocations.
struct Builder<'a> {
    needs: &'a dyn Fn(bool, u64) -> vk::MemoryRequirements,
    random: Random,
    steps: Vec<Step>,
    count: usize,
}

impl Builder<'_> {
    fn allocate(&mut self, linear: bool, size: u64, place: Place) -> usize {
        let (id, requirements) = (self.count, (self.needs)(linear, size));
        self.steps.push(Step::Allocate { id, requirements, place, linear });
        self.count += 1;
        id
    }

    fn free(&mut self, id: usize) {
        self.steps.push(Step::Free { id });
    }

    fn free_any(&mut self, live: &mut Vec<usize>) {
        let at = self.random.below(live.len() as u64) as usize;
        let id = live.swap_remove(at);
        self.free(id);
    }

    fn done(self, name: &'static str, what: &'static str) -> Trace {
        Trace { name, what, steps: self.steps, count: self.count }
    }
}

/// Returns all traces, for this seed. `needs` returns the requirements of a buffer (`true`) or an image of this many
/// bytes.
pub fn all(seed: u64, needs: &dyn Fn(bool, u64) -> vk::MemoryRequirements) -> Vec<Trace> {
    let builder = || Builder { needs, random: Random::new(seed), steps: Vec::new(), count: 0 };
    vec![wgpu(builder()), churn(builder()), frames(builder()), growth(builder())]
}

/// Returns the requests that wgpu makes for the program `stress`: resources, and staging and readback buffers until the
/// end of a batch.
fn wgpu(mut builder: Builder<'_>) -> Trace {
    let (mut live, mut until_batch) = (Vec::new(), Vec::new());
    for step in 0..20_000 {
        let linear = builder.random.below(10) < 7;
        let size = match linear {
            true => builder.random.log_uniform(64, 1 << 20),
            false => builder.random.log_uniform(4, 512) * builder.random.log_uniform(4, 512) * 4,
        };
        live.push(builder.allocate(linear, size, Place::Device));
        if builder.random.below(3) != 0 {
            until_batch.push(builder.allocate(true, size, Place::Upload));
        }
        if builder.random.below(3) == 0 {
            until_batch.push(builder.allocate(true, size, Place::Readback));
        }
        if live.len() > 1200 {
            builder.free_any(&mut live);
        }
        if step % 5000 == 4999 {
            (0..900).for_each(|_| builder.free_any(&mut live));
        }
        if step % 100 == 99 {
            until_batch.drain(..).for_each(|id| builder.free(id));
        }
    }
    live.into_iter().for_each(|id| builder.free(id));
    builder.done("wgpu", "20,000 resources as `stress` has wgpu make them")
}

fn churn(mut builder: Builder<'_>) -> Trace {
    let mut live = Vec::new();
    for _ in 0..60_000 {
        let size = builder.random.log_uniform(256, 64 << 10);
        live.push(builder.allocate(true, size, Place::Device));
        if live.len() > 10_000 {
            builder.free_any(&mut live);
        }
    }
    live.into_iter().for_each(|id| builder.free(id));
    builder.done("churn", "10,000 buffers of 256 B to 64 KiB alive, any of them replaced")
}

fn frames(mut builder: Builder<'_>) -> Trace {
    let static_ones: Vec<_> = (0..3000)
        .map(|_| {
            let size = builder.random.log_uniform(1 << 10, 64 << 10);
            builder.allocate(true, size, Place::Device)
        })
        .collect();
    for _ in 0..200 {
        let frame: Vec<_> = (0..100)
            .map(|_| {
                let size = builder.random.log_uniform(256, 32 << 10);
                builder.allocate(true, size, Place::Upload)
            })
            .collect();
        frame.into_iter().for_each(|id| builder.free(id));
    }
    static_ones.into_iter().for_each(|id| builder.free(id));
    builder.done("frames", "3,000 buffers stay, 100 come and go each frame")
}

fn growth(mut builder: Builder<'_>) -> Trace {
    let mut live = Vec::new();
    let mut bytes = 0;
    while bytes < 768 << 20 {
        let size = builder.random.log_uniform(64 << 10, 4 << 20);
        bytes += size;
        live.push(builder.allocate(true, size, Place::Device));
    }
    live.into_iter().for_each(|id| builder.free(id));
    builder.done("growth", "64 KiB to 4 MiB each up to 768 MiB, then all freed")
}
