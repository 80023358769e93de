#!/usr/bin/env bash
# Mutation testing of the core, a file at a time, in two rounds: each mutant meets the seeded operations of the structure beside
# its naive twin (`tests/drive.rs`, a second), and what survives meets the tests of its file. Needs `cargo install cargo-mutants`.
# Not part of .ci/run: it takes hours. What survives is explained in docs/reliability.md.
#
#   bash ci/mutants.sh [SHARD [FILE …]]     SHARD: k/n for one in n of the mutants, 0/1 for all
#                                           files of crates/ringfence-core/src; all that matter for safety if none is named
#
# Left out: `validate` and `Debug`. A weaker `validate` accepts more, which no correct structure shows; that it refuses what is
# damaged is not what it is for.
set -euo pipefail
cd "$(dirname "$0")/.."

shard=${1:-0/1}
shift || true
# The operations of a file, and its tests.
declare -A drives=(
    [tlsf/classes.rs]="tlsf" [tlsf/find.rs]="tlsf" [tlsf/lists.rs]="tlsf" [blocks/growable.rs]="blocks"
    [tlsf.rs]="tlsf" [tlsf/parked.rs]="tlsf_parked" [fixed_pool.rs]="fixed_pool pool_chain" [fixed_pool/slot.rs]="fixed_pool pool_chain"
    [pool_chain.rs]="pool_chain" [ring.rs]="ring" [retire.rs]="retire" [sync.rs]="sync_set retire" [buddy.rs]="buddy"
    [free_list.rs]="free_list" [free_list/by_offset.rs]="free_list" [free_list/by_size.rs]="free_list" [blocks.rs]="blocks blocks_parked"
    [blocks/shelf.rs]="blocks_parked" [linear.rs]="linear" [linear_ranges.rs]="linear_ranges" [alias/check.rs]="alias_plan" [range.rs]="tlsf free_list"
    [size_class.rs]="size_class" [algorithm.rs]="virtual_allocator"
)
declare -A tests=(
    [tlsf/classes.rs]="tlsf" [tlsf/find.rs]="tlsf" [tlsf/lists.rs]="tlsf" [blocks/growable.rs]="blocks"
    [tlsf.rs]="tlsf" [tlsf/parked.rs]="tlsf" [fixed_pool.rs]="fixed_pool" [fixed_pool/slot.rs]="fixed_pool"
    [pool_chain.rs]="pool_chain" [ring.rs]="ring" [retire.rs]="retire" [sync.rs]="retire" [buddy.rs]="buddy"
    [free_list.rs]="free_list" [free_list/by_offset.rs]="free_list" [free_list/by_size.rs]="free_list" [blocks.rs]="blocks blocks_parked"
    [blocks/shelf.rs]="blocks_parked" [linear.rs]="algorithm" [linear_ranges.rs]="algorithm" [alias/check.rs]="alias" [range.rs]="free_list"
    [size_class.rs]="pool_chain" [algorithm.rs]="algorithm"
)
files=("$@")
[ "$#" -gt 0 ] || files=("${!tests[@]}")
# What is compiled anew for each mutant is not worth optimising.
export CARGO_PROFILE_DEV_OPT_LEVEL=0 CARGO_PROFILE_DEV_DEBUG=0 CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target/mutants-build}"
export RINGFENCE_DRIVE_SEEDS="${RINGFENCE_DRIVE_SEEDS:-12}" RINGFENCE_CASES="${RINGFENCE_CASES:-24}" PROPTEST_CASES="${PROPTEST_CASES:-24}"
for file in "${files[@]}"; do
    output="target/mutants/${file//\//-}"
    mkdir -p "$output"
    common=(-p ringfence-core --file "crates/ringfence-core/src/$file" --no-shuffle)
    # shellcheck disable=SC2086 # several words on purpose
    nice -n "${NICE:-10}" cargo mutants "${common[@]}" --exclude-re 'validate|fmt' --shard "$shard" --output "$output" \
        --timeout 60 --cargo-arg=--test=drive -- -- ${drives[$file]} || true
    # What is left, by name, before the tests of the file.
    left=$(sed 's/[][\.*^$(){}?+|]/\\&/g' "$output/mutants.out/missed.txt" | paste -sd'|')
    [ -n "$left" ] || continue
    nice -n "${NICE:-10}" cargo mutants "${common[@]}" --re "$left" --output "$output-left" --timeout 300 \
        --cargo-arg=--lib --cargo-arg="--test=${tests[$file]}" || true
    echo "$file: left"
    cat "$output-left/mutants.out/missed.txt"
done
