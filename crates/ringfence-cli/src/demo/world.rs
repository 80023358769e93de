//! What should be on the device: objects that come and go, and their bytes, all from one seed.

use std::collections::VecDeque;

use fastrand::Rng;
use ringfence_harness::Disc;

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

/// What a frame does to the world.
#[derive(Debug)]
pub enum Event {
    /// A new thing appears, its bytes staged.
    Create,
    /// A thing is copied, on the device, to a new one.
    Clone,
    /// Some of a buffer's bytes change.
    Update,
    /// A thing goes, while the device may still read it.
    Drop,
    /// A thing is read back and compared.
    Check,
}

/// Generates things and events. The same seed gives the same world.
pub struct World {
    rng: Rng,
    made: u64,
    /// Events of the frame that are still to come.
    events: VecDeque<Event>,
}

impl World {
    pub fn new(seed: u64) -> Self {
        Self { rng: Rng::with_seed(seed), made: 0, events: VecDeque::new() }
    }

    /// Draws the events of a frame, given how many things there are. Their number swings, so that blocks fill and
    /// empty again.
    pub fn begin_frame(&mut self, frame: u64, live: usize) {
        let swing = ((frame as f64 / 40.0).sin() + 1.0) / 2.0;
        let wanted = 100 + (swing * 300.0) as usize;
        // Now and then a burst, as when a level loads: more than the ring holds for the frames in flight.
        let burst = frame % 32 < 4;
        let mut push = |event: fn() -> Event, count: usize| self.events.extend((0..count).map(|_| event()));
        push(
            || Event::Create,
            if burst {
                40
            } else if live < wanted {
                12
            } else {
                4
            },
        );
        push(|| Event::Clone, 2);
        push(|| Event::Update, 6);
        push(|| Event::Drop, if live > wanted { 16 } else { 3 });
        push(|| Event::Check, 3);
        self.rng.shuffle(self.events.make_contiguous());
    }

    /// The next event of the frame.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
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

    /// A part of a buffer, and new bytes for it.
    pub fn update(&mut self, of: &Thing) -> (u64, Vec<u8>) {
        let words = of.shape.bytes() / 4;
        let first = self.rng.u64(0..words);
        let count = self.rng.u64(1..=(words - first).min(256));
        (first * 4, self.noise(count * 4))
    }

    fn noise(&mut self, bytes: u64) -> Vec<u8> {
        let mut noise = vec![0; bytes as usize];
        self.rng.fill(&mut noise);
        noise
    }
}
