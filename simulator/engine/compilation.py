"""A composed event loop compiled, and kept on disk under a hash of all that it is made of.

numba keeps no function that takes functions, so the policy's chain is appended to the loop's source and both are
compiled as one. `policy_sources` gives what the hash covers: numba would not notice that some of it has changed.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import hashlib
import inspect
import sys
import time
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numba
import numpy as np

from sojourn.kept_kernels import environment, is_kept, keep
from sojourn.simulator.cluster import Cluster
from sojourn.simulator.engine.composition import (
    LIBRARIES,
    Extent,
    composed,
    is_packing_last,
    named_values,
    plain_function,
)
from sojourn.simulator.engine.policy_check import check_compiled, check_form, compile_failure
from sojourn.simulator.jit import KERNEL_OPTIONS
from sojourn.simulator.loop import (
    COUNTS,
    HOST_EVENTS,
    HOSTS,
    MIGRATION_LOG,
    PLAN,
    REQUESTS,
    SETTINGS,
    SLOTS,
    Ranking,
    Timeline,
    World,
    asking,
)
from sojourn.simulator.policies import PerResource, Policy, is_outdated
from sojourn.source_closure import PACKAGE, NoSource, installed

_LOOP_OPTIONS = {**KERNEL_OPTIONS, "nogil": True}
"""Replays of one process may run in threads beside each other: a loop touches nothing but its own world."""


@dataclass(frozen=True, slots=True)
class Loop:
    """A compiled replay, and the seconds that getting it took in this process."""

    replay: Callable[..., int]
    compile_s: float


@functools.cache
def compiled_loop(policy: Policy, n_resources: int, *, is_ranked: bool, extent: Extent, is_checked: bool) -> Loop:
    """The event loop with this policy's chain and hooks.

    is_ranked: hosts are walked in the order of the packing score, so a chain that ends in PACKING drops it.
    extent: what can happen. is_checked: every invariant is looked at after every event.
    """
    check_form(policy)
    text, names = composed(policy, n_resources, is_ranked=is_ranked, extent=extent, is_checked=is_checked)
    return compiled_source(policy, text, names, _call_of_nothing(policy, n_resources, is_ranked))


def is_walked(policy: Policy) -> bool:
    """Whether hosts can be walked in the order of the packing score: it is last, and is that of empty hosts, too."""
    return is_packing_last(policy) and is_outdated not in policy.scorers


def missing_ahead(policies: Sequence[Policy], n_resources: int) -> list[str]:
    """Names of the policies whose loop is not on disk yet: their plain replays would compile it."""
    missing = []
    for policy in policies:
        key = _key_of(policy, composed(policy, n_resources, **_plain(policy))[0])
        if key is not None and not is_kept(f"replay_{key}", "replay", key):
            missing.append(policy.name)
    return missing


def compile_ahead(policies: Sequence[Policy], n_resources: int) -> None:
    """Compile and keep the loops of policies' plain replays: for a process beside the one that will need them."""
    for policy in policies:
        compiled_loop(policy, n_resources, **_plain(policy))


def _plain(policy: Policy) -> dict[str, Any]:
    """How a replay without host events and migrations is composed."""
    return {"is_ranked": is_walked(policy), "extent": "plain" if policy.hooks is None else "hooks", "is_checked": False}


def compiled_source(policy: Policy, text: str, names: dict[str, Any], call: tuple[Any, ...]) -> Loop:
    """The function `replay` of a composed source, compiled for the types of a call.

    names: functions that the source names. call: arguments of a replay that does nothing.
    """
    started = time.perf_counter()
    n_resources = call[0].cluster.capacity.shape[1]
    key = _key_of(policy, text)
    module = _executed(text, key, names)
    if key is None or not is_kept(module.__name__, "replay", key):
        check_compiled(policy, n_resources, state_of(policy, 1, 1))
    compiled: Any = numba.njit(**_LOOP_OPTIONS)(module.replay)
    if key is not None:
        keep(compiled, module.replay, key)
    try:
        with _few_collections(), callees_linked_only():
            compiled(*call)  # compiles the only signature that there is
    except Exception as error:  # numba's own, or another that it raises of code that it did not expect
        raise compile_failure(policy, error) from None
    return Loop(compiled, time.perf_counter() - started)


@contextlib.contextmanager
def _few_collections() -> Iterator[None]:
    """Python looks for cycles of garbage less often, which else is up to an eighth of a loop's compilation."""
    often = gc.get_threshold()
    gc.set_threshold(100_000, 10, 100)
    try:
        yield
    finally:
        gc.set_threshold(*often)


