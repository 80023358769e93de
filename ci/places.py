#!/usr/bin/env python3
"""Each path in the column "code" of docs/acceptance.md is a file or a folder. `core/range.rs` stands for
crates/ringfence-core/src/range.rs, `upload/ring` for crates/ringfence-upload/src/ring: a folder or ring.rs."""

import re
import sys
from pathlib import Path


def alternatives(path):
    """Expands braces: a/{b,c}.rs is a/b.rs and a/c.rs."""
    braces = re.search(r"\{([^}]*)\}", path)
    if not braces:
        return [path]
    return [path[: braces.start()] + one.strip() + path[braces.end() :] for one in braces[1].split(",")]


def exists(path):
    crate, _, rest = path.partition("/")
    root = Path("crates") / ("ringfence" if crate == "ringfence" else f"ringfence-{crate}")
    source = root / "src" / rest
    return source.exists() or source.with_suffix(".rs").is_file() or (root / rest).exists() or Path(path).exists()


missing = []
for number, line in enumerate(Path("docs/acceptance.md").read_text().splitlines(), 1):
    columns = line.split(" | ")
    if not re.match(r"\| (00\d-\d|fault )", line) or len(columns) < 4:
        continue
    for quoted in re.findall(r"`([^`]+)`", columns[2]):
        if "::" in quoted:  # a type, not a path
            continue
        missing += [f"docs/acceptance.md:{number}: {path}" for path in alternatives(quoted) if not exists(path)]
for line in missing:
    print(f"{line} does not exist")
sys.exit(bool(missing))
