//! Thousands of buffers and textures, created, written in all ways and dropped; a part of them is read back and
//! compared.
//!
//! ```text
//!   each step:   creates and writes one resource; drops one if enough are alive
//!                every third one is copied out before the drop
//!   each batch:  submit, wait, compare the copies, read the allocator's figures
//! ```

use std::time::{Duration, Instant};

use crate::copies::same;
use crate::gpu::{Gpu, Memory, dense, figure};
use crate::random::Random;
use crate::{Settings, random};
use wgpu::{BufferUsages, TextureUsages};

const SEED: u64 = 11;
const LIVE_MAX: usize = 1200;
const BATCH: u32 = 100;

enum Held {
    Buffer(wgpu::Buffer),
    Texture(wgpu::Texture),
}

/// A live resource and the seed of its bytes; `None` if it was never written.
struct Live {
    held: Held,
    seed: Option<u64>,
}

/// A readback buffer and its expected bytes.
struct Expected {
    back: wgpu::Buffer,
    width: Option<u32>,
    bytes: Vec<u8>,
}

struct Stress<'a> {
    gpu: &'a Gpu,
    /// `true` if some resources are never written, and must be zero.
    zeroes: bool,
    random: Random,
    live: Vec<Live>,
    encoder: wgpu::CommandEncoder,
    expected: Vec<Expected>,
    making: Duration,
    dropping: Duration,
    digest: u64,
    compared: u64,
    peak: Memory,
}

pub fn run(gpu: &Gpu, settings: &Settings) -> Result<Vec<u8>, String> {
    let mut stress = Stress {
        gpu,
        zeroes: settings.zeroes,
        random: Random::new(SEED),
        live: Vec::new(),
        encoder: gpu.encoder(),
        expected: Vec::new(),
        making: Duration::ZERO,
        dropping: Duration::ZERO,
        digest: 0,
        compared: 0,
        peak: Memory::default(),
    };
    let started = Instant::now();
    for step in 0..settings.resources {
        stress.step(step);
        if step % BATCH == BATCH - 1 {
            stress.end_batch()?;
        }
    }
    while !stress.live.is_empty() {
        for _ in 0..BATCH {
            stress.release();
        }
        stress.end_batch()?;
    }
    let took = started.elapsed();
    gpu.device.poll(wgpu::PollType::wait_indefinitely()).map_err(|error| error.to_string())?;
    let after = gpu.memory();
    let each = |total: Duration| total.as_nanos() / u128::from(settings.resources.max(1));
    figure("stress", "steps", took.as_micros(), "us");
    figure("stress", "make_each", each(stress.making), "ns");
    figure("stress", "drop_each", each(stress.dropping), "ns");
    figure("stress", "allocated_peak", stress.peak.allocated, "bytes");
    figure("stress", "reserved_peak", stress.peak.reserved, "bytes");
    figure("stress", "reserved_after", after.reserved, "bytes");
    figure("stress", "compared", stress.compared, "bytes");
    Ok([stress.digest.to_le_bytes(), stress.compared.to_le_bytes()].concat())
}

