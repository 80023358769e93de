# Sourced by the scripts that run test programs on drivers. What each run gave lies in $results, for ci/drivers.sh's table:
#
#   COLUMN.SUITE.log       what the program printed
#   COLUMN.SUITE.report    tests that did not apply, and the layers that listened (ringfence-testkit/src/report.rs)

results="${RINGFENCE_RESULTS:-$PWD/target/drivers}"

# run_suite COLUMN SUITE COMMAND …: runs a test program. A failure is in the log and in the table, and ends nothing.
run_suite() {
    local column=$1 suite=$2
    shift 2
    local log="$results/$column.$suite.log" report="$results/$column.$suite.report" code=0
    : >"$report"
    # One that hangs is a failure too.
    RINGFENCE_TEST_REPORT="$report" timeout --kill-after=10 "${RINGFENCE_SUITE_SECONDS:-900}" "$@" >"$log" 2>&1 </dev/null || code=$?
    echo "exit $code" >>"$log"
    echo "$column, $suite: $(grep '^test result:' "$log" || echo "no result, exit $code")"
    if [ "$code" -ne 0 ]; then
        awk '/^failures:$/ { on = 1 } on && ++lines <= 200' "$log"
        grep -q '^test result:' "$log" || tail -n 40 "$log"
    fi
}

# test_programs: what `cargo test --no-run --message-format=json-render-diagnostics` made of the test kit: `name path`, a line each.
test_programs() {
    grep '"executable":"' | grep 'ringfence-testkit[#@]' | grep '"kind":\["test"\]' |
        sed 's/.*"name":"\([^"]*\)".*"executable":"\([^"]*\)".*/\1 \2/'
}

# vulkan_suites COLUMN COMMAND …: the suites of a Vulkan driver, each behind the command. `linux_program NAME` is the
# caller's: the path of a test program.
vulkan_suites() {
    local column=$1
    shift
    run_suite "$column" device_suite "$@" "$(linux_program device_suite)" vulkan::
    run_suite "$column" backend "$@" "$(linux_program vulkan_backend)"
    run_suite "$column" steady_state "$@" "$(linux_program steady_state)" vulkan
    run_suite "$column" no_host_allocation "$@" "$(linux_program no_host_allocation)"
    run_suite "$column" two_processes "$@" "$(linux_program two_processes)"
    run_suite "$column" faults "$@" "$(linux_program faults)" vulkan
}

# table COLUMN …: all results side by side, what was skipped and why, which layers listened. Fails if anything else did.
table() {
    awk -v columns="$*" '
    BEGIN { count = split(columns, column, " ") }
    { name = FILENAME; sub(/.*\//, "", name); split(name, part, "."); at = part[1]; suite = part[2]; kind = part[3] }
    kind == "log" && !(suite in seen) { seen[suite] = 1; order[++suites] = suite }
    kind == "log" { known[at, suite] = 1 }
    kind == "log" && /^test result:/ { passed[at, suite] += $4; failed[at, suite] += $6; ended[at, suite] = 1 }
    kind == "log" && /^exit / { code[at, suite] = $2 }
    kind == "report" {
        split($0, field, "\t")
        # A test may skip more than one part of what it does.
        if (field[1] == "skipped" && !((at, suite, field[2]) in counted)) { counted[at, suite, field[2]] = 1; skipped[at, suite]++ }
        if (field[1] == "skipped" && !((at, field[2], field[3]) in once)) {
            once[at, field[2], field[3]] = 1
            reason = at SUBSEP field[3]
            if (!(reason in tests)) reason_of[at, ++reasons[at]] = field[3]
            count_of[reason]++
            tests[reason] = tests[reason] "      " field[2] "\n"
        }
        if (field[1] == "layers" && !((at, $0) in once)) {
            once[at, $0] = 1
            layers[at] = layers[at] sprintf("  %s: %s\n", field[2], field[3])
        }
    }
    END {
        printf "\nEach suite on each driver: passed / failed / skipped\n\n%-20s", "suite"
        for (c = 1; c <= count; c++) { width[c] = length(column[c]) < 11 ? 11 : length(column[c]); printf "  %" width[c] "s", column[c] }
        print ""
        for (s = 1; s <= suites; s++) {
            suite = order[s]
            printf "%-20s", suite
            for (c = 1; c <= count; c++) {
                at = column[c]
                cell = "-"
                if ((at, suite) in known) {
                    any[at] = 1
                    bad_here = !((at, suite) in ended) || failed[at, suite] || code[at, suite] != 0
                    cell = (at, suite) in ended ? passed[at, suite] - skipped[at, suite] "/" failed[at, suite] "/" skipped[at, suite] + 0 : "no result"
                    if (bad_here) bad = bad "  " at ", " suite ": " cell ", exit " code[at, suite] "\n"
                }
                printf "  %" width[c] "s", cell
            }
            print ""
        }
        print "\nLayers that listened:"
        for (c = 1; c <= count; c++) {
            at = column[c]
            if (!(at in layers) && at != "sim") { bad = bad "  " at ": which layers listened was not reported\n" }
            printf "%s\n%s", at, at in layers ? layers[at] : at == "sim" ? "  none: the hazard finder is part of the device\n" : "  NOT REPORTED\n"
            if (!(at in any)) bad = bad "  " at ": nothing ran\n"
        }
        print "\nSkipped, with the reason:"
        for (c = 1; c <= count; c++) {
            at = column[c]
            if (!(at in reasons)) continue
            print at
            for (r = 1; r <= reasons[at]; r++) {
                reason = reason_of[at, r]
                printf "  %d: %s\n%s", count_of[at, reason], reason, tests[at, reason]
            }
        }
        if (bad != "") { printf "\nFAILED:\n%s", bad; exit 1 }
    }' "$results"/*.log "$results"/*.report
}
