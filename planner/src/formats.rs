//! Conversion of compilers' dumps to rows of CSV.
//!
//! | format | content | converted |
//! |---|---|---|
//! | `csv` | `id,lower,upper,size[,alignment]`, also from MiniMalloc | nothing |
//! | `xla` | `…-buffer-assignment.txt` of `--xla_dump_to`, followed by `…-live-range.txt` | the values of preallocated temporaries |
//! | `tvm` | `tvm.ir.save_json` of the USMP's array of `BufferInfo` | size, alignment, conflicts, pools |

mod intervals;
mod tvm;
mod xla;

/// A format of the input.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Format {
    /// The format is detected from the first lines.
    #[default]
    Auto,
    /// Rows with the columns id,lower,upper,size.
    Csv,
    /// XLA's buffer assignment and live ranges, as text.
    Xla,
    /// TVM's array of BufferInfo, as JSON.
    Tvm,
}

impl Format {
    /// All formats with their names.
    pub const ALL: [(&str, Self); 4] =
        [("auto", Self::Auto), ("csv", Self::Csv), ("xla", Self::Xla), ("tvm", Self::Tvm)];
}

/// Rows that were made from a dump.
pub struct Rows {
    /// The rows: a heading, then one line per buffer and lifetime.
    pub csv: Vec<u8>,
    /// For each row, the line of the dump that it was made from.
    pub lines: Vec<u64>,
    /// Height of the compiler's own plan in bytes, if the dump contains it.
    pub given_bytes: Option<u64>,
    /// Size of each pool in bytes; `u64::MAX` if the pool has no limit. Empty if the rows have no pools.
    pub heap_bytes: Vec<u64>,
}

/// The fields of a row.
#[derive(Clone, Default)]
struct Row {
    id: u64,
    lower: u64,
    upper: u64,
    size: u64,
    alignment: Option<u64>,
    name: String,
    /// If there are several pools: the numbers and the names of the pools that the row may use, the preferred one
    /// first.
    pools: Option<(String, String)>,
    /// If the row is a further lifetime of a buffer: the id of the row with its first lifetime.
    again_of: Option<u64>,
    line: u64,
}

/// The content of a dump.
struct Dump {
    rows: Vec<Row>,
    given_bytes: Option<u64>,
    heap_bytes: Vec<u64>,
}

/// The content of a dump, or an error text that begins with `:LINE: `, or with `: ` if no line is at fault.
type Read = Result<Dump, String>;

/// Returns the rows of a dump, or `None` if the text is CSV.
///
/// # Errors
/// The text is not in this format. The message begins with `:LINE: ` or `: `, so that the caller can put the name of
/// the input before it.
pub fn read(format: Format, text: &[u8]) -> Result<Option<Rows>, String> {
    // Some editors and shells write a byte order mark before UTF-8 text.
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let format = if format == Format::Auto { detect(text) } else { format };
    let read: fn(&str) -> Read = match format {
        Format::Xla => xla::read,
        Format::Tvm => tvm::read,
        Format::Auto | Format::Csv => return Ok(None),
    };
    let text = std::str::from_utf8(text).map_err(|_| ": expected text in UTF-8".to_owned())?;
    let Dump { rows, given_bytes, heap_bytes } = read(text)?;
    let mut writer = csv::Writer::from_writer(Vec::new());
    let (has_pools, has_again) = (!heap_bytes.is_empty(), rows.iter().any(|row| row.again_of.is_some()));
    let mut put = |fields: [String; 9]| {
        let is_there = |&(place, _): &(usize, String)| place < 6 || if place < 8 { has_pools } else { has_again };
        let fields = fields.into_iter().enumerate().filter(is_there);
        writer.write_record(fields.map(|(_, field)| field)).map_err(|error| format!(": {error}"))
    };
    // Each pool becomes a heap.
    put(["id", "lower", "upper", "size", "alignment", "name", "pool", "heaps", "again_of"].map(str::to_owned))?;
    for Row { id, lower, upper, size, alignment, name, pools, again_of, .. } in &rows {
        let alignment = alignment.map_or(String::new(), |alignment| alignment.to_string());
        let [id, lower, upper, size] = [id, lower, upper, size].map(u64::to_string);
        // A row must be one line, so control characters in names are replaced.
        let plain = |name: &str| name.replace(char::is_control, " ");
        let (heaps, pools) =
            pools.as_ref().map_or_else(Default::default, |(heaps, names)| (heaps.clone(), plain(names)));
        let again_of = again_of.map_or(String::new(), |id| id.to_string());
        put([id, lower, upper, size, alignment, plain(name), pools, heaps, again_of])?;
    }
    let csv = writer.into_inner().map_err(|error| format!(": {error}"))?;
    Ok(Some(Rows { csv, lines: rows.iter().map(|row| row.line).collect(), given_bytes, heap_bytes }))
}

/// Detects the format from the first lines.
fn detect(text: &[u8]) -> Format {
    let head = String::from_utf8_lossy(&text[..text.len().min(4096)]);
    let head = head.trim_start();
    let is_allocation = |line: &str| line.starts_with("allocation ") && line.contains("size ");
    if head.starts_with('{') {
        Format::Tvm
    } else if head.starts_with("BufferAssignment:")
        || head.starts_with("HloLiveRange")
        || head.lines().any(is_allocation)
    {
        Format::Xla
    } else {
        Format::Csv
    }
}

#[cfg(test)]
mod tests {
    use super::{Format, read};

    const XLA: &str = "allocation 0: size 64, color 1, preallocated-temp:\n value: <1 a @0> (size=8,offset=0): f32[2]{0}\n \
                       value: <2 b{1} (phi) @0> (size=9,offset=8): f32[2]{0}\n  BufferLiveRange:\n    a{}:0-9\n    b{1}:2-5\n";
    const TVM: &str = r#"{"root":1,"nodes":[{"type_key":""},{"type_key":"Array","data":[2,3]},{"type_key":"tir.usmp.BufferInfo",
        "attrs":{"alignment":"4","conflicts":"1","name_hint":"5","size_bytes":"4"}},{"type_key":"tir.usmp.BufferInfo",
        "attrs":{"alignment":"4","conflicts":"1","name_hint":"5","size_bytes":"4"}},
        {"type_key":"IntImm","attrs":{"value":"16"}},{"type_key":"runtime.String","repr_str":"sid"}]}"#;

    #[test]
    fn no_damage_to_a_dump_panics_and_each_complaint_is_one_line() {
        let mut random = fastrand::Rng::with_seed(11);
        for (format, whole) in [(Format::Xla, XLA), (Format::Tvm, TVM)] {
            assert_eq!(read(format, whole.as_bytes()).expect("it is sound").expect("rows").lines.len(), 2);
            assert!(read(Format::Auto, whole.as_bytes()).is_ok_and(|rows| rows.is_some()), "it is not taken for CSV");
            for _ in 0..20_000 {
                let mut text = whole.as_bytes().to_vec();
                for _ in 0..random.usize(1..4) {
                    let at = random.usize(0..text.len());
                    match random.u8(0..3) {
                        0 => text[at] = *random.choice(b"0123456789-:{}<>\"[],. \nz\xff").expect("some"),
                        1 => _ = text.remove(at),
                        _ => text.insert(at, *random.choice(b"09:{-,").expect("some")),
                    }
                }
                if let Err(what) = read(format, &text) {
                    assert!(what.starts_with(':') && !what.contains('\n'), "{what}");
                }
            }
        }
    }
}
