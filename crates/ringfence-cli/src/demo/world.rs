//! What should be on the device: objects that come and go, and their bytes, all from one seed.

use fastrand::Rng;
use ringfence_testkit::Disc;

/// The picture's side, in texels.
pub const PICTURE: u32 = 256;

/// What an object is on the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// A buffer of that many bytes.
    Buffer(u64),
    /// A square RGBA8 texture of that many texels across.
    Texture(u32),
}

impl Shape {
    /// Bytes of its content.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Buffer(bytes) => bytes,
            Self::Texture(side) => u64::from(side) * u64::from(side) * 4,
        }
    }
}

/// A thing in the world, as the host knows it.
#[derive(Clone, Debug)]
pub struct Thing {
    /// Counts up, never used again.
    pub number: u64,
    pub shape: Shape,
    /// What its bytes on the device must be.
    pub bytes: Vec<u8>,
    pub disc: Disc,
}

/// How often what happens in a frame.
#[derive(Clone, Copy, Debug)]
pub struct Events {
    /// New things appear, their bytes staged.
    pub creates: usize,
    /// Some of a buffer's bytes change.
    pub updates: usize,
    /// Things are copied, on the device, to new ones.
    pub clones: usize,
    /// Things are read back and compared.
    pub checks: usize,
    /// Things go, while the device may still read them.
    pub drops: usize,
}

/// Generates things and what happens to them. The same seed gives the same world, whatever the device.
pub struct World {
    rng: Rng,
    made: u64,
}

impl World {
    pub fn new(seed: u64) -> Self {
        Self { rng: Rng::with_seed(seed), made: 0 }
    }

    /// What happens in a frame, given how many things there are. Their number swings, so that blocks fill and empty
    /// again.
    pub fn events(&mut self, frame: u64, live: usize) -> Events {
        let swing = ((frame as f64 / 40.0).sin() + 1.0) / 2.0;
        let wanted = 100 + (swing * 300.0) as usize;
        let few = if live < wanted { 12 } else { 4 };
        // Now and then a burst, as when a level loads: more than the ring holds for the frames in flight. Not in frames
        // with a picture, which some devices have to be given through the ring too.
        let creates = if (4..8).contains(&(frame % 32)) { 40 } else { few };
        let drops = if live > wanted { 16 } else { 3 };
        Events { creates, updates: 6, clones: 2, checks: 3, drops }
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        self.rng.usize(0..end)
    }

    /// One of `count` things; `None` if there are none.
    pub fn pick(&mut self, count: usize) -> Option<usize> {
        (count > 0).then(|| self.rng.usize(0..count))
    }

    /// A new thing with bytes of its own.
    pub fn create(&mut self) -> Thing {
        let shape = if self.rng.u8(..) < 64 {
            Shape::Texture(1 << self.rng.u32(3..=6))
        } else {
            // Sizes from 64 bytes to 128 KiB, small ones as likely as large ones.
            let scale = 64_u64 << self.rng.u32(0..11);
            Shape::Buffer((scale + self.rng.u64(0..scale)) / 4 * 4)
        };
        let bytes = self.noise(shape.bytes());
        self.thing(shape, bytes)
    }

    /// A new thing with the bytes of another.
    pub fn copy(&mut self, of: &Thing) -> Thing {
        self.thing(of.shape, of.bytes.clone())
    }

    fn thing(&mut self, shape: Shape, bytes: Vec<u8>) -> Thing {
        self.made += 1;
        let side = PICTURE as i32;
        let disc = Disc {
            x: self.rng.i32(0..side),
            y: self.rng.i32(0..side),
            radius: 2 + shape.bytes().ilog2() as i32,
            colour: self.rng.u32(..) | 0xff00_0000,
        };
        Thing { number: self.made, shape, bytes, disc }
    }

    /// A part of a buffer, and new bytes for it: in pieces that follow each other, as a program that changes element by
    /// element brings them; now and then one piece is changed twice.
    pub fn update(&mut self, of: &Thing) -> Vec<(u64, Vec<u8>)> {
        let words = of.shape.bytes() / 4;
        let first = self.rng.u64(0..words);
        let count = self.rng.u64(1..=(words - first).min(256));
        let mut pieces = Vec::new();
        let mut at = 0;
        while at < count {
            let size = self.rng.u64(1..=count - at);
            pieces.push(((first + at) * 4, self.noise(size * 4)));
            at += size;
        }
        if self.rng.u8(..) < 32 {
            let (offset, size) = (pieces[0].0, pieces[0].1.len() as u64);
            pieces.push((offset, self.noise(size)));
        }
        pieces
    }

    pub fn noise(&mut self, bytes: u64) -> Vec<u8> {
        let mut noise = vec![0; bytes as usize];
        self.rng.fill(&mut noise);
        noise
    }
}
