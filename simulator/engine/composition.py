"""A policy's filter, scorers and hooks composed with the event loop into the source of one module.

The modules that are joined may not define one name twice: Python would silently keep the later one.
"""

from __future__ import annotations

import ast
import functools
import inspect
import types
from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any, Literal

from sojourn.simulator.loop import EXPIRED, PARTS, violation
from sojourn.simulator.policies import PACKING, PerResource, Policy, free_share_left

_NAMED_BY_CHAINS = """
import numpy as np
from sojourn.simulator.cluster import WHOLE_GPU
from sojourn.simulator.loop.exits import schedule
from sojourn.simulator.loop.exits import refresh, refresh_until
from sojourn.simulator.loop.occupancy import sample_state
from sojourn.simulator.loop.python_policy import ask_python, best_scored
from sojourn.simulator.loop.occupancy import first_position
"""

Extent = Literal["plain", "hooks", "full", "pool"]
"""plain: arrivals and departures. hooks: also deadlines of a policy's hooks. full: all events, and rules besides room.
pool: the loop of an elastic pool, passed as `parts`. Events that can't happen are not compiled: `full` takes four times
as long to compile as `plain`."""
HOOKS = {"placed": ("host, request, now", "request.place"), "departed": ("host, row, now", "row"),
         "emptied": ("host, now", "-1"), "at_deadline": ("host, now", "-1"),
         "resident": ("host, request, now", "request.place")}
"""A policy's hooks: the arguments of each after the cluster, and the record that an error names."""
_ASK_RESIDENTS = """
@inner
def ask_residents(world, host, now):
    row = world.hosts[host].first
    while row >= 0:
        resident(world, host, asked(world, row, now), now)
        row = world.requests[row].next
"""
_GPU_FOR = """
@inner
def gpu_for(world, request, host):
    cluster, best, least = world.cluster, -1, np.inf
    free = cluster.gpu_free
    milli = request.need[cluster.gpu_dimension[0]] if free.shape[1] > 0 else 0
    for gpu in range(free.shape[1]):
        if 0 < milli < WHOLE_GPU and free[host, gpu] >= milli:
            score = gpu_score(cluster, host, request, gpu)
            if score < least:
                best, least = gpu, score
    return best
"""
REPLACEABLE = frozenset({"choose", *HOOKS, "touched", "remind", "note_state", "checked", "is_allowed", "gpu_for",
                         "HAS_AGENDA", "HAS_UPKEEP"})
"""Names of the parts that a composed chain may replace; no others."""


