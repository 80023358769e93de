//! Builds the written sources, and finds the mutants that the compiler rejects.

use std::collections::BTreeSet;
use std::ops::Range;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::list::Mutant;
use crate::switch::Written;

pub enum Outcome {
    Built,
    /// These mutants must be omitted.
    Broken(BTreeSet<usize>),
    Failed(String),
}

/// Adds the locations of a message, the primary one first, then those of its notes.
fn places(message: &Value, into: &mut Vec<(String, Range<usize>)>) {
    let spans = message["spans"].as_array().into_iter().flatten();
    let mut own: Vec<_> = spans.collect();
    own.sort_by_key(|span| span["is_primary"] != true);
    into.extend(own.iter().filter_map(|span| {
        let at = |key: &str| Some(span[key].as_u64()? as usize);
        Some((span["file_name"].as_str()?.to_owned(), at("byte_start")?..at("byte_end")?))
    }));
    message["children"].as_array().into_iter().flatten().for_each(|child| places(child, into));
}

/// Returns all mutants of the functions that contain `some`.
fn of_functions(mutants: &[Mutant], some: &[usize]) -> Vec<usize> {
    let place = |mutant: &Mutant| (mutant.file.clone(), mutant.function.clone());
    let hit: BTreeSet<_> = mutants.iter().filter(|mutant| some.contains(&mutant.number)).map(place).collect();
    mutants.iter().filter(|mutant| hit.contains(&place(mutant))).map(|mutant| mutant.number).collect()
}

pub fn run(command: &[String], root: &str, mutants: &[Mutant], written: &Written) -> Outcome {
    let [program, arguments @ ..] = command else { return Outcome::Failed("no command to build with".to_owned()) };
    let output = Command::new(program).args(arguments).current_dir(root).stderr(Stdio::null()).output();
    let output = match output {
        Ok(output) if output.status.success() => return Outcome::Built,
        Ok(output) => output,
        Err(error) => return Outcome::Failed(format!("{program}: {error}")),
    };
    let (mut broken, mut strange) = (BTreeSet::new(), String::new());
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Ok(value) = serde_json::from_str::<Value>(line) else { continue };
        let message = &value["message"];
        if message["level"] != "error" {
            continue;
        }
        let mut found = Vec::new();
        places(message, &mut found);
        let mut numbers = found.iter().find_map(|(file, bytes)| written.at(file, bytes).map(<[usize]>::to_vec));
        if numbers.is_none() {
            // The message is about a whole function or constant.
            let within = found.iter().map(|(file, bytes)| written.within(file, bytes));
            numbers = within.into_iter().find(|numbers| !numbers.is_empty());
        }
        if numbers.is_none() && message["code"]["code"] == "E0004" {
            // The message points to the value of a match, whose arm got a guard.
            let first = found.first().and_then(|(file, bytes)| written.after(file, bytes));
            numbers = first.map(<[usize]>::to_vec);
        }
        if numbers.is_none() && message["code"]["code"] == "E0308" {
            // The message points to the original value of a function with an opaque type, which the value of a mutant
            // before it has decided.
            let first = found.first().and_then(|(file, bytes)| written.before(file, bytes));
            numbers = first.map(<[usize]>::to_vec);
        }
        // A function that runs at compile time cannot have a switch, so all its mutants are omitted.
        let is_constant = message["code"]["code"] == "E0080";
        match numbers {
            Some(numbers) if is_constant => broken.extend(of_functions(mutants, &numbers)),
            Some(numbers) => broken.extend(numbers),
            None => strange.push_str(message["rendered"].as_str().unwrap_or_default()),
        }
    }
    if broken.is_empty() {
        return Outcome::Failed(format!("the build fails, and no mutant is the cause:\n{strange}"));
    }
    Outcome::Broken(broken)
}
