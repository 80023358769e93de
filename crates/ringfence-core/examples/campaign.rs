//! A long campaign of generated operations: every structure beside its naive twin, compared and validated after each
//! operation, from one seed after the other. Counts operations, not runs.
//!
//! `cargo run --release -p ringfence-core --features testing --example campaign [SECONDS [FIRST_SEED [NAME]]]`

use std::time::{Duration, Instant};

use ringfence_core::testing::drive::{ALL, fill};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(60);
    let first: u64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(0);
    let only = arguments.next();
    let end = Instant::now() + Duration::from_secs(seconds);
    let drives: Vec<_> = ALL.iter().filter(|(name, _)| only.as_deref().is_none_or(|only| only == *name)).collect();
    let mut done = vec![(0_u64, 0_u64); drives.len()];
    let mut bytes = vec![0; 4096];
    let (mut seed, mut told) = (first, Instant::now());
    while Instant::now() < end {
        for ((name, drive), (operations, runs)) in drives.iter().zip(&mut done) {
            // A plan takes as long as a thousand operations of the others.
            if *name == "alias_plan" && seed % 8 != 0 && only.is_none() {
                continue;
            }
            // Short inputs try many beginnings, long ones go deep.
            let length = [256, 1024, 4096][seed as usize % 3];
            fill(seed, &mut bytes[..length]);
            let run = std::panic::catch_unwind(|| drive(&bytes[..length]));
            *operations += run.unwrap_or_else(|_| panic!("{name}, seed {seed}, {length} bytes"));
            *runs += 1;
        }
        seed += 1;
        if told.elapsed() > Duration::from_secs(60) {
            told = Instant::now();
            eprintln!("seed {seed}: {} operations", done.iter().map(|(operations, _)| operations).sum::<u64>());
        }
    }
    println!("seeds {first}..{seed}");
    for ((name, _), (operations, runs)) in drives.iter().zip(&done) {
        println!("{name:<20} {operations:>14} operations in {runs:>9} runs");
    }
    let total: u64 = done.iter().map(|(operations, _)| operations).sum();
    println!("{:<20} {total:>14} operations, no divergence", "all");
}
