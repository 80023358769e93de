#!/usr/bin/env bash
# Runs each fuzz target for SECONDS seconds, from the corpus in the repository. Needs a nightly compiler and cargo-fuzz
# (`cargo install cargo-fuzz`). Not part of .ci/run: the same operations run there from seeds
# (tests/it/drive.rs of the core, tests/it/from_seeds.rs of the planners).
#
#   bash ci/fuzz.sh [SECONDS [TARGET …]]
set -euo pipefail
cd "$(dirname "$0")/../fuzz"

seconds=${1:-10}
shift || true
[ "$#" -gt 0 ] || mapfile -t targets < <(cargo +nightly fuzz list)
[ "$#" -eq 0 ] || targets=("$@")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

for target in "${targets[@]}"; do
    mkdir -p "$scratch/$target"
    # cargo-fuzz writes new inputs to the first folder, so the corpus in the repository does not grow.
    cargo +nightly fuzz run -O "$target" "$scratch/$target" "corpus/$target" -- \
        -max_total_time="$seconds" -max_len=4096 -print_final_stats=1 2>"$scratch/log" || { cat "$scratch/log"; exit 1; }
    runs=$(grep -oE 'number_of_executed_units: [0-9]+' "$scratch/log" | grep -oE '[0-9]+')
    operations=$(grep -oE '^operations: [0-9]+' "$scratch/log" | grep -oE '[0-9]+')
    echo "$target: $runs runs, $operations operations"
done
