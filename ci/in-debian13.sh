#!/usr/bin/env bash
# Runs a command in the folder of ci/debian13.sh, with this checkout at its own path.
#
#   ci/in-debian13.sh COMMAND …
set -euo pipefail
cd "$(dirname "$0")/.."

root="${RINGFENCE_DEBIAN13:-$PWD/target/debian13}"
mkdir -p "$root$PWD"
# The mounts are in their own namespace: they end with the command, so deleting the folder deletes nothing else.
exec unshare --mount --propagation private bash -euc '
    root=$1 here=$2
    shift 2
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount --bind "$here" "$root$here"
    exec chroot "$root" env --chdir="$here" "$@"' in-debian13 "$root" "$PWD" "$@"
