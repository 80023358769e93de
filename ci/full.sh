#!/usr/bin/env bash
# The parts of the tests that .ci/run omits because of their time. Run it before a release, and when one of the parts is in doubt.
# About two hours on two cores. docs/reliability.md lists them beside the parts that .ci/run keeps.
set -uo pipefail
cd "$(dirname "$0")/.."
export CARGO_INCREMENTAL=0

failed=()
step() {
    echo "== $*"
    local begun=$SECONDS
    "$@" || failed+=("$*")
    echo "== $*: $((SECONDS - begun)) s"
}
off_windows() {
    # Off Windows the feature compiles to an empty module.
    cargo check --quiet -p ringfence --features d3d12
    cargo check --quiet -p ringfence-testkit --no-default-features --features d3d12 --tests
}
# Workspaces of their own, which .ci/run does not build.
outside() {
    cargo check --quiet --manifest-path bench/Cargo.toml --all-targets && cargo check --quiet --manifest-path fuzz/Cargo.toml
}
step bash ci/drivers.sh
step bash ci/facade.sh --full
step off_windows
step outside
step bash ci/viewer.sh --whole
step bash ci/row-mutants.sh
step bash ci/fuzz.sh
step bash ci/sanitizers.sh
if [ "${#failed[@]}" -gt 0 ]; then
    printf '== failed: %s\n' "${failed[@]}"
    exit 1
fi
