//! Runs of the drivers over consecutive seeds: a short run for the tests, and a campaign of any length. The limit of a
//! campaign is a time, or a number of operations.
//!
//! With the limit `1000000000ops`, a campaign ends after the seed in which it reaches this number of operations. So it
//! executes the same seeds and the same operations on every machine.

use std::borrow::ToOwned;
use std::string::String;
use std::time::{Duration, Instant};
use std::vec::Vec;
use std::{eprintln, println, vec};

use super::drive::{Drive, fill};

/// Number of seeds of a test. The environment variable `RINGFENCE_DRIVE_SEEDS` sets another number, for mutation
/// testing.
const SEEDS: u64 = 60;

/// Runs a driver once for each seed from 0 to 59, or below the number in the environment variable
/// `RINGFENCE_DRIVE_SEEDS`.
///
/// # Panics
/// If the structure differs from its twin, its reference implementation (the message contains the seed), or if the
/// seeds produced too few operations.
pub fn from_seeds((name, drive): Drive) {
    let seeds = std::env::var("RINGFENCE_DRIVE_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS);
    let (mut bytes, mut operations) = ([0; 1024], 0);
    for seed in 0..seeds {
        fill(seed, &mut bytes);
        let run = std::panic::catch_unwind(|| drive(&bytes));
        operations += run.unwrap_or_else(|_| panic!("{name}, seed {seed}"));
    }
    assert!(operations > 16 * seeds, "{name} did {operations} operations");
}

/// Limit of a campaign.
enum Until {
    Time(Instant),
    Operations(u64),
}

impl Until {
    fn read(text: Option<String>) -> Self {
        let text = text.unwrap_or_else(|| "60".to_owned());
        match text.strip_suffix("ops") {
            Some(count) => Self::Operations(count.parse().expect("a number of operations before 'ops'")),
            None => Self::Time(Instant::now() + Duration::from_secs(text.parse().expect("a number of seconds"))),
        }
    }

    fn is_over(&self, done: u64) -> bool {
        match self {
            Self::Time(end) => Instant::now() >= *end,
            Self::Operations(wanted) => done >= *wanted,
        }
    }
}

/// Runs all drivers of `all`, or only the driver NAME, until the limit is reached, and prints the numbers of their
/// operations. The program's arguments are `[SECONDS|COUNTops [FIRST_SEED [NAME]]]`.
///
/// # Panics
/// At the first difference: the message contains the name, the seed and the length of the input. Also if the first
/// argument is not a limit.
pub fn main(all: &[Drive]) {
    let mut arguments = std::env::args().skip(1);
    let until = Until::read(arguments.next());
    let first: u64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(0);
    let only = arguments.next();
    let start = Instant::now();
    let drives: Vec<_> = all.iter().filter(|(name, _)| only.as_deref().is_none_or(|only| only == *name)).collect();
    let mut done = vec![(0_u64, 0_u64); drives.len()];
    let mut bytes = vec![0; 4096];
    let (mut seed, mut noted, mut total) = (first, start, 0);
    while !until.is_over(total) {
        for ((name, drive), (operations, runs)) in drives.iter().zip(&mut done) {
            // This driver begins with 1,100 ranges, and its operations take twenty times as long as those of the other
            // drivers. So it runs with one of eight seeds.
            if *name == "tlsf_deferred" && seed % 8 != 0 && only.is_none() {
                continue;
            }
            // Short inputs give many different first operations, and long inputs reach more states.
            let length = [256, 1024, 4096][seed as usize % 3];
            fill(seed, &mut bytes[..length]);
            let run = std::panic::catch_unwind(|| drive(&bytes[..length]));
            *operations += run.unwrap_or_else(|_| panic!("{name}, seed {seed}, {length} bytes"));
            *runs += 1;
        }
        total = done.iter().map(|(operations, _)| operations).sum();
        seed += 1;
        if noted.elapsed() > Duration::from_secs(60) {
            noted = Instant::now();
            eprintln!("seed {seed}: {total} operations");
        }
    }
    println!("seeds {first}..{seed}");
    for ((name, _), (operations, runs)) in drives.iter().zip(&done) {
        println!("{name:<20} {operations:>14} operations in {runs:>9} runs");
    }
    println!("{:<20} {total:>14} operations, no divergence, in {:.0} s", "all", start.elapsed().as_secs_f64());
}
