//! Recordings of the Vulkan Memory Allocator, versions 1.0 to 1.3 of the format: each line has
//! `thread,time,frame,function` and the parameters of the function.
//!
//! A recording contains the program's requests, but not the driver's results. So the size of an image is computed from
//! its format and extent. If a call records no memory requirements, an alignment is assumed.

use std::io::BufRead;

use super::input::{BadLine, ReadError, Reading, number};
use super::lines::{self, Lines};

/// Content of the first line of every recording.
pub const FIRST_LINE: &[u8] = b"Vulkan Memory Allocator,Calls recording";
/// Assumed alignments, in bytes, which many drivers require.
const BUFFER_ALIGNMENT: u64 = 256;
const IMAGE_ALIGNMENT: u64 = 64 << 10;

pub fn read<R: BufRead>(lines: &mut Lines<R>, reading: &mut Reading<'_>) -> Result<(), ReadError> {
    let (mut images, mut buffers, mut strangers, mut resized) = (0_u64, 0_u64, 0_u64, 0_u64);
    while let Some(line) = lines.next()? {
        let line = Line::new(&line);
        match line.text(3) {
            b"vmaCreateBuffer" => {
                buffers += 1;
                allocate(&line, 14, line.count(5, "a buffer's size")?, BUFFER_ALIGNMENT, reading)?;
            }
            b"vmaCreateImage" => {
                images += 1;
                allocate(&line, 23, image_bytes(&line)?, IMAGE_ALIGNMENT, reading)?;
            }
            b"vmaAllocateMemory" | b"vmaAllocateMemoryPages" => allocate_required(&line, 13, reading)?,
            b"vmaAllocateMemoryForBuffer" | b"vmaAllocateMemoryForImage" => allocate_required(&line, 15, reading)?,
            b"vmaDestroyBuffer" | b"vmaDestroyImage" | b"vmaFreeMemory" | b"vmaFreeMemoryPages" => {
                for id in line.pointers(4)? {
                    if reading.writer.is_alive(u128::from(id)) {
                        reading.free(line.number, u128::from(id))?;
                    } else {
                        strangers += 1;
                    }
                }
            }
            b"vmaResizeAllocation" => resized += 1,
            // Lines about pools, maps, flushes and the configuration allocate no bytes.
            _ => {}
        }
    }
    if images > 0 {
        reading.notes.push(format!("sizes of {images} images are computed from their formats, aligned to 64 KiB"));
    }
    if buffers > 0 {
        reading.notes.push(format!("{buffers} buffers are assumed to be aligned to {BUFFER_ALIGNMENT}"));
    }
    if strangers > 0 {
        reading.notes.push(format!("{strangers} frees of allocations that were not recorded are ignored"));
    }
    if resized > 0 {
        reading.notes.push(format!("{resized} calls of vmaResizeAllocation are ignored"));
    }
    Ok(())
}

fn allocate_required(line: &Line<'_>, pointer: usize, reading: &mut Reading<'_>) -> Result<(), ReadError> {
    let alignment = line.count(5, "an alignment")?;
    if !alignment.is_power_of_two() {
        return Err(BadLine::new(line.number, "expected an alignment that is a power of two").into());
    }
    allocate(line, pointer, line.count(4, "a size")?, alignment, reading)
}

/// Adds an allocation for each pointer. A null pointer means that the allocation failed in the recording, so it is not
/// added.
fn allocate(
    line: &Line<'_>,
    pointer: usize,
    size: u64,
    alignment: u64,
    reading: &mut Reading<'_>,
) -> Result<(), ReadError> {
    let mut ids = line.pointers(pointer)?.into_iter();
    ids.try_for_each(|id| reading.allocate(line.number, u128::from(id), size, alignment))
}

/// Number of values that are read from a line. The last one is the pointer of an image.
const FIELD_COUNT_MAX: usize = 24;

struct Line<'a> {
    number: u64,
    fields: [&'a [u8]; FIELD_COUNT_MAX],
}

