#!/usr/bin/env bash
# The Python wheel: built by maturin, installed into a virtual environment, and tested there.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/install.sh
python3 -c 'import ensurepip, venv' 2>/dev/null || install_packages python3-venv python3-pip

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/python"
mkdir -p "$CARGO_TARGET_DIR"
CARGO_TARGET_DIR=$(cd "$CARGO_TARGET_DIR" && pwd)

cargo fmt --manifest-path planner/python/Cargo.toml --check
cargo clippy --quiet --locked --manifest-path planner/python/Cargo.toml -- -D warnings
python3 -m venv "$scratch/venv"
"$scratch/venv/bin/pip" install --quiet --disable-pip-version-check 'maturin>=1.9,<2'
"$scratch/venv/bin/maturin" build --quiet --release --locked --manifest-path planner/python/Cargo.toml --out "$scratch/wheels" \
    --interpreter "$scratch/venv/bin/python"
"$scratch/venv/bin/pip" install --quiet --disable-pip-version-check "$scratch"/wheels/*.whl numpy mypy
# From another folder, so the installed wheel is tested.
tests=$PWD/planner/python/tests
cd "$scratch"
"$scratch/venv/bin/python" -m unittest discover --quiet --start-directory "$tests"
# The stubs match the module's functions and parameters.
"$scratch/venv/bin/stubtest" ringfence_alias --allowlist "$tests/stubtest.txt"
# Both licences are in the wheel.
[ "$("$scratch/venv/bin/python" -m zipfile --list "$scratch"/wheels/*.whl | grep -c "licenses/LICENSE-")" = 2 ]
# The README's examples run unchanged.
"$scratch/venv/bin/python" - "$tests/../README.md" <<'EOF_PYTHON'
import re
import sys

for example in re.findall(r"```python\n(.*?)```", open(sys.argv[1], encoding="utf-8").read(), re.S):
    exec(compile(example, sys.argv[1], "exec"), {})
EOF_PYTHON
