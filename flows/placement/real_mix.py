"""A mix of real parts: services from usage series, batch requests from a table of tasks."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from sojourn.features.trace import Trace
from sojourn.features.usage import UsageGrid
from sojourn.flows.placement.batch_usage import BatchUsage
from sojourn.flows.placement.made_mix import INTERVAL_S
from sojourn.serving.usage import DAY_S
from sojourn.simulator.elastic import DEFAULT_TYPE, BatchRequests, MixedWorkload, Services

MEM_PER_SHARE_GIB = DEFAULT_TYPE.capacities["mem_gib"] / 100
"""`mem_gib` of Alibaba's tasks is a share of one machine, 0 to 100."""


@dataclass(frozen=True, slots=True)
class GangParameters:
    """How tasks become requests.

    most_instances: of a task at once; its table does not say when each ran. gang: instances of one request, fewer where
        they are large: a request has at most `share` of the default machine in each resource.
    unknown_s: longest time of a task whose name has not ended before. use: what a request uses over what is planned.
    """

    most_instances: int = 100
    gang: int = 10
    share: float = 1 / 6
    use: BatchUsage = field(default_factory=BatchUsage)
    unknown_s: float = 3600.0


def real_mix(grids: Sequence[UsageGrid], tasks: Trace, rng: np.random.Generator, gangs: GangParameters | None = None,
             description: str = "real parts") -> MixedWorkload:
    """Services of the grids side by side, and the tasks' requests.

    grids: 15-min steps, with memory, all of one length, whole days that begin at a local midnight. A request of a grid
    without cores, memory or samples is left out, and one that is larger than the default machine. tasks: of the reader
    `alibaba-2018`; those that ended, within the grids' time. rng: draws what batch requests use.

    Refused with ValueError: grids of other steps or lengths, or without memory; no service or no batch request left.
    """
    if not grids or any(grid.step_s != INTERVAL_S or grid.mem is None or grid.cpu.shape[1] != grids[0].cpu.shape[1]
                        for grid in grids):
        raise ValueError(f"grids must be one or more of {INTERVAL_S} s steps with memory and of one length, got "
                         f"{[(grid.step_s, grid.cpu.shape[1], grid.mem is not None) for grid in grids]!r}")
    services, place = services_of(grids)
    n_left_out = sum(len(grid.cpu) for grid in grids) - len(place)
    batch = _batch(tasks, services.n_intervals * INTERVAL_S, rng, GangParameters() if gangs is None else gangs)
    if len(services) == 0 or len(batch) == 0:
        raise ValueError(f"a mix must have a service and a batch request, got {len(services)} and {len(batch)}")
    days = services.n_intervals * INTERVAL_S / DAY_S
    return MixedWorkload(services, batch, INTERVAL_S,
                         f"{description}: {len(services)} services ({n_left_out} left out), {len(batch)} batch "
                         f"requests, {days:g} days")


def services_of(grids: Sequence[UsageGrid]) -> tuple[Services, np.ndarray]:
    """Services without machines, and the place of each in the grids side by side, int64 (n_services,)."""
    cpu = np.concatenate([grid.cpu for grid in grids]).astype(np.float64)
    mem = np.concatenate([grid.mem for grid in grids if grid.mem is not None]).astype(np.float64)
    cores, gib = (np.concatenate([getattr(grid, name) for grid in grids]) for name in ("cpu_cores", "mem_gib"))
    is_seen = ~np.isnan(cpu)
    largest = DEFAULT_TYPE.capacities
    is_kept = (is_seen.any(axis=1) & (cores > 0) & (gib > 0) & (cores <= largest["cpu_cores"])
               & (gib <= largest["mem_gib"]))
    n_intervals = cpu.shape[1]
    first, last = is_seen.argmax(axis=1), n_intervals - is_seen[:, ::-1].argmax(axis=1)
    reserved = np.rint(np.stack([cores * 1000, gib * 1024], axis=1)).astype(np.int64)
    share = np.nan_to_num(np.stack([cpu, mem], axis=2))
    used = np.rint(share[is_kept] * reserved[is_kept][:, None, :]).astype(np.int64)
    place = np.flatnonzero(is_kept)
    return Services(reserved[place], used, first[place], last[place], np.full(len(place), -1)), place


def _batch(tasks: Trace, horizon_s: int, rng: np.random.Generator, gangs: GangParameters) -> BatchRequests:
    table = tasks.since_begin().requests
    table = table[table["arrival_s"].notna() & table["departure_s"].notna()]
    table = table[table["arrival_s"] < horizon_s].sort_values("arrival_s", kind="stable")
    arrival_s, departure_s = (table[name].to_numpy(np.int64) for name in ("arrival_s", "departure_s"))
    longest_s = longest_before(table["task_name"].astype(str).tolist(), arrival_s, departure_s, gangs.unknown_s)
    cores = table["cpu_cores"].to_numpy(np.float64)
    gib = table["mem_gib"].to_numpy(np.float64) * MEM_PER_SHARE_GIB
    with np.errstate(divide="ignore"):
        room = np.minimum(gangs.share * DEFAULT_TYPE.capacities["cpu_cores"] / cores,
                          gangs.share * DEFAULT_TYPE.capacities["mem_gib"] / gib)
    gang = np.clip(np.floor(room), 1, gangs.gang).astype(np.int64)
    n_instances = np.minimum(table["n_instances"].to_numpy(np.int64), gangs.most_instances)
    n_gangs = -(-n_instances // gang)
    row = np.repeat(np.arange(len(table)), n_gangs)
    place = np.arange(len(row)) - np.repeat(np.cumsum(n_gangs) - n_gangs, n_gangs)
    size = np.minimum(gang[row], n_instances[row] - place * gang[row])
    requested = np.stack([cores[row] * size * 1000, gib[row] * size * 1024], axis=1)
    n = len(row)
    duration_ms = np.maximum(departure_s - arrival_s, 1)[row] * 1000
    used, peak, peak_ms = gangs.use.draw(rng, requested, duration_ms)
    whole = [np.rint(amounts).astype(np.int64) for amounts in (requested, used, peak)]
    return BatchRequests(arrival_s[row] * 1000, duration_ms, whole[0], whole[1], whole[2], peak_ms,
                         np.rint(longest_s[row] * 1000).astype(np.int64), np.full(n, -1))


def longest_before(names: Sequence[str], arrival_s: np.ndarray, departure_s: np.ndarray,
                   unknown_s: float) -> np.ndarray:
    """The longest run of each name that had ended at or before each arrival, seconds, float64 (n,); `unknown_s` where
    none had. arrival_s: in order.

    >>> longest_before(["a", "a", "a"], np.array([0, 5, 20]), np.array([10, 8, 30]), 99.0).tolist()
    [99.0, 99.0, 10.0]
    """
    longest: dict[str, float] = {}
    running: list[tuple[int, int]] = []
    found = np.empty(len(names))
    for k, name in enumerate(names):
        while running and running[0][0] <= arrival_s[k]:
            _, ended = heapq.heappop(running)
            took = float(departure_s[ended] - arrival_s[ended])
            longest[names[ended]] = max(longest.get(names[ended], 0.0), took)
        found[k] = longest.get(name, unknown_s)
        heapq.heappush(running, (int(departure_s[k]), k))
    return found
