//! The rows of the input. Each row is checked.
//!
//! The text stays in memory and is parsed again for the output. So the host memory is the size of the text, 40 bytes
//! per row for the planner, and 16 bytes per row while the ids are compared.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::Path;

use csv::{ByteRecord, Reader, ReaderBuilder};
use ringfence_planner::formats;
use ringfence_planner::{Item, ItemError, Lifetime, RecurringItem};

use crate::args::PlanOptions;
use crate::failure::Failure;
use crate::input::{name_of, open, read_whole};

/// The content of the input.
pub struct Input {
    /// Name of the input, as messages print it.
    pub name: String,
    /// The rows as CSV: the content of the file, or rows that were made from a dump.
    pub text: Vec<u8>,
    /// For each row, the line of the dump that it was made from; empty if the input is CSV.
    dump_lines: Vec<u64>,
    /// Height of the compiler's own plan in bytes, if the dump contains it.
    pub given_bytes: Option<u64>,
    /// Sizes of the pools of a dump, in bytes. Each pool becomes a heap.
    pub heap_bytes: Vec<u64>,
    pub items: Vec<Item>,
    /// For each row, the index of the first row of the same buffer; empty if every row is its own buffer. All rows of a
    /// buffer have the same offset.
    pub owners: Vec<usize>,
    pub columns: Columns,
    /// Names of the columns that the command does not read.
    pub unread: Vec<String>,
}

/// Use of the offsets that rows already have (`--offsets`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offsets {
    /// New offsets replace them, for the output of an earlier plan.
    Replace,
    /// Rows keep them, for MiniMalloc's fixed buffers.
    Pin,
}

/// For each column, its index in a row, or `None` if the input does not have the column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Columns {
    pub has_heading: bool,
    pub id: usize,
    lower: usize,
    upper: usize,
    size: usize,
    alignment: Option<usize>,
    /// Offset that an earlier plan gave to the row. With `--offsets replace`, the new plan replaces the offset.
    pub offset: Option<usize>,
    /// Name of the row. The page shows it beside the id.
    pub name: Option<usize>,
    /// Numbers of the passes that use the row.
    pub uses: Option<usize>,
    /// Offset that the row must have.
    pub pinned: Option<usize>,
    /// Numbers of the heaps that the row may use, the preferred one first.
    pub heaps: Option<usize>,
    /// Kind of the row. Rows of different kinds share no granularity page.
    pub kind: Option<usize>,
    /// Heap that an earlier plan gave to the row. The new plan replaces the heap.
    pub heap: Option<usize>,
    /// Names of the pools that became the heaps of the row.
    pub pool: Option<usize>,
    /// Id of the row with the first lifetime of the same buffer.
    again_of: Option<usize>,
    /// MiniMalloc's times at which the row is not alive. A value is an error.
    gaps: Option<usize>,
}

const EXPECTED: &str = "expected the columns id,lower,upper,size and optionally alignment";

/// Reads and checks all rows. The path `-` is standard input.
pub fn read(path: &Path, options: &PlanOptions) -> Result<Input, Failure> {
    let PlanOptions { alignment, format, offsets, .. } = *options;
    let name = name_of(path);
    let text = open(path).and_then(read_whole).map_err(|error| format!("cannot read {name}: {error}"))?;
    let rows = formats::read(format, &text).map_err(|what| format!("{name}{what}"))?;
    let (text, dump_lines, given_bytes, heap_bytes) = match rows {
        Some(rows) => (rows.csv, rows.lines, rows.given_bytes, rows.heap_bytes),
        None => (text, Vec::new(), None, Vec::new()),
    };
    let (items, owners, columns) = (Vec::new(), Vec::new(), Columns::BY_PLACE);
    let unread = Vec::new();
    let mut input = Input { name, text, dump_lines, given_bytes, heap_bytes, items, owners, columns, unread };
    let mut items = Vec::new();
    let mut ids = Vec::new();
    let (mut reader, mut record) = (reader(&input.text), ByteRecord::new());
    // Line and number of fields of the first record, which is a heading or a row.
    let mut first = None;
    while read_record(&mut reader, &mut record, &input.text).map_err(|what| format!("{}{what}", input.name))? {
        let line = input.line(&record);
        let at = |what: String| format!("{}:{line}: {what}", input.name);
        let is_first = first.is_none();
        let (first_line, fields) = *first.get_or_insert((line, record.len()));
        if is_first && let Some(columns) = Columns::of(&record).map_err(at)? {
            input.columns = columns.with(offsets).map_err(at)?;
            if !input.is_dump() {
                input.unread = Columns::unread(&record);
            }
            continue;
        }
        if is_first {
            let further = Columns::BY_PLACE_COUNT..record.len();
            input.unread = further.map(|place| format!("column {}", place + 1)).collect();
        }
        if record.len() != fields {
            let found = record.len();
            return Err(at(format!("expected {fields} fields, as in line {first_line}, found {found}")).into());
        }
        input.columns.check_minimalloc(&record, offsets).map_err(at)?;
        let (id, item) = row(&record, &input.columns, alignment).map_err(at)?;
        let count = u32::try_from(items.len()).map_err(|_| at(format!("expected at most {} rows", u32::MAX)))?;
        ids.push((hash(id), count));
        items.push(item);
    }
    if items.is_empty() {
        return Err(format!("{}: expected at least one row; {EXPECTED}", input.name).into());
    }
    input.items = items;
    input.check_ids(ids)?;
    input.owners = input.owners()?;
    Ok(input)
}

