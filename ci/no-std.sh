#!/usr/bin/env bash
# The core, the pools and the planner build for a machine that has no standard library.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/windows-env.sh
install_packages rustc-web cargo-web rust-web-src

cargo build --quiet -p ringfence-core -p ringfence-lockfree -p ringfence-alias -Zbuild-std=core,alloc --target x86_64-unknown-none --target-dir target-no-std
