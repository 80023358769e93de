#!/usr/bin/env python3
"""Checks ARCHITECTURE.md against the sources. The calls and concepts of its create path exist, and are at most ten concepts. Every path in its tables exists. Every path in its map exists, and the map has every
crate. If the map names a part of a crate, it names all folders and files directly under its src (except lib.rs, main.rs and tests)."""
import os
import re
import sys


def listed(text):
    """Returns the paths of the first code block, by its indentation: `  ringfence-core/    description`."""
    block = text.split("```")[1].split("\n")[1:]
    stack, paths = [], set()
    for line in block:
        match = re.match(r"^( *)(\S.*?)(?:  +.*)?$", line)
        if not match:
            continue
        depth = len(match.group(1)) // 2
        del stack[depth:]
        for name in match.group(2).split():
            paths.add("/".join(stack + [name.rstrip("/")]))
        stack = stack[:depth] + [match.group(2).split()[0].rstrip("/")]
    return paths


def resolve(path):
    """Returns the candidates for `crates/x/room`: `crates/x/src/room` and `crates/x/src/room.rs`."""
    parts = path.split("/")
    if parts[0] != "crates" or len(parts) < 3:
        return [path]
    inner = "/".join(parts[:2] + ["src"] + parts[2:])
    return [inner, inner + ".rs"]


def column(text, heading):
    """Returns the names in backticks in the first column of the table whose first heading is `heading`."""
    table = re.search(rf"^\| {heading} \|.*\n\|[-| ]+\n((?:\|.*\n)+)", text, re.M)
    return [name for row in table[1].splitlines() for name in re.findall(r"`([^`]+)`", row.split(" | ")[0])] if table else []


def missing_names(text):
    """Returns the calls and concepts of the create path that the sources do not define, and complains if a table is missing or has
    more than ten concepts."""
    sources = ""
    for crate in ("ringfence-memory", "ringfence-arena", "ringfence-decision", "ringfence-hal"):
        for folder, _, names in os.walk(f"crates/{crate}/src"):
            for name in names:
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    sources += file.read()
    calls, concepts = column(text, "call"), column(text, "concept")
    wrong = [f"`{call}`: no such function" for call in calls if not re.search(rf"\bfn {call.split('::')[-1]}\b", sources)]
    wrong += [f"`{name}`: no such type" for name in concepts if not re.search(rf"\b(?:struct|enum|trait) {name}\b", sources)]
    if not calls or not 0 < len(concepts) <= 10:
        wrong.append(f"the create path has {len(calls)} calls and {len(concepts)} concepts; at most ten concepts are allowed")
    return wrong


def main():
    with open("ARCHITECTURE.md", encoding="utf-8") as file:
        text = file.read()
    paths = listed(text)
    wrong = [f"{path}: in the map, not in the tree" for path in sorted(paths) if not any(map(os.path.exists, resolve(path)))]
    named = re.findall(r"`(crates/[^`]+)`", text) + [
        f"crates/ringfence-memory/src/{path}" for path in re.findall(r"`((?:memory|resource)/[a-z_/]+\.rs)`", text)
    ]
    wrong += [f"{path}: named, not in the tree" for path in sorted(set(named)) if not os.path.exists(path)]
    wrong += missing_names(text)
    for crate in sorted(os.listdir("crates")):
        if f"crates/{crate}" not in paths:
            wrong.append(f"crates/{crate}: in the tree, not in the map")
            continue
        if not any(path.startswith(f"crates/{crate}/") for path in paths):
            continue
        for name in sorted(os.listdir(f"crates/{crate}/src")):
            stem = name.removesuffix(".rs")
            if name in ("lib.rs", "main.rs", "tests.rs", "models.rs"):
                continue
            if not paths & {f"crates/{crate}/{stem}", f"crates/{crate}/{stem}.rs"}:
                wrong.append(f"crates/{crate}/src/{name}: in the tree, not in the map")
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
