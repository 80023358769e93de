#!/usr/bin/env bash
# Mutation testing of the core and of the planner's checker: every mutant that cargo-mutants lists, in three rounds. Each meets
# the seeded operations of its structure beside the naive twin (`tests/it/drive.rs`; `tests/it/from_seeds.rs` for the planner); what
# survives meets the tests of its file; and what survives those in the lock-free pools meets their models under loom. Needs
# `cargo install cargo-mutants`, for its list only: building each mutant by itself is what takes the time, so ci/mutants builds
# all of them at once, each behind a number (see there). Not part of .ci/run. What survives is explained in docs/reliability.md.
#
#   bash ci/mutants.sh [FILE …]             files of crates/ringfence-core/src, or ringfence-alias/src/check.rs;
#                                           all that matter for safety if none is named
#   RINGFENCE_MUTANTS_JOBS=2                so many programs at a time; 1 if it is not said
#   RINGFENCE_MUTANTS_LEFT=1                only those that were not caught when this ran before
#
# A mutant whose program takes ten times the usual time and five seconds counts as caught; how many is said.
#
# Left out: `validate` and `Debug`. A weaker `validate` accepts more, which no correct structure shows; that it refuses what is
# damaged is not what it is for. Left out too: what does not compile as a switch, counted at the end.
set -euo pipefail
cd "$(dirname "$0")/.."

