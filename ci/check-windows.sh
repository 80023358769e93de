#!/usr/bin/env bash
# Lints the Direct3D 12 code: for Windows, with both ends of the range of `windows` versions that Cargo.toml
# allows; and off Windows, where the feature must compile to nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo check --quiet -p ringfence --features d3d12
cargo check --quiet -p ringfence-testkit --no-default-features --features d3d12 --tests

source ci/windows-env.sh
install_packages "${BUILD_PACKAGES[@]}"

# In a copy, since taking another version changes Cargo.lock.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp -r Cargo.toml Cargo.lock crates "$scratch"
cd "$scratch"
testkit=(-p ringfence-testkit --no-default-features --features d3d12 --tests)
# On this target the macro hides from the lint that the initializers are const already.
lints=(-D warnings -A clippy::missing_const_for_thread_local)
for version in 0.58.0 0.62.2; do
    echo "windows $version"
    cargo update --quiet -p windows --precise "$version"
    windows_cargo clippy --quiet -p ringfence-d3d12 -p ringfence --features ringfence/d3d12 --lib --example d3d12_texture -- "${lints[@]}"
    windows_cargo clippy --quiet "${testkit[@]}" -- "${lints[@]}"
done
