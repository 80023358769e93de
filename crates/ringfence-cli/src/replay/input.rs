//! Reading a trace: detects the format and checks each line.
//!
//! | first bytes | format |
//! |---|---|
//! | `op,id,size,alignment` in any order, or an operation | CSV, as described by `replay --help` |
//! | `Vulkan Memory Allocator,Calls recording` | a recording of VMA |
//! | the magic number of [`ringfence_trace`] | a Ringfence trace |

use std::fmt;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

use indicatif::ProgressBar;

use super::lines::Lines;
use super::spool::{LIVE_BYTES_MAX, Misuse, Spool, Writer};
use super::{own, vma};
use crate::failure::Failure;
use crate::input::{name_of, open};

/// Number of operations between two updates of the progress.
const PROGRESS_EVERY: u64 = 1 << 16;

/// Maximum number of columns that are read. Further columns are ignored.
const FIELD_COUNT_MAX: usize = 16;

/// The values of a line.
type Fields<'a> = [&'a [u8]; FIELD_COUNT_MAX];

/// An error in a line of a trace: the number of the line (0 if the error has no line), and the content that was
/// expected.
#[derive(Debug)]
pub struct BadLine {
    pub line: u64,
    pub expected: String,
}

impl BadLine {
    pub fn new(line: u64, expected: impl Into<String>) -> Self {
        Self { line, expected: expected.into() }
    }
}

/// An error that occurred while a trace was read.
#[derive(Debug)]
pub enum ReadError {
    Bad(BadLine),
    Io(io::Error),
}

impl From<BadLine> for ReadError {
    fn from(bad: BadLine) -> Self {
        Self::Bad(bad)
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A [`ReadError`] with the name of the file.
#[derive(Debug)]
struct Named {
    name: String,
    error: ReadError,
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match &self.error {
            ReadError::Bad(BadLine { line: 0, expected }) => write!(f, "{name}: {expected}"),
            ReadError::Bad(BadLine { line, expected }) => write!(f, "{name}:{line}: {expected}"),
            ReadError::Io(error) => write!(f, "cannot read {name}: {error}"),
        }
    }
}

impl std::error::Error for Named {}

/// Reads a whole trace. The path `-` is standard input. [`Input::notes`] lists the assumptions that were necessary.
pub fn read(path: &Path, progress: &ProgressBar) -> Result<Input, Failure> {
    let name = name_of(path);
    let named = |error| Failure::from(Named { name: name.clone(), error });
    let file = open(path).map_err(|error| named(error.into()))?;
    let mut reading = Reading { writer: Writer::default(), progress, notes: Vec::new(), damage: None };
    sniff(file, &mut reading).map_err(named)?;
    if reading.writer.operation_count() == 0 {
        let why = reading.damage.unwrap_or_else(|| "expected at least one operation".to_owned());
        return Err(named(BadLine::new(0, why).into()));
    }
    let spool = reading.writer.finish().map_err(|error| named(error.into()))?;
    Ok(Input { spool, notes: reading.notes, damage: reading.damage.map(|damage| format!("{name}: {damage}")) })
}

/// The content of a trace.
pub struct Input {
    pub spool: Spool,
    pub notes: Vec<String>,
    /// The reason why only a part of the trace was read; `None` if it was read completely.
    pub damage: Option<String>,
}

/// The state while a trace is read.
pub struct Reading<'a> {
    pub writer: Writer,
    pub progress: &'a ProgressBar,
    pub notes: Vec<String>,
    /// The reason why no more of the trace can be read, if there is one.
    pub damage: Option<String>,
}

