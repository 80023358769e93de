#!/usr/bin/env bash
# Runs the Direct3D 12 suites under the Wine of this system: Debian 12 itself, or Debian 13 in its folder.
#
#   ci/wine-suites.sh (--smoke | "") COLUMN PROGRAM
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/suites.sh
source ci/wine-env.sh

part=d3d12_suites
[ "$1" != --smoke ] || part=d3d12_smoke
start_display
make_prefix
$part "$2" "$3" wine
