"""All that a policy's compiled loop is made of: numba would not notice that some of it has changed."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.simulator._compose import HOOKS, plain_function
from sojourn.simulator.policies.policy import PerResource, Policy

_LIBRARIES = ("math", "numba", "numpy")
"""Modules that change with a version, which the key has apart."""


def policy_sources(policy: Policy) -> list[str]:
    """The simulator's source, that of every file that the policy's functions reach, and the constants that they read.

    Raises TypeError or OSError where these don't tell all about it (typed at a prompt, a closure over values, a
    constant that is no number), so that its loop is not kept.
    """
    folder = Path(__file__).parent
    paths = {*folder.glob("*.py"), *folder.glob("policies/*.py")}
    constants: list[str] = []
    waiting: list[Any] = [entry.scorer if isinstance(entry, PerResource) else entry for entry in policy.scorers]
    waiting += [policy.filter] if policy.filter else []
    waiting += [getattr(policy.hooks, name) for name in HOOKS] if policy.hooks else []
    seen: set[Any] = set()
    while waiting:
        plain = plain_function(waiting.pop())
        if plain in seen:
            continue
        seen.add(plain)
        if plain.__closure__ is not None or plain.__module__ == "__main__":
            raise TypeError(f"{plain.__qualname__} can't be keyed by its source")
        paths.add(Path(inspect.getfile(plain)))
        for name in sorted(set(_names(plain.__code__)) & plain.__globals__.keys()):
            value = plain.__globals__[name]
            if isinstance(plain_function(value), types.FunctionType):
                waiting.append(value)
            elif not (isinstance(value, types.ModuleType) and value.__name__ in _LIBRARIES):
                constants.append(f"{plain.__module__}.{name} = {_literal(name, value)}")
    return [path.read_text() for path in sorted(paths)] + sorted(constants)


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _literal(name: str, value: Any) -> str:
    if isinstance(value, np.ndarray | np.generic):
        return f"{value.dtype} {value.shape} {value.tobytes().hex()}"
    parts = value if isinstance(value, tuple) else (value,)
    if all(isinstance(part, bool | int | float | str) for part in parts):
        return repr(value)
    raise TypeError(f"{name} can't be keyed by its value, a {type(value).__name__}")
