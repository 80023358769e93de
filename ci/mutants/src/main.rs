//! Puts all mutants of `cargo mutants --list --json` into one copy of the sources, each behind a number.
//!
//! ```text
//!   a + b  ─▶  (if crate::mutant::on(17) { (a) - (b) } else if crate::mutant::on(18) { (a) * (b) } else { (a) + (b) })
//!   fn f() -> bool { … }  ─▶  fn f() -> bool { if crate::mutant::on(19) { return true; } … }
//! ```
//!
//! What takes the time of a mutation test is building each mutant. So they are built once, all together, and a mutant is a
//! run with `RINGFENCE_MUTANT=17`. A mutant that does not compile there is left out: `cargo build` says where, and the
//! sources are written anew without it. Those are kept in LIST.json.out, by name, for the next time.
//!
//! `ringfence-mutants LIST.json FROM INTO COMMAND…`: FROM and INTO are roots of the workspace, COMMAND builds INTO and
//! prints the compiler's messages as JSON. Prints a line for each mutant that is in: its number, file, name and `switch`; and one
//! for each of a constant, which has no switch, with `alone`. `ringfence-mutants LIST.json FROM INTO NUMBER` writes that one's file.

mod build;
mod switch;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

use serde_json::Value;

/// One mutant of the list; its number is its place there, from 1 on.
struct Mutant {
    number: usize,
    file: String,
    name: String,
    /// What it is in; empty outside of functions.
    function: String,
    genre: String,
    /// Line and column of what is replaced, from 1 on.
    start: (usize, usize),
    end: (usize, usize),
    replacement: String,
}

fn read_list(text: &str) -> Vec<Mutant> {
    let list: Vec<Value> = serde_json::from_str(text).expect("the list is JSON");
    let read = |(at, value): (usize, &Value)| {
        let text = |key: &str| value[key].as_str().unwrap_or_else(|| panic!("mutant {at} has no {key}")).to_owned();
        let place = |of: &str| {
            let number = |key: &str| value["span"][of][key].as_u64().expect("a span has numbers") as usize;
            (number("line"), number("column"))
        };
        Mutant {
            number: at + 1,
            file: text("file"),
            name: text("name"),
            function: value["function"]["function_name"].as_str().unwrap_or_default().to_owned(),
            genre: text("genre"),
            start: place("start"),
            end: place("end"),
            replacement: text("replacement"),
        }
    };
    list.iter().enumerate().map(read).collect()
}

/// Writes the file of one mutant as cargo-mutants would.
fn write_alone(mutant: &Mutant, from: &str, into: &str) {
    let source = std::fs::read_to_string(Path::new(from).join(&mutant.file)).expect("a file of the list can be read");
    let offset = |(line, column): (usize, usize)| {
        let before: usize = source.split_inclusive('\n').take(line - 1).map(str::len).sum();
        before + source[before..].chars().take(column - 1).map(char::len_utf8).sum::<usize>()
    };
    let (start, end) = (offset(mutant.start), offset(mutant.end));
    let text = format!("{}{}{}", &source[..start], mutant.replacement, &source[end..]);
    std::fs::write(Path::new(into).join(&mutant.file), text).expect("a file can be written");
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [list, from, into, command @ ..] = arguments.as_slice() else {
        eprintln!("ringfence-mutants LIST.json FROM INTO COMMAND…");
        return ExitCode::FAILURE;
    };
    let mutants = read_list(&std::fs::read_to_string(list).expect("the list can be read"));
    if let [number] = command
        && let Ok(number) = number.parse::<usize>()
    {
        write_alone(&mutants[number - 1], from, into);
        return ExitCode::SUCCESS;
    }
    let known = std::fs::read_to_string(format!("{list}.out")).unwrap_or_default();
    let known: BTreeSet<&str> = known.lines().collect();
    let is_out = |mutant: &&Mutant| known.contains(mutant.name.as_str()) || mutant.function.is_empty();
    let mut out: BTreeSet<usize> = mutants.iter().filter(is_out).map(|mutant| mutant.number).collect();
    loop {
        let written = switch::write(&mutants, &out, from, into);
        let broken = match build::run(command, into, &mutants, &written) {
            build::Outcome::Built => {
                let within = mutants.iter().filter(|mutant| written.holds(mutant.number));
                let tell =
                    |mutant: &Mutant, how| println!("{}\t{}\t{}\t{how}", mutant.number, mutant.file, mutant.name);
                within.for_each(|mutant| tell(mutant, "switch"));
                mutants.iter().filter(|mutant| mutant.function.is_empty()).for_each(|mutant| tell(mutant, "alone"));
                let (within, all, refused) = (written.len(), mutants.len(), out.len());
                eprintln!("{within} mutants of {all}; {refused} are refused by the compiler");
                return ExitCode::SUCCESS;
            }
            build::Outcome::Broken(numbers) => numbers,
            build::Outcome::Failed(why) => {
                eprintln!("{why}");
                return ExitCode::FAILURE;
            }
        };
        eprintln!("{} mutants are left out", broken.len());
        out.extend(broken);
        let names = mutants.iter().filter(|mutant| out.contains(&mutant.number)).map(|mutant| mutant.name.as_str());
        std::fs::write(format!("{list}.out"), names.collect::<Vec<_>>().join("\n"))
            .expect("the list's folder is there");
    }
}