impl Stress<'_> {
    fn step(&mut self, step: u32) {
        let seed = u64::from(step) + 1000;
        let made = if self.random.below(10) < 7 { self.make_buffer(seed) } else { self.make_texture(seed) };
        self.live.push(made);
        if self.live.len() > LIVE_MAX {
            self.release();
        }
        // Drops most resources at regular intervals, as scene changes do.
        if step % 5000 == 4999 {
            for _ in 0..LIVE_MAX * 3 / 4 {
                self.release();
            }
        }
    }

    fn make_buffer(&mut self, seed: u64) -> Live {
        let size = self.random.log_uniform(64, 1 << 20) & !3;
        let usage = BufferUsages::COPY_SRC | BufferUsages::COPY_DST | BufferUsages::STORAGE;
        let way = self.random.below(if self.zeroes { 3 } else { 2 });
        let desc = wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: way == 0 };
        let buffer = self.timed(|gpu| gpu.device.create_buffer(&desc));
        let bytes = if way == 2 { Vec::new() } else { random::bytes(seed, size as usize) };
        match way {
            0 => {
                buffer.get_mapped_range_mut(..).expect("mapped at creation").copy_from_slice(&bytes);
                buffer.unmap();
            }
            1 => self.gpu.queue.write_buffer(&buffer, 0, &bytes),
            _ => {}
        }
        Live { held: Held::Buffer(buffer), seed: (way != 2).then_some(seed) }
    }

    fn make_texture(&mut self, seed: u64) -> Live {
        let size = [self.random.log_uniform(4, 512) as u32, self.random.log_uniform(4, 512) as u32];
        let mips = if self.random.below(2) == 0 { 1 } else { size[0].min(size[1]).ilog2() + 1 };
        let mut usage = TextureUsages::COPY_SRC | TextureUsages::COPY_DST | TextureUsages::TEXTURE_BINDING;
        if self.random.below(3) == 0 {
            usage |= TextureUsages::RENDER_ATTACHMENT;
        }
        let texture = self.timed(|gpu| gpu.texture("", size, mips, usage));
        let is_written = self.random.below(3) != 0 || !self.zeroes;
        if is_written {
            let texels = random::bytes(seed, (size[0] * size[1] * 4) as usize);
            let layout =
                wgpu::TexelCopyBufferLayout { offset: 0, bytes_per_row: Some(size[0] * 4), rows_per_image: None };
            self.gpu.queue.write_texture(texture.as_image_copy(), &texels, layout, texture.size());
        }
        Live { held: Held::Texture(texture), seed: is_written.then_some(seed) }
    }

    fn timed<T>(&mut self, make: impl FnOnce(&Gpu) -> T) -> T {
        let started = Instant::now();
        let made = make(self.gpu);
        self.making += started.elapsed();
        made
    }

    /// Drops a random live resource; every third one is copied out before.
    fn release(&mut self) {
        if self.live.is_empty() {
            return;
        }
        let at = self.random.below(self.live.len() as u64) as usize;
        let live = self.live.swap_remove(at);
        if self.random.below(3) == 0 {
            self.copy_out(&live);
        }
        let started = Instant::now();
        drop(live);
        self.dropping += started.elapsed();
    }

    fn copy_out(&mut self, Live { held, seed }: &Live) {
        let of = |size: usize| seed.map_or_else(|| vec![0; size], |seed| random::bytes(seed, size));
        let expected = match held {
            Held::Buffer(buffer) => {
                let size = buffer.size();
                let usage = BufferUsages::COPY_DST | BufferUsages::MAP_READ;
                let desc = wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false };
                let back = self.timed(|gpu| gpu.device.create_buffer(&desc));
                self.encoder.copy_buffer_to_buffer(buffer, 0, &back, 0, size);
                Expected { back, width: None, bytes: of(size as usize) }
            }
            Held::Texture(texture) => {
                let back = self.gpu.copy_out(&mut self.encoder, texture, 0);
                let bytes = of((texture.width() * texture.height() * 4) as usize);
                Expected { back, width: Some(texture.width()), bytes }
            }
        };
        self.expected.push(expected);
    }

    fn end_batch(&mut self) -> Result<(), String> {
        let encoder = std::mem::replace(&mut self.encoder, self.gpu.encoder());
        self.gpu.finish(encoder)?;
        let expected = std::mem::take(&mut self.expected);
        let backs: Vec<&wgpu::Buffer> = expected.iter().map(|held| &held.back).collect();
        for (read, Expected { width, bytes, .. }) in self.gpu.read(&backs)?.into_iter().zip(&expected) {
            let read = width.map_or_else(|| read.clone(), |width| dense(&read, width));
            same(&read, bytes, "a resource")?;
            self.digest = random::digest(self.digest, &read);
            self.compared += read.len() as u64;
        }
        let held = self.gpu.memory();
        self.peak.allocated = self.peak.allocated.max(held.allocated);
        self.peak.reserved = self.peak.reserved.max(held.reserved);
        let started = Instant::now();
        drop(expected);
        let polled = self.gpu.device.poll(wgpu::PollType::Poll);
        self.dropping += started.elapsed();
        polled.map(|_| ()).map_err(|error| error.to_string())
    }
}
