//! Mutation testing: breaks a line at a time, and lists the mutants that no test notices.
//!
//! ```text
//!   a + b  ─▶  (if crate::mutant::on(17) { (a) - (b) } else if crate::mutant::on(18) { (a) * (b) } else { (a) + (b) })
//!   fn f() -> bool { … }  ─▶  fn f() -> bool { if crate::mutant::on(19) { return true; } … }
//! ```
//!
//! A mutation test spends most of its time on builds. Here all mutants are built together, each behind a number, and a
//! trial is a run with `RINGFENCE_MUTANT=17`. A mutant that does not compile as a switch is omitted: the compiler
//! reports its location, and the sources are written again without it. `OUT/refused` keeps the names of these mutants
//! for the next run.
//!
//! | module | purpose |
//! |---|---|
//! | `list` | the mutants that cargo-mutants lists, a sample of them |
//! | `tree` | a copy of the sources |
//! | `switch` | writes the mutants into the copy |
//! | `build` | builds the copy, names the mutants that the compiler refuses |
//! | `programs` | the test programs that meet the mutants of a crate |
//! | `kit` | a file with the mutants and the programs of a build |
//! | `trial` | runs of the programs with a mutant on |

mod build;
mod kit;
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
ci/mutants.sh GROUP [--and GROUP]… [--left] [--own] [--jobs N] [--kit FILE]
ci/mutants.sh --try FILE [--own] [--jobs N]

GROUP: [--crate NAME]… [--file PART]… [--sample N] [--seed S]
  --crate NAME   a crate of crates/, or ringfence-planner; ringfence-core by default
  --file PART    only files whose path contains PART
  --sample N     N mutants at random
  --seed S       another sample; 0 by default

  --left         only mutants that the last run of the same crates left
  --own          only the tests of the crate of each mutant; builds no other programs. Those of ringfence-vulkan are the
                 suites of a device, on the driver of VK_DRIVER_FILES
  --jobs N       N programs at a time; 1 by default
  --kit FILE     builds, and writes the mutants and the programs to FILE instead of trying them
  --try FILE     tries the mutants of such a file, without a build: on a machine with more processors
";

/// A sample of the mutants of some crates.
#[derive(Default)]
struct Group {
    crates: Vec<String>,
    files: Vec<String>,
    sample: Option<usize>,
    seed: u64,
}

impl Group {
    fn name(&self) -> String {
        let files = self.files.iter().map(|file| format!(" {file}")).collect::<String>();
        let sample = self.sample.map(|count| format!(", {count} of seed {}", self.seed)).unwrap_or_default();
        format!("{}{files}{sample}", self.crates.join(" "))
    }
}

#[derive(Default)]
struct Options {
    groups: Vec<Group>,
    left: bool,
    own: bool,
    jobs: usize,
    kit: Option<PathBuf>,
    trial: Option<PathBuf>,
}

impl Options {
    fn crates(&self) -> Vec<String> {
        let names: BTreeSet<&String> = self.groups.iter().flat_map(|group| &group.crates).collect();
        names.into_iter().cloned().collect()
    }
}

fn options(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options { jobs: 1, ..Options::default() };
    let mut group = Group::default();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument}: a value is missing\n{HELP}"));
        let number = |text: String| text.parse::<u64>().map_err(|_| format!("{text}: not a number\n{HELP}"));
        match argument.as_str() {
            "--crate" => group.crates.push(value()?),
            "--file" => group.files.push(value()?),
            "--sample" => group.sample = Some(number(value()?)? as usize),
            "--seed" => group.seed = number(value()?)?,
            "--and" => options.groups.push(std::mem::take(&mut group)),
            "--kit" => options.kit = Some(value()?.into()),
            "--try" => options.trial = Some(value()?.into()),
            "--jobs" => options.jobs = number(value()?)?.max(1) as usize,
            "--left" => options.left = true,
            "--own" => options.own = true,
            _ => return Err(format!("{argument}: unknown\n{HELP}")),
        }
    }
    options.groups.push(group);
    for group in options.groups.iter_mut().filter(|group| group.crates.is_empty()) {
        group.crates.push("ringfence-core".to_owned());
    }
    Ok(options)
}