/// First character of a comment line. If a field begins with this character, it must be quoted.
pub const COMMENT: Option<u8> = Some(b'#');

/// Returns a CSV reader over the text. The reader accepts any number of fields: [`read`] checks that each row has as
/// many fields as the first record, and its error has both numbers.
fn reader(text: &[u8]) -> Reader<&[u8]> {
    ReaderBuilder::new().has_headers(false).flexible(true).comment(COMMENT).from_reader(text)
}

/// Reads the next record, and removes blanks around its fields. Returns `false` at the end of the text. A field must
/// end on its line, because an unclosed quote would make the following rows a part of the field.
fn read_record(reader: &mut Reader<&[u8]>, record: &mut ByteRecord, text: &[u8]) -> Result<bool, String> {
    let is_read = reader.read_byte_record(record).map_err(|error| {
        let line = error.position().map_or(String::new(), |position| format!(":{}", position.line()));
        format!("{line}: {EXPECTED}: {error}")
    })?;
    if is_read && record.as_slice().iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        return Err(format!(":{}: expected a quoted field to end on its line", line(text, record)));
    }
    record.trim();
    Ok(is_read)
}

/// Returns the line of a record. The record's position can be before blank lines and comments that precede the record,
/// so these are skipped.
fn line(text: &[u8], record: &ByteRecord) -> u64 {
    let Some(position) = record.position() else { return 0 };
    let mut rest = &text[(position.byte() as usize).min(text.len())..];
    let mut line = position.line();
    while let [first @ (b'\n' | b'\r' | b'#'), ..] = rest {
        let end = rest.iter().position(|byte| *byte == b'\n').filter(|_| *first != b'\n');
        rest = &rest[(end.unwrap_or(0) + 1).min(rest.len())..];
        line += 1;
    }
    line
}