def composed(policy: Policy, n_resources: int, *, is_ranked: bool, extent: Extent, is_checked: bool,
             parts: tuple[ModuleType, ...] = PARTS) -> tuple[str, dict[str, Any]]:
    """Source of the loop with the chain and the hooks, and the functions that it names.

    parts: the modules of the loop. Those of an elastic pool define `may_be_chosen(world, host)`, and
    their world has tables `pool`, `types` and `shapes`. A pool's hosts are ranked within each type;
    then the best hosts of the types are compared.
    """
    if is_ranked and not is_packing_last(policy):
        raise ValueError(f"policy {policy.name!r} must end in PACKING to be ranked")
    calls: list[str] = []
    names: dict[str, Any] = {}
    is_scored = not is_ranked or extent == "pool"  # else the ranking replaces the packing score
    for i, scorer in enumerate(policy.scorers if is_scored else policy.scorers[: -len(PACKING)]):
        if isinstance(scorer, PerResource):
            names[f"scorer_{i}"] = scorer.scorer
            calls += [f"scorer_{i}(cluster, host, request, {d})" for d in range(n_resources)]
        else:
            names[f"scorer_{i}"] = scorer
            calls.append(f"scorer_{i}(cluster, host, request, now)")
    if policy.filter is not None:
        names["may_take"] = policy.filter
    if is_ranked and is_above_share(policy):
        names["share_left"] = free_share_left
    if policy.gpu_score is not None:
        names["gpu_score"] = policy.gpu_score
    lines = (_chain(policy, calls, n_resources, is_ranked, extent) if policy.host_scores is None
             else _asking_python(policy))
    lines += ["", f"HAS_AGENDA = {extent != 'plain'}", f"HAS_UPKEEP = {extent == 'full'}", ""]
    if extent != "full":
        allowed = "may_be_chosen(world, host)" if extent == "pool" else "True"
        lines += ["@inner", "def is_allowed(world, host, request):", f"    return {allowed}", ""]
    if is_checked:
        names["violation"] = violation
        lines += ["", "@inner", "def checked(world):", "    return violation(world)", ""]
    lines += [_GPU_FOR] if policy.gpu_score is not None else []
    if policy.refresh_s:
        lines += ["", "@inner", "def touched(world, host):", "    if world.hosts[host].first >= 0:",
                  f"        world.hosts[host].valid_until_s = {EXPIRED}", ""]
    if policy.hooks is not None:
        functions = policy.hooks.given()
        names |= {f"hook_{name}": function for name, function in functions.items()}
        lines += [_ASK_RESIDENTS] if "resident" in functions else []
        for code, (name, (arguments, row)) in enumerate(HOOKS.items(), 1):
            if name not in functions:
                continue
            given = arguments.replace("row", "world.requests[row].row")
            has_residents = name == "at_deadline" and "resident" in functions
            lines += ["", "@inlined", f"def {name}(world, {arguments}):", "    counts = world.counts[0]",
                      *(["    ask_residents(world, host, now)"] if has_residents else []),
                      f"    counts.hook, counts.last_row, counts.last_host, counts.last_s = {code}, {row}, host, now",
                      f"    hook_{name}(world.cluster, {given})", "    counts.hook = 0", ""]
        if policy.hooks.sampled:
            lines += ["", "@inner", "def note_state(world, timeline, now):",
                      f"    sample_state(world, timeline, world.cluster.state.{policy.hooks.sampled}, now)", ""]
        if "at_deadline" in functions:
            lines += ["", "@inner", "def remind(world, host):", "    slot = world.settings[0].first_deadline + host",
                      "    schedule(world, slot, world.cluster.state.deadline_s[host])", ""]
    check_replaced([*names, *(name for name, _ in top_level_names("chain", "\n".join(lines)))], parts)
    # The names are part of the source and so of its hash: the sources of policies differ only in them.
    named = [f"# {name}: {plain_function(function).__module__}.{plain_function(function).__qualname__}"
            for name, function in names.items()]
    return _source_of_parts(parts) + "\n".join([_NAMED_BY_CHAINS, *named, "", *lines]), names


def check_replaced(names: Iterable[str], parts: tuple[ModuleType, ...] = PARTS) -> None:
    """ValueError if a chain defines a name of the parts that it may not replace."""
    taken = sorted(set(names) & _names_of_parts(parts) - REPLACEABLE)
    if taken:
        raise ValueError(f"names that a chain gives must be new to the loop's parts, or be one of "
                         f"{', '.join(sorted(REPLACEABLE))}, got {', '.join(taken)}")


@functools.cache
def _names_of_parts(parts: tuple[ModuleType, ...]) -> frozenset[str]:
    """The top-level names of the parts and of `_NAMED_BY_CHAINS`. ValueError if one name has two meanings."""
    sources = {part.__name__: inspect.getsource(part) for part in parts}
    return frozenset(names_of_parts(sources | {"chain": _NAMED_BY_CHAINS}))


@functools.cache
def _source_of_parts(parts: tuple[ModuleType, ...]) -> str:
    """The source of all parts as one module, without their imports of each other."""
    left_out = {part.__name__ for part in parts} | {"__future__"}
    text = "from __future__ import annotations\n"
    for part in parts:
        source = inspect.getsource(part)
        lines = source.splitlines()
        for node in ast.parse(source).body:
            if isinstance(node, ast.ImportFrom) and node.module in left_out:
                lines[node.lineno - 1:node.end_lineno] = [""] * ((node.end_lineno or node.lineno) - node.lineno + 1)
        text += "\n".join([*lines, ""])
    return text


