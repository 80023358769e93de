#!/usr/bin/env bash
# Installs what the later steps of .ci/run need, while the first steps compile: packages for the builds for Windows, and Debian 13
# in a folder. The steps themselves install what is still missing, and report a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/windows-env.sh

install_packages debootstrap glslang-tools "${BUILD_PACKAGES[@]}" "${RUN_PACKAGES[@]}"
bash ci/debian13.sh
