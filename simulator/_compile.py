"""A policy's filter and scorers composed into the event loop, compiled, and cached on disk.

numba does not notice when a function called by a cached one has changed, and does not cache functions that
take functions. So the loop's source with the policy's chain appended is written to a file of its own, named
by a hash of everything it is made of; a later process finds that file's compiled form beside it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import os
import platform
import sys
import tempfile
import time
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numba
import numpy as np

from sojourn.simulator import _loop
from sojourn.simulator._checks import violation
from sojourn.simulator._numba import KERNEL_OPTIONS
from sojourn.simulator._python import asking
from sojourn.simulator._state import (
    COUNTS,
    EXPIRED,
    HAPPENINGS,
    HOSTS,
    PLAN,
    REQUESTS,
    SETTINGS,
    SLOTS,
    Ranking,
    Timeline,
    World,
)
from sojourn.simulator.cluster import Cluster
from sojourn.simulator.policies.packing import PACKING
from sojourn.simulator.policies.policy import PerResource, Policy


@dataclass(frozen=True, slots=True)
class Loop:
    """A compiled replay, and the seconds that getting it took in this process."""

    replay: Callable[..., int]
    compile_s: float


Extent = Literal["plain", "hooks", "full"]
"""Arrivals and departures alone; deadlines of a policy's hooks, too; or everything, and rules besides room. What can't
happen is not compiled: the whole takes four times as long."""


@functools.cache
def compiled_loop(policy: Policy, n_resources: int, *, is_ranked: bool, extent: Extent, is_checked: bool) -> Loop:
    """The event loop with this policy's chain and hooks.

    is_ranked: hosts are walked in the order of the packing score, so a chain that ends in PACKING drops it.
    extent: what can happen. is_checked: every invariant is looked at after every event.
    """
    started = time.perf_counter()
    text, names = composed(policy, n_resources, is_ranked=is_ranked, extent=extent, is_checked=is_checked)
    path = _written(policy, text)
    module = _imported(text, path, names)
    replay = _jitted(module.replay, is_cached=path is not None)
    _warm_up(replay, policy, n_resources, is_ranked)
    return Loop(replay, time.perf_counter() - started)


def _imported(text: str, path: Path | None, names: dict[str, Any]) -> Any:
    """The loop's source as a module; numba looks it up by name when it loads the compiled form."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:24]
    module = types.ModuleType(path.stem if path else f"replay_in_memory_{digest}_{len(sys.modules)}")
    sys.modules[module.__name__] = module
    exec(compile(text, str(path or "<replay>"), "exec"), module.__dict__)
    module.__dict__.update(names)
    return module


def composed(policy: Policy, n_resources: int, *, is_ranked: bool, extent: Extent,
             is_checked: bool) -> tuple[str, dict[str, Any]]:
    """Source of the loop with the chain and the hooks, and the functions that it names."""
    scorers = policy.scorers
    if is_ranked:
        if not is_packing_last(policy):
            raise ValueError(f"policy {policy.name!r} must end in PACKING to be ranked")
        scorers = scorers[: -len(PACKING)]
    calls: list[str] = []
    names: dict[str, Any] = {}
    for i, scorer in enumerate(scorers):
        if isinstance(scorer, PerResource):
            names[f"scorer_{i}"] = scorer.scorer
            calls += [f"scorer_{i}(cluster, host, request, {d})" for d in range(n_resources)]
        else:
            names[f"scorer_{i}"] = scorer
            calls.append(f"scorer_{i}(cluster, host, request, now)")
    if policy.filter is not None:
        names["may_take"] = policy.filter
    lines = _chain(policy, calls, is_ranked, extent) if policy.host_scores is None else _asking_python(policy)
    lines += ["", f"HAS_AGENDA = {extent != 'plain'}", f"HAS_UPKEEP = {extent == 'full'}", ""]
    if extent != "full":
        lines += ["@inner", "def is_allowed(world, host, request):", "    return True", ""]
    if is_checked:
        names["violation"] = violation
        lines += ["", "@inner", "def checked(world):", "    return violation(world)", ""]
    if policy.refresh_s:
        lines += ["", "@inner", "def touched(world, host):", "    if world.hosts[host].first >= 0:",
                  f"        world.hosts[host].valid_until_s = {EXPIRED}", ""]
    if policy.hooks is not None:
        names |= {f"hook_{name}": getattr(policy.hooks, name) for name in _HOOKS}
        for name, arguments in _HOOKS.items():
            lines += ["", "@inner", f"def {name}({arguments}):", f"    hook_{name}({arguments})", ""]
        if policy.hooks.sampled:
            lines += ["", "@inner", "def note_state(world, timeline, now):",
                      f"    sample_state(world, timeline, world.cluster.state.{policy.hooks.sampled}, now)", ""]
        lines += ["", "@inner", "def remind(world, host):", "    slot = world.settings[0].first_deadline + host",
                  "    schedule(world, slot, world.cluster.state.deadline_s[host])", ""]
    # The names are part of the source, and so of its hash: policies differ in them alone.
    told = [f"# {name}: {_plain(function).__module__}.{_plain(function).__qualname__}"
            for name, function in names.items()]
    return inspect.getsource(_loop) + "\n".join(["", "", "import numpy as np", "", *told, "", *lines]), names


