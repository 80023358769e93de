#!/usr/bin/env bash
# The README's test command. Every device that can be installed is required: a missing one is a failure. The tests of the test
# kit run on the simulated devices and on Debian 12's software driver; ci/drivers.sh takes these two columns from this run.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/suites.sh

export RINGFENCE_REQUIRE_VULKAN=1 RINGFENCE_REQUIRE_VALIDATION=1 RINGFENCE_REQUIRE_BROWSER=1
rm -rf "$results"
mkdir -p "$results"
export RINGFENCE_TEST_REPORT="$results/test-run.txt"
: >"$RINGFENCE_TEST_REPORT"
code=0
# After a failure the rest still runs.
cargo test --workspace --no-fail-fast 2>&1 | tee "$results/test-run" || code=$?
suites_of_a_run "$results/test-run" "$RINGFENCE_TEST_REPORT"
exit "$code"
