#!/usr/bin/env bash
# Runs the faults of ci/mutants/rows.txt, each against the test that must find it: faults in rows of docs/acceptance.md that a weak
# test once missed, and in tests that had never failed. All faults are built at once, each behind a number (as in
# ci/mutants.sh); then each test runs with its fault on and must fail. Not part of .ci/run.
#
#   bash ci/row-mutants.sh [WORD]      only the faults whose name contains the word, for instance 003-6
#   bash ci/row-mutants.sh check       only checks that each still matches the sources; builds nothing
#
# A record of the table:
#
#   [003-6 the budget is ignored] crates/ringfence-memory/src/memory/shortage.rs     its name, and the file, as a pattern of git ls-files
#   test ringfence memory seed_003_06_                                      package, test target (or lib), filters of test names
#   - Grant::BeyondBudget if strict =>                                      the original text, which occurs once; one line each
#   + Grant::BeyondBudget if strict && !ON =>                               the replacement; ON is true if the fault is on
#
# A record may have several tests, each of which must fail, and several replacements: the next begins with the next `-`. A later
# fault in the same file applies to the text that earlier faults have left.
#
# A test that does not end in time does not count as failed: a test must fail by itself at any speed.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/.."

word=${1:-}
out=target/row-mutants
tree=$out/tree
[ "$word" != check ] || tree=$out/check
# A fault of the Vulkan backend is only visible on a device.
export RINGFENCE_REQUIRE_VULKAN=1
export CARGO_TARGET_DIR="${RINGFENCE_ROW_MUTANTS_TARGET:-$PWD/target/row-mutants-build}"

rm -rf "${tree:?}.before"
[ ! -d "$tree" ] || mv "$tree" "$tree.before"
mkdir -p "$tree"
git ls-files -z | xargs -0 cp --parents -pd -t "$tree"

