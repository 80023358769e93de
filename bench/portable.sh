#!/usr/bin/env bash
# Builds the benchmark for copying to another machine with the same processor architecture: the C++ runtime is
# linked statically. The other machine needs a C library at least as new as this machine's, and a Vulkan loader.
set -euo pipefail
cd "$(dirname "$0")"

static=$(c++ -print-file-name=libstdc++.a)
[ -f "$static" ] || { echo "no static C++ runtime: $static" >&2; exit 1; }
# Always the same folder, because a change of the flags rebuilds everything.
library="$PWD/target/portable-build/runtime"
mkdir -p "$library"
ln -sf "$static" "$library/libstdc++.a"
# An empty CXXSTDLIB stops `cc` from linking the shared runtime.
CXXSTDLIB='' RUSTFLAGS="${RUSTFLAGS:-} -C link-arg=-Wl,--push-state,-Bstatic -C link-arg=-L$library -C link-arg=-lstdc++ -C link-arg=-Wl,--pop-state" \
    cargo build --release --target-dir target/portable-build
mkdir -p target/portable
cp target/portable-build/release/ringfence-bench target/portable/
ldd target/portable/ringfence-bench
