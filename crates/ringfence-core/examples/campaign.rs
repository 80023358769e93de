//! A long campaign of generated operations: every structure beside its naive twin, compared and validated after each
//! operation, from one seed after the other. Counts operations, not runs.
//!
//! `cargo run --release -p ringfence-core --features testing --example campaign [SECONDS|COUNTops [FIRST_SEED [NAME]]]`
//!
//! `1000000000ops` goes on until so many operations are done, whatever time that takes: the same seeds, and so the same
//! operations, on every machine.

use std::time::{Duration, Instant};

use ringfence_core::testing::drive::{ALL, fill};

/// When it is enough.
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

fn main() {
    let mut arguments = std::env::args().skip(1);
    let until = Until::read(arguments.next());
    let first: u64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(0);
    let only = arguments.next();
    let start = Instant::now();
    let drives: Vec<_> = ALL.iter().filter(|(name, _)| only.as_deref().is_none_or(|only| only == *name)).collect();
    let mut done = vec![(0_u64, 0_u64); drives.len()];
    let mut bytes = vec![0; 4096];
    let (mut seed, mut reported, mut total) = (first, start, 0);
    while !until.is_over(total) {
        for ((name, drive), (operations, runs)) in drives.iter().zip(&mut done) {
            // A plan takes as long as a thousand operations of the others, a step among 600 ranges as long as twenty.
            if matches!(*name, "alias_plan" | "tlsf_deferred") && seed % 8 != 0 && only.is_none() {
                continue;
            }
            // Short inputs try many beginnings, long ones go deep.
            let length = [256, 1024, 4096][seed as usize % 3];
            fill(seed, &mut bytes[..length]);
            let run = std::panic::catch_unwind(|| drive(&bytes[..length]));
            *operations += run.unwrap_or_else(|_| panic!("{name}, seed {seed}, {length} bytes"));
            *runs += 1;
        }
        total = done.iter().map(|(operations, _)| operations).sum();
        seed += 1;
        if reported.elapsed() > Duration::from_secs(60) {
            reported = Instant::now();
            eprintln!("seed {seed}: {total} operations");
        }
    }
    println!("seeds {first}..{seed}");
    for ((name, _), (operations, runs)) in drives.iter().zip(&done) {
        println!("{name:<20} {operations:>14} operations in {runs:>9} runs");
    }
    println!("{:<20} {total:>14} operations, no divergence, in {:.0} s", "all", start.elapsed().as_secs_f64());
}
