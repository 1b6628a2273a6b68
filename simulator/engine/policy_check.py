"""What a policy's compiled functions must be: looked at before its loop is compiled for the first time.

Each function that is not the simulator's own is compiled by itself, for arrays that can't be written to. So numba finds
every write, in whatever branch, alias or callee it stands, and says what type comes back. Reads are checked when they
happen: `kernel` compiles such functions with bounds checks.
"""

from __future__ import annotations

import inspect
import linecache
import re
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core import types as nb_types

from sojourn.simulator.cluster import Cluster, Request
from sojourn.simulator.engine.composition import HOOKS, plain_function, reached_functions
from sojourn.simulator.jit import KERNEL_OPTIONS, is_kernel, is_own, what
from sojourn.simulator.loop import read_only
from sojourn.simulator.policies import PerResource, Policy

_ASKED = ("cluster", "host", "request", "now")
_TAKES = {"scorer": _ASKED, "scorer per resource": (*_ASKED[:3], "dimension"), "filter": _ASKED, "placed": _ASKED,
          "departed": ("cluster", "host", "row", "now"), "emptied": ("cluster", "host", "now"),
          "at_deadline": ("cluster", "host", "now"), "resident": _ASKED}
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_PYTHON, _RANDOM = re.compile("@PyObject_Call"), re.compile("@numba_get_(np|py)_random_state")
"""What compiled code calls to ask Python, and to draw by numpy.random and random."""
_NUMBA = Path(numba.__file__).parent
_PLACE = re.compile(r"at (\S+\.py) \((\d+)\)")


def check_form(policy: Policy) -> None:
    """ValueError where a function of the policy was not made with `kernel`, or takes other arguments; costs nothing."""
    for kind, function in policy_functions(policy):
        name, plain = _name(policy, kind, function), plain_function(function)
        if not is_kernel(function):
            raise ValueError(f"{name} must be made with sim.kernel, got {what(function)}")
        taken = list(inspect.signature(plain).parameters)
        if len(taken) != len(_TAKES[kind]):
            raise ValueError(f"{name} must take ({', '.join(_TAKES[kind])}), got ({', '.join(taken)})")
        for called in reached_functions(plain):
            if not is_own(plain_function(called)) and not is_kernel(called):
                raise ValueError(f"{name} must call functions made with sim.kernel, got {what(called)}, "
                                 f"{called.__name__!r}")


def check_compiled(policy: Policy, n_resources: int, state: Any) -> None:
    """ValueError where a function of the policy does not compile, writes where it may not, or returns no number.

    state: what `cluster.state` is. Functions of the simulator's own are taken as they are. About 0.1 s a function.
    """
    if policy.hooks is not None:
        _check_state(policy, state)
    for kind, function in policy_functions(policy):
        if not is_own(plain_function(function)):
            _check_function(_name(policy, kind, function), kind, function, _arguments(kind, n_resources, state))


def _name(policy: Policy, kind: str, function: Any) -> str:
    called = getattr(function, "__name__", repr(function))
    return f"{'hook' if kind in HOOKS else kind.split()[0]} {called!r} of policy {policy.name!r}"


def policy_functions(policy: Policy) -> list[tuple[str, Any]]:
    """Each function of a policy that is compiled, with what it is: a key of what they take."""
    found: list[tuple[str, Any]] = [
        ("scorer per resource", entry.scorer) if isinstance(entry, PerResource) else ("scorer", entry)
        for entry in policy.scorers]
    found += [("filter", policy.filter)] if policy.filter is not None else []
    return found + (list(policy.hooks.given().items()) if policy.hooks is not None else [])


