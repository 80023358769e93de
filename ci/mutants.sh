#!/usr/bin/env bash
# Mutation testing of any crate (ci/mutants/src/main.rs). All mutants that cargo-mutants lists are built into one copy of the
# sources, and each is tried against the test programs of its crate. Needs `cargo install cargo-mutants`, for its list only. Not part of .ci/run.
# A mutant whose program takes eight times the usual time and ten seconds counts as caught.
#
#   bash ci/mutants.sh [--crate NAME]… [--file PART]… [--sample N] [--seed S] [--and GROUP]… [--left] [--own] [--jobs N] [--kit FILE]
#   bash ci/mutants.sh --try FILE [--own] [--jobs N]
set -euo pipefail
cd "$(dirname "$0")/.."

# A separate target folder, because cargo takes the copy and the sources for the same packages.
export CARGO_TARGET_DIR=$PWD/target/mutants-build CARGO_INCREMENTAL=0
# Allows intrinsics of the compiler, for functions that also run at compile time.
export RUSTC_BOOTSTRAP=1
# Fewer cases than in a test run, because each mutant runs all of them.
export RINGFENCE_DRIVE_SEEDS="${RINGFENCE_DRIVE_SEEDS:-12}" RINGFENCE_CASES="${RINGFENCE_CASES:-24}" PROPTEST_CASES="${PROPTEST_CASES:-24}"
export RINGFENCE_WORLDS="${RINGFENCE_WORLDS:-200}" RINGFENCE_THREADED_WORLDS="${RINGFENCE_THREADED_WORLDS:-20}"
export RINGFENCE_REQUIRE_VULKAN=1 RINGFENCE_REQUIRE_VALIDATION=1
mkdir -p target/mutants
cargo fetch --quiet
RUSTC_BOOTSTRAP='' cargo build --quiet --manifest-path ci/mutants/Cargo.toml --target-dir target/mutants-tool
target/mutants-tool/debug/ringfence-mutants "$@"
