//! The expected state of the device: objects that are created and dropped, and their bytes. The seed determines the
//! whole state.

use fastrand::Rng;
use ringfence_testkit::Disc;

/// Width and height of the picture, in texels.
pub const PICTURE: u32 = 256;

/// Kind and size of an object on the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// A buffer of this many bytes.
    Buffer(u64),
    /// A square RGBA8 texture of this width, in texels.
    Texture(u32),
}

impl Shape {
    /// Returns the size of the content, in bytes.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Buffer(bytes) => bytes,
            Self::Texture(side) => u64::from(side) * u64::from(side) * 4,
        }
    }
}

/// The host's copy of an object of the world.
#[derive(Clone, Debug)]
pub struct Thing {
    /// Number of the object; never reused.
    pub number: u64,
    pub shape: Shape,
    /// Expected bytes on the device.
    pub bytes: Vec<u8>,
    pub disc: Disc,
}

/// Numbers of the events of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Events {
    /// Number of new objects.
    pub creates: usize,
    /// Number of changes of a part of a buffer.
    pub updates: usize,
    /// Number of new objects that the device copies from existing ones.
    pub clones: usize,
    /// Number of objects that are read back and compared.
    pub checks: usize,
    /// Number of objects that are dropped while the device may still read them.
    pub drops: usize,
}

/// Generates objects and events. The same seed gives the same world on every device.
pub struct World {
    rng: Rng,
    made: u64,
}

impl World {
    pub fn new(seed: u64) -> Self {
        Self { rng: Rng::with_seed(seed), made: 0 }
    }

    /// Returns the events of a frame in which `live` objects exist. The number of objects rises and falls, so that
    /// blocks fill and become empty again.
    pub fn events(&mut self, frame: u64, live: usize) -> Events {
        let swing = ((frame as f64 / 40.0).sin() + 1.0) / 2.0;
        let wanted = 100 + (swing * 300.0) as usize;
        let few = if live < wanted { 12 } else { 4 };
        // In four of 32 frames, many objects are created, as when a level loads: more than the ring can contain for the
        // frames in flight. No picture is drawn in these frames, because some devices get the picture through the ring
        // too.
        let creates = if (4..8).contains(&(frame % 32)) { 40 } else { few };
        let drops = if live > wanted { 16 } else { 3 };
        Events { creates, updates: 6, clones: 2, checks: 3, drops }
    }

    /// Returns a random number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        self.rng.usize(0..end)
    }

    /// Returns a random index below `count`; `None` if `count` is 0.
    pub fn pick(&mut self, count: usize) -> Option<usize> {
        (count > 0).then(|| self.rng.usize(0..count))
    }

    /// Returns a new object with random bytes.
    pub fn create(&mut self) -> Thing {
        let shape = if self.rng.u8(..) < 64 {
            Shape::Texture(1 << self.rng.u32(3..=6))
        } else {
            // Sizes from 64 bytes to 128 KiB, on a logarithmic scale.
            let scale = 64_u64 << self.rng.u32(0..11);
            Shape::Buffer((scale + self.rng.u64(0..scale)) / 4 * 4)
        };
        let bytes = self.noise(shape.bytes());
        self.thing(shape, bytes)
    }

    /// Returns a new object with the shape and the bytes of another one.
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
            color: self.rng.u32(..) | 0xff00_0000,
        };
        Thing { number: self.made, shape, bytes, disc }
    }

    /// Returns writes to a part of a buffer, each with its offset and its bytes. The writes are consecutive, like those
    /// of a program that changes one element after another. At times, the first piece is written a second time at the
    /// end.
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
