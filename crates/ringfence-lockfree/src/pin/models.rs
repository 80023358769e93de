//! Models of the pins: `loom` runs them with the orders of the steps of writing threads and a releasing thread: all
//! orders, or those with at most three preemptions.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p ringfence-lockfree --lib --release models`
//!
//! The bytes of the ring are `loom` cells. A model fails if two threads access the same byte at the same time, or if a
//! thread does not see earlier writes to it.

use loom::sync::{Arc, Mutex};
use loom::thread;

use super::*;
use crate::primitive::UnsafeCell;

/// A ring with one byte per entry.
struct World {
    released: Released,
    books: Mutex<(Ring<u32>, Pins)>,
    bytes: Vec<UnsafeCell<u8>>,
}

/// A writer's page: position and offset.
#[derive(Clone, Copy)]
struct Page {
    position: u64,
    offset: u64,
}

impl World {
    fn new(capacity: u64) -> Self {
        let bytes = (0..capacity).map(|_| UnsafeCell::new(0)).collect();
        Self { released: Released::new(), books: Mutex::new((Ring::new(capacity), Pins::default())), bytes }
    }

    fn claim(&self, position: u64) -> HeldPin {
        self.books.lock().unwrap().1.claim(position)
    }

    /// Allocates a page of one byte and sets the pin to its position.
    fn reserve(&self, tag: u32, pin: &Pin) -> Option<Page> {
        let mut books = self.books.lock().unwrap();
        let range = books.0.allocate(1, 1, &tag).ok()?;
        pin.set(range.position());
        Some(Page { position: range.position(), offset: range.offset() })
    }

    fn write(&self, page: Page) {
        // SAFETY: `loom` fails the model if another thread accesses the byte.
        self.bytes[page.offset as usize].with_mut(|byte| unsafe { *byte += 1 });
    }

    /// Writes to a page that was reserved earlier. Returns `false` and writes nothing if the page was released
    /// meanwhile.
    fn write_again(&self, page: Page, pin: &Pin) -> bool {
        pin.set(page.position);
        let holds = self.released.holds(page.position);
        if holds {
            self.write(page);
        }
        pin.free();
        holds
    }

    /// Releases the entries with tags up to `passed`. Returns `true` if a pin has prevented the release of some of
    /// them.
    fn release(&self, passed: u32) -> bool {
        let mut books = self.books.lock().unwrap();
        let (ring, pins) = &mut *books;
        release(ring, &self.released, pins, &mut |tag| *tag <= passed)
    }

    fn used(&self) -> u64 {
        self.books.lock().unwrap().0.used()
    }
}

fn model(preemptions: impl Into<Option<usize>>, body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions.into();
    builder.check(body);
}

#[test]
fn a_late_writer_and_the_next_owner_of_its_bytes_never_meet() {
    model(None, || {
        let world = Arc::new(World::new(1));
        let late = world.claim(Pin::FREE);
        let page = world.reserve(1, &late).unwrap();
        late.free();
        let writing = Arc::clone(&world);
        let writer = thread::spawn(move || (writing.write_again(page, &late), late));
        let in_the_way = world.release(1);
        let pin = world.claim(Pin::FREE);
        let next = world.reserve(2, &pin);
        assert_eq!(next.is_none(), in_the_way, "a pinned byte stays, another is allocated");
        next.into_iter().for_each(|page| world.write(page));
        let (_, late) = writer.join().unwrap();
        drop((pin, late));
        assert!(!world.release(2), "no pin is left");
        assert_eq!(world.used(), 0, "all bytes are released");
    });
}

#[test]
fn who_was_refused_stays_away_and_who_was_accepted_is_waited_for() {
    model(3, || {
        let world = Arc::new(World::new(2));
        // Each of the two entries has a writer; the releasing thread may have to restore the position for either.
        let writers: Vec<_> = [1, 2]
            .map(|tag| {
                let pin = world.claim(Pin::FREE);
                let page = world.reserve(tag, &pin).unwrap();
                pin.free();
                let world = Arc::clone(&world);
                thread::spawn(move || world.write_again(page, &pin))
            })
            .into();
        world.release(2);
        let pin = world.claim(Pin::FREE);
        while let Some(page) = world.reserve(3, &pin) {
            world.write(page);
        }
        writers.into_iter().for_each(|writer| _ = writer.join().unwrap());
        drop(pin);
        assert!(!world.release(3));
        assert_eq!(world.used(), 0);
    });
}

#[test]
fn a_writer_that_moves_on_to_its_next_page_leaves_the_last_one_to_others() {
    model(3, || {
        let world = Arc::new(World::new(2));
        let pin = world.claim(Pin::FREE);
        let page = world.reserve(1, &pin).unwrap();
        let writing = Arc::clone(&world);
        let writer = thread::spawn(move || {
            writing.write(page);
            pin.free();
            let next = writing.reserve(2, &pin);
            next.into_iter().for_each(|page| writing.write(page));
            pin.free();
        });
        for _ in 0..2 {
            world.release(1);
        }
        let mine = world.claim(Pin::FREE);
        let page = world.reserve(3, &mine);
        page.into_iter().for_each(|page| world.write(page));
        drop(mine);
        writer.join().unwrap();
        assert!(!world.release(3));
        assert_eq!(world.used(), 0);
    });
}

#[test]
fn who_released_a_pin_does_not_free_it_for_the_next() {
    model(None, || {
        let world = Arc::new(World::new(1));
        let pin = world.claim(3);
        let other = thread::spawn(move || drop(pin));
        let mine = world.claim(5);
        other.join().unwrap();
        assert_eq!(world.books.lock().unwrap().1.first(), 5);
        drop(mine);
        assert_eq!(world.books.lock().unwrap().1.first(), Pin::FREE);
    });
}

#[test]
fn what_a_writer_wrote_is_seen_by_who_releases_its_page() {
    model(None, || {
        let world = Arc::new(World::new(1));
        let pin = world.claim(Pin::FREE);
        let page = world.reserve(1, &pin).unwrap();
        let writing = Arc::clone(&world);
        let writer = thread::spawn(move || {
            writing.write(page);
            drop(pin);
        });
        // The pin was set before the writer started. So once the pin is cleared, the write is done.
        if !world.release(1) {
            // SAFETY: `loom` fails the model if another thread accesses the byte.
            world.bytes[0].with_mut(|byte| assert_eq!(unsafe { *byte }, 1));
        }
        writer.join().unwrap();
    });
}
