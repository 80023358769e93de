#!/usr/bin/env bash
# Runs the lock-free parts under loom, which tries every order of their memory accesses.
set -euo pipefail
cd "$(dirname "$0")/.."

export RUSTFLAGS="--cfg loom"
cargo test -p ringfence-lockfree --release --test it --target-dir target-loom
cargo test -p ringfence-lockfree -p ringfence-timeline --release --lib --target-dir target-loom models
