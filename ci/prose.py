#!/usr/bin/env python3
"""Counts habits of prose that make a reader read a sentence twice, in Rust comments and Markdown, and fails above the limits.

    python3 ci/prose.py [--list] PATH…      --list prints each sentence that counts

The limits are per 1,000 sentences, and per 1,000 documented items for openings. Code in backticks does not count. A sentence that is
only reworded for this script can still be bad: the script is a thermometer."""
import os
import re
import sys

HABITS = {  # name: (pattern, limit)
    "what is, what has, what the": (r"\bwhat (?:is|was|has|have|are|it|they|the|a|an|goes|comes|others|may|can|will|does|did|this|that|each|no)\b", 10),
    "lies, lie, lay": (r"\b(?:lies|lie|lay)\b", 1),
    "is of, are of": (r"\b(?:is|are|was|were|be) of\b", 1),
    "of which, whose, of what": (r"\b(?:of which|whose|of what)\b", 6),
    "none, nothing": (r"\b(?:none|nothing)\b", 35),
    "goes, gone": (r"\b(?:goes|gone)\b", 3),
    "where none, where it": (r"\bwhere (?:none|no|it|they|that|this)\b", 3),
}
OPENING, OPENING_LIMIT = re.compile(r"(?:What|Whether|How|Where|Which|Why|Who)\b"), 10


def comments(path):
    """Yields (line, text, documents an item) for each block of comment lines of a Rust file, without its code examples."""
    block, start, in_code, is_doc = [], 0, False, False
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines() + [""]
    for number, line in enumerate(lines, 1):
        match = re.match(r"\s*//([/!]?)\s?(.*)", line)
        text = match[2].strip() if match else ""
        if text.startswith("```"):
            in_code = not in_code
        elif match and not in_code and text and not text.startswith(("#", "|", "SAFETY")):
            if not block:
                start, is_doc = number, match[1] == "/"
            block.append(text)
            continue
        in_code = in_code and match is not None
        if block:
            yield start, " ".join(block), is_doc
        block = []


def paragraphs(path):
    """Yields (line, text, False) for each paragraph and table cell of a Markdown file, without its code blocks."""
    block, start, in_code = [], 0, False
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines() + [""]
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text.startswith("```"):
            in_code = not in_code
        elif text.startswith("|") and not in_code:
            for cell in text.strip("|").split("|"):
                yield number, cell.strip(), False
        elif text and not in_code and not text.startswith(("#", "![", "---")):
            start = start if block else number
            block.append(text)
            continue
        if block:
            yield start, " ".join(block), False
        block = []


def files(paths):
    for path in paths:
        if os.path.isfile(path):
            yield path
        for folder, folders, names in os.walk(path):
            folders[:] = sorted(name for name in folders if not name.startswith((".", "target", "node_modules")))
            yield from (os.path.join(folder, name) for name in sorted(names) if name.endswith((".rs", ".md")))


def main():
    paths = sys.argv[1:]
    listed = paths[:1] == ["--list"]
    paths = paths[1:] if listed else paths
    if not paths:
        sys.exit(__doc__)
    sentences, openings, items = [], [], 0
    for path in dict.fromkeys(files(paths)):
        for line, text, is_doc in (comments if path.endswith(".rs") else paragraphs)(path):
            text = re.sub(r"`[^`]*`", "`code`", text)
            items += is_doc
            if is_doc and OPENING.match(text):
                openings.append((path, line, text))
            sentences += [(path, line, part) for part in re.split(r"(?<=[.;:?!])\s+", text) if len(part.split()) > 2]
    counted = [(name, limit, [s for s in sentences if re.search(pattern, s[2], re.I)], len(sentences)) for name, (pattern, limit) in HABITS.items()]
    counted.append(("items that open with a question word", OPENING_LIMIT, openings, items))
    failed = False
    for name, limit, hits, total in counted:
        share = 1000 * len(hits) / max(total, 1)
        failed |= share > limit
        print(f"{share:7.1f} of 1,000, at most {limit:3}: {name}{' (too many)' if share > limit else ''}")
        if listed:
            for path, line, text in hits:
                print(f"        {path}:{line}: {text[:160]}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