fn hash(id: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

impl Columns {
    /// Columns of an input without a heading.
    const BY_PLACE: Self = Self {
        has_heading: false,
        id: 0,
        lower: 1,
        upper: 2,
        size: 3,
        alignment: Some(4),
        offset: None,
        name: None,
        uses: None,
        pinned: None,
        heaps: None,
        kind: None,
        heap: None,
        pool: None,
        again_of: None,
        gaps: None,
    };

    /// Number of columns of an input without a heading. Further columns are ignored.
    const BY_PLACE_COUNT: usize = 5;

    /// Names of the columns that the command reads or writes. The first ones are those of an input without a heading,
    /// in order.
    const NAMES: [&[u8]; 15] = [
        b"id",
        b"lower",
        b"upper",
        b"size",
        b"alignment",
        b"offset",
        b"name",
        b"uses",
        b"pinned",
        b"heaps",
        b"kind",
        b"heap",
        b"again_of",
        b"pool",
        b"gaps",
    ];

    /// Reads the columns from the first record. Returns `None` if the record is a row of data: it contains a number,
    /// and no field is the name of a required column.
    fn of(record: &ByteRecord) -> Result<Option<Self>, String> {
        let is_number = |field: &[u8]| number(field).is_some();
        let known = |field: &[u8]| [b"id".as_slice(), b"lower", b"upper", b"size"].contains(&field);
        if !record.iter().any(known) && record.iter().any(is_number) {
            return Ok(None);
        }
        for (place, name) in record.iter().enumerate() {
            if Self::NAMES.contains(&name) && record.iter().take(place).any(|held| held == name) {
                let name = String::from_utf8_lossy(name);
                return Err(format!("expected each column once, found two with the name {name}"));
            }
        }
        Self::check_spelling(record)?;
        let column = |name: &str| record.iter().position(|held| held == name.as_bytes());
        let needed = |name: &str| column(name).ok_or_else(|| format!("{EXPECTED}; {name} is missing"));
        Ok(Some(Self {
            has_heading: true,
            id: needed("id")?,
            lower: needed("lower")?,
            upper: needed("upper")?,
            size: needed("size")?,
            alignment: column("alignment"),
            offset: column("offset"),
            name: column("name"),
            uses: column("uses"),
            pinned: column("pinned"),
            heaps: column("heaps"),
            kind: column("kind"),
            heap: column("heap"),
            pool: column("pool"),
            again_of: column("again_of"),
            gaps: column("gaps"),
        }))
    }

    /// Fails if a name differs from the name of a known column only in its case. Without this check the column would be
    /// ignored, and the plan would solve a different problem.
    fn check_spelling(record: &ByteRecord) -> Result<(), String> {
        for name in record {
            let known = Self::NAMES.iter().find(|known| known.eq_ignore_ascii_case(name) && **known != name);
            if let Some(known) = known {
                let [found, known] = [name, known].map(String::from_utf8_lossy);
                return Err(format!("expected the column {found} to be called {known}"));
            }
        }
        Ok(())
    }

    /// Returns the names in a heading that the command does not read.
    fn unread(record: &ByteRecord) -> Vec<String> {
        let unread = record.iter().filter(|name| !Self::NAMES.contains(name));
        unread.map(|name| String::from_utf8_lossy(name).into_owned()).collect()
    }

    /// If `offsets` is [`Offsets::Pin`], makes the column `offset` the column of pinned offsets. Fails if there is no
    /// such column, or a column `pinned` or `heap`.
    fn with(self, offsets: Option<Offsets>) -> Result<Self, String> {
        if offsets != Some(Offsets::Pin) {
            return Ok(self);
        }
        let other = [(self.pinned, "pinned"), (self.heap, "heap")].into_iter().find(|held| held.0.is_some());
        match (self.offset, other) {
            (None, _) => Err("expected a column offset with --offsets pin".to_owned()),
            (_, Some((_, name))) => Err(format!("expected no column {name} with --offsets pin")),
            (offset, None) => Ok(Self { pinned: offset, ..self }),
        }
    }

    /// Fails if this command would ignore a value that MiniMalloc uses (a gap, or an offset without `--offsets`),
    /// because the plan would solve a different problem.
    fn check_minimalloc(&self, record: &ByteRecord, offsets: Option<Offsets>) -> Result<(), String> {
        let field = |at: Option<usize>| {
            let text = record.get(at?).filter(|text| !text.is_empty())?;
            Some(String::from_utf8_lossy(&text[..text.len().min(40)]).into_owned())
        };
        if let Some(found) = field(self.gaps) {
            let instead = "a row for each lifetime, with the first one's id in the column again_of";
            return Err(format!("expected {instead} instead of gaps, found {found:?}"));
        }
        match field(self.offset).filter(|_| offsets.is_none()) {
            Some(found) => {
                let ways = "--offsets replace (to compute new ones) or --offsets pin (rows keep them)";
                Err(format!("expected {ways}, because the row has the offset {found:?}"))
            }
            None => Ok(()),
        }
    }
}

/// Parses a row. Returns its id and its item.
fn row<'r>(record: &'r ByteRecord, columns: &Columns, alignment: u64) -> Result<(&'r [u8], Item), String> {
    let field = |at: usize| record.get(at).unwrap_or_default();
    let found = |at: usize| {
        let text = field(at);
        let text = String::from_utf8_lossy(&text[..text.len().min(40)]).into_owned();
        if text.is_empty() { "nothing".to_owned() } else { format!("{text:?}") }
    };
    let bad = |what: &str, at: usize| format!("expected {what}, found {}", found(at));
    let id = field(columns.id);
    if id.is_empty() {
        return Err(bad("an id", columns.id));
    }
    let moment = "a whole number from 0 to 2^64-1";
    let lower = number(field(columns.lower)).ok_or_else(|| bad(&format!("lower to be {moment}"), columns.lower))?;
    let upper = number(field(columns.upper)).ok_or_else(|| bad(&format!("upper to be {moment}"), columns.upper))?;
    if upper <= lower {
        return Err(format!("expected upper to be above lower, found {lower} to {upper}"));
    }
    let size = number(field(columns.size)).filter(|size| *size > 0);
    let size = size.ok_or_else(|| bad("a size above 0", columns.size))?;
    let own = columns.alignment.filter(|at| !field(*at).is_empty());
    let alignment = match own {
        None => alignment,
        Some(at) => {
            let own = number(field(at)).filter(|own| own.is_power_of_two());
            own.ok_or_else(|| bad("an alignment that is a power of two", at))?
        }
    };
    Ok((id, Item { alignment, lifetime: Lifetime { lower, upper }, ..Item::new(size, 0, 1) }))
}

