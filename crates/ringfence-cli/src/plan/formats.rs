//! What compilers dump, made into the rows that the command reads.
//!
//! | format | what it is | read |
//! |---|---|---|
//! | `csv` | `id,lower,upper,size[,alignment]`, MiniMalloc's too | as it is |
//! | `xla` | `…-buffer-assignment.txt` of `--xla_dump_to`, with `…-live-range.txt` behind it | the values of preallocated temporaries |
//! | `tvm` | `tvm.ir.save_json` of the USMP's array of `BufferInfo` | size, alignment, conflicts |

mod intervals;
mod tvm;
mod xla;

/// A kind of input.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum Format {
    /// Whatever the first lines look like
    #[default]
    Auto,
    /// Rows with the columns id,lower,upper,size
    Csv,
    /// XLA's buffer assignment and live ranges, as text
    Xla,
    /// TVM's array of BufferInfo, as JSON
    Tvm,
}

/// Rows made of a dump.
pub struct Rows {
    pub csv: Vec<u8>,
    /// Of each row the line of the dump where it stands.
    pub lines: Vec<u64>,
    /// What the compiler's own plan needs, if the dump says.
    pub given_bytes: Option<u64>,
}

/// What stands on a row.
struct Row {
    id: u64,
    lower: u64,
    upper: u64,
    size: u64,
    alignment: Option<u64>,
    name: String,
    line: u64,
}

/// The rows, and what the compiler's own plan needs; or what is wrong, behind its line.
type Read = Result<(Vec<Row>, Option<u64>), String>;

/// The rows of a dump; `None` of CSV. Errors begin with the line, if there is one.
pub fn read(format: Format, text: &[u8]) -> Result<Option<Rows>, String> {
    let format = if format == Format::Auto { detect(text) } else { format };
    let read: fn(&str) -> Read = match format {
        Format::Xla => xla::read,
        Format::Tvm => tvm::read,
        Format::Auto | Format::Csv => return Ok(None),
    };
    let text = std::str::from_utf8(text).map_err(|_| ": expected text in UTF-8".to_owned())?;
    let (rows, given_bytes) = read(text)?;
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut put = |fields: [String; 6]| writer.write_record(fields).map_err(|error| format!(": {error}"));
    put(["id", "lower", "upper", "size", "alignment", "name"].map(str::to_owned))?;
    for Row { id, lower, upper, size, alignment, name, .. } in &rows {
        let alignment = alignment.map_or(String::new(), |alignment| alignment.to_string());
        let [id, lower, upper, size] = [id, lower, upper, size].map(u64::to_string);
        // One row, one line.
        let name = name.replace(char::is_control, " ");
        put([id, lower, upper, size, alignment, name])?;
    }
    let csv = writer.into_inner().map_err(|error| format!(": {error}"))?;
    Ok(Some(Rows { csv, lines: rows.iter().map(|row| row.line).collect(), given_bytes }))
}

/// By the first lines.
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
