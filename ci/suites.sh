# Sourced by the scripts that run test programs on drivers. $results has the output of each run, for ci/drivers.sh's table:
#
#   COLUMN.SUITE.log       what the program printed
#   COLUMN.SUITE.report    skipped tests, and the active layers (ringfence-testkit/src/report.rs)

results="${RINGFENCE_RESULTS:-$PWD/target/drivers}"

# run_suite COLUMN SUITE COMMAND …: runs a test program. A failure is in the log and in the table, and does not end the script.
run_suite() {
    local column=$1 suite=$2
    shift 2
    local log="$results/$column.$suite.log" report="$results/$column.$suite.report" code=0
    : >"$report"
    # A program that hangs is a failure too.
    RINGFENCE_TEST_REPORT="$report" timeout --kill-after=10 "${RINGFENCE_SUITE_SECONDS:-900}" "$@" >"$log" 2>&1 </dev/null || code=$?
    echo "exit $code" >>"$log"
    echo "$column, $suite: $(grep '^test result:' "$log" || echo "no result, exit $code")"
    if [ "$code" -ne 0 ]; then
        awk '/^failures:$/ { on = 1 } on && ++lines <= 200' "$log"
        grep -q '^test result:' "$log" || tail -n 40 "$log"
    fi
}

# test_program: reads the messages of `cargo test --no-run --message-format=json-render-diagnostics`, prints the path of the
# test kit's test program.
test_program() {
    grep '"executable":"' | grep 'ringfence-testkit[#@]' | grep '"kind":\["test"\]' | grep '"name":"devices"' |
        sed 's/.*"executable":"\([^"]*\)".*/\1/'
}

# vulkan_suites COLUMN PROGRAM COMMAND …: the suites of a Vulkan driver: runs modules of the test kit's test program with the
# command.
vulkan_suites() {
    local column=$1 program=$2
    shift 2
    run_suite "$column" device_suite "$@" "$program" device_suite::vulkan::
    run_suite "$column" backend "$@" "$program" vulkan_backend::
    run_suite "$column" steady_state "$@" "$program" steady_state::a_steady_frame_makes_nothing_on_vulkan
    run_suite "$column" no_host_allocation "$@" "$program" no_host_allocation::
    run_suite "$column" two_processes "$@" "$program" two_processes::
    run_suite "$column" faults "$@" "$program" faults::real_vulkan
}

# vulkan_smoke COLUMN PROGRAM COMMAND …: the part of the suites that depends on how the device keeps descriptors.
vulkan_smoke() {
    local column=$1 program=$2
    shift 2
    run_suite "$column" device_suite "$@" "$program" device_suite::vulkan::descriptors:: device_suite::vulkan::manager::
    run_suite "$column" backend "$@" "$program" vulkan_backend::plain_sets:: vulkan_backend::view_kinds:: vulkan_backend::view_table::
}

# d3d12_suites COLUMN PROGRAM COMMAND …: the suites of a Direct3D 12 device.
d3d12_suites() {
    local column=$1 program=$2
    shift 2
    run_suite "$column" device_suite "$@" "$program" device_suite::d3d12::
    run_suite "$column" backend "$@" "$program" d3d12_backend::
    run_suite "$column" steady_state "$@" "$program" steady_state::a_steady_frame_makes_nothing_on_direct3d_12
}

# d3d12_smoke COLUMN PROGRAM COMMAND …: memory, lifetimes and the backend, without the table of texels.
d3d12_smoke() {
    local column=$1 program=$2
    shift 2
    run_suite "$column" device_suite "$@" "$program" device_suite::d3d12::memory:: device_suite::d3d12::manager::
    run_suite "$column" backend "$@" "$program" d3d12_backend::
}

# suites_of_a_run LOG REPORT: sorts the tests of a run of the whole test program (LOG; REPORT is its RINGFENCE_TEST_REPORT) into the
# columns "sim" and "mesa-22", so that ci/drivers.sh runs none of them a second time.
suites_of_a_run() {
    awk -v results="$results" -v report_of_the_run="$2" '
    function place(test) {
        column = suite = ""
        if (test ~ /^device_suite::sim::/) { column = "sim"; suite = "device_suite" }
        else if (test ~ /^device_suite::vulkan::/) { column = "mesa-22"; suite = "device_suite" }
        else if (test ~ /^vulkan_backend::/) { column = "mesa-22"; suite = "backend" }
        else if (test ~ /^steady_state::.*simulated/) { column = "sim"; suite = "steady_state" }
        else if (test ~ /^steady_state::.*vulkan/) { column = "mesa-22"; suite = "steady_state" }
        else if (test ~ /^(no_host_allocation|two_processes)::/) { column = "mesa-22"; suite = test; sub(/::.*/, "", suite) }
        else if (test ~ /^faults::real_vulkan/) { column = "mesa-22"; suite = "faults" }
        else if (test ~ /^faults::/) { column = "sim"; suite = "faults" }
        if (column != "") seen[column "." suite]
        return column != ""
    }
    /^test .* \.\.\. ok$/ { if (place($2)) passed[column "." suite]++ }
    /^test .* \.\.\. FAILED$/ { if (place($2)) failed[column "." suite]++ }
    END {
        for (at in seen) {
            log_of_it = results "/" at ".log"
            printf "test result: ok. %d passed; %d failed;\nexit %d\n", passed[at], failed[at], (failed[at] > 0) > log_of_it
            printf "" > (results "/" at ".report")
        }
        while ((getline line < report_of_the_run) > 0) {
            split(line, field, "\t")
            if (field[1] == "layers" && field[2] ~ /^vulkan/) print line > (results "/mesa-22.device_suite.report")
            else if (place(field[2])) print line > (results "/" column "." suite ".report")
        }
    }' "$1"
}

# table COLUMN …: prints all results side by side, the skipped tests with their reasons, and the active layers. Fails if a suite
# failed.
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
        # A test may skip several of its parts.
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
