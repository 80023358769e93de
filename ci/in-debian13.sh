#!/usr/bin/env bash
# Runs a command in the folder that ci/debian13.sh makes, with this checkout at its own path.
#
#   ci/in-debian13.sh COMMAND …
set -euo pipefail
cd "$(dirname "$0")/.."

root="${RINGFENCE_DEBIAN13:-$PWD/target/debian13}"
mkdir -p "$root$PWD"
# The mounts are in a namespace of their own: they go with the command, and deleting the folder deletes nothing else.
exec unshare --mount --propagation private bash -euc '
    root=$1 here=$2
    shift 2
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount --bind "$here" "$root$here"
    exec chroot "$root" env --chdir="$here" "$@"' in-debian13 "$root" "$PWD" "$@"
