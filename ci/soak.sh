#!/usr/bin/env bash
# The long soak test: the optimised demo for many frames on the simulated device. `ci/test.sh` runs the same test for few.
#
#   bash ci/soak.sh [FRAMES]
set -euo pipefail
cd "$(dirname "$0")/.."

RINGFENCE_SOAK_FRAMES=${1:-${RINGFENCE_SOAK_FRAMES:-100000}} cargo test --release -p ringfence-cli --test it soak:: -- --nocapture
