#!/usr/bin/env python3
"""Checks that items named in texts exist. In every document and comment, `Type::member` of our types must be a method, field,
variant, constant or associated type; rustdoc checks only links. In every document, each call in backticks, `name(…)` or
`name().other()`, must name a public function. Not checked: pages about the past, and types of other crates."""
import re
import subprocess
import sys

HEAD = re.compile(r"^\s*(?:pub(?:\([a-z ]+\))?\s+)?(?:unsafe\s+)?(impl|struct|enum|trait|union|type)\b(.*)")
MEMBER = re.compile(r"\b(?:fn|(?:const|type)(?!\s+fn))\s+(\w+)|^\s*(?:pub(?:\([a-z ]+\))?\s+)?([a-z_]\w*):\s|^\s*([A-Z]\w*)\b")
FUNCTION = re.compile(r"\bpub (?:const |unsafe )*fn (\w+)")
CODE = re.compile(r"`([a-z_][\w.]*\([^`]*)`")
CALLED = re.compile(r"(?<!::)\b([a-z_]\w*)\(")
NAMED = re.compile(r"`([A-Z]\w*)(?:<[^`>]*>)?::(\w+)")
PAST = ("docs/performance/",)


def without_arguments(text):
    """Returns `Resource` for `Resource<D, K>`."""
    while True:
        less = re.sub(r"<[^<>]*>", "", text.replace("->", ""))
        if less == text.replace("->", ""):
            return less
        text = less


def items(lines):
    """Yields each item: its kind, the rest of its first line, and the lines up to its end."""
    for at, line in enumerate(lines):
        found = HEAD.match(line)
        if not found:
            continue
        last, head = at, line
        while not re.search(r"[{;]", head) and last + 1 < len(lines):
            last += 1
            head += " " + lines[last].strip()
        end = re.match(r"\s*", line).group() + "}"
        body = []
        if "{" in head and "}" not in head:
            for inner in lines[last + 1 :]:
                if inner.startswith(end):
                    break
                body.append(inner)
        yield found.group(1), head, [head.partition("{")[2], *body]


def read(sources):
    members, ours, aliases = {}, set(), {}
    for text in sources:
        # Members that a macro generates from a table: the rows begin with their names.
        for macro, body in re.findall(r"macro_rules! (\w+) \{(.*?)\n\}\n", text, re.S):
            rows = re.findall(r"^\s*([A-Z]\w*) =", "".join(re.findall(rf"^{macro}! \{{(.*?)^\}}", text, re.S | re.M)), re.M)
            for name in re.findall(r"\benum (\w+)", body):
                members.setdefault(name, set()).update(rows)
        for kind, head, body in items(text.split("\n")):
            head = without_arguments(head.partition("{")[0].partition(" where ")[0])
            words = re.findall(r"\w+", head.partition("=")[0] if kind != "impl" else head.rpartition(" for ")[2])
            if not words:
                continue
            name = words[-1] if kind == "impl" else words[words.index(kind) + 1]
            if kind == "type":
                aliases.setdefault(name, []).extend(re.findall(r"\w+", head.partition("=")[2])[-1:])
            elif kind != "impl":
                ours.add(name)
            for line in body:
                members.setdefault(name, set()).update(found for groups in MEMBER.findall(line) for found in groups if found)
    for alias, base in aliases.items():
        members.setdefault(alias, set()).update(*(members.get(name, ()) for name in base))
    return members, ours | {alias for alias in aliases if alias not in ours}


def main():
    files = subprocess.check_output(["git", "ls-files", "*.rs", "*.md"], text=True).split()
    texts = {path: open(path, encoding="utf-8").read() for path in files}
    members, ours = read(text for path, text in texts.items() if path.endswith(".rs") and not path.startswith("compat/"))
    code = [text for path, text in texts.items() if path.startswith(("crates/", "planner/src/")) and path.endswith(".rs")]
    functions = {name for text in code for name in FUNCTION.findall(text)}
    for text in code:
        for kind, _, body in items(text.split("\n")):
            if kind == "trait":
                functions.update(re.findall(r"\bfn (\w+)", "\n".join(body)))
    wrong = []
    for path, text in texts.items():
        if path.startswith(PAST) or path.startswith("compat/"):
            continue
        for number, line in enumerate(text.split("\n"), 1):
            if path.endswith(".rs") and not re.match(r"\s*//", line):
                continue
            for name, member in NAMED.findall(line):
                if name in ours and members.get(name) and member not in members[name]:
                    wrong.append(f"{path}:{number}: {name}::{member}")
            for called in CODE.findall(line) if path.endswith(".md") else ():
                wrong += [f"{path}:{number}: {name}()" for name in CALLED.findall(called) if name not in functions]
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
