#!/usr/bin/env bash
# Runs tests with threads under the thread sanitizer, small tests under the address sanitizer, and the lock-free structures under
# miri: about a quarter of an hour. Needs a nightly compiler with its sources (`rustup component add rust-src miri --toolchain
# nightly`); parts that the toolchain lacks are reported and skipped. Not part of .ci/run.
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
# The standard library is built too: the sanitizer must see its synchronization, or it would report everything as a race. The
# sanitizer does not see fences; only models contain them (`primitive.rs`).
thread() {
    RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer" TSAN_OPTIONS="halt_on_error=1" \
        cargo +nightly test -Zbuild-std --target "$host" --target-dir target-tsan "$@"
}

address -p ringfence-core -p ringfence-lockfree --test it -- drive:: fixed_pool:: pool_chain::
address -p ringfence-alias -p ringfence-planner --test it -- from_seeds::
address -p ringfence-memory --test it -- memory:: recycled_campaign::
# These tests forget passes on purpose, and leak the resources that a dropped frame may use.
ASAN_OPTIONS=detect_leaks=0 address -p ringfence -p ringfence-memory --test it -- release:: misuse::
address -p ringfence-testkit --no-default-features --test devices -- worlds:: --skip planted
# A world with a planted bug ends early.
ASAN_OPTIONS=detect_leaks=0 address -p ringfence-testkit --no-default-features --test devices worlds::planted
if [ -d "$(rustc +nightly --print sysroot)/lib/rustlib/src/rust/library" ]; then
    thread -p ringfence-lockfree --lib --test it
    thread -p ringfence -p ringfence-memory -p ringfence-sparse -p ringfence-upload -p ringfence-descriptor -p ringfence-transient --lib --test it
    thread -p ringfence-testkit --no-default-features --test devices threads
else
    echo "skipped: the thread sanitizer needs the standard library's sources (rust-src)"
fi
if cargo +nightly miri --version >/dev/null 2>&1; then
    MIRIFLAGS="-Zmiri-disable-isolation" PROPTEST_CASES=2 cargo +nightly miri test -p ringfence-lockfree --test it -- pool_chain::seed_ pool_chain::fault_
    # The models of thread caches, over real memory.
    cargo +nightly miri test -p ringfence-lockfree --lib models
else
    echo "skipped: miri is not installed"
fi