def _check_function(name: str, kind: str, function: Any, arguments: tuple[Any, ...]) -> None:
    plain = plain_function(function)
    untyped: Any = numba  # its stubs do not know all of this
    fresh = untyped.njit(boundscheck=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, **KERNEL_OPTIONS)(plain)
    signature = tuple(untyped.typeof(argument) for argument in arguments)
    try:
        fresh.compile(signature)
    except Exception as error:  # numba raises others, too, of code that it did not expect
        said = _COLOUR.sub("", str(error))
        where = _where(said, plain)
        if _reason(said).startswith("Only accept returning of array"):
            raise ValueError(f"{name} must return a number on every path, got an array") from None
        if "Cannot modify readonly array" in said:
            allowed = "to no arrays but those of cluster.state" if kind in HOOKS else "to no array"
            raise ValueError(f"{name} must write {allowed}, got a write in {where}") from None
        raise ValueError(f"{name} must be what numba can compile, got {_reason(said)} in {where}") from None
    compiled = fresh.inspect_llvm(signature)
    if _PYTHON.search(compiled):
        raise ValueError(f"{name} must be compiled whole, got a part that Python runs (numba.objmode)")
    if _RANDOM.search(compiled):
        raise ValueError(f"{name} must give the same answer each time, got a draw from a random generator")
    returned = fresh.overloads[signature].signature.return_type
    if kind in HOOKS:
        return
    rule, kinds = ("True or False", (nb_types.Boolean, nb_types.Integer)) if kind == "filter" else (
        "a number", (nb_types.Float, nb_types.Integer, nb_types.Boolean))
    if not isinstance(returned, kinds):
        is_maybe = isinstance(returned, nb_types.Optional)
        told = f"{returned.type} or None" if is_maybe else "None" if returned == nb_types.none else str(returned)
        raise ValueError(f"{name} must return {rule} on every path, got {told}")


def _arguments(kind: str, n_resources: int, state: Any) -> tuple[Any, ...]:
    """What the function is called with, as types: one host, one request; nothing can be written to but, by hooks, the
    policy's state."""
    def row(*shape: int) -> np.ndarray:
        return read_only(np.zeros(shape, np.int64))

    if kind not in HOOKS:
        state = read_only(state) if isinstance(state, np.ndarray) else type(state)(*map(read_only, state))
    cluster = Cluster(row(1, n_resources), row(1, n_resources), row(1), row(1), row(1), row(1), state)
    request = Request(0, row(n_resources), 0, 0, row(1), row(1))
    values = {"cluster": cluster, "request": request}
    return tuple(values.get(name, 0) for name in _TAKES[kind])


def _check_state(policy: Policy, state: Any) -> None:
    assert policy.hooks is not None
    fields = getattr(state, "_fields", ())
    rule = f"state of policy {policy.name!r} must be a NamedTuple of NumPy arrays with a field"
    if not fields and policy.hooks.at_deadline is None:
        raise ValueError(f"{rule.removesuffix(' with a field')}, got {type(state).__name__}")
    needed = ["deadline_s"] if policy.hooks.at_deadline is not None else []
    for field in [*needed, *([policy.hooks.sampled] if policy.hooks.sampled else [])]:
        if field not in fields:
            raise ValueError(f"{rule} {field!r}, got {', '.join(fields) or type(state).__name__}")
    for field, value in zip(fields, state, strict=True):
        if not isinstance(value, np.ndarray):
            raise ValueError(f"{rule} {field!r} that is one, got a {type(value).__name__}")


def _where(said: str, plain: Any) -> str:
    """File, line and source of the place that numba names last: `mine.py, line 3: return x`."""
    file, line = plain.__code__.co_filename, plain.__code__.co_firstlineno
    for named, number in _PLACE.findall(said):
        if not named.startswith(str(_NUMBA)):
            file, line = named, int(number)
    return f"{Path(file).name}, line {line}: {linecache.getline(file, line).strip()}".removesuffix(": ")


def _reason(said: str) -> str:
    """The first line of numba's report that says something."""
    for line in said.splitlines():
        text = line.strip(" -:")
        if text and not text.startswith(("Failed in nopython mode", "Resolution failure")):
            return text[:160]
    return "an error without words"


def compile_failure(policy: Policy, error: Exception) -> ValueError:
    """What to raise where a policy's functions compile one by one, and its loop does not."""
    return ValueError(f"policy {policy.name!r} must compile with the simulator's loop, got "
                      f"{_reason(_COLOUR.sub('', str(error)))}")
