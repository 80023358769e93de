#!/usr/bin/env python3
"""Checks the files that each crate would publish, without building it: the licences have their text, and no Rust file of the
package names a path that the package lacks (`include!`, `include_str!`, `include_bytes!`, `#[path]`, `mod`)."""
import os
import re
import subprocess
import sys

# A quoted path, or the parts of a `concat!`; parts that are not literals match any text.
INCLUDED = re.compile(r"\binclude(?:_str|_bytes)?!\(\s*(concat!\(.*?\)|\"[^\"]*\")\s*\)", re.S)
PATH = re.compile(r"#\[path\s*=\s*\"([^\"]*)\"\]")
LITERAL = re.compile(r"\"([^\"]*)\"|(\$?\w+)")
LICENCES = ["LICENSE-APACHE", "LICENSE-MIT"]


def pattern(text):
    """Returns the path as a regular expression."""
    parts = [re.escape(literal) if not name else ".*" for literal, name in LITERAL.findall(text.removeprefix("concat!"))]
    return "".join(parts)


def wrong_paths(crate, name, files):
    """Returns the paths that a file of the package names and that are not in the package."""
    with open(os.path.join(crate, name), encoding="utf-8") as file:
        text = file.read()
    # Examples in comments are not part of the build.
    text = re.sub(r"^\s*//.*$", "", text, flags=re.M)
    folder = os.path.dirname(name)
    named = [pattern(match) for match in INCLUDED.findall(text)] + [re.escape(match) for match in PATH.findall(text)]
    for path in named:
        parts, base = path.split("/"), folder
        while parts and parts[0] in (r"\.\.", ".."):
            parts.pop(0)
            if not base:
                yield path
                parts = []
                break
            base = os.path.dirname(base)
        if not parts:
            continue
        wanted = re.compile(re.escape(base + "/" if base else "") + "/".join(parts))
        if not any(wanted.fullmatch(held) for held in files):
            yield path


def check(crate):
    listed = subprocess.run(
        ["cargo", "package", "--list", "--allow-dirty", "--manifest-path", os.path.join(crate, "Cargo.toml")],
        check=True, capture_output=True, text=True,
    )
    files = set(listed.stdout.split())
    for licence in LICENCES:
        with open(licence, "rb") as file:
            text = file.read()
        if licence not in files:
            yield f"{crate}: the package has no {licence}"
        elif open(os.path.join(crate, licence), "rb").read() != text:
            yield f"{crate}/{licence}: not the text of {licence}"
    for name in sorted(files):
        if name.endswith(".rs"):
            for path in wrong_paths(crate, name, files):
                yield f"{crate}/{name}: names {path.replace(chr(92), '')}, which is not in its package"


def main():
    crates = [*sorted(f"crates/{crate}" for crate in os.listdir("crates")), "planner"]
    wrong = [line for crate in crates for line in check(crate)]
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
