#!/usr/bin/env bash
# Mutation testing of the core: every mutant that cargo-mutants lists, in two rounds. Each meets the seeded operations of its
# structure beside the naive twin (`tests/drive.rs`), and what survives meets the tests of its file. Needs `cargo install
# cargo-mutants`, for its list only: building each mutant by itself is what takes the time, so ci/mutants builds all of them at
# once, each behind a number (see there). Not part of .ci/run. What survives is explained in docs/reliability.md.
#
#   bash ci/mutants.sh [FILE …]             files of crates/ringfence-core/src; all that matter for safety if none is named
#
# Left out: `validate` and `Debug`. A weaker `validate` accepts more, which no correct structure shows; that it refuses what is
# damaged is not what it is for. Left out too: what does not compile as a switch, counted at the end.
set -euo pipefail
cd "$(dirname "$0")/.."

# The operations of a file, and its tests.
declare -A drives=(
    [tlsf.rs]="tlsf tlsf_parked" [tlsf/parked.rs]="tlsf_parked" [fixed_pool.rs]="fixed_pool pool_chain"
    [fixed_pool/slot.rs]="fixed_pool pool_chain" [pool_chain.rs]="pool_chain" [ring.rs]="ring" [retire.rs]="retire"
    [sync.rs]="sync_set retire" [buddy.rs]="buddy" [free_list.rs]="free_list" [free_list/by_offset.rs]="free_list"
    [free_list/by_size.rs]="free_list" [blocks.rs]="blocks blocks_parked" [blocks/index.rs]="blocks"
    [blocks/growable.rs]="blocks" [blocks/shelf.rs]="blocks_parked" [tlsf/classes.rs]="tlsf" [tlsf/find.rs]="tlsf"
    [tlsf/lists.rs]="tlsf" [linear.rs]="linear" [linear_ranges.rs]="linear_ranges" [alias/check.rs]="alias_plan"
    [range.rs]="tlsf free_list" [size_class.rs]="size_class" [algorithm.rs]="virtual_allocator"
)
declare -A tests=(
    [tlsf.rs]="tlsf tlsf_blocks_host_memory" [tlsf/parked.rs]="tlsf" [fixed_pool.rs]="fixed_pool" [fixed_pool/slot.rs]="pool_chain"
    [pool_chain.rs]="pool_chain" [ring.rs]="ring" [retire.rs]="retire" [sync.rs]="retire" [buddy.rs]="buddy"
    [free_list.rs]="free_list" [free_list/by_offset.rs]="free_list" [free_list/by_size.rs]="free_list" [blocks.rs]="blocks blocks_parked"
    [blocks/index.rs]="blocks" [blocks/growable.rs]="blocks" [blocks/shelf.rs]="blocks_parked" [tlsf/classes.rs]="tlsf"
    [tlsf/find.rs]="tlsf" [tlsf/lists.rs]="tlsf" [linear.rs]="algorithm" [linear_ranges.rs]="algorithm" [alias/check.rs]="alias"
    [range.rs]="free_list blocks" [size_class.rs]="pool_chain" [algorithm.rs]="algorithm"
)
files=("$@")
[ "$#" -gt 0 ] || mapfile -t files < <(printf '%s\n' "${!drives[@]}" | sort)
out=target/mutants
tree=$out/tree
# Of its own: cargo takes the copy and the tree for the same packages.
export CARGO_TARGET_DIR=$PWD/target/mutants-build
export RINGFENCE_DRIVE_SEEDS="${RINGFENCE_DRIVE_SEEDS:-12}" RINGFENCE_CASES="${RINGFENCE_CASES:-24}" PROPTEST_CASES="${PROPTEST_CASES:-24}"

nice -n 19 cargo build --quiet --manifest-path ci/mutants/Cargo.toml --target-dir target/mutants-tool
rm -rf "$tree"
mkdir -p "$tree"
git ls-files -z | xargs -0 cp --parents -t "$tree"
named=()
for file in "${files[@]}"; do named+=(--file "crates/ringfence-core/src/$file"); done
cargo mutants --list --json -p ringfence-core "${named[@]}" --exclude-re 'validate|fmt' >"$out/list.json"