# The operations of a file, and its tests.
declare -A drives=(
    [tlsf.rs]="tlsf tlsf_deferred" [tlsf/deferred.rs]="tlsf_deferred" [fixed_pool.rs]="fixed_pool pool_chain"
    [fixed_pool/slot.rs]="fixed_pool pool_chain" [pool_chain.rs]="pool_chain" [ring.rs]="ring" [retire.rs]="retire"
    [sync.rs]="sync_set retire" [buddy.rs]="buddy" [free_list.rs]="free_list" [free_list/by_offset.rs]="free_list"
    [free_list/by_size.rs]="free_list" [blocks.rs]="blocks" [blocks/index.rs]="blocks"
    [blocks/growable.rs]="blocks" [tlsf/classes.rs]="tlsf" [tlsf/find.rs]="tlsf"
    [tlsf/lists.rs]="tlsf" [linear.rs]="linear" [linear_ranges.rs]="linear_ranges" [ringfence-alias/src/check.rs]="alias_plan"
    [ringfence-alias/src/heaps/check.rs]="alias_heaps"
    [blocks/names.rs]="blocks" [range.rs]="tlsf free_list" [size_class.rs]="size_class" [algorithm.rs]="virtual_allocator"
)
declare -A tests=(
    [tlsf.rs]="tlsf_found tlsf_deferred tlsf tlsf_blocks_host_memory"
    [tlsf/deferred.rs]="tlsf_deferred tlsf_found tlsf"
    [tlsf/classes.rs]="tlsf" [tlsf/find.rs]="tlsf_found tlsf" [tlsf/lists.rs]="tlsf"
    [blocks.rs]="blocks blocks_asked tlsf_blocks_host_memory algorithm" [blocks/index.rs]="blocks blocks_asked"
    [blocks/growable.rs]="blocks blocks_asked" [blocks/names.rs]="blocks"
    [fixed_pool.rs]="fixed_pool pool_chain" [fixed_pool/slot.rs]="pool_chain" [pool_chain.rs]="pool_chain"
    [ring.rs]="ring" [retire.rs]="retire" [sync.rs]="retire" [buddy.rs]="buddy algorithm"
    [free_list.rs]="free_list no_host_allocation algorithm" [free_list/by_offset.rs]="free_list no_host_allocation"
    [free_list/by_size.rs]="free_list algorithm" [linear.rs]="algorithm" [linear_ranges.rs]="algorithm"
    [algorithm.rs]="algorithm" [range.rs]="free_list blocks algorithm" [size_class.rs]="pool_chain"
    [ringfence-alias/src/check.rs]="alias" [ringfence-alias/src/heaps/check.rs]="heaps"
)
# The crate of a file, its path, and the program of its operations.
crate_of() { case $1 in */src/*) echo "${1%%/*}" ;; *) echo ringfence-core ;; esac; }
path_of() { case $1 in */src/*) echo "crates/$1" ;; *) echo "crates/ringfence-core/src/$1" ;; esac; }
operations_of() { case $1 in ringfence-alias/*) echo from_seeds ;; *) echo drive ;; esac; }
# Its unit tests.
library_of() { crate_of "$1" | tr - _; }
# What threads share.
declare -A models=([fixed_pool.rs]=1 [fixed_pool/slot.rs]=1 [pool_chain.rs]=1 [range.rs]=1)
mapfile -t all < <(printf '%s\n' "${!drives[@]}" | sort)
files=("$@")
[ "$#" -gt 0 ] || files=("${all[@]}")
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
for file in "${all[@]}"; do named+=(--file "$(path_of "$file")"); done
cargo mutants --list --json -p ringfence-core -p ringfence-alias "${named[@]}" --exclude-re 'validate|fmt' >"$out/list.json"

# The switch: read once, before anything runs. A function that runs while compiling is as it was there; that takes what the
# compiler has for itself.
export RUSTC_BOOTSTRAP=ringfence_core,ringfence_alias
cat >"$out/mutant.rs" <<'RUST'
#![allow(unsafe_code)]
use std::boxed::Box;
static mut ACTIVE: u32 = 0;
const fn off(_: u32) -> bool {
    false
}
#[inline]
fn is(number: u32) -> bool {
    // SAFETY: written before `main` alone.
    unsafe { ACTIVE == number }
}
#[inline]
pub const fn on(number: u32) -> bool {
    core::intrinsics::const_eval_select((number,), off, is)
}
// For functions that return `impl Iterator`: the real one, or what a mutant returns.
pub struct Either<'a, I: Iterator>(Option<Box<dyn Iterator<Item = I::Item> + 'a>>, I);
impl<I: Iterator> Iterator for Either<'_, I> {
    type Item = I::Item;
    fn next(&mut self) -> Option<I::Item> {
        match &mut self.0 {
            Some(instead) => instead.next(),
            None => self.1.next(),
        }
    }
}
pub fn either<'a, I: Iterator>(instead: Option<Box<dyn Iterator<Item = I::Item> + 'a>>, real: I) -> Either<'a, I> {
    Either(instead, real)
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
for name in core alias; do
    library=crates/ringfence-$name/src/lib.rs
    cp "$out/mutant.rs" "$tree/crates/ringfence-$name/src/mutant.rs"
    {
        echo '#![allow(warnings, arithmetic_overflow, unconditional_panic, unconditional_recursion)]'
        echo '#![feature(core_intrinsics, const_eval_select)]'
        sed 's/^#!\[forbid(unsafe_code)\]$/#![deny(unsafe_code)]/' "$library"
        grep -q '^extern crate std;' "$library" || echo 'extern crate std;'
        echo '#[doc(hidden)] pub mod mutant;'
    } >"$tree/$library"
done

targets=(--lib --test drive --test from_seeds)
for test in $(for file in "${all[@]}"; do echo "${tests[$file]}"; done | tr ' ' '\n' | sort -u); do targets+=(--test "$test"); done
build=(nice -n 10 cargo test --no-run --offline -p ringfence-core -p ringfence-alias "${targets[@]}" --message-format=json)
target/mutants-tool/debug/ringfence-mutants "$out/list.json" "$PWD" "$tree" "${build[@]}" >"$out/mutants.tsv"
declare -A programs
find_programs() {
    while IFS=$'\t' read -r name program; do programs[$name]=$program; done < <(cd "$tree" && "${build[@]}" 2>/dev/null |
        sed -nE 's/.*"kind":\["([a-z-]+)"\].*"name":"([a-z_]+)".*"executable":"([^"]+)".*/\2\t\3/p')
}
find_programs
loom=(nice -n 10 cargo test --no-run --offline -p ringfence-core --release --test loom --target-dir "$PWD/target/mutants-loom"
    --message-format=json)
for file in "${files[@]}"; do
    [ -n "${models[$file]:-}" ] || continue
    programs[loom]=$(cd "$tree" && RUSTFLAGS="--cfg loom" "${loom[@]}" 2>/dev/null | sed -nE 's/.*"executable":"([^"]+)".*/\1/p')
    break
done

# A program with a mutant on: limits of processor time and memory, for those that never end.
declare -A limits
try() {
    local number=$1 run=$2 program=${programs[${2%% *}]:?no program $2} limit=${limits[$2]:-200}
    local arguments=(--test-threads=1 -q)
    [ "$run" = "${run#* }" ] || arguments+=(--exact "${run#* }")
    (ulimit -t "$limit" -v 4000000 -c 0; cd "$tree/crates/ringfence-core" && RINGFENCE_MUTANT=$number \
        nice -n 10 timeout $((4 * limit + 20)) "$program" "${arguments[@]}") >/dev/null 2>&1
}
declare -A runs
for file in "${files[@]}"; do
    for name in ${drives[$file]}; do runs["$(operations_of "$file") $name"]=1; done
    for name in ${tests[$file]} "$(library_of "$file")" ${models[$file]:+loom}; do runs["$name"]=1; done