TRIED_NUMBA = (0, 68)
"""The release of numba whose own classes `callees_linked_only` was tried with; another compiles in numba's own way."""


@contextlib.contextmanager
def callees_linked_only() -> Iterator[None]:
    """A function that Python can't call becomes machine code within its callers only, if it is compiled within.

    numba also optimizes and assembles it by itself, which no one uses: that is a third of a loop's compilation. It has
    no option for that, and its own classes may change: any other release than the tried one compiles in its own way.
    """
    if numba.version_info.short != TRIED_NUMBA:
        yield
        return
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.registry import cpu_target

    target: Any = cpu_target
    codegen = target.target_context.codegen()

    def set_env(name: str, env: Any) -> None:
        address = codegen._engine.get_global_value_address(name)  # noqa: SLF001
        if address:  # 0: it is in no machine code; kernels don't read it
            ctypes.c_void_p.from_address(address).value = id(env)

    with global_compiler_lock:
        codegen._library_class, codegen.set_env = _linked_library(), set_env  # noqa: SLF001
        try:
            yield
        finally:
            del codegen._library_class, codegen.set_env  # noqa: SLF001  # those of its class are used again


@functools.cache
def _linked_library() -> type[Any]:
    """numba's holder of a function's code, but that of one without an entry for Python is never assembled."""
    from numba.core.codegen import JITCodeLibrary

    class Linked(JITCodeLibrary):
        def _has_entry(self) -> bool:
            names = [function.name for function in self.get_defined_functions()]  # none: machine code from the disk
            return not names or any(name.startswith(("_ZN7cpython", "cfunc.")) for name in names)

        def _optimize_final_module(self) -> None:
            if self._has_entry():
                super()._optimize_final_module()

        def _finalize_final_module(self) -> None:
            if self._has_entry():
                super()._finalize_final_module()
            else:
                self._finalize_dynamic_globals()
                self._finalized = True

    return Linked


def _executed(text: str, key: str | None, names: dict[str, Any]) -> Any:
    """The loop's source as a module, in no file; numba looks it up by name when it loads the compiled form."""
    module = types.ModuleType(f"replay_{key}" if key else f"replay_in_memory_{len(sys.modules)}")
    sys.modules[module.__name__] = module
    exec(compile(text, f"<{module.__name__}>", "exec"), module.__dict__)
    module.__dict__.update(names)
    return module


def _key_of(policy: Policy, text: str) -> str | None:
    """24 hex digits of all that the loop is made of; None if that can't be read: then each process compiles it."""
    try:
        parts = [text, environment(), repr(_LOOP_OPTIONS), *policy_sources(policy)]
    except (OSError, TypeError, NoSource):
        return None
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def _call_of_nothing(policy: Policy, n_resources: int, is_ranked: bool) -> tuple[Any, ...]:
    """The arguments of a replay without requests."""
    def row(*shape: int) -> np.ndarray:
        return np.zeros(shape, np.int64)

    cluster = Cluster(row(1, n_resources), row(1, n_resources), row(1), row(1), row(1), row(1), state_of(policy, 1, 0))
    order = Ranking(row(int(is_ranked)), row(int(is_ranked)), row(n_resources), row(n_resources), row(1))
    levels = row(2, 1 + 2 * n_resources)
    world = World(cluster, np.zeros(0, REQUESTS), np.zeros(1, HOSTS), row(0, n_resources), row(0), row(0), row(0),
                  order, np.zeros(0, SLOTS), np.zeros(0, PLAN), np.zeros(0, MIGRATION_LOG), levels[0],
                  levels[1], np.zeros(1, SETTINGS), np.zeros(1, COUNTS))
    timeline = Timeline(np.ones(1, np.int64), row(1, 1 + 2 * n_resources), np.zeros(1, COUNTS),
                        row(1) - 1, row(0, 1, n_resources),
                        row(0, 1), row(0, 1), row(0, 1), row(0, 1), row(0, 1), row(0, 1), row(0), row(0, 1))
    return world, timeline, row(0), np.zeros(0, HOST_EVENTS)


def state_of(policy: Policy, n_hosts: int, n_requests: int, cpu: int = 0) -> Any:
    """What `cluster.state` is for a policy. cpu: which of the resources are cores."""
    if policy.host_scores is not None:
        return asking(n_hosts)
    if policy.hooks is None:
        return np.zeros(0, np.int64)
    state = policy.hooks.state(n_hosts, n_requests)
    if "idx_cpu" in getattr(state, "_fields", ()):
        state.idx_cpu[0] = cpu
    return state


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
    waiting += [function for function in (policy.filter, policy.gpu_score) if function is not None]
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
