"""Mixes of services and batch requests: made as in section V-A of the CTCL paper, of real parts, or as a trace
recorded one.

Batch requests use a drawn part of what they ask for, since tables of tasks have plans only. What services need over
the next interval is predicted at each interval, from what was seen before it."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from sojourn.features.trace import Trace
from sojourn.features.usage import UsageGrid
from sojourn.models.workload_class import ClassModel, SlotMaxima, fit_classes, slot_maxima
from sojourn.serving.usage import DAY_S, N_HOURS, N_SLOTS, SEEN_S, SLOT_S, DayClock
from sojourn.serving.usage import observed_s as observation_s
from sojourn.simulator.mixed import BatchRequests, Evictor, MixedWorkload, Services
from sojourn.simulator.pool import DEFAULT_TYPE, type_capacities
from studies.recorded_runs import RecordedRuns

INTERVAL_S = 900
_N_PER_DAY = 96
_MS = 1000
MEM_PER_SHARE_GIB = DEFAULT_TYPE.capacities["mem_gib"] / 100
"""`mem_gib` of Alibaba's tasks is a share of one machine, 0 to 100."""
_UNKNOWN_S = 3600.0
"""Longest time of a task whose name has not ended before."""
NEEDS_INTERVAL_S = SLOT_S
RULES = ("combined", "class", "own")
_SMALLEST = 1e-3
N_CLASSES, OBSERVED_S = 20, 43_200
"""CTCL, section V-C: 20 classes; 12 hours of observation, the shorter of its two."""


