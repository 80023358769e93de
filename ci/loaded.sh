#!/usr/bin/env bash
# Repeats the whole suite beside programs that load eight processors and the memory: no test may depend on speed. Not in CI,
# because it takes hours on two cores.
#
#   ci/loaded.sh [RUNS]      ten by default; fails at the end if one test failed in any run
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/install.sh

runs="${1:-10}"
bash ci/packages.sh
install_packages stress-ng
export RINGFENCE_REQUIRE_VULKAN=1 RINGFENCE_REQUIRE_BROWSER=1
cargo test --workspace --no-run

logs="${CARGO_TARGET_DIR:-target}/loaded"
rm -rf "$logs"
mkdir -p "$logs"
stress-ng --cpu 8 --vm 2 --vm-bytes 512M --quiet &
trap 'kill %1 2>/dev/null || true' EXIT
failed=0
for run in $(seq "$runs"); do
    begun=$SECONDS
    # Documentation examples are mostly compiled only, which does not depend on speed.
    cargo test --workspace --no-fail-fast --lib --bins --tests --examples >"$logs/$run.log" 2>&1 || failed=$((failed + 1))
    awk -v run="$run" -v seconds=$((SECONDS - begun)) '
        /^test result:/ { passed += $4; failed += $6 }
        END { printf "run %d: %d passed; %d failed; %d s\n", run, passed, failed, seconds }' "$logs/$run.log"
    grep -E '^test .* FAILED$|has been running for over|SIG' "$logs/$run.log" || true
done
echo "$failed of $runs runs failed"
[ "$failed" -eq 0 ]
