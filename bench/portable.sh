#!/usr/bin/env bash
# Builds the benchmark so that it can be copied to another machine of the same kind of processor: the C++ runtime is
# linked in, and what is left to be found there is the C library (as old as this machine's) and a Vulkan loader.
set -euo pipefail
cd "$(dirname "$0")"

static=$(c++ -print-file-name=libstdc++.a)
[ -f "$static" ] || { echo "no static C++ runtime: $static" >&2; exit 1; }
# Always the same folder: another one would be another set of flags, and everything would be built anew.
library="$PWD/target/portable-build/runtime"
mkdir -p "$library"
ln -sf "$static" "$library/libstdc++.a"
# `cc` asks for the runtime by this name; `static=` takes the archive.
CXXSTDLIB='' RUSTFLAGS="${RUSTFLAGS:-} -C link-arg=-Wl,--push-state,-Bstatic -C link-arg=-L$library -C link-arg=-lstdc++ -C link-arg=-Wl,--pop-state" \
    cargo build --release --target-dir target/portable-build
mkdir -p target/portable
cp target/portable-build/release/ringfence-bench target/portable/
ldd target/portable/ringfence-bench
