//! A file with the mutants and the programs of a build, so that another machine can try them.

use std::path::Path;

use serde_json::{Value, json};

use crate::Kit;
use crate::list::Mutant;

pub fn write(kit: &Kit, file: &Path) -> Result<(), String> {
    let groups = kit.groups.iter().map(|(name, mutants)| {
        let mutants = mutants.iter().map(|mutant| json!([mutant.number, mutant.krate, mutant.name]));
        json!([name, mutants.collect::<Vec<_>>()])
    });
    let programs = kit.programs.iter().map(|((package, target), path)| json!([package, target, path]));
    let value = json!({ "groups": groups.collect::<Vec<_>>(), "programs": programs.collect::<Vec<_>>() });
    std::fs::write(file, value.to_string()).map_err(|error| format!("{}: {error}", file.display()))
}

pub fn read(file: &Path) -> Result<Kit, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let value: Value = serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))?;
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mutant =
        |value: &Value| Mutant::of_kit(value[0].as_u64().unwrap_or(0) as usize, text(&value[1]), text(&value[2]));
    let group = |value: &Value| (text(&value[0]), list(&value[1]).iter().map(mutant).collect());
    let program = |value: &Value| ((text(&value[0]), text(&value[1])), text(&value[2]).into());
    Ok(Kit {
        groups: list(&value["groups"]).iter().map(group).collect(),
        programs: list(&value["programs"]).iter().map(program).collect(),
    })
}