names=() files=() tests=()
replace() {
    local path=$tree/${files[-1]} text rest
    local on="crate::row_mutant::on(${#names[@]})"
    [ -f "$path" ] || { echo "[${names[-1]}] not one file: ${files[-1]}"; exit 1; }
    text=$(<"$path")
    rest=${text#*"$old"}
    if [ "$rest" = "$text" ] || [ "${rest#*"$old"}" != "$rest" ]; then
        echo "[${names[-1]}] ${files[-1]} does not contain exactly once: $old"
        exit 1
    fi
    printf '%s\n' "${text%%"$old"*}${new//ON/"$on"}$rest" >"$path"
}
old="" new="" state=none
flush() {
    [ "$state" != new ] || replace
    old="" new="" state=none
}
while IFS= read -r line; do
    case $line in
        '#'* | '') flush ;;
        '['*)
            flush
            name=${line#[}
            names+=("${name%%]*}") files+=("$(git ls-files "${line##*] }")") tests+=("")
            ;;
        'test '*) tests[-1]+="${line#test }"$'\n' ;;
        '- '*)
            [ "$state" != new ] || flush
            [ "$state" = none ] || old+=$'\n'
            old+=${line#- } state=old
            ;;
        '+'*)
            [ "$state" = old ] || new+=$'\n'
            line=${line#+} new+=${line# } state=new
            ;;
        *) echo "ci/mutants/rows.txt: $line"; exit 1 ;;
    esac
done <ci/mutants/rows.txt
flush
[ "$word" != check ] || { rm -rf "$tree"; echo "${#names[@]} faults, each matches the sources"; exit 0; }

for crate in $(printf '%s\n' "${files[@]}" | cut -d/ -f1,2 | sort -u); do
    source=$tree/$crate/src
    cat >"$source/row_mutant.rs" <<'RUST'
#![allow(unsafe_code)]
static mut ACTIVE: u32 = 0;
/// Whether a fault is on: read once, before anything runs.
#[inline]
pub fn on(number: u32) -> bool {
    // SAFETY: written before `main` alone.
    unsafe { ACTIVE == number }
}
extern "C" fn read() {
    let number = std::env::var("RINGFENCE_ROW_MUTANT").ok().and_then(|text| text.parse().ok());
    // SAFETY: there is one thread yet.
    unsafe { ACTIVE = number.unwrap_or(0) };
}
#[used]
#[unsafe(link_section = ".init_array")]
static READ: extern "C" fn() = read;
RUST
    { echo '#![allow(warnings)]'; cat "$source/lib.rs"; echo '#[doc(hidden)] pub mod row_mutant;'; } >"$out/lib.rs"
    sed -e 's/^#\[cfg(any(test, feature = "testing"))\]$/#[cfg(all())]/' -e 's/^#!\[forbid(unsafe_code)\]$/#![deny(unsafe_code)]/' \
        "$out/lib.rs" >"$source/lib.rs"
done

# Unchanged files keep their time stamps, so they are not built again.
while IFS= read -r -d '' file; do
    ! cmp -s "$tree/$file" "$tree.before/$file" || touch -r "$tree.before/$file" "$tree/$file"
done < <(cd "$tree" && find . -type f -print0)
rm -rf "${tree:?}.before"

build=(nice -n 10 cargo test --no-run --offline --message-format=json)
while read -r package target; do
    for option in "-p $package" "$([ "$target" = lib ] && echo --lib || echo "--test $target")"; do
        # shellcheck disable=SC2206
        [[ " ${build[*]} " == *" $option "* ]] || build+=($option)
    done
done < <(printf '%s' "${tests[@]}" | cut -d' ' -f1,2 | sort -u)
(cd "$tree" && "${build[@]}") >"$out/build.json"
declare -A programs
while IFS=$'\t' read -r package kind name program; do
    [ "$kind" = test ] || name=lib
    programs["$package $name"]=$program
done < <(sed -nE 's/.*"package_id":"[^"]*\/([a-z-]+)#[^"]*".*"kind":\["([a-z-]+)"\].*"name":"([a-z_0-9]+)".*"executable":"([^"]+)".*/\1\t\2\t\3\t\4/p' \
    "$out/build.json")

# try NUMBER PACKAGE TARGET FILTER …: runs the tests with a fault on.
try() {
    local number=$1 package=$2 target=$3 program
    shift 3
    program=${programs["$package $target"]:?no program of $package $target}
    (ulimit -c 0; cd "$tree/crates/$package" && RINGFENCE_ROW_MUTANT=$number timeout --kill-after=5 300 "$program" "$@") \
        >"$out/log" 2>&1
}
left=0 tried=0
declare -A sound
for at in "${!names[@]}"; do
    [[ ${names[at]} == *"$word"* ]] || continue
    tried=$((tried + 1))
    while read -r -a run; do
        [ "${#run[@]}" -gt 0 ] || continue
        if [ -z "${sound[${run[*]}]:-}" ]; then
            try 0 "${run[@]}" || { echo "without a fault this fails: ${run[*]}"; cat "$out/log"; exit 1; }
            grep -qE '^running [1-9]' "$out/log" || { echo "no such test: ${run[*]}"; exit 1; }
            sound[${run[*]}]=1
        fi
        status=0
        try $((at + 1)) "${run[@]}" || status=$?
        case $status in
            0) found="NOT FOUND" ;;
            124 | 137) found="NO END" ;;
            134) found="found: it aborts" ;;
            *) found="found by $(sed -nE 's/^test (.*) \.\.\. FAILED$/\1/p' "$out/log" | sed 's/.*:://' | sort -u | paste -sd' ')" ;;
        esac
        [ "${found#found}" != "$found" ] || left=$((left + 1))
        echo "[${names[at]}] ${run[*]}: $found"
    done <<<"${tests[at]}"
done
echo "$tried faults, $left runs that did not find their fault"
[ "$left" = 0 ]