done
for run in "${!runs[@]}"; do
    begun=${EPOCHREALTIME/./}
    try 0 "$run" || { echo "without a mutant $run fails"; exit 1; }
    limits["$run"]=$(((${EPOCHREALTIME/./} - begun) / 100000 + 6))
done

# By whom it is caught, and whether by time.
caught_by() {
    local number=$1 file=$2 name status
    for name in ${drives[$file]}; do
        status=0
        try "$number" "$(operations_of "$file") $name" || status=$?
        [ "$status" = 0 ] || { echo "operations $status"; return; }
    done
    for name in ${tests[$file]} "$(library_of "$file")"; do
        status=0
        try "$number" "$name" || status=$?
        [ "$status" = 0 ] || { echo "tests $status"; return; }
    done
    status=0
    [ -z "${models[$file]:-}" ] || try "$number" loom || status=$?
    [ "$status" = 0 ] || { echo "models $status"; return; }
    echo "nobody 0"
}
outcomes() { echo "$out/outcomes-${1//\//-}.tsv"; }
# The mutants of a file that are wanted: number and name, of those behind a switch or of those alone.
wanted() {
    awk -F'\t' -v path="$(path_of "$1")" -v how="$2" '
        NR == FNR { wanted[$1]; next } $2 == path && $4 == how && $3 in wanted { print $1 "\t" $3 }' "$out/wanted-${1//\//-}" "$out/mutants.tsv"
}
jobs=${RINGFENCE_MUTANTS_JOBS:-1}
for file in "${files[@]}"; do
    all_of=$out/wanted-${file//\//-} known=$(outcomes "$file")
    cut -f3 "$out/mutants.tsv" | grep -F "$(path_of "$file"):" >"$all_of"
    if [ -n "${RINGFENCE_MUTANTS_LEFT:-}" ] && [ -e "$known" ]; then
        sed -i '/^nobody /d' "$known"
        cut -f2 "$known" | { grep -vxFf - "$all_of" || true; } >"$all_of.left"
        mv "$all_of.left" "$all_of"
        # What is not there any more.
        awk -F'\t' 'NR == FNR { there[$3]; next } $2 in there' "$out/mutants.tsv" "$known" >"$known.there"
        mv "$known.there" "$known"
    else
        : >"$known"
    fi
    while IFS=$'\t' read -r number name; do
        while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done
        { printf '%s\t%s\n' "$(caught_by "$number" "$file")" "$name" >>"$known"; } &
    done < <(wanted "$file" switch)
    wait
done
# Those of constants: one at a time, each built by itself, last.
for file in "${files[@]}"; do
    path=$(path_of "$file")
    alone=(nice -n 10 cargo test --no-run --quiet --offline -p "$(crate_of "$file")" --lib --test "$(operations_of "$file")")
    for test in ${tests[$file]}; do alone+=(--test "$test"); done
    while IFS=$'\t' read -r number name <&3; do
        target/mutants-tool/debug/ringfence-mutants "$out/list.json" "$PWD" "$tree" "$number"
        caught="compiler 0"
        ! (cd "$tree" && "${alone[@]}" >/dev/null 2>&1) || caught=$(caught_by 0 "$file")
        printf '%s\t%s\n' "$caught" "$name" >>"$(outcomes "$file")"
        cp "$path" "$tree/$path"
    done 3< <(wanted "$file" alone)
done
for file in "${files[@]}"; do
    count() { grep -cP "^$1" "$(outcomes "$file")" || true; }
    listed=$(grep -cF "\"file\": \"$(path_of "$file")\"" "$out/list.json" || true)
    echo "$file: $listed listed, $(grep -c . "$(outcomes "$file")" || true) tried, $(count operations) caught by the operations," \
        "$(count tests) by the tests, $(count models) by the models, $(count '\w+ (124|137|152)\t') of these by time, $(count nobody) left"
    grep -P '^nobody ' "$(outcomes "$file")" | cut -f2 | sed 's/^/    /' || true
done
echo "not tried, without a switch or refused by the compiler: $out/untried"
sed -nE 's/^ *"name": "(crates.*)",?$/\1/p' "$out/list.json" | sort >"$out/listed"
cut -f3 "$out/mutants.tsv" | sort | comm -23 "$out/listed" - >"$out/untried"