impl Reading<'_> {
    pub fn allocate(&mut self, line: u64, id: u128, size: u64, alignment: u64) -> Result<(), ReadError> {
        self.tick();
        match self.writer.allocate(id, size, alignment)? {
            Ok(()) => Ok(()),
            Err(Misuse::Alive) => Err(BadLine::new(line, format!("expected a new id, {id} is alive already")).into()),
            Err(_) => Err(BadLine::new(line, format!("expected at most {LIVE_BYTES_MAX} live bytes")).into()),
        }
    }

    pub fn free(&mut self, line: u64, id: u128) -> Result<(), ReadError> {
        self.tick();
        let freed = self.writer.free(id)?;
        freed.map_err(|_| BadLine::new(line, format!("expected the id of a live allocation, {id} is not alive")).into())
    }

    fn tick(&self) {
        let count = self.writer.operation_count();
        if count.is_multiple_of(PROGRESS_EVERY) {
            self.progress.set_message(format!("{count} operations read"));
            self.progress.tick();
        }
    }
}

/// Byte order mark, which some editors write before UTF-8 text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Detects the format from the first bytes, and reads the trace.
fn sniff(mut file: Box<dyn Read>, reading: &mut Reading<'_>) -> Result<(), ReadError> {
    let mut head = Vec::new();
    file.by_ref().take(vma::FIRST_LINE.len() as u64).read_to_end(&mut head)?;
    if head.starts_with(BYTE_ORDER_MARK) {
        head.drain(..BYTE_ORDER_MARK.len());
        file.by_ref().take(BYTE_ORDER_MARK.len() as u64).read_to_end(&mut head)?;
    }
    let is_vma = head == vma::FIRST_LINE;
    let is_trace = head.starts_with(&ringfence_trace::MAGIC);
    let whole = BufReader::with_capacity(1 << 16, Cursor::new(head).chain(file));
    if is_trace {
        return own::read(whole, reading);
    }
    let mut lines = Lines::new(whole);
    if is_vma { vma::read(&mut lines, reading) } else { read_csv(&mut lines, reading) }
}

/// For each column, its index in a line.
struct Columns {
    op: usize,
    id: usize,
    size: usize,
    alignment: usize,
}

impl Columns {
    const NAMES: &str = "the columns op,id,size,alignment";

    /// Reads the columns from a heading. Returns `None` if the line is not a heading.
    fn of(number: u64, names: &Fields<'_>) -> Result<Option<Self>, BadLine> {
        if !names.contains(&b"op".as_slice()) {
            return Ok(None);
        }
        let column = |name: &str| names.iter().position(|held| *held == name.as_bytes());
        let needed = |name| column(name).ok_or_else(|| BadLine::new(number, format!("expected {}", Self::NAMES)));
        for name in ["op", "id", "size", "alignment"] {
            if names.iter().filter(|held| **held == name.as_bytes()).count() > 1 {
                let what = format!("expected each column once, found two with the name {name}");
                return Err(BadLine::new(number, what));
            }
        }
        // If the column is absent, its value is empty on every line, and every alignment is 1.
        let alignment = column("alignment").unwrap_or(usize::MAX);
        Ok(Some(Self { op: needed("op")?, id: needed("id")?, size: needed("size")?, alignment }))
    }
}

fn read_csv<R: BufRead>(lines: &mut Lines<R>, reading: &mut Reading<'_>) -> Result<(), ReadError> {
    let mut columns = Columns { op: 0, id: 1, size: 2, alignment: 3 };
    let mut is_first = true;
    while let Some(line) = lines.next()? {
        if line.is_blank() || line.bytes.starts_with(b"#") {
            continue;
        }
        let quoted = line.bytes.contains(&b'"').then(|| line.unquoted());
        let mut fields = [b"".as_slice(); FIELD_COUNT_MAX];
        match &quoted {
            None => fields.iter_mut().zip(line.fields()).for_each(|(into, field)| *into = field),
            Some(Some(record)) => fields.iter_mut().zip(record).for_each(|(into, field)| *into = field),
            Some(None) => return Err(BadLine::new(line.number, "expected a quoted field to end on its line").into()),
        }
        if std::mem::take(&mut is_first)
            && let Some(named) = Columns::of(line.number, &fields)?
        {
            columns = named;
            continue;
        }
        read_row(line.number, &fields, &columns, reading)?;
    }
    Ok(())
}