impl Input {
    /// Returns `true` if the rows were made from a dump.
    pub fn is_dump(&self) -> bool {
        !self.dump_lines.is_empty()
    }

    /// Returns the line of a record in the file or in the dump.
    pub fn line(&self, record: &ByteRecord) -> u64 {
        let line = line(&self.text, record);
        // Rows that were made from a dump have one line each, and the first line is the heading.
        line.checked_sub(2).and_then(|row| self.dump_lines.get(row as usize)).copied().unwrap_or(line)
    }

    /// Returns the line of each row.
    pub fn lines(&self) -> Vec<u64> {
        let mut lines = Vec::with_capacity(self.items.len());
        let _ = self.each_row(|_, record| {
            lines.push(self.line(record));
            Ok(())
        });
        lines
    }

    /// Returns the heading of the input. If the input has no heading, returns the default names of its columns.
    pub fn heading(&self) -> Result<ByteRecord, Failure> {
        let mut first = ByteRecord::new();
        read_record(&mut reader(&self.text), &mut first, &self.text)?;
        if self.columns.has_heading {
            return Ok(first);
        }
        let name = |place: usize| match Columns::NAMES.get(place).filter(|_| place < Columns::BY_PLACE_COUNT) {
            Some(name) => name.to_vec(),
            None => format!("column {}", place + 1).into_bytes(),
        };
        Ok((0..first.len()).map(name).collect())
    }

    /// Calls `visit` with the index and the record of each row, without the heading.
    pub fn each_row(&self, mut visit: impl FnMut(usize, &ByteRecord) -> Result<(), Failure>) -> Result<(), Failure> {
        let (mut reader, mut record) = (reader(&self.text), ByteRecord::new());
        let mut skip = usize::from(self.columns.has_heading);
        let mut number = 0;
        while read_record(&mut reader, &mut record, &self.text)? {
            if skip > 0 {
                skip -= 1;
                continue;
            }
            visit(number, &record)?;
            number += 1;
        }
        Ok(())
    }

    /// Returns the line and the id of each row in `rows`, whose indices must be ascending.
    fn find(&self, rows: &[u32]) -> Vec<(u64, Vec<u8>)> {
        let mut found = Vec::with_capacity(rows.len());
        let mut wanted = rows.iter().copied().peekable();
        let id = self.columns.id;
        let _ = self.each_row(|number, record| {
            if wanted.next_if_eq(&(number as u32)).is_some() {
                let line = self.line(record);
                found.push((line, record.get(id).unwrap_or_default().to_vec()));
            }
            Ok(())
        });
        found
    }