def _chain(policy: Policy, calls: list[str], n_resources: int, is_ranked: bool, extent: Extent) -> list[str]:
    """`choose` as one scan over the hosts; in a ranked elastic pool one scan per type."""
    is_pool = extent == "pool"
    is_by_kind = is_ranked and is_pool
    every_call = calls
    if is_by_kind:
        calls = calls[: -_n_packing(n_resources)]
    name, arguments = ("choose_of_kind", ", kind, end") if is_by_kind else ("choose", "")
    lines = ["@inner", f"def {name}(world, request, now{arguments}):",
             "    cluster, hosts = world.cluster, world.hosts",
             "    best_host = NOT_PLACED", *(_refresh_all(policy) if policy.refresh_s else [])]
    lines += [f"    best_{i} = np.inf" for i in range(len(calls))]
    kind, end = ("kind", "end") if is_by_kind else ("0", "len(order.key)")
    n_scanned = "world.pool[0].n_scanned" if is_pool else "len(hosts)"
    if is_ranked:
        lines += ["    order = world.order", "    host_mask = (1 << order.host_bits[0]) - 1",
                  f"    for position in range(first_position(order, request.need, {kind}), {end}):",
                  "        host = order.key[position] & host_mask"]
    else:
        lines += [f"    for host in range({n_scanned}):"]
    lines += ["        if not fits(cluster, host, request.need) or not is_allowed(world, host, request.place):",
              "            continue"]
    if is_ranked and is_above_share(policy):  # all later hosts have more left
        lines += ["        if share_left(cluster, host, request, 0) > best_0:", "            break"]
    if policy.predictions != "none" and not policy.refresh_s:
        lines += ["        if hosts[host].valid_until_s <= now:", "            refresh(world, host, now)"]
    if policy.filter is not None:
        lines += ["        if not may_take(cluster, host, request, now):", "            continue"]
    # Two empty hosts may differ in the hooks' state, and in whether they are updated.
    is_plain = is_ranked and extent != "full" and policy.hooks is None
    lines += [*_comparison(calls, is_plain and policy.are_empty_hosts_alike), "    return best_host", ""]
    return lines + _over_kinds(every_call) if is_by_kind else lines


def _over_kinds(calls: list[str]) -> list[str]:
    """`choose` among the best hosts of all types by the whole chain; the lowest place among equals."""
    return ["@inner", "def choose(world, request, now):", "    cluster, types = world.cluster, world.types",
            "    best_host, end = NOT_PLACED, 0", *(f"    best_{i} = np.inf" for i in range(len(calls))),
            "    for kind in range(len(types)):",
            "        end += types[kind].n_on",
            "        if types[kind].n_on == 0 or not holds(world, kind, request.need):",
            "            continue",
            "        host = choose_of_kind(world, request, now, kind, end)",
            "        if host == BAD_SCORE:",
            "            return BAD_SCORE",
            "        if host == NOT_PLACED:",
            "            continue",
            *_comparison(calls, are_empty_alike=False, is_in_order=False), "    return best_host", ""]


def _refresh_all(policy: Policy) -> list[str]:
    """Lines that bring every host up to date, so that a cached value does not depend on who read it when."""
    call = f"refresh_until(world, host, now, {policy.refresh_s})" if policy.refresh_s else "refresh(world, host, now)"
    return ["    for host in range(len(world.hosts)):", "        if world.hosts[host].valid_until_s <= now:",
            f"            {call}"]


def _asking_python(policy: Policy) -> list[str]:
    """`choose` that brings every host up to date and calls a Python function through its address."""
    lines = ["@inner", "def choose(world, request, now):"]
    if policy.predictions != "none":
        lines += _refresh_all(policy)
    return [*lines, "    address = world.cluster.state.address[0]",
            "    n_levels = ask_python(address, request.place, request.exit_s, request.age_s, now)",
            "    return best_scored(world, request, n_levels) if n_levels >= 0 else BAD_SCORE", ""]


def is_above_share(policy: Policy) -> bool:
    """Whether the first score is never below the binding resource's free share after the placement."""
    return policy.above_share is not None and policy.scorers[:1] == (policy.above_share,)