# The switch: read once, before anything runs.
core=$tree/crates/ringfence-core/src
cat >"$core/mutant.rs" <<'RUST'
#![allow(unsafe_code)]
static mut ACTIVE: u32 = 0;
#[inline]
pub const fn on(number: u32) -> bool {
    // SAFETY: written before `main` alone.
    unsafe { ACTIVE == number }
}
extern "C" fn read() {
    let number = std::env::var("RINGFENCE_MUTANT").ok().and_then(|text| text.parse().ok());
    // SAFETY: there is one thread yet.
    unsafe { ACTIVE = number.unwrap_or(0) };
}
#[used]
#[unsafe(link_section = ".init_array")]
static READ: extern "C" fn() = read;
RUST
{
    echo '#![allow(warnings, arithmetic_overflow, unconditional_panic, unconditional_recursion)]'
    cat crates/ringfence-core/src/lib.rs
    echo '#[doc(hidden)] pub mod mutant;'
} >"$core/lib.rs"

targets=(--lib --test drive)
for test in $(for file in "${files[@]}"; do echo "${tests[$file]}"; done | tr ' ' '\n' | sort -u); do targets+=(--test "$test"); done
build=(nice -n 19 cargo test --no-run --offline -p ringfence-core "${targets[@]}" --message-format=json)
target/mutants-tool/debug/ringfence-mutants "$out/list.json" "$PWD" "$tree" "${build[@]}" >"$out/mutants.tsv"
declare -A programs
while IFS=$'\t' read -r name program; do programs[$name]=$program; done < <(cd "$tree" && "${build[@]}" 2>/dev/null |
    sed -nE 's/.*"kind":\["([a-z-]+)"\].*"name":"([a-z_]+)".*"executable":"([^"]+)".*/\2\t\3/p')

# A program with a mutant on: limits of processor time and memory, for those that never end.
try() {
    local number=$1 program=${programs[$2]:?no program $2}
    shift 2
    (ulimit -t "${LIMIT_S:-20}" -v 4000000 -c 0; cd "$tree/crates/ringfence-core" && RINGFENCE_MUTANT=$number \
        nice -n 19 "$program" --test-threads=1 -q "$@") >/dev/null 2>&1
}
for file in "${files[@]}"; do
    for name in ${drives[$file]}; do try 0 drive --exact "$name" || { echo "without a mutant $name fails"; exit 1; }; done
    for name in ${tests[$file]} ringfence_core; do LIMIT_S=200 try 0 "$name" || { echo "without a mutant $name fails"; exit 1; }; done
done

caught_by() {
    local number=$1 file=$2
    for name in ${drives[$file]}; do try "$number" drive --exact "$name" || { echo operations; return; }; done
    for name in ${tests[$file]} ringfence_core; do LIMIT_S=200 try "$number" "$name" || { echo tests; return; }; done
    echo nobody
}
: >"$out/outcomes.tsv"
while IFS=$'\t' read -r number path name; do
    file=${path#crates/ringfence-core/src/}
    printf '%s\t%s\t%s\n' "$(caught_by "$number" "$file")" "$file" "${name#"$path":}" >>"$out/outcomes.tsv"
done <"$out/mutants.tsv"
for file in "${files[@]}"; do
    count() { grep -cP "^$1\t\Q$file\E\t" "$out/outcomes.tsv" || true; }
    listed=$(grep -cF "\"file\": \"crates/ringfence-core/src/$file\"" "$out/list.json" || true)
    echo "$file: $listed listed, $(count operations) caught by the operations, $(count tests) by the tests, $(count nobody) left"
done
echo "left:"
grep -P '^nobody\t' "$out/outcomes.tsv" | cut -f2- || true