/// Returns the mutants of each group. Mutants of constants have no switch, and modules of Direct3D 12 are not built
/// here, so both are omitted.
fn wanted(options: &Options, out: &Path) -> Result<Vec<(String, Vec<Mutant>)>, String> {
    let all = list::of_crates(&options.crates())?;
    let left = std::fs::read_to_string(out.join("left")).unwrap_or_default();
    let left: BTreeSet<&str> = left.lines().collect();
    let of_group = |group: &Group| {
        let mut mutants = all.clone();
        mutants.retain(|mutant| group.crates.contains(&mutant.krate));
        let listed = mutants.len();
        mutants.retain(|mutant| group.files.is_empty() || group.files.iter().any(|part| mutant.file.contains(part)));
        mutants.retain(|mutant| !mutant.file.contains("/d3d12") && !mutant.function.is_empty());
        mutants.retain(|mutant| !options.left || left.contains(mutant.name.as_str()));
        if let Some(count) = group.sample {
            mutants = list::sample(mutants, count, group.seed);
        }
        println!("{}: {listed} mutants listed, {} wanted", group.name(), mutants.len());
        (group.name(), mutants)
    };
    Ok(options.groups.iter().map(of_group).collect())
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

fn summarize(groups: &[(String, Vec<Mutant>)], outcomes: &[Outcome], out: &Path) -> Result<(), String> {
    let caught: BTreeMap<usize, bool> =
        outcomes.iter().map(|outcome| (outcome.mutant.number, outcome.caught.is_some())).collect();
    for (group, mutants) in groups {
        let mut crates: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for (mutant, caught) in mutants.iter().filter_map(|mutant| Some((mutant, caught.get(&mutant.number)?))) {
            for name in [mutant.krate.as_str(), "all"] {
                let (tried, found) = crates.entry(name).or_default();
                *tried += 1;
                *found += usize::from(*caught);
            }
        }
        println!("{group}");
        for (name, (tried, caught)) in crates {
            let share = 100.0 * caught as f64 / tried as f64;
            println!("    {name}: {tried} tried, {caught} caught ({share:.1} %), {} left", tried - caught);
        }
    }
    let mut left: Vec<_> =
        outcomes.iter().filter(|outcome| outcome.caught.is_none()).map(|outcome| &outcome.mutant.name).collect();
    left.sort();
    left.iter().for_each(|name| println!("    {name}"));
    let text = left.iter().map(|name| format!("{name}\n")).collect::<String>();
    std::fs::write(out.join("left"), text).map_err(|error| error.to_string())
}

/// Everything that a trial needs: the groups as they were built, and the programs.
struct Kit {
    groups: Vec<(String, Vec<Mutant>)>,
    programs: programs::Programs,
}

fn make(options: &Options, tree: &Path, out: &Path) -> Result<Kit, String> {
    let mut groups = wanted(options, out)?;
    let crates = options.crates();
    tree::make(tree, &crates)?;
    let command = programs::build_command(&stages(&crates, options.own), options.own);
    let within = build(&every(&groups), &command, tree, out)?;
    let found = programs::find(&command, tree.to_str().expect("the path of the copy is text"));
    groups.iter_mut().for_each(|(_, mutants)| mutants.retain(|mutant| within.contains(&mutant.number)));
    Ok(Kit { groups, programs: found })
}

fn stages(crates: &[String], own: bool) -> Vec<&'static programs::Stage> {
    crates.iter().flat_map(|name| programs::of_crate(name, own)).collect()
}

/// Returns the mutants of all groups, each once, in the order of their numbers.
fn every(groups: &[(String, Vec<Mutant>)]) -> Vec<Mutant> {
    let mutants = groups.iter().flat_map(|(_, mutants)| mutants);
    let each: BTreeMap<usize, &Mutant> = mutants.map(|mutant| (mutant.number, mutant)).collect();
    each.into_values().cloned().collect()
}

fn run() -> Result<(), String> {
    let options = options(std::env::args().skip(1))?;
    let out = PathBuf::from("target/mutants");
    let tree = std::env::current_dir().map_err(|error| error.to_string())?.join(&out).join("tree");
    let kit = match &options.trial {
        Some(file) => kit::read(file)?,
        None => make(&options, &tree, &out)?,
    };
    let mutants = every(&kit.groups);
    println!("{} are built", mutants.len());
    if let Some(file) = &options.kit {
        return kit::write(&kit, file);
    }
    let crates: BTreeSet<String> = mutants.iter().map(|mutant| mutant.krate.clone()).collect();
    let stages = stages(&crates.into_iter().collect::<Vec<_>>(), options.own);
    let trial = Trial::new(&tree, &kit.programs, &stages, options.own)?;
    // At random, so that the first part of a trial that is cut short is a sample too.
    let mut mutants = mutants;
    mutants.sort_by_key(|mutant| list::position(&mutant.name, 0));
    let outcomes = trial.all(&mutants, options.jobs, |outcome| {
        println!("{}\t{}", outcome.caught.as_deref().unwrap_or("LEFT"), outcome.mutant.name);
    })?;
    summarize(&kit.groups, &outcomes, &out)
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