def is_packing_last(policy: Policy) -> bool:
    """Whether the chain ends in the packing score."""
    return policy.scorers[-len(PACKING):] == PACKING


def _n_packing(n_resources: int) -> int:
    """How many calls make the packing score."""
    return sum(n_resources if isinstance(scorer, PerResource) else 1 for scorer in PACKING)


def _comparison(calls: list[str], are_empty_alike: bool, is_in_order: bool = True) -> list[str]:
    """Lines that keep the better host.

    are_empty_alike: whether the first empty host ends the scan. is_in_order: whether hosts come by
    place or by rank; if not, these lines break ties by the lower place.
    """
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
    lines += ["        if is_better:" if is_in_order else "        if is_better or host < best_host:",
              "            best_host = host"]
    lines += [f"            best_{i} = score_{i}" for i in range(len(calls))]
    if is_in_order:
        lines += [f"            if {is_perfect}:", "                break"]
    if are_empty_alike:  # the first in the ranking has the lowest index
        lines += ["        if cluster.n_running[host] == 0:", "            break"]
    return lines


def names_of_parts(sources: Mapping[str, str]) -> dict[str, str]:
    """Each top-level name of modules (name -> source) that are joined, with the origin of its value.

    Several modules may import one thing under one name. ValueError if they import different things
    under it, or if two modules define it.

    >>> origins = names_of_parts({"a": "import math\\ndef f(): ...", "b": "import math\\nfrom a import f\\nG = 1"})
    >>> origins
    {'math': 'math', 'f': 'a.f', 'G': 'b.G'}
    >>> names_of_parts({"a": "def f(): ...", "b": "F = 1\\ndef f(): ..."})
    Traceback (most recent call last):
    ValueError: f must name one thing in all parts, got a.f and b.f
    """
    origins: dict[str, str] = {}
    for module, source in sources.items():
        for name, origin in top_level_names(module, source):
            if origins.setdefault(name, origin) != origin:
                raise ValueError(f"{name} must name one thing in all parts, got {origins[name]} and {origin}")
    return origins


def top_level_names(module: str, source: str) -> Iterator[tuple[str, str]]:
    """Each top-level name of a module's source, with the origin of its value."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Import):
            yield from ((alias.asname or alias.name.partition(".")[0], alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.module != "__future__":
                yield from ((alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name, f"{module}.{node.name}"
        else:
            yield from ((name.id, f"{module}.{name.id}") for name in ast.walk(node)
                        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store))


LIBRARIES = ("math", "numba", "numpy")
"""Modules whose functions numba implements; they change only with a version."""


def plain_function(function: Any) -> Any:
    """The Python function behind a compiled one; a plain function unchanged."""
    return getattr(function, "py_func", function)


def named_values(plain: Any) -> dict[str, Any]:
    """The values of the global and free names in a function's code, sorted by name."""
    cells = dict(zip(plain.__code__.co_freevars, plain.__closure__ or (), strict=True))
    known = plain.__globals__ | {name: cell.cell_contents for name, cell in cells.items()}
    return {name: known[name] for name in sorted(set(names_in(plain.__code__)) & known.keys())}


def names_in(code: types.CodeType) -> Iterator[str]:
    """Names of globals, attributes and free variables in a function's code and in nested functions."""
    yield from code.co_names
    yield from code.co_freevars
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from names_in(constant)


def reached_functions(plain: Any) -> Iterator[Any]:
    """Every function, compiled or not, that it names, directly or through others; none of LIBRARIES."""
    waiting, seen = [plain], {plain}
    while waiting:
        function = waiting.pop()
        values = named_values(function)
        modules = [value for value in values.values() if isinstance(value, types.ModuleType)]
        inside = [getattr(module, name) for module in modules if not _is_library(module.__name__)
                  for name in sorted(set(names_in(function.__code__))) if hasattr(module, name)]
        for value in [*values.values(), *inside]:
            called = plain_function(value)
            if isinstance(called, types.FunctionType) and called not in seen and not _is_library(called.__module__):
                seen.add(called)
                waiting.append(called)
                yield value


def _is_library(module: str | None) -> bool:
    return module is not None and module.split(".")[0] in LIBRARIES
