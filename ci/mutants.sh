#!/usr/bin/env bash
# Mutation testing of the core, a file at a time, with the tests that look at it. Needs `cargo install cargo-mutants`. Not part
# of .ci/run: it takes hours. What survives is explained in docs/reliability.md.
#
#   bash ci/mutants.sh [FILE …]      files of crates/ringfence-core/src, all if none is named
set -euo pipefail
cd "$(dirname "$0")/.."

declare -A tests=(
    [linear.rs]="--test drive" [size_class.rs]="--test drive --test pool_chain" [sync.rs]="--test drive --test retire"
    [retire.rs]="--test drive --test retire" [ring.rs]="--test drive --test ring" [range.rs]="--test drive --test free_list"
    [buddy.rs]="--test drive --test buddy" [free_list.rs]="--test drive --test free_list" [tlsf.rs]="--test drive --test tlsf"
    [blocks.rs]="--test drive --test blocks" [fixed_pool.rs]="--test drive --test fixed_pool"
    [pool_chain.rs]="--test drive --test pool_chain" [algorithm.rs]="--test drive --test algorithm"
    [linear_ranges.rs]="--test drive --test algorithm"
)
files=("$@")
[ "$#" -gt 0 ] || files=("${!tests[@]}")
for file in "${files[@]}"; do
    # shellcheck disable=SC2086 # several words on purpose
    nice -n 19 cargo mutants -p ringfence-core --file "crates/ringfence-core/src/$file" --output "target/mutants/$file" \
        --timeout 120 --no-shuffle -- --lib ${tests[$file]:-} || true
done
