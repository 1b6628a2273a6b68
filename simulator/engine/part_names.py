"""Names at the top level of modules that come to be one: no two of them may name different things.

Python would let the later one take the earlier one's place without a word.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping


def names_of_parts(sources: Mapping[str, str]) -> dict[str, str]:
    """Each top-level name of modules (name -> source) that come to be one, and what it stands for.

    An imported name may stand in several modules if it is the same thing in all. ValueError where it is not, or where
    two modules define one name.

    >>> found = names_of_parts({"a": "import math\\ndef f(): ...", "b": "import math\\nfrom a import f\\nG = 1"})
    >>> found
    {'math': 'math', 'f': 'a.f', 'G': 'b.G'}
    >>> names_of_parts({"a": "def f(): ...", "b": "F = 1\\ndef f(): ..."})
    Traceback (most recent call last):
    ValueError: f must name one thing in all parts, got a.f and b.f
    """
    found: dict[str, str] = {}
    for module, source in sources.items():
        for name, origin in top_level_names(module, source):
            if found.setdefault(name, origin) != origin:
                raise ValueError(f"{name} must name one thing in all parts, got {found[name]} and {origin}")
    return found


def top_level_names(module: str, source: str) -> Iterator[tuple[str, str]]:
    """Each name that a module's source gives at its top level, and where the thing is from."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Import):
            yield from ((alias.asname or alias.name.partition(".")[0], alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.module != "__future__":
                yield from ((alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name, f"{module}.{node.name}"
        else:
            yield from ((name.id, f"{module}.{name.id}") for name in ast.walk(node)
                        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store))