    /// Returns, for each row, the index of the first row of the same buffer, or an empty list if every row is its own
    /// buffer. Fails if a value of `again_of` is invalid, or if lifetimes of a buffer overlap.
    fn owners(&self) -> Result<Vec<usize>, Failure> {
        let Some(column) = self.columns.again_of else { return Ok(Vec::new()) };
        let (mut known, mut owners, mut lines) = (HashMap::new(), Vec::new(), Vec::new());
        let same = |a: usize, b: usize| {
            let (a, b) = (&self.items[a], &self.items[b]);
            (a.size, a.alignment) == (b.size, b.alignment)
        };
        self.each_row(|number, record| {
            let [id, of] = [self.columns.id, column].map(|at| record.get(at).unwrap_or_default());
            let owner = if of.is_empty() { Some(number) } else { known.get(of).copied() };
            let owner = owner.filter(|&owner| same(owner, number)).ok_or_else(|| {
                let (line, of) = (self.line(record), String::from_utf8_lossy(of));
                let what = "expected again_of to be the id of an earlier row of the same size and alignment";
                format!("{}:{line}: {what}, found {of:?}", self.name)
            })?;
            known.insert(id.to_vec(), owner);
            owners.push(owner);
            lines.push(self.line(record));
            Ok(())
        })?;
        let mut order: Vec<usize> = (0..owners.len()).collect();
        order.sort_by_key(|&row| (owners[row], self.items[row].lifetime.lower));
        let meet = |pair: &&[usize]| {
            let (before, after) = (self.items[pair[0]].lifetime, self.items[pair[1]].lifetime);
            owners[pair[0]] == owners[pair[1]] && before.upper > after.lower
        };
        if let Some(pair) = order.windows(2).find(meet) {
            let [one, other] = [pair[0], pair[1]].map(|row| lines[row]);
            let what = "expected lifetimes of one buffer apart in time";
            return Err(format!("{}:{}: {what}, line {} has another", self.name, one.max(other), one.min(other)).into());
        }
        let has_any = owners.iter().enumerate().any(|(row, &owner)| row != owner);
        Ok(if has_any { owners } else { Vec::new() })
    }

    /// Returns the buffers of some rows, and the index of the buffer of each of these rows.
    pub fn buffers(&self, rows: impl Iterator<Item = usize>) -> (Vec<RecurringItem>, Vec<usize>) {
        let (mut known, mut buffers, mut of_rows) = (HashMap::new(), Vec::new(), Vec::new());
        for row in rows {
            let Item { size, alignment, lifetime, .. } = self.items[row];
            let number = *known.entry(self.owners[row]).or_insert_with(|| {
                buffers.push(RecurringItem { size, alignment, lifetimes: Vec::new() });
                buffers.len() - 1
            });
            buffers[number].lifetimes.push(lifetime);
            of_rows.push(number);
        }
        (buffers, of_rows)
    }

    /// Fails if two rows have the same id. `ids` has the hash of each id, and only ids with equal hashes are compared.
    fn check_ids(&self, mut ids: Vec<(u64, u32)>) -> Result<(), Failure> {
        ids.sort_unstable();
        let mut suspects: Vec<u32> =
            ids.chunk_by(|a, b| a.0 == b.0).filter(|same| same.len() > 1).flatten().map(|(_, row)| *row).collect();
        drop(ids);
        suspects.sort_unstable();
        let mut seen = std::collections::HashMap::new();
        for (line, id) in self.find(&suspects) {
            if let Some(first) = seen.get(&id) {
                let id = String::from_utf8_lossy(&id).into_owned();
                return Err(format!("{}:{line}: expected a new id, {id:?} is in line {first} too", self.name).into());
            }
            seen.insert(id, line);
        }
        Ok(())
    }

    /// Returns the text of the planner's error, with the line of the row that it concerns.
    pub fn explain(&self, error: &ItemError) -> Failure {
        let row = match *error {
            ItemError::ZeroSize { index }
            | ItemError::EmptyLifetime { index, .. }
            | ItemError::BadAlignment { index, .. }
            | ItemError::Overflow { index } => index as u32,
            _ => return format!("{}: {error}", self.name).into(),
        };
        let line = self.find(&[row]).first().map_or(0, |(line, _)| *line);
        match error {
            ItemError::Overflow { .. } => {
                format!("{}:{line}: expected sizes and alignments that add up to less than 2^63", self.name).into()
            }
            error => format!("{}:{line}: {error}", self.name).into(),
        }
    }
}

/// Parses a number that consists only of decimal digits.
pub fn number(text: &[u8]) -> Option<u64> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| digits)?.parse().ok()
}
