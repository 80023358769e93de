//! The mutants that `cargo mutants --list` finds, and a sample of them.

use std::process::Command;

use serde_json::Value;

/// One mutant of the list; its number is its position there, from 1 on.
#[derive(Clone)]
pub struct Mutant {
    pub number: usize,
    pub krate: String,
    pub file: String,
    pub name: String,
    /// The function that contains it; empty outside of functions.
    pub function: String,
    pub genre: String,
    /// Line and column at which the replaced code starts, from 1 on.
    pub start: (usize, usize),
    pub replacement: String,
}

impl Mutant {
    /// Returns a mutant that an existing build already contains.
    pub fn of_kit(number: usize, krate: String, name: String) -> Self {
        let (file, function, genre, replacement) = Default::default();
        Self { number, krate, file, name, function, genre, start: (0, 0), replacement }
    }
}

/// Lists the mutants of `crates`, except those of the crate's root, of `validate` and of `Debug`: a weaker `validate`
/// accepts more, which no correct structure shows.
pub fn of_crates(crates: &[String]) -> Result<Vec<Mutant>, String> {
    let mut command = Command::new("cargo");
    command.args(["mutants", "--list", "--json", "--exclude-re", "validate|fmt"]);
    crates.iter().for_each(|name| _ = command.args(["-p", name]));
    let output = command.output().map_err(|error| format!("cargo mutants: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "cargo mutants (cargo install cargo-mutants): {}",
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    let list: Vec<Value> = serde_json::from_slice(&output.stdout).map_err(|error| format!("the list: {error}"))?;
    // The copy of a crate's root has lines of its own, so no mutant is written into it.
    let is_root = |mutant: &Mutant| mutant.file.ends_with("src/lib.rs") || mutant.file.ends_with("src/main.rs");
    Ok(list.iter().enumerate().map(read).filter(|mutant| !is_root(mutant)).collect())
}

fn read((at, value): (usize, &Value)) -> Mutant {
    let text = |key: &str| value[key].as_str().unwrap_or_else(|| panic!("mutant {at} has no {key}")).to_owned();
    let start = |key: &str| value["span"]["start"][key].as_u64().expect("a span has numbers") as usize;
    Mutant {
        number: at + 1,
        krate: text("package"),
        file: text("file"),
        name: text("name"),
        function: value["function"]["function_name"].as_str().unwrap_or_default().to_owned(),
        genre: text("genre"),
        start: (start("line"), start("column")),
        replacement: text("replacement"),
    }
}

/// Returns `count` mutants at random, or all if there are fewer. The position of a mutant in the order of `seed`
/// depends only on its name (without line and column), so a change elsewhere in the sources leaves most of a sample
/// unchanged.
pub fn sample(mut mutants: Vec<Mutant>, count: usize, seed: u64) -> Vec<Mutant> {
    mutants.sort_by_key(|mutant| position(&mutant.name, seed));
    mutants.truncate(count);
    mutants.sort_by_key(|mutant| mutant.number);
    mutants
}

/// Returns the position of a mutant in the order of `seed`: FNV-1a of the seed and of the name without digits, mixed once
/// more.
pub fn position(name: &str, seed: u64) -> u64 {
    let bytes = seed.to_le_bytes().into_iter().chain(name.bytes().filter(|byte| !byte.is_ascii_digit()));
    let hash =
        bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    (hash ^ hash >> 31).wrapping_mul(0x94d0_49bb_1331_11eb)
}
