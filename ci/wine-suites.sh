#!/usr/bin/env bash
# Direct3D 12 suites under the Wine of this system: Debian 12 as it is, or Debian 13 in its folder.
#
#   ci/wine-suites.sh COLUMN SUITE=PROGRAM …
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/suites.sh
source ci/wine-env.sh

column=$1
shift
start_display
make_prefix
for suite in "$@"; do
    filter=()
    # The simulated devices are the same on every system: they have a column of their own.
    [ "${suite%%=*}" != device_suite ] || filter=(d3d12::)
    run_suite "$column" "${suite%%=*}" wine "${suite#*=}" "${filter[@]}"
done
