"""Checks of a policy's functions before its loop is compiled for the first time.

Each function of a user is compiled alone, for read-only arrays. So numba finds every write, in any
branch, alias or callee, and infers the type of the result. Reads are checked at run time: `kernel`
compiles such functions with bounds checks.
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

_ARGS = ("cluster", "host", "request", "now")
_TAKES = {"scorer": _ARGS, "scorer per resource": (*_ARGS[:3], "dimension"), "filter": _ARGS,
          "GPU scorer": (*_ARGS[:3], "gpu"), "placed": _ARGS,
          "departed": ("cluster", "host", "row", "now"), "emptied": ("cluster", "host", "now"),
          "at_deadline": ("cluster", "host", "now"), "resident": _ARGS}
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_PYTHON, _RANDOM = re.compile("@PyObject_Call"), re.compile("@numba_get_(np|py)_random_state")
"""Names in compiled code of calls to Python, and of draws by numpy.random and random."""
_NUMBA = Path(numba.__file__).parent
_PLACE = re.compile(r"at (\S+\.py) \((\d+)\)")


def check_form(policy: Policy) -> None:
    """ValueError if a function of the policy was not made with `kernel`, or takes other arguments; compiles nothing."""
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
    """ValueError if a function of the policy does not compile, writes to a forbidden array or returns no number.

    state: the value of `cluster.state`. The simulator's own functions are not checked. About 0.1 s a function.
    """
    if policy.hooks is not None:
        _check_state(policy, state)
    for kind, function in policy_functions(policy):
        if not is_own(plain_function(function)):
            _check_function(_name(policy, kind, function), kind, function, _arguments(kind, n_resources, state))


def _name(policy: Policy, kind: str, function: Any) -> str:
    function_name = getattr(function, "__name__", repr(function))
    return f"{'hook' if kind in HOOKS else kind.split()[0]} {function_name!r} of policy {policy.name!r}"


def policy_functions(policy: Policy) -> list[tuple[str, Any]]:
    """Each compiled function of a policy, with its kind: a key of `_TAKES`."""
    functions: list[tuple[str, Any]] = [
        ("scorer per resource", entry.scorer) if isinstance(entry, PerResource) else ("scorer", entry)
        for entry in policy.scorers]
    functions += [("filter", policy.filter)] if policy.filter is not None else []
    functions += [("GPU scorer", policy.gpu_score)] if policy.gpu_score is not None else []
    return functions + (list(policy.hooks.given().items()) if policy.hooks is not None else [])


def _check_function(name: str, kind: str, function: Any, arguments: tuple[Any, ...]) -> None:
    plain = plain_function(function)
    untyped: Any = numba  # its stubs do not know all of this
    dispatcher = untyped.njit(boundscheck=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, **KERNEL_OPTIONS)(plain)
    signature = tuple(untyped.typeof(argument) for argument in arguments)
    try:
        dispatcher.compile(signature)
    except Exception as error:  # numba raises more than its own errors for unexpected code
        report = _COLOUR.sub("", str(error))
        place = _where(report, plain)
        if _reason(report).startswith("Only accept returning of array"):
            raise ValueError(f"{name} must return a number on every path, got an array") from None
        if "Cannot modify readonly array" in report:
            allowed = "to no arrays but those of cluster.state" if kind in HOOKS else "to no array"
            raise ValueError(f"{name} must write {allowed}, got a write in {place}") from None
        raise ValueError(f"{name} must be what numba can compile, got {_reason(report)} in {place}") from None
    compiled = dispatcher.inspect_llvm(signature)
    if _PYTHON.search(compiled):
        raise ValueError(f"{name} must be compiled whole, got a part that Python runs (numba.objmode)")
    if _RANDOM.search(compiled):
        raise ValueError(f"{name} must give the same answer each time, got a draw from a random generator")
    result_type = dispatcher.overloads[signature].signature.return_type
    if kind in HOOKS:
        return
    rule, kinds = ("True or False", (nb_types.Boolean, nb_types.Integer)) if kind == "filter" else (
        "a number", (nb_types.Float, nb_types.Integer, nb_types.Boolean))
    if not isinstance(result_type, kinds):
        actual = "None" if result_type == nb_types.none else str(result_type)
        if isinstance(result_type, nb_types.Optional):
            actual = f"{result_type.type} or None"
        raise ValueError(f"{name} must return {rule} on every path, got {actual}")


def _arguments(kind: str, n_resources: int, state: Any) -> tuple[Any, ...]:
    """Arguments of the right types: one host, one request. Only hooks may write, to the policy's state."""
    def row(*shape: int) -> np.ndarray:
        return read_only(np.zeros(shape, np.int64))

    if kind not in HOOKS:
        state = read_only(state) if isinstance(state, np.ndarray) else type(state)(*map(read_only, state))
    cluster = Cluster(row(1, n_resources), row(1, n_resources), row(1), row(1), row(1), row(1), state,
                      row(1, 1), row(1, 4), row(1))
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


def _where(report: str, plain: Any) -> str:
    """File, line and source of the place that numba names last: `mine.py, line 3: return x`."""
    file, line = plain.__code__.co_filename, plain.__code__.co_firstlineno
    for named, number in _PLACE.findall(report):
        if not named.startswith(str(_NUMBA)):
            file, line = named, int(number)
    return f"{Path(file).name}, line {line}: {linecache.getline(file, line).strip()}".removesuffix(": ")


def _reason(report: str) -> str:
    """The first line of numba's report that names a cause."""
    for line in report.splitlines():
        text = line.strip(" -:")
        if text and not text.startswith(("Failed in nopython mode", "Resolution failure")):
            return text[:160]
    return "an error without words"


def compile_failure(policy: Policy, error: Exception) -> ValueError:
    """The error if a policy's functions compile one by one, but its loop does not."""
    return ValueError(f"policy {policy.name!r} must compile with the simulator's loop, got "
                      f"{_reason(_COLOUR.sub('', str(error)))}")
