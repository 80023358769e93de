//! Reading Ringfence traces: the allocations and frees of their ranges, in order.
//!
//! All ranges are replayed in one heap, whatever their blocks and memory types; allocations of blocks are not replayed.
//! If a trace is cut off or damaged, the readable part is replayed.

use std::io::Read;

use ringfence_trace::{Event, Reader, TraceError};

use super::input::{BadLine, ReadError, Reading};

pub fn read(file: impl Read, reading: &mut Reading<'_>) -> Result<(), ReadError> {
    let events = Reader::new(file).map_err(|error| BadLine::new(0, error.to_string()))?;
    let mut strangers = 0_u64;
    for event in events {
        let event = match event {
            Ok(event) => event,
            Err(TraceError::Io(error)) => return Err(error.into()),
            Err(error) => {
                reading.damage = Some(error.to_string());
                break;
            }
        };
        match event {
            Event::Allocated { block, offset, bytes, alignment, .. } if bytes > 0 => {
                reading.allocate(0, id(block, offset), bytes, alignment)?;
            }
            Event::Freed { block, offset } if reading.writer.is_alive(id(block, offset)) => {
                reading.free(0, id(block, offset))?;
            }
            Event::Freed { .. } => strangers += 1,
            _ => {}
        }
    }
    reading.notes.push("the ranges of all memory types are replayed in one heap".to_owned());
    if strangers > 0 {
        reading.notes.push(format!("{strangers} frees of ranges whose allocation is not in the trace are ignored"));
    }
    Ok(())
}

fn id(block: u64, offset: u64) -> u128 {
    u128::from(block) << 64 | u128::from(offset)
}
