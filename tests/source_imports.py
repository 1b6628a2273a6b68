"""Our source files, and what each imports, in whatever form; read from the syntax trees.

Imports within functions and those for type checkers alone count as well. `sojourn.source_closure`, which does without
syntax trees, is tested against a reading of its own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import sojourn

FOLDER = Path(sojourn.__path__[0])
PARTS = ("features", "flows", "models", "serving", "simulator")
FILES = [file for part in PARTS for file in sorted((FOLDER / part).rglob("*.py"))]
BELOW_ALL = sorted(FOLDER.glob("*.py"))
"""Files that stand below the five parts."""


def place(file: Path) -> str:
    return file.relative_to(FOLDER).as_posix()


def imported(text: str, package: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Module and name of each import in a source text, in whatever form; name "" for `import module`.

    package: of the text, from `sojourn` down.
    """
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from ((tuple(alias.name.split(".")), "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[:len(package) + 1 - node.level] if node.level else ()
            module = (*above, *(node.module or "").split(".")) if node.module else above
            yield from ((module, alias.name) for alias in node.names)


def modules_of(text: str, package: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The modules that a source text imports; `from a import b` is a.b where that is a module of ours."""
    for module, name in imported(text, package):
        inner = FOLDER.joinpath(*module[1:], name)
        is_module = module[0] == "sojourn" and name and (inner.is_dir() or inner.with_suffix(".py").is_file())
        yield (*module, name) if is_module else module


def modules_in(file: Path) -> set[tuple[str, ...]]:
    return set(modules_of(file.read_text(), ("sojourn", *file.relative_to(FOLDER).parts[:-1])))


def export_order(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions, as ruff sorts them."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)
