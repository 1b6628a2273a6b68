"""What a module of ours imports of ours, at its top or in its functions, and what that imports in turn."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path


def imported_by(*modules: str) -> set[Path]:
    """The source files of modules and of all modules of `sojourn` that they need; type checkers' imports apart."""
    found: dict[str, Path] = {}
    names = list(modules)
    while names:
        name = names.pop()
        file = _file(name)
        if name in found or file is None:
            continue
        found[name] = file
        parts = name.split(".")
        names += [".".join(parts[:n]) for n in range(1, len(parts))]
        names += _imports(ast.parse(file.read_text()))
    return set(found.values())


def _file(name: str) -> Path | None:
    """None for a name within a module, such as a function's."""
    try:
        spec = importlib.util.find_spec(name) if name.startswith("sojourn") else None
    except ModuleNotFoundError:
        return None
    return Path(spec.origin) if spec is not None and spec.origin is not None else None


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
        elif not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield from _imports(node)
