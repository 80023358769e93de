#!/usr/bin/env bash
# The long campaign: worlds, generated operations, worlds of several threads, fuzzing, misuse in release builds. Not part of
# .ci/run; docs/reliability.md has figures. Runs for the given time, at low priority.
#
#   bash ci/campaign.sh [WORLDS [SECONDS [FIRST_SEED]]]
set -euo pipefail
cd "$(dirname "$0")/.."

worlds=${1:-10000}
seconds=${2:-600}
first=${3:-$((RANDOM * 1000000))}

nice -n 19 cargo build --release -p ringfence-cli
nice -n 19 cargo build --release -p ringfence-lockfree --features testing --example campaign
nice -n 19 cargo build --release -p ringfence-planner --features testing --example alias_campaign
echo "worlds from seed $first on"
nice -n 19 target/release/ringfence world --count "$worlds" --seed "$first"
nice -n 19 target/release/ringfence world --count "$((worlds / 10))" --seed "$first" --threads 4
echo "operations for $seconds s from seed $first on"
nice -n 19 target/release/examples/campaign "$seconds" "$first"
nice -n 19 target/release/examples/alias_campaign "$(((seconds + 9) / 10))" "$first"
nice -n 19 cargo test --release -p ringfence --test it misuse::
RINGFENCE_RECYCLED_OPERATIONS=$((seconds * 10000)) nice -n 19 cargo test --release -p ringfence-memory --test it recycled_campaign::
nice -n 19 bash ci/soak.sh 100000
if command -v cargo-fuzz >/dev/null; then
    nice -n 19 bash ci/fuzz.sh "$((seconds / 20))"
fi
