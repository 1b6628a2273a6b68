"""Which functions a function calls: globals, those that it closes over, and those of modules that it names."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

LIBRARIES = ("math", "numba", "numpy")
"""Modules whose functions numba knows, and that change with a version."""


def plain_function(function: Any) -> Any:
    """The Python function that numba compiled."""
    return getattr(function, "py_func", function)


def named_values(plain: Any) -> dict[str, Any]:
    """What the names in a function's code stand for outside of it, sorted by name."""
    cells = dict(zip(plain.__code__.co_freevars, plain.__closure__ or (), strict=True))
    known = plain.__globals__ | {name: cell.cell_contents for name, cell in cells.items()}
    return {name: known[name] for name in sorted(set(names_in(plain.__code__)) & known.keys())}


def names_in(code: types.CodeType) -> Iterator[str]:
    """Names of globals, attributes and free variables in a function's code and in those nested in it."""
    yield from code.co_names
    yield from code.co_freevars
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from names_in(constant)


def reached_functions(plain: Any) -> Iterator[Any]:
    """Every Python function that it calls, and that these call, as they are named: compiled or not.

    Those of LIBRARIES are left out.
    """
    waiting, seen = [plain], {plain}
    while waiting:
        own = waiting.pop()
        values = named_values(own)
        modules = [value for value in values.values() if isinstance(value, types.ModuleType)]
        inside = [getattr(module, name) for module in modules if not _is_library(module.__name__)
                  for name in sorted(set(names_in(own.__code__))) if hasattr(module, name)]
        for value in [*values.values(), *inside]:
            called = plain_function(value)
            if isinstance(called, types.FunctionType) and called not in seen and not _is_library(called.__module__):
                seen.add(called)
                waiting.append(called)
                yield value


def _is_library(module: str | None) -> bool:
    return module is not None and module.split(".")[0] in LIBRARIES
