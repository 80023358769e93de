//! Tests of a trace whose `Write` calls the allocator or panics.

use std::io::{self, Write};
use std::time::Duration;

use ringfence::sim::Device;
use ringfence::trace::StartTraceError;
use ringfence::{Allocator, AllocatorDesc};

use crate::reentry::world::{Inside, Limited, Mode, buffer, place};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Where {
    FirstWrite,
    Write,
    Flush,
    Drop,
}

struct Sink {
    inside: Inside,
    at: Where,
    writes: u32,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writes += 1;
        if self.at == Where::Write && self.writes > 2 || self.at == Where::FirstWrite {
            self.inside.run();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.at == Where::Flush {
            self.inside.run();
        }
        Ok(())
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        if self.at == Where::Drop {
            self.inside.run();
        }
    }
}

/// Stops and starts the recording from inside the recording's own `Write`. Each call succeeds or fails; none may block.
fn stop_and_start(memory: &Allocator<Device>) {
    let _ = memory.trace().stop();
    let _ = memory.trace().start(io::sink());
    let _ = memory.trace().stop();
}

/// Returns `true` if the caller's code panics now.
fn panics(inside: &Inside) -> bool {
    inside.mode() == Mode::Panics && !inside.is_disarmed()
}

fn begin(world: &Limited, inside: &Inside, at: Where) {
    // A trace can begin only while the allocator has no resources.
    let _ = world.memory.trace().stop();
    world.memory.shutdown(Duration::MAX).expect("everything is complete");
    inside.also(stop_and_start);
    let started = world.memory.trace().start(Sink { inside: inside.clone(), at, writes: 0 });
    match at {
        Where::FirstWrite if panics(inside) => assert!(matches!(started, Err(StartTraceError::Io(_)))),
        // A trace without that memory would be wrong.
        Where::FirstWrite if !inside.is_disarmed() => {
            assert!(matches!(started, Err(StartTraceError::NotEmpty { .. })), "the write makes some")
        }
        _ => started.expect("no resource was created yet"),
    }
}

fn end(world: &Limited, inside: &Inside, at: Where) {
    let stopped = world.memory.trace().stop();
    inside.also(|_| ());
    match at {
        Where::FirstWrite if !inside.is_disarmed() => assert!(matches!(stopped, Ok(None)), "no trace was started"),
        Where::Write | Where::Flush if panics(inside) => assert!(stopped.is_err(), "it was not written as a whole"),
        _ => assert!(stopped.expect("it was written").is_some()),
    }
    assert!(matches!(world.memory.trace().stop(), Ok(None)), "it is over");
}

/// Makes enough events for some chunks, only by creating and dropping resources.
fn events(world: &Limited, bytes: usize) {
    let name = "a name of some length, so that not so many of them are needed for a chunk. ".repeat(10);
    for _ in 0..bytes / name.len() {
        drop(buffer(&world.memory, 256, &name).expect("there is room"));
    }
}

fn desc() -> AllocatorDesc {
    AllocatorDesc::default()
}

#[test]
fn the_first_write() {
    place("the first write of a trace", desc(), |world, inside| {
        begin(world, inside, Where::FirstWrite);
        end(world, inside, Where::FirstWrite);
    });
}

#[test]
fn a_write_by_a_reclaim() {
    place("a write by a reclaim", desc(), |world, inside| {
        begin(world, inside, Where::Write);
        events(world, 200 << 10);
        world.memory.reclaim();
        end(world, inside, Where::Write);
    });
}

#[test]
fn a_write_by_what_fills_the_buffer() {
    place("a write by what fills the buffer", desc(), |world, inside| {
        begin(world, inside, Where::Write);
        events(world, 3 << 20);
        end(world, inside, Where::Write);
    });
}

#[test]
fn a_write_by_the_end() {
    place("a write by the end", desc(), |world, inside| {
        begin(world, inside, Where::Write);
        events(world, 20 << 10);
        end(world, inside, Where::Write);
    });
}

#[test]
fn a_flush() {
    place("a flush", desc(), |world, inside| {
        begin(world, inside, Where::Flush);
        end(world, inside, Where::Flush);
    });
}

#[test]
fn the_end_of_what_is_written_to() {
    place("the drop of what a trace is written to", desc(), |world, inside| {
        begin(world, inside, Where::Drop);
        end(world, inside, Where::Drop);
    });
}

/// A write that panics ends only the recording, like a write that fails.
#[test]
fn a_panic_of_the_write_is_the_reason_that_the_end_gives() {
    place("a panic of the write", desc(), |world, inside| {
        begin(world, inside, Where::Write);
        events(world, 200 << 10);
        world.memory.reclaim();
        let stopped = world.memory.trace().stop();
        inside.also(|_| ());
        assert_eq!(stopped.is_err_and(|error| error.to_string().contains("panicked")), panics(inside));
    });
}
