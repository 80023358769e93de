#!/usr/bin/env bash
# Threads under the thread sanitizer, everything small under the address sanitizer, and the core's one file with unsafe code
# under miri. Needs a nightly compiler with its sources (`rustup component add rust-src miri --toolchain nightly`); what the
# toolchain lacks is skipped, saying so. Not part of .ci/run.
set -euo pipefail
cd "$(dirname "$0")/.."

host=$(rustc -vV | sed -n 's/^host: //p')
if ! rustc +nightly --version >/dev/null 2>&1; then
    echo "skipped: there is no nightly compiler"
    exit 0
fi

address() {
    RUSTFLAGS="-Zsanitizer=address" cargo +nightly test --target "$host" --target-dir target-asan "$@"
}
# Nothing is rebuilt for it but what is here: the standard library has no races that are ours to find.
thread() {
    RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer" TSAN_OPTIONS="halt_on_error=1" \
        cargo +nightly test -Zbuild-std --target "$host" --target-dir target-tsan "$@"
}

address -p ringfence-core --test drive --test fixed_pool --test pool_chain
address -p ringfence --test release --test memory --test misuse
address -p ringfence-harness --no-default-features --test worlds
if [ -d "$(rustc +nightly --print sysroot)/lib/rustlib/src/rust/library" ]; then
    thread -p ringfence-core --test fixed_pool --test pool_chain
    thread -p ringfence-harness --no-default-features --test worlds threads
else
    echo "skipped: the thread sanitizer needs the standard library's sources (rust-src)"
fi
if cargo +nightly miri --version >/dev/null 2>&1; then
    MIRIFLAGS="-Zmiri-disable-isolation" PROPTEST_CASES=2 cargo +nightly miri test -p ringfence-core --test pool_chain seed_ fault_
else
    echo "skipped: miri is not installed"
fi
