#!/usr/bin/env bash
# The Direct3D 12 code compiles with the oldest version of `windows` that Cargo.toml allows. ci/windows.sh lints, builds and
# runs it with the newest, which Cargo.lock names.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/windows-env.sh
install_packages "${BUILD_PACKAGES[@]}"

# In a copy, because another version changes Cargo.lock.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp -r Cargo.toml Cargo.lock crates planner "$scratch"
cd "$scratch"
cargo update --quiet -p windows --precise 0.58.0
windows_cargo check --quiet -p ringfence-testkit --no-default-features --features d3d12 --tests
