//! Runs of test programs with a mutant switched on.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::list::Mutant;
use crate::programs::{self, Programs, Stage, folder};

/// Result of a mutant: the program and the way in which it was caught, or `None`.
pub struct Outcome {
    pub mutant: Mutant,
    pub caught: Option<String>,
}

/// The programs and the time that each takes without a mutant.
pub struct Trial<'a> {
    tree: &'a Path,
    programs: &'a Programs,
    usual: BTreeMap<String, Duration>,
    only_own: bool,
}

fn name(stage: &Stage) -> String {
    let rest = stage.filters.iter().map(|filter| format!(" {filter}")).collect::<String>();
    format!("{} {}{rest}", stage.package, stage.target)
}

impl<'a> Trial<'a> {
    /// Runs each stage once without a mutant.
    pub fn new(tree: &'a Path, programs: &'a Programs, stages: &[&Stage], only_own: bool) -> Result<Self, String> {
        let mut trial = Self { tree, programs, usual: BTreeMap::new(), only_own };
        for stage in stages {
            if trial.usual.contains_key(&name(stage)) {
                continue;
            }
            let begun = Instant::now();
            if let Some(how) = trial.run(0, stage, Duration::from_secs(900))? {
                return Err(format!("without a mutant {} fails ({how})", name(stage)));
            }
            eprintln!("{}: {:.1} s", name(stage), begun.elapsed().as_secs_f64());
            trial.usual.insert(name(stage), begun.elapsed());
        }
        Ok(trial)
    }

    /// Runs a stage, for at most `limit`. Returns the way in which it failed.
    fn run(&self, number: usize, stage: &Stage, limit: Duration) -> Result<Option<&'static str>, String> {
        let key = (stage.package.to_owned(), stage.target.to_owned());
        let program: &PathBuf = self.programs.get(&key).ok_or_else(|| format!("no program {}", name(stage)))?;
        // Limits of processor time and memory, for mutants that never end.
        let limits = format!("ulimit -c 0; ulimit -t {}; exec \"$@\"", limit.as_secs() * 2 + 10);
        let mut child = Command::new("timeout")
            .args(["--kill-after=5", &format!("{}", limit.as_secs_f64()), "bash", "-c", &limits, "trial"])
            .arg(program)
            .args(stage.filters)
            .current_dir(self.tree.join(folder(stage.package)))
            .env("RINGFENCE_MUTANT", number.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(|error| format!("timeout: {error}"))?;
        let shown = BufReader::new(child.stdout.take().expect("it is piped"));
        // The first failing test is sufficient.
        let fails = shown.split(b'\n').map_while(Result::ok).any(|line| line.ends_with(b" ... FAILED"));
        if fails {
            let group = format!("-{}", child.id());
            _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        }
        let status = child.wait().map_err(|error| format!("{}: {error}", name(stage)))?;
        Ok(match status.code() {
            _ if fails => Some("a test fails"),
            Some(0) => None,
            Some(101) => Some("a test fails"),
            Some(124 | 137) => Some("no end"),
            _ => Some("it aborts"),
        })
    }

    fn catch(&self, mutant: &Mutant) -> Result<Option<String>, String> {
        for stage in programs::of_crate(&mutant.krate, self.only_own) {
            let limit = self.usual[&name(stage)] * 8 + Duration::from_secs(10);
            if let Some(how) = self.run(mutant.number, stage, limit)? {
                return Ok(Some(format!("{}: {how}", name(stage))));
            }
        }
        Ok(None)
    }

    /// Tries all mutants, `jobs` at a time, and reports each as soon as its outcome is known.
    pub fn all(
        &self,
        mutants: &[Mutant],
        jobs: usize,
        report: impl Fn(&Outcome) + Sync,
    ) -> Result<Vec<Outcome>, String> {
        let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let failure = Mutex::new(None);
        std::thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(|| {
                    while let Some(mutant) = mutants.get(next.fetch_add(1, Ordering::Relaxed)) {
                        match self.catch(mutant) {
                            Ok(caught) => {
                                let outcome = Outcome { mutant: mutant.clone(), caught };
                                report(&outcome);
                                outcomes.lock().expect("no thread panics").push(outcome);
                            }
                            Err(error) => return *failure.lock().expect("no thread panics") = Some(error),
                        }
                    }
                });
            }
        });
        match failure.into_inner().expect("no thread panics") {
            Some(error) => Err(error),
            None => Ok(outcomes.into_inner().expect("no thread panics")),
        }
    }
}
