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
from typing import Any

import numba
import numpy as np

from sojourn.simulator import _loop
from sojourn.simulator._state import Arrivals, Decisions, Ledger, Ranking, Timeline
from sojourn.simulator.cluster import Cluster
from sojourn.simulator.policies.packing import PACKING
from sojourn.simulator.policies.policy import PerResource, Policy


@dataclass(frozen=True, slots=True)
class Loop:
    """A compiled replay, and the seconds that getting it took in this process."""

    replay: Callable[..., None]
    compile_s: float


@functools.cache
def compiled_loop(policy: Policy, n_resources: int, is_ranked: bool) -> Loop:
    """The event loop with this policy's chain.

    is_ranked: hosts are walked in the order of the packing score, so a chain that ends in PACKING drops it.
    """
    started = time.perf_counter()
    text, names = composed(policy, n_resources, is_ranked)
    path = _written(policy, text)
    module = _imported(text, path, names)
    replay = _jitted(module.replay, is_cached=path is not None)
    _warm_up(replay, n_resources, is_ranked)
    return Loop(replay, time.perf_counter() - started)


def _imported(text: str, path: Path | None, names: dict[str, Any]) -> Any:
    """The loop's source as a module; numba looks it up by name when it loads the compiled form."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:24]
    module = types.ModuleType(path.stem if path else f"replay_in_memory_{digest}_{len(sys.modules)}")
    sys.modules[module.__name__] = module
    exec(compile(text, str(path or "<replay>"), "exec"), module.__dict__)
    module.__dict__.update(names)
    return module


def composed(policy: Policy, n_resources: int, is_ranked: bool) -> tuple[str, dict[str, Any]]:
    """Source of the loop with the chain, and the functions that it names."""
    scorers = policy.scorers
    if is_ranked:
        if not is_packing_last(policy):
            raise ValueError(f"policy {policy.name!r} must end in PACKING to be ranked")
        scorers = scorers[: -len(PACKING)]
    calls, names = [], {}
    for i, scorer in enumerate(scorers):
        if isinstance(scorer, PerResource):
            names[f"scorer_{i}"] = scorer.scorer
            calls += [f"scorer_{i}(cluster, host, request, {d})" for d in range(n_resources)]
        else:
            names[f"scorer_{i}"] = scorer
            calls.append(f"scorer_{i}(cluster, host, request, now)")
    if policy.filter is not None:
        names["may_take"] = policy.filter
    lines = ["", "", "import numba", ""]
    # The names are part of the source, and so of its hash: policies differ in them alone.
    lines += [f"# {name}: {_plain(function).__module__}.{_plain(function).__qualname__}"
              for name, function in names.items()]
    lines += ["", "@numba.njit(error_model='numpy')", "def choose(cluster, ledger, order, request, now):"]
    lines += ["    best_host = -1"]
    lines += [f"    best_{i} = np.inf" for i in range(len(calls))]
    if is_ranked:
        lines += ["    host_mask = (1 << order.host_bits[0]) - 1",
                  "    for position in range(first_position(order, request.need), len(order.key)):",
                  "        host = order.key[position] & host_mask"]
    else:
        lines += ["    for host in range(len(cluster.n_running)):"]
    lines += ["        if not fits(cluster, host, request.need):", "            continue"]
    if policy.predictions != "none":
        lines += ["        if ledger.valid_until_s[host] <= now:", "            refresh(cluster, ledger, host, now)"]
    if policy.filter is not None:
        lines += ["        if not may_take(cluster, host, request, now):", "            continue"]
    lines += _comparison(calls, is_ranked)
    lines += ["    return best_host", ""]
    return inspect.getsource(_loop) + "\n".join(lines), names


def is_packing_last(policy: Policy) -> bool:
    """Whether the chain ends in the packing score."""
    return policy.scorers[-len(PACKING):] == PACKING


def _comparison(calls: list[str], is_ranked: bool) -> list[str]:
    # Scores are >= 0, so a host that scores 0 throughout can't be beaten and ends the scan.
    if not calls:
        return ["        return host"]
    lines = ["        is_better = False"]
    for i, call in enumerate(calls):
        lines += [f"        score_{i} = {call}",
                  f"        if not is_better and score_{i} > best_{i}:", "            continue",
                  f"        is_better = is_better or score_{i} < best_{i}"]
    is_perfect = " and ".join(f"score_{i} == 0" for i in range(len(calls)))
    lines += ["        if is_better:", "            best_host = host"]
    lines += [f"            best_{i} = score_{i}" for i in range(len(calls))]
    lines += [f"            if {is_perfect}:", "                break"]
    if is_ranked:
        lines += ["        if cluster.n_running[host] == 0:", "            break  # empty hosts are alike"]
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
    functions = [entry.scorer if isinstance(entry, PerResource) else entry for entry in policy.scorers]
    for function in (*functions, *([policy.filter] if policy.filter else [])):
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


def _jitted(replay: Any, is_cached: bool) -> Callable[..., None]:
    if is_cached:
        try:
            return numba.njit(cache=True, error_model="numpy")(replay)
        except (OSError, RuntimeError):
            pass  # numba found no folder that it may write to
    return numba.njit(error_model="numpy")(replay)


def _warm_up(replay: Callable[..., None], n_resources: int, is_ranked: bool) -> None:
    """One replay of nothing, which compiles the only signature that there is."""
    def row(*shape: int) -> np.ndarray:
        return np.zeros(shape, np.int64)

    replay(
        Arrivals(row(0), row(0), row(0, n_resources), row(0)),
        Cluster(row(1, n_resources), row(1, n_resources), row(1), row(1)),
        Ledger(*(row(1) for _ in Ledger._fields)),
        Ranking(row(int(is_ranked)), row(n_resources), row(n_resources), row(1)),
        Timeline(np.ones(1, np.int64), row(1, 1 + 2 * n_resources)),
        Decisions(row(0), row(0), row(1)),
        0,
    )