_HOOKS = {"placed": "cluster, host, request, now", "departed": "cluster, host, row, now",
          "emptied": "cluster, host, now", "at_deadline": "cluster, host, now"}


def _chain(policy: Policy, calls: list[str], is_ranked: bool, extent: Extent) -> list[str]:
    """`choose` as one scan over the hosts."""
    lines = ["@inner", "def choose(world, request, now):", "    cluster, hosts = world.cluster, world.hosts",
             "    best_host = NOT_PLACED", *(_refresh_all(policy) if policy.refresh_s else [])]
    lines += [f"    best_{i} = np.inf" for i in range(len(calls))]
    if is_ranked:
        lines += ["    order = world.order", "    host_mask = (1 << order.host_bits[0]) - 1",
                  "    for position in range(first_position(order, request.need), len(order.key)):",
                  "        host = order.key[position] & host_mask"]
    else:
        lines += ["    for host in range(len(hosts)):"]
    lines += ["        if not fits(cluster, host, request.need) or not is_allowed(world, host, request.row):",
              "            continue"]
    if policy.predictions != "none" and not policy.refresh_s:
        lines += ["        if hosts[host].valid_until_s <= now:", "            refresh(world, host, now)"]
    if policy.filter is not None:
        lines += ["        if not may_take(cluster, host, request, now):", "            continue"]
    are_empty_alike = is_ranked and extent != "full" and policy.hooks is None
    return [*lines, *_comparison(calls, are_empty_alike), "    return best_host", ""]


def _refresh_all(policy: Policy) -> list[str]:
    """Every host brought up to date; a value that is held for a time would else depend on who looked at it when."""
    told = f"refresh_until(world, host, now, {policy.refresh_s})" if policy.refresh_s else "refresh(world, host, now)"
    return ["    for host in range(len(world.hosts)):", "        if world.hosts[host].valid_until_s <= now:",
            f"            {told}"]


def _asking_python(policy: Policy) -> list[str]:
    """`choose` that brings every host up to date and asks a Python function through its address."""
    lines = ["@inner", "def choose(world, request, now):"]
    if policy.predictions != "none":
        lines += _refresh_all(policy)
    return [*lines, "    address = world.cluster.state.address[0]",
            "    n_levels = ask_python(address, request.row, request.exit_s, request.age_s, now)",
            "    return best_scored(world, request, n_levels) if n_levels >= 0 else BAD_SCORE", ""]


def is_packing_last(policy: Policy) -> bool:
    """Whether the chain ends in the packing score."""
    return policy.scorers[-len(PACKING):] == PACKING


def _comparison(calls: list[str], are_empty_alike: bool) -> list[str]:
    # Scores are >= 0, so a host that scores 0 throughout can't be beaten and ends the scan. NaN is not >= 0.
    if not calls:
        return ["        return host"]
    lines = ["        is_better = False"]
    for i, call in enumerate(calls):
        lines += [f"        score_{i} = {call}",
                  f"        if not 0 <= score_{i} < np.inf:", "            return BAD_SCORE",
                  f"        if not is_better and score_{i} > best_{i}:", "            continue",
                  f"        is_better = is_better or score_{i} < best_{i}"]
    is_perfect = " and ".join(f"score_{i} == 0" for i in range(len(calls)))
    lines += ["        if is_better:", "            best_host = host"]
    lines += [f"            best_{i} = score_{i}" for i in range(len(calls))]
    lines += [f"            if {is_perfect}:", "                break"]
    if are_empty_alike:  # they differ in what a policy remembers of them, and in whether they are updated
        lines += ["        if cluster.n_running[host] == 0:", "            break"]
    return lines


