"""A parser of Prometheus text that allows nothing but the format 0.0.4."""

from __future__ import annotations

import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"'
NUMBER = r"[0-9]+(?:\.[0-9]+)?(?:e-[0-9]+)?"
ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


def parsed(text: str) -> tuple[dict[tuple[str, tuple[tuple[str, str], ...]], float], dict[str, str], dict[str, str]]:
    """Samples by name and labels, types and help texts; ValueError at the first line that is not of the format."""
    samples: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    types: dict[str, str] = {}
    helps: dict[str, str] = {}
    *lines, last = text.split("\n")
    if last:
        raise ValueError("the text must end with a line feed")
    for line in lines:
        if found := re.fullmatch(rf"# HELP ({NAME}) ((?:[^\\]|\\[\\n])+)", line):
            helps[found[1]] = found[2]
        elif found := re.fullmatch(rf"# TYPE ({NAME}) (counter|gauge|histogram)", line):
            if found[1] in types or found[1] not in helps:
                raise ValueError(f"a type must come once, after its help: {line!r}")
            types[found[1]] = found[2]
        elif found := re.fullmatch(rf"({NAME})(?:{{((?:{LABEL},)*{LABEL})}})? ({NUMBER})", line):
            labels = tuple((name, re.sub(r"\\.", lambda part: ESCAPES[part[0]], value))
                           for name, value in re.findall(LABEL, found[2] or ""))
            part = re.fullmatch("(.+)_(?:bucket|sum|count)", found[1])
            is_part = part is not None and types.get(part[1]) == "histogram"
            if (types.get(found[1], "histogram") == "histogram" and not is_part) or (found[1], labels) in samples:
                raise ValueError(f"a sample must come once, after its type: {line!r}")
            samples[found[1], labels] = float(found[found.lastindex or 0])
        else:
            raise ValueError(f"not of the format: {line!r}")
    return samples, types, helps