fn read_row(line: u64, fields: &Fields<'_>, columns: &Columns, reading: &mut Reading<'_>) -> Result<(), ReadError> {
    let field = |at: usize| fields.get(at).copied().unwrap_or_default();
    let bad = |what: &str, at: usize| {
        let found = String::from_utf8_lossy(&field(at)[..field(at).len().min(40)]).into_owned();
        let found = if found.is_empty() { "nothing".to_owned() } else { format!("{found:?}") };
        ReadError::from(BadLine::new(line, format!("expected {what}, found {found}")))
    };
    let id = number(field(columns.id)).ok_or_else(|| bad("an id from 0 to 2^64-1", columns.id));
    match field(columns.op) {
        b"a" => {
            let id = id?;
            let size = number(field(columns.size)).filter(|size| *size > 0);
            let size = size.ok_or_else(|| bad("a size in bytes above 0", columns.size))?;
            let given = field(columns.alignment);
            let alignment = if given.is_empty() { Some(1) } else { number(given) };
            let alignment = alignment.filter(|alignment| alignment.is_power_of_two());
            let alignment = alignment.ok_or_else(|| bad("an alignment that is a power of two", columns.alignment))?;
            reading.allocate(line, u128::from(id), size, alignment)
        }
        b"f" => reading.free(line, u128::from(id?)),
        _ => Err(bad("the operation a or f", columns.op)),
    }
}

/// Parses a number that consists only of decimal digits.
pub fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |sum, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small random number generator (xorshift).
    struct Dice(u64);

    impl Dice {
        fn roll(&mut self, end: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 % end.max(1) as u64) as usize
        }
    }

    /// Returns the number of operations that were read, or the error as text.
    fn look(bytes: Vec<u8>) -> Result<u64, String> {
        let progress = ProgressBar::hidden();
        let mut reading = Reading { writer: Writer::default(), progress: &progress, notes: Vec::new(), damage: None };
        match sniff(Box::new(Cursor::new(bytes)), &mut reading) {
            Ok(()) => Ok(reading.writer.operation_count()),
            Err(error) => Err(Named { name: "a".to_owned(), error }.to_string()),
        }
    }

    #[test]
    fn no_damage_to_a_trace_panics_and_each_complaint_is_one_line_with_its_number() {
        let csv: String = (0..60)
            .map(|id| if id % 3 == 2 { format!("f,{},,\n", id - 1) } else { format!("a,{id},{},256\n", 100 + id) })
            .collect();
        let csv = format!("op,id,size,alignment\n{csv}");
        let vma = "Vulkan Memory Allocator,Calls recording\n1,8\nConfig,Begin\nMacro,VMA_DEBUG_ALIGNMENT,1\nConfig,End\n\
            12,0.1,0,vmaCreateAllocator\n12,0.2,1,vmaCreateBuffer,0,1024,3,0,0,1,0,0,0,00000A,00000B,\n\
            12,0.3,2,vmaDestroyBuffer,00000B\n";
        let mut own = Vec::from(ringfence_trace::MAGIC);
        own.extend([1, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 9, 9, 9, 9, 1, 2, 3]);
        assert_eq!(look(csv.clone().into_bytes()), Ok(60));
        let mut dice = Dice(0x1234_5678_9abc_def1);
        for whole in [csv.into_bytes(), vma.into(), own] {
            for _ in 0..3000 {
                let mut bytes = whole.clone();
                for _ in 0..=dice.roll(3) {
                    let at = dice.roll(bytes.len());
                    match dice.roll(5) {
                        0 => bytes.truncate(at),
                        1 if !bytes.is_empty() => bytes[at] ^= 1 << dice.roll(8),
                        2 => drop(bytes.drain(at..(at + dice.roll(30)).min(bytes.len()))),
                        3 => drop(bytes.splice(at..at, [b",\n\r0\"a-\0"[dice.roll(8)]])),
                        _ => drop(bytes.splice(at..at, *b"99999999999999999999")),
                    }
                }
                if let Err(complaint) = look(bytes) {
                    assert!(!complaint.contains('\n') && complaint.starts_with('a'), "{complaint:?}");
                }
            }
        }
    }
}