def cache_folder() -> Path:
    """Where compiled loops are kept: NUMBA_CACHE_DIR, else the user's cache folder."""
    told = os.environ.get("NUMBA_CACHE_DIR")
    if told:
        return Path(told) / "sojourn"
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "sojourn" / "simulator"


def _written(policy: Policy, text: str) -> Path | None:
    """The loop's own source file; None where it can't be kept, and then it is compiled in memory."""
    try:
        digest = hashlib.sha256("\0".join([text, _environment(), *_sources(policy)]).encode()).hexdigest()
        path = cache_folder() / f"replay_{digest[:24]}.py"
        if path.is_file() and path.read_text() == text:
            return path
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, fresh = tempfile.mkstemp(dir=path.parent, prefix=".replay_")
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        # A link keeps the file of whoever came first: its time stamp is part of numba's own check.
        with contextlib.suppress(FileExistsError):
            os.link(fresh, path)
        Path(fresh).unlink()
        return path if path.read_text() == text else None
    except (OSError, TypeError):
        return None


def _sources(policy: Policy) -> list[str]:
    """Source of the simulator and of every module that the policy's functions come from.

    Raises TypeError or OSError where a function has none that tells all about it (typed at a prompt, or a
    closure over values), so that it is not cached.
    """
    folder = Path(_loop.__file__).parent
    paths = {*folder.glob("*.py"), *folder.glob("policies/*.py")}
    functions: list[Any] = [entry.scorer if isinstance(entry, PerResource) else entry for entry in policy.scorers]
    functions += [policy.filter] if policy.filter else []
    functions += [getattr(policy.hooks, name) for name in _HOOKS] if policy.hooks else []
    for function in functions:
        plain = _plain(function)
        if plain.__closure__ is not None or plain.__module__ == "__main__":
            raise TypeError(f"{plain.__qualname__} can't be keyed by its source")
        paths.add(Path(inspect.getfile(plain)))
    return [path.read_text() for path in sorted(paths)]


def _plain(function: Any) -> Any:
    """The Python function that numba compiled."""
    return getattr(function, "py_func", function)


def _environment() -> str:
    return f"{numba.__version__} {np.__version__} {sys.version} {platform.machine()}"


def _jitted(replay: Any, is_cached: bool) -> Callable[..., int]:
    compiled: Any = numba.njit
    if is_cached:
        try:
            return compiled(cache=True, **KERNEL_OPTIONS)(replay)
        except (OSError, RuntimeError):
            pass  # numba found no folder that it may write to
    return compiled(**KERNEL_OPTIONS)(replay)


def _warm_up(replay: Callable[..., int], policy: Policy, n_resources: int, is_ranked: bool) -> None:
    """One replay of nothing, which compiles the only signature that there is."""
    def row(*shape: int) -> np.ndarray:
        return np.zeros(shape, np.int64)

    cluster = Cluster(row(1, n_resources), row(1, n_resources), row(1), row(1), row(1), row(1), state_of(policy, 1, 0))
    order = Ranking(row(int(is_ranked)), row(n_resources), row(n_resources), row(1))
    levels = row(2, 1 + 2 * n_resources)
    world = World(cluster, np.zeros(0, REQUESTS), np.zeros(1, HOSTS), row(0, n_resources), row(0), row(0), row(0),
                  order, np.zeros(0, SLOTS), np.zeros(0, PLAN), levels[0], levels[1], np.zeros(1, SETTINGS),
                  np.zeros(1, COUNTS))
    timeline = Timeline(np.ones(1, np.int64), row(1, 1 + 2 * n_resources), row(1) - 1, row(0, 1, n_resources),
                        row(0, 1), row(0, 1), row(0, 1), row(0, 1))
    replay(world, timeline, row(0), np.zeros(0, HAPPENINGS))


def state_of(policy: Policy, n_hosts: int, n_requests: int) -> Any:
    """What `cluster.state` is for a policy."""
    if policy.host_scores is not None:
        return asking(n_hosts)
    return policy.hooks.state(n_hosts, n_requests) if policy.hooks is not None else np.zeros(0, np.int64)
