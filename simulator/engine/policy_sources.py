"""All that a policy's compiled loop is made of: numba would not notice that some of it has changed."""

from __future__ import annotations

import inspect
import types
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.simulator.engine.reached import LIBRARIES, named_values, plain_function
from sojourn.simulator.policies import PerResource, Policy
from sojourn.source_closure import PACKAGE, installed


def policy_sources(policy: Policy) -> list[str]:
    """The source of all that the loop and the policy's functions import of ours, of every other file that these
    reach, and the constants that they read.

    Raises TypeError, NoSource or OSError where these don't tell all about it (typed at a prompt, a closure over
    values, a constant that is no number), so that its loop is not kept.
    """
    modules = {"sojourn.simulator.engine.compilation"}  # it imports the loop, its parts and what is warmed up
    paths: set[Path] = set()
    constants: list[str] = []
    waiting: list[Any] = [entry.scorer if isinstance(entry, PerResource) else entry for entry in policy.scorers]
    waiting += [policy.filter] if policy.filter else []
    waiting += list(policy.hooks.given().values()) if policy.hooks else []
    seen: set[Any] = set()
    while waiting:
        plain = plain_function(waiting.pop())
        if plain in seen:
            continue
        seen.add(plain)
        if plain.__closure__ is not None or plain.__module__ in (None, "__main__"):  # None: executed from a text
            raise TypeError(f"{plain.__qualname__} can't be keyed by its source")
        if plain.__module__.partition(".")[0] == PACKAGE:
            modules.add(plain.__module__)
        else:
            paths.add(Path(inspect.getfile(plain)))
        for name, value in named_values(plain).items():
            if isinstance(plain_function(value), types.FunctionType):
                waiting.append(value)
            elif not (isinstance(value, types.ModuleType) and value.__name__ in LIBRARIES):
                constants.append(f"{plain.__module__}.{name} = {_literal(name, value)}")
    ours = [f"{name}\n{source.decode()}" for name, source in installed().closure(*sorted(modules)).items()]
    return ours + [path.read_text() for path in sorted(paths)] + sorted(constants)


def _literal(name: str, value: Any) -> str:
    if isinstance(value, np.ndarray | np.generic):
        return f"{value.dtype} {value.shape} {value.tobytes().hex()}"
    parts = value if isinstance(value, tuple) else (value,)
    if all(isinstance(part, bool | int | float | str) for part in parts):
        return repr(value)
    raise TypeError(f"{name} can't be keyed by its value, a {type(value).__name__}")