impl<'a> Line<'a> {
    fn new(line: &lines::Line<'a>) -> Self {
        let mut fields = [b"".as_slice(); FIELD_COUNT_MAX];
        fields.iter_mut().zip(line.fields()).for_each(|(into, field)| *into = field);
        Self { number: line.number, fields }
    }

    fn text(&self, column: usize) -> &'a [u8] {
        self.fields[column]
    }

    /// Parses a decimal number above 0.
    fn count(&self, column: usize, what: &str) -> Result<u64, BadLine> {
        let value = number(self.text(column)).filter(|value| *value > 0);
        value.ok_or_else(|| {
            BadLine::new(self.number, format!("expected {what} above 0 as value {} of the line", column + 1))
        })
    }

    /// Returns the pointers in a column that are not null. `vmaAllocateMemoryPages` and `vmaFreeMemoryPages` have
    /// several, separated by spaces; other calls have one.
    fn pointers(&self, column: usize) -> Result<Vec<u64>, BadLine> {
        let pointer = |text: &str| {
            u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).map_err(|_| {
                BadLine::new(self.number, format!("expected a hexadecimal pointer as value {} of the line", column + 1))
            })
        };
        let text = std::str::from_utf8(self.text(column)).unwrap_or_default();
        let pointers: Result<Vec<u64>, BadLine> = match self.text(3) {
            b"vmaAllocateMemoryPages" | b"vmaFreeMemoryPages" => text.split_ascii_whitespace().map(pointer).collect(),
            _ => pointer(text).map(|one| vec![one]),
        };
        pointers.map(|all| all.into_iter().filter(|pointer| *pointer != 0).collect())
    }
}

/// Returns the size of an image in bytes: the texels of all mip levels, layers and samples, without padding.
fn image_bytes(line: &Line<'_>) -> Result<u64, BadLine> {
    let format = number(line.text(6)).unwrap_or(0);
    let (block_bytes, block_width, block_height) = format_block(format);
    let count = |column, what| line.count(column, what);
    let (mut width, mut height, mut depth) = (count(7, "a width")?, count(8, "a height")?, count(9, "a depth")?);
    let (mips, layers, samples) = (count(10, "mip levels")?, count(11, "layers")?, count(12, "samples")?);
    let mut blocks = 0_u64;
    for _ in 0..mips.min(32) {
        let level = width.div_ceil(block_width).saturating_mul(height.div_ceil(block_height)).saturating_mul(depth);
        blocks = blocks.saturating_add(level);
        (width, height, depth) = ((width / 2).max(1), (height / 2).max(1), (depth / 2).max(1));
    }
    Ok(blocks.saturating_mul(block_bytes).saturating_mul(layers).saturating_mul(samples))
}

/// Returns the size in bytes, the width and the height of a texel block of a `VkFormat`, given by its number. An
/// unknown format has blocks of four bytes and one texel.
fn format_block(format: u64) -> (u64, u64, u64) {
    const ASTC: [(u64, u64); 14] = [
        (4, 4),
        (5, 4),
        (5, 5),
        (6, 5),
        (6, 6),
        (8, 5),
        (8, 6),
        (8, 8),
        (10, 5),
        (10, 6),
        (10, 8),
        (10, 10),
        (12, 10),
        (12, 12),
    ];
    match format {
        1 | 9..=15 | 127 => (1, 1, 1),
        2..=8 | 16..=22 | 70..=76 | 124 => (2, 1, 1),
        23..=36 => (3, 1, 1),
        84..=90 => (6, 1, 1),
        91..=97 | 101..=103 | 110..=112 | 130 => (8, 1, 1),
        104..=106 => (12, 1, 1),
        107..=109 | 113..=115 => (16, 1, 1),
        116..=118 => (24, 1, 1),
        119..=121 => (32, 1, 1),
        131..=134 | 139..=140 | 147..=150 | 153..=154 => (8, 4, 4),
        135..=138 | 141..=146 | 151..=152 | 155..=156 => (16, 4, 4),
        157..=184 => {
            let (width, height) = ASTC[(format as usize - 157) / 2];
            (16, width, height)
        }
        _ => (4, 1, 1),
    }
}