@dataclass(frozen=True, slots=True)
class BatchUsage:
    """How use is drawn. "Most batch jobs actually use more resources at runtime than requested" (CTCL, section V-A),
    which gives no numbers.

    use_median, use_spread: CPU used over asked, lognormal, log units. mem_use_median, mem_use_spread: of the memory.
    peak_share, peak: requests whose CPU use rises once during their run, and by how much.
    """

    use_median: float = 1.2
    use_spread: float = 0.35
    mem_use_median: float = 1.0
    mem_use_spread: float = 0.2
    peak_share: float = 0.3
    peak: tuple[float, float] = (1.1, 1.8)

    def draw(self, rng: np.random.Generator, requested: np.ndarray,
             duration_ms: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Use before the rise and after it, float64 (n, 2) in the units of `requested` (n, 2), and when it rises,
        int64 (n,), ms after the start: at `duration_ms` where it does not.

        >>> used, peak, peak_ms = BatchUsage().draw(np.random.default_rng(0), np.ones((2, 2)), np.array([10, 10]))
        >>> used.shape, bool((peak >= used).all()), bool((peak_ms <= 10).all())
        ((2, 2), True, True)
        """
        n = len(requested)
        factor = np.stack([self.use_median * np.exp(self.use_spread * rng.standard_normal(n)),
                           self.mem_use_median * np.exp(self.mem_use_spread * rng.standard_normal(n))], axis=1)
        used = requested * factor
        is_rising = rng.random(n) < self.peak_share
        rise = np.where(is_rising, rng.uniform(*self.peak, size=n), 1.0)
        peak = np.stack([used[:, 0] * rise, used[:, 1]], axis=1)
        peak_ms = np.where(is_rising, rng.uniform(0.2, 0.8, n) * duration_ms, duration_ms).astype(np.int64)
        return used, peak, peak_ms


@dataclass(frozen=True, slots=True)
class MixParameters:
    """All constants of the made mix. What the paper measures in Alibaba's trace is quoted beside each.

    n_services, n_batch, n_days: 8 days. n_shapes: kinds of services, each with one daily profile.
    service_cores, service_gib_per_core: sizes are drawn of these.
    cpu_level: mean CPU use over the reservation, of a service, low and high ("very low, 9.5 % on average").
    mem_level: of the memory ("80.6 %"). day_swing: trough over peak of the daily profile. noise: log spread of an
        interval. spike_share, spike: of the intervals, and the share of the reservation that is added.
    batch_cores, batch_gib_per_core: asked for. n_templates: kinds of batch requests; a kind's durations are lognormal
        around its own median.
    median_s, template_spread, duration_spread: of the durations, log units; longest_s: no duration is above it.
    use: what a batch request uses over what it asks for.
    night_weight: arrivals at night over those at day, per hour ("nocturnal"); last_day: of the last day over the others
        ("almost no batches").
    """

    n_services: int = 400
    n_batch: int = 100_000
    n_days: int = 8
    n_shapes: int = 20
    service_cores: tuple[float, ...] = (2.0, 4.0, 8.0, 16.0)
    service_gib_per_core: tuple[float, ...] = (2.0, 4.0, 4.0, 8.0)
    cpu_level: tuple[float, float] = (0.03, 0.16)
    mem_level: tuple[float, float] = (0.65, 0.95)
    day_swing: tuple[float, float] = (0.2, 0.8)
    noise: float = 0.15
    spike_share: float = 0.003
    spike: float = 0.3
    late_share: float = 0.3
    batch_cores: tuple[float, ...] = (2.0, 4.0, 8.0, 16.0)
    batch_gib_per_core: tuple[float, ...] = (0.5, 1.0, 2.0)
    n_templates: int = 60
    median_s: float = 300.0
    template_spread: float = 1.0
    duration_spread: float = 0.5
    longest_s: float = 14_400.0
    use: BatchUsage = field(default_factory=BatchUsage)
    night_weight: float = 2.0
    last_day: float = 0.05


def made_mix(rng: np.random.Generator, parameters: MixParameters | None = None) -> MixedWorkload:
    """Services and batch requests drawn from `rng`; 8 days of 15 min by default.

    >>> mix = made_mix(np.random.default_rng(0), MixParameters(n_services=3, n_batch=5))
    >>> len(mix.services), len(mix.batch), mix.services.n_intervals
    (3, 5, 768)
    """
    settings = MixParameters() if parameters is None else parameters
    services = _services(rng, settings)
    batch = _batch(rng, settings)
    return MixedWorkload(services, batch, INTERVAL_S,
                         f"made mix: {len(services)} services, {len(batch)} batch requests, {settings.n_days} days")


def _services(rng: np.random.Generator, settings: MixParameters) -> Services:
    n, n_intervals = settings.n_services, settings.n_days * _N_PER_DAY
    shapes = _shapes(rng, settings)
    shape = rng.integers(settings.n_shapes, size=n)
    cores = rng.choice(settings.service_cores, n)
    gib = cores * rng.choice(settings.service_gib_per_core, n)
    level = rng.uniform(*settings.cpu_level, size=n)
    daily = np.tile(shapes[shape], (1, settings.n_days))
    noise = np.exp(settings.noise * rng.standard_normal((n, n_intervals)))
    spikes = (rng.random((n, n_intervals)) < settings.spike_share) * rng.exponential(settings.spike, (n, n_intervals))
    cpu = np.minimum(level[:, None] * daily * noise + spikes, 1.2)
    drift = np.cumsum(0.002 * rng.standard_normal((n, n_intervals)), axis=1)
    mem = np.clip(rng.uniform(*settings.mem_level, size=n)[:, None] + drift + 0.02 * (daily - 1), 0.05, 1.0)
    reserved = np.stack([cores * 1000, gib * 1024], axis=1)
    used = np.stack([cpu, mem], axis=2) * reserved[:, None, :]
    is_late = rng.random(n) < settings.late_share
    first = np.where(is_late, rng.integers(max(n_intervals - _N_PER_DAY, 1), size=n), 0)
    used[np.arange(n_intervals) < first[:, None]] = 0.0
    return Services(np.rint(reserved).astype(np.int64), np.rint(used).astype(np.int64), first.astype(np.int64),
                    np.full(n, n_intervals), np.full(n, -1))


def _shapes(rng: np.random.Generator, settings: MixParameters) -> np.ndarray:
    """Daily CPU profiles with mean 1, float64 (n_shapes, 96): high in a window of the day, most of them by day."""
    hour = np.arange(_N_PER_DAY) / _N_PER_DAY * 24
    shapes = np.empty((settings.n_shapes, _N_PER_DAY))
    for k in range(settings.n_shapes):
        middle, width = rng.normal(15.0, 3.0) % 24, rng.uniform(4.0, 12.0)
        away = np.abs((hour - middle + 12) % 24 - 12)
        busy = 1 / (1 + np.exp((away - width / 2) / 0.7))
        trough = rng.uniform(*settings.day_swing)
        shapes[k] = trough + (1 - trough) * busy
        shapes[k] /= shapes[k].mean()
    return shapes


def _batch(rng: np.random.Generator, settings: MixParameters) -> BatchRequests:
    n, k = settings.n_batch, settings.n_templates
    hours = np.arange(settings.n_days * 24)
    weight = np.where((hours % 24 >= 21) | (hours % 24 < 9), settings.night_weight, 1.0)
    weight[hours >= (settings.n_days - 1) * 24] *= settings.last_day
    hour = rng.choice(hours, n, p=weight / weight.sum())
    arrival_ms = np.sort((hour + rng.random(n)) * 3600 * _MS).astype(np.int64)
    template = rng.integers(k, size=n)
    medians = settings.median_s * np.exp(settings.template_spread * rng.standard_normal(k))
    duration_s = np.minimum(medians[template] * np.exp(settings.duration_spread * rng.standard_normal(n)),
                            settings.longest_s)
    cores = rng.choice(settings.batch_cores, k)
    gib = cores * rng.choice(settings.batch_gib_per_core, k)
    requested = np.stack([cores * 1000, gib * 1024], axis=1)[template]
    duration_ms = np.rint(duration_s * _MS).astype(np.int64)
    limit_s = np.minimum(medians * np.exp(3 * settings.duration_spread), settings.longest_s)  # of 99.9 % of the runs
    longest_ms = np.rint(limit_s * _MS).astype(np.int64)
    used, peak, peak_ms = settings.use.draw(rng, requested, duration_ms)
    return BatchRequests(arrival_ms, duration_ms, np.rint(requested).astype(np.int64),
                         np.rint(used).astype(np.int64), np.rint(peak).astype(np.int64), peak_ms, longest_ms[template],
                         np.full(n, -1))


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
    batch = _real_batch(tasks, services.n_intervals * INTERVAL_S, rng, GangParameters() if gangs is None else gangs)
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


def _real_batch(tasks: Trace, horizon_s: int, rng: np.random.Generator, gangs: GangParameters) -> BatchRequests:
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


def recorded_mix(grid: UsageGrid, containers: Trace, tasks: Trace, runs: pd.DataFrame,
                 description: str = "recorded") -> tuple[MixedWorkload, RecordedRuns]:
    """The mix of Alibaba's original files, and what the trace did with it.

    grid: of the containers' usage, as for `real_mix`; its memory sizes are shares of a machine, 0 to 100. containers:
    of the reader `alibaba-2018-containers`, with `machine`. tasks: of `alibaba-2018`; the plan of an instance. runs: of
    `read_alibaba_2018_instances`.

    A batch request is one instance: it arrives at its first run's start, and takes as long as its last run. It uses its
    mean and, from the half of its time on, its maximum: the table does not say when that was. Instances without a plan,
    or that start after the grid, are left out and counted, with all their runs.

    Refused with ValueError: no service or no instance left.
    """
    if grid.mem is None:
        raise ValueError("grid must have memory, got none")
    of_container = dict(zip(containers.requests["request_id"].astype(str), containers.requests["machine"].astype(str),
                            strict=True))
    plan = tasks.requests.drop_duplicates("request_id").set_index("request_id")[["cpu_cores", "mem_gib"]]
    horizon_s = grid.cpu.shape[1] * INTERVAL_S
    is_kept = runs["task"].isin(plan.index) & (runs.groupby("instance")["start_s"].transform("min") < horizon_s)
    n_left_out = int(runs["instance"][~is_kept].nunique())
    kept = runs[is_kept]
    first_s = kept.groupby("instance")["start_s"].transform("min")
    kept = kept.assign(first_s=first_s).sort_values(["first_s", "instance", "start_s", "seq_no"], kind="stable")
    request, _ = pd.factorize(kept["instance"])
    number = {name: k for k, name in enumerate(sorted({*of_container.values(), *kept["machine"]}))}
    services, place = services_of([replace(grid, mem_gib=grid.mem_gib * MEM_PER_SHARE_GIB)])
    if len(services) == 0 or len(kept) == 0:
        raise ValueError(f"a mix must have a service and a batch request, got {len(services)} and {len(kept)} runs")
    ids = np.asarray(grid.request_ids)[place].astype(str)
    services = replace(services, machine=np.array([number[of_container[name]] for name in ids.tolist()], np.int64))
    machine = kept["machine"].map(number).to_numpy(np.int64)
    start_ms = kept["start_s"].to_numpy(np.int64) * 1000
    end_ms = (kept["end_s"].fillna(-1).to_numpy(np.int64) * 1000).clip(min=-1)
    mean, most = (_amounts(kept, which) for which in ("avg", "max"))
    opening, closing = np.flatnonzero(np.diff(request, prepend=-1)), np.flatnonzero(np.diff(request, append=-1))
    duration_ms = np.maximum(np.where(end_ms < 0, horizon_s * 1000, end_ms) - start_ms, 1)[closing]
    names = kept["task_name"].iloc[opening].tolist()
    longest_s = longest_before(names, start_ms[opening] // 1000, start_ms[opening] // 1000 + duration_ms // 1000,
                               _UNKNOWN_S)
    asked = plan.loc[kept["task"].iloc[opening]].to_numpy(np.float64)
    batch = BatchRequests(
        start_ms[opening], duration_ms, np.rint(asked * [1000, 1024 * MEM_PER_SHARE_GIB]).astype(np.int64),
        mean[closing], most[closing], duration_ms // 2, np.rint(longest_s * 1000).astype(np.int64), machine[opening])
    n_without = len(grid.cpu) - len(place)
    workload = MixedWorkload(
        services, batch, INTERVAL_S, f"{description}: {len(services)} services ({n_without} left out), {len(batch)} "
        f"instances ({n_left_out} left out), {len(number)} machines", n_machines=len(number))
    return workload, RecordedRuns(request.astype(np.int64), machine, start_ms, end_ms, mean)


def _amounts(runs: pd.DataFrame, which: str) -> np.ndarray:
    """Milli-cores and MiB of each run, int64 (n, 2)."""
    amounts = runs[[f"cpu_{which}", f"mem_{which}"]].to_numpy(np.float64) * [1000, 1024 * MEM_PER_SHARE_GIB]
    return np.rint(amounts).astype(np.int64)


def class_needs(workload: MixedWorkload, *, n_classes: int, observed_s: int, rule: str, seed: int = 0,
                classes: DailyClasses | None = None) -> np.ndarray:
    """Needs for `replay_mixed`, float64 (n_services, n_intervals, 2): what `usage_needs` predicts for an interval and
    the next one from what was seen before it; NaN = not identified.

    rule: `class` is the paper's, `combined` the own maximum and the class's surplus. classes: as of `usage_needs`, for
    `service_grid` of the workload.
    """
    services = workload.services
    found = usage_needs(service_grid(workload), n_classes=n_classes, observed_s=observed_s,
                        ahead_s=2 * workload.interval_s, rule=rule, seed=seed, classes=classes)
    if found.mem is None:
        raise ValueError("usage_needs must give memory for a grid with memory, got none")
    needs = np.stack([found.cpu, found.mem], axis=2).astype(np.float64) * services.reserved[:, None, :]
    return np.asarray(needs[:, :services.n_intervals])


def service_grid(workload: MixedWorkload) -> UsageGrid:
    """What the services use, as shares of what they reserve, while they are there."""
    services = workload.services
    reserved = services.reserved.astype(np.float64)
    share = services.used / np.maximum(reserved, 1.0)[:, None, :]
    interval = np.arange(services.n_intervals)
    is_there = (interval >= services.first[:, None]) & (interval < services.last[:, None])
    share[~is_there] = np.nan
    cpu, mem = (share[..., d].astype(np.float32) for d in range(2))
    return UsageGrid(np.arange(len(services)), cpu, mem, reserved[:, 0] / 1000, reserved[:, 1] / 1024, 0,
                     workload.interval_s, DayClock())


def fixed_pool(workload: MixedWorkload, evictor: Evictor | None = None) -> int:
    """Machines of the default type for a pool that does not grow, where a trace does not say.

    Enough for all services by first fit of their reservations, and to keep 99 % of the intervals below the eviction
    threshold with what services use and batch requests ask for.
    """
    chosen = Evictor() if evictor is None else evictor
    capacity = type_capacities((DEFAULT_TYPE,), ("cpu_cores", "mem_gib"))[0]
    free: list[np.ndarray] = []
    for need in workload.services.reserved:
        host = next((left for left in free if (need <= left).all()), None)
        if host is None:
            host = capacity.copy()
            free.append(host)
        host -= need
    batch = workload.batch
    edges = np.arange(workload.services.n_intervals + 1) * workload.interval_s * 1000
    asked = np.zeros((workload.services.n_intervals, 2))
    for time, sign in ((batch.arrival_ms, 1), (batch.arrival_ms + batch.duration_ms, -1)):
        at = np.searchsorted(edges, time, side="right") - 1
        is_in = at < len(asked)
        np.add.at(asked, at[is_in], sign * batch.requested[is_in])
    load = np.cumsum(asked, axis=0) + workload.services.used.sum(axis=0)
    overall = (load / capacity) @ np.array(chosen.weights)
    return max(len(free), math.ceil(np.quantile(overall, 0.99) / chosen.threshold), 1)


@dataclass(frozen=True, slots=True)
class UsageNeeds:
    """Predicted needs by 15-minute intervals, shares of each service's reservation.

    request_ids: (n,). start_s: begin of the first interval on the trace's clock, a local midnight. cpu, mem: float32
    (n, n_intervals), the most that the service is expected to use from the interval's begin on, for as long as
    `ahead_s` says; NaN = not identified yet (or no sample ever): the whole reservation counts. mem: None where the grid
    has none. class_ids: int64 (n, n_intervals), class of its CPU, -1 = none; an id means the same class every day.
    """

    request_ids: np.ndarray
    start_s: int
    interval_s: int
    cpu: np.ndarray
    mem: np.ndarray | None
    class_ids: np.ndarray


@dataclass(frozen=True, slots=True)
class DailyClasses:
    """Classes of CPU and memory by day, each learnt at its midnight from what was seen before it; None = none yet.
    mem: empty where the grid has none."""

    cpu: tuple[ClassModel | None, ...]
    mem: tuple[ClassModel | None, ...]


def daily_classes(grid: UsageGrid, *, n_classes: int = N_CLASSES, seed: int = 0) -> DailyClasses:
    """The classes of `usage_needs`, for several calls of it: learning them takes nearly all of its time."""
    mem = () if grid.mem is None else tuple(_daily(slot_maxima(grid, "mem"), n_classes, seed))
    return DailyClasses(tuple(_daily(slot_maxima(grid, "cpu"), n_classes, seed)), mem)


def usage_needs(grid: UsageGrid, *, n_classes: int = N_CLASSES, observed_s: int = OBSERVED_S,
                ahead_s: int = NEEDS_INTERVAL_S, rule: str = "combined", seed: int = 0,
                classes: DailyClasses | None = None) -> UsageNeeds:
    """Needs of each service at each 15-minute interval; nothing of the interval itself or later is used.

    observed_s: how long a service is observed before it gets a class, at least 3 hours (CTCL: 12 h or 24 h), counted as
    `sojourn.serving.usage.observed_s` does for a served request.
    ahead_s: how far each prediction looks, up to a day. rule: `combined` = own maximum and its class's
    surplus, `class` = the class's centre scaled by the own maximum (the paper's), `own` = own maximum alone.
    Classes are learnt again at each local midnight, from what was seen until then, with the same ids; a service takes
    its class when it has been observed for so long, and again at each midnight. Before the first full day there are no
    classes.

    classes: of `daily_classes` for the same grid, in place of n_classes and seed.

    The grid's clock decides local days; on days with a change of daylight saving, an interval's index is its slot of
    the local day.
    """
    if rule not in RULES:
        raise ValueError(f"rule must be one of {', '.join(RULES)}, got {rule!r}")
    if observed_s < SEEN_S[0]:
        raise ValueError(f"observed_s must be at least {SEEN_S[0]}, got {observed_s!r}")
    if not NEEDS_INTERVAL_S <= ahead_s <= DAY_S:
        raise ValueError(f"ahead_s must be from {NEEDS_INTERVAL_S} to {DAY_S}, got {ahead_s!r}")
    learnt = daily_classes(grid, n_classes=n_classes, seed=seed) if classes is None else classes
    n_ahead = -(-ahead_s // NEEDS_INTERVAL_S)
    cpu, class_ids = _needs(slot_maxima(grid, "cpu"), learnt.cpu, observed_s, n_ahead, rule)
    mem = None
    if grid.mem is not None:
        mem, _ = _needs(slot_maxima(grid, "mem"), learnt.mem, observed_s, n_ahead, rule)
    first_s = np.array([grid.start_s], np.int64)
    midnight_s = grid.start_s - int(grid.clock.local_s(first_s)[0] % DAY_S)
    return UsageNeeds(np.asarray(grid.request_ids), midnight_s, NEEDS_INTERVAL_S, cpu, mem, class_ids)


def _needs(seen: SlotMaxima, models: Sequence[ClassModel | None], observed_s: int, n_ahead: int,
           rule: str) -> tuple[np.ndarray, np.ndarray]:
    """Needs float32 and class ids int64 (n, n_columns)."""
    n, n_columns = seen.highest.shape
    is_seen = ~np.isnan(seen.highest)
    first = np.where(is_seen.any(axis=1), is_seen.argmax(axis=1), n_columns)
    last = np.full(n, -1)  # the last column with a sample before the one that the loop is at
    is_hour_seen = np.zeros((n, N_HOURS), bool)
    profiles = np.full((n, N_SLOTS), np.nan)  # of what was seen before the column that the loop is at
    own = np.full(n, np.nan)
    needs = np.full((n, n_columns), np.nan, np.float32)
    class_ids = np.full((n, n_columns), -1, np.int64)
    for day, model in enumerate(models):
        at = np.full(n, -1, np.int64)
        for slot in range(N_SLOTS):
            now = day * N_SLOTS + slot
            slots = np.arange(now, now + n_ahead) % N_SLOTS
            seen_s = np.where(last < 0, 0, observation_s(first, last, is_hour_seen.sum(axis=1)))
            is_identified = seen_s >= observed_s
            if model is not None:
                due = np.flatnonzero(is_identified if slot == 0 else is_identified & (at < 0))
                at[due] = model.classes.nearest(profiles[due])
                rows = np.flatnonzero(at >= 0)
                class_ids[rows, now] = model.classes.ids[at[rows]]
                if rule == "combined":
                    needs[rows, now] = model.classes.needs(at[rows], own[rows], seen_s[rows], slot, slots).max(axis=1)
                elif rule == "class":
                    needs[rows, now] = _scaled(model.classes.centres[at[rows]], profiles[rows], own[rows], slots)
            if rule == "own":
                needs[is_identified, now] = own[is_identified]
            profiles[:, slot] = np.fmax(profiles[:, slot], seen.highest[:, now])
            own = np.fmax(own, seen.highest[:, now])
            last[is_seen[:, now]] = now
            is_hour_seen[:, slot * N_HOURS // N_SLOTS] |= is_seen[:, now]
    return needs, class_ids


def _daily(seen: SlotMaxima, n_classes: int, seed: int) -> Iterator[ClassModel | None]:
    """The classes of each day, of what was seen before it."""
    model: ClassModel | None = None
    for day in range(seen.n_days):
        if day:
            model = fit_classes(seen.before(day * N_SLOTS), n_classes=n_classes, seed=seed, before=model) or model
        yield model


def _scaled(centres: np.ndarray, profiles: np.ndarray, own: np.ndarray, slots: np.ndarray) -> np.ndarray:
    """The centres' highest use in the slots, scaled so that their highest in the slots seen is the own maximum."""
    largest = np.where(np.isnan(profiles), 0.0, centres).max(axis=1)
    scaled = centres[:, slots].max(axis=1) * own / np.maximum(largest, _SMALLEST)
    return np.minimum(scaled, np.maximum(own, 1.0))
