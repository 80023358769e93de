//! Mutation testing: breaks a line at a time, and shows which breaks no test notices.
//!
//! ```text
//!   a + b  ─▶  (if crate::mutant::on(17) { (a) - (b) } else if crate::mutant::on(18) { (a) * (b) } else { (a) + (b) })
//!   fn f() -> bool { … }  ─▶  fn f() -> bool { if crate::mutant::on(19) { return true; } … }
//! ```
//!
//! Most of the time of a mutation test is spent on builds. Here all mutants are built once, together, each behind a number, and a
//! mutant is a run with `RINGFENCE_MUTANT=17`. A mutant that does not compile as a switch is left out: the compiler names
//! its place, and the sources are written anew without it. `OUT/refused` keeps the names for the next time.
//!
//! | module | purpose |
//! |---|---|
//! | `list` | the mutants that cargo-mutants lists, a sample of them |
//! | `tree` | a copy of the sources |
//! | `switch` | writes the mutants into the copy |
//! | `build` | builds the copy, names the mutants that the compiler refuses |
//! | `programs` | the test programs that meet the mutants of a crate |
//! | `trial` | runs of the programs with a mutant on |

mod build;
mod list;
mod programs;
mod switch;
mod tree;
mod trial;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use list::Mutant;
use trial::{Outcome, Trial};

const HELP: &str = "\
ci/mutants.sh [--crate NAME]… [--file PART]… [--sample N] [--seed S] [--left] [--jobs N]

  --crate NAME   a crate of crates/; ringfence-core if none is named
  --file PART    only files whose path contains PART
  --sample N     N mutants at random
  --seed S       another sample; 0 by default
  --left         only mutants that the last run of the same crates left
  --jobs N       N programs at a time; 1 by default
";

#[derive(Default)]
struct Options {
    crates: Vec<String>,
    files: Vec<String>,
    sample: Option<usize>,
    seed: u64,
    left: bool,
    jobs: usize,
}

fn options(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options { jobs: 1, ..Options::default() };
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument}: a value is missing\n{HELP}"));
        let number = |text: String| text.parse::<u64>().map_err(|_| format!("{text}: not a number\n{HELP}"));
        match argument.as_str() {
            "--crate" => options.crates.push(value()?),
            "--file" => options.files.push(value()?),
            "--sample" => options.sample = Some(number(value()?)? as usize),
            "--seed" => options.seed = number(value()?)?,
            "--jobs" => options.jobs = number(value()?)?.max(1) as usize,
            "--left" => options.left = true,
            _ => return Err(format!("{argument}: unknown\n{HELP}")),
        }
    }
    if options.crates.is_empty() {
        options.crates.push("ringfence-core".to_owned());
    }
    Ok(options)
}

/// The mutants that were asked for. Those of constants have no switch, and modules of Direct3D 12 are not built here: both are
/// left out.
fn wanted(options: &Options, out: &Path) -> Result<Vec<Mutant>, String> {
    let mut mutants = list::of_crates(&options.crates)?;
    let listed = mutants.len();
    mutants.retain(|mutant| options.files.is_empty() || options.files.iter().any(|part| mutant.file.contains(part)));
    mutants.retain(|mutant| !mutant.file.contains("/d3d12"));
    let constants = mutants.iter().filter(|mutant| mutant.function.is_empty()).count();
    mutants.retain(|mutant| !mutant.function.is_empty());
    if options.left {
        let left = std::fs::read_to_string(out.join("left")).unwrap_or_default();
        let left: BTreeSet<&str> = left.lines().collect();
        mutants.retain(|mutant| left.contains(mutant.name.as_str()));
    }
    if let Some(count) = options.sample {
        mutants = list::sample(mutants, count, options.seed);
    }
    println!("{listed} mutants listed, {} wanted; {constants} of constants have no switch", mutants.len());
    Ok(mutants)
}

/// Writes and builds the copy until it compiles. Returns the numbers of the mutants in it.
fn build(mutants: &[Mutant], command: &[String], tree: &Path, out: &Path) -> Result<BTreeSet<usize>, String> {
    let known = std::fs::read_to_string(out.join("refused")).unwrap_or_default();
    let mut known: BTreeSet<String> = known.lines().map(str::to_owned).collect();
    let root = tree.to_str().expect("the path of the copy is text");
    loop {
        let refused =
            mutants.iter().filter(|mutant| known.contains(&mutant.name)).map(|mutant| mutant.number).collect();
        let written = switch::write(mutants, &refused, ".", root);
        match build::run(command, root, mutants, &written) {
            build::Outcome::Built => {
                return Ok(mutants
                    .iter()
                    .map(|mutant| mutant.number)
                    .filter(|number| written.holds(*number))
                    .collect());
            }
            build::Outcome::Failed(why) => return Err(why),
            build::Outcome::Broken(numbers) => {
                eprintln!("{} mutants do not compile", numbers.len());
                let names =
                    mutants.iter().filter(|mutant| numbers.contains(&mutant.number)).map(|mutant| mutant.name.clone());
                known.extend(names);
                let text = known.iter().map(|name| format!("{name}\n")).collect::<String>();
                std::fs::write(out.join("refused"), text).map_err(|error| error.to_string())?;
            }
        }
    }
}

fn summarize(outcomes: &[Outcome], out: &Path) -> Result<(), String> {
    let mut crates: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for outcome in outcomes {
        let (tried, caught) = crates.entry(&outcome.mutant.krate).or_default();
        *tried += 1;
        *caught += usize::from(outcome.caught.is_some());
    }
    for (name, (tried, caught)) in crates {
        let share = 100.0 * caught as f64 / tried as f64;
        println!("{name}: {tried} tried, {caught} caught ({share:.1} %), {} left", tried - caught);
    }
    let mut left: Vec<_> =
        outcomes.iter().filter(|outcome| outcome.caught.is_none()).map(|outcome| &outcome.mutant.name).collect();
    left.sort();
    left.iter().for_each(|name| println!("    {name}"));
    let text = left.iter().map(|name| format!("{name}\n")).collect::<String>();
    std::fs::write(out.join("left"), text).map_err(|error| error.to_string())
}

fn run() -> Result<(), String> {
    let options = options(std::env::args().skip(1))?;
    let out = PathBuf::from("target/mutants");
    let tree = std::env::current_dir().map_err(|error| error.to_string())?.join(&out).join("tree");
    let mutants = wanted(&options, &out)?;
    tree::make(&tree, &options.crates)?;
    let stages: Vec<_> = options.crates.iter().flat_map(|name| programs::of_crate(name)).collect();
    let command = programs::build_command(&stages);
    let within = build(&mutants, &command, &tree, &out)?;
    let found = programs::find(&command, tree.to_str().expect("the path of the copy is text"));
    let mutants: Vec<_> = mutants.into_iter().filter(|mutant| within.contains(&mutant.number)).collect();
    println!("{} are built", mutants.len());
    let trial = Trial::new(&tree, &found, &stages)?;
    let outcomes = trial.all(&mutants, options.jobs, |outcome| {
        println!("{}\t{}", outcome.caught.as_deref().unwrap_or("LEFT"), outcome.mutant.name);
    })?;
    summarize(&outcomes, &out)
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("mutants: {why}");
            ExitCode::FAILURE
        }
    }
}
