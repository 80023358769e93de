#!/usr/bin/env bash
# Builds the core, the pools and the planners for a target without a standard library.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/windows-env.sh
install_packages rustc-web cargo-web rust-web-src

cargo build --quiet -p ringfence-core -p ringfence-lockfree -p ringfence-alias -p ringfence-planner -Zbuild-std=core,alloc --target x86_64-unknown-none --target-dir target-no-std
