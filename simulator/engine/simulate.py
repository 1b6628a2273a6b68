"""Replay a workload under a policy: validate, prepare arrays, run the compiled loop, measure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from sojourn.simulator.engine.metrics import Metrics, fewest_hosts, integral_at, reason_names
from sojourn.simulator.engine.upkeep import Migration, Upkeep
from sojourn.simulator.engine.world import Prepared, bin_edges, prepared
from sojourn.simulator.loop import ALLOCATED, COUNTS, EMPTY_HOSTS, Timeline
from sojourn.simulator.policies import KNOWN_POLICIES, Policy
from sojourn.simulator.predictions import LifetimeSource
from sojourn.simulator.rectification import Rectify
from sojourn.simulator.workloads import UNITS_PER, Workload, shares

_COUNTED = ("n_planned", "n_begun", "n_re_placed", "n_lost", "migrated", "voided", "n_rescores")


@dataclass(frozen=True, slots=True)
class Samples:
    """All hosts at k times, evenly from 0 to the horizon, warm-up included; int64.

    time_s (k,); a sample follows all events of its second. free (k, n_hosts, n_resources), in the
    workload's units and order; n_running (k, n_hosts), requests that hold room. last_end_s
    (k, n_hosts): when the last of a host's requests really leaves, seconds; 0 if it has none.
    n_long, long_cpu (k, n_hosts): requests that really stay longer than `long_lived(workload)` from
    then on, and their cores. n_owned, n_exposed (k, n_hosts): requests with an owner, and those whose
    owner has more than 2 requests on the host. state (k, n_hosts): the array that the policy's hooks
    name, with state_names for its values; None if they name none.
    """

    time_s: np.ndarray
    free: np.ndarray
    n_running: np.ndarray
    last_end_s: np.ndarray
    n_long: np.ndarray
    long_cpu: np.ndarray
    n_owned: np.ndarray
    n_exposed: np.ndarray
    state: np.ndarray | None = None
    state_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """One replay.

    policy: its name.
    host: int64 (n_requests,), row of its first host in the workload's hosts, or -1 if it was rejected.
    metrics: see Metrics; without the warm-up.
    bound_empty_hosts_pct: empty hosts if at each time the fewest hosts that total demand needs were
        in use; no policy that places every request can have more.
    series: bins of equal length from 0 to the horizon, warm-up included: `time_s` (start of the bin),
        `empty_hosts_pct` and `bound_empty_hosts_pct` (means over the bin).
    samples: the hosts at some times.
    is_disturbed: whether a request waited, migrated or was on a host that failed, warm-up included;
        then some requests were also on other hosts than `host`.
    migrations: one row each, the first planned first: all that a rectifier planned, and those of
        upkeep that began; None without either. `planner`: the rectifier's name, "defragmentation",
        "maintenance" or "drain"; `planned_s`; `group`, the number of those that leave a host together;
        `request_id`, `from_host`, `to_host`, ids; `n_together`; `remaining_s`, predicted. Of the group
        when it was planned: `chance` and `chance_without` that the host is empty a day later,
        `likely_s` and `expected_h` (see `rectification.Worth`). `begun_s`, NaN if it never began.
        `empty_s`, when the host was first empty, NaN if not within the day. `freed_h`: host-hours
        within the day that the group freed: time in which the host was empty and one of them still
        ran, less the time in which a target held nothing else. A failed or drained host is not empty.
        Migrations of upkeep have `group` -1, and NaN in all columns that only a rectifier fills.
    rectifier: its name; None without one.
    elapsed_s: time of the loop alone; compile_s: time to compile it or to load it from the cache.
    """

    policy: str
    host: np.ndarray
    metrics: Metrics
    bound_empty_hosts_pct: float
    series: pd.DataFrame
    samples: Samples
    is_disturbed: bool
    elapsed_s: float
    compile_s: float
    migrations: pd.DataFrame | None = None
    rectifier: str | None = None

    @property
    def events_per_s(self) -> float:
        """Arrivals and departures per second of the loop."""
        return self.metrics.n_events / max(self.elapsed_s, 1e-9)

    @property
    def decision_us(self) -> float:
        """Microseconds of the loop per request of the workload, departures and metrics included."""
        return 1e6 * self.elapsed_s / len(self.host)


def simulate(
    workload: Workload,
    policy: str | Policy = "best-fit",
    source: LifetimeSource | None = None,
    *,
    is_ranked: bool | None = None,
    upkeep: Sequence[Upkeep] = (),
    migration: Migration | None = None,
    rectify: Rectify | None = None,
    is_checked: bool = False,
) -> Result:
    """The outcome of replaying `workload` under `policy` with the predictions of `source`.

    policy: a name in POLICIES, or a `Policy`.
    source: policies that use predictions need one; it is not called for the others.
    is_ranked: False scans all hosts in order of index. None keeps the hosts sorted by packing score if
        the policy ends in it and the hosts have one shape. The decisions are the same.
    upkeep: failures, drains, maintenance and defragmentation. migration: how requests migrate.
    rectify: migrations that free hosts each day, under any policy; they use the source.
    is_checked: check every invariant after every event; slow.

    Refused with ValueError: an unknown policy; a missing source, or one that raises or has no valid
    curve for a request; a policy that raises or scores below 0 or NaN (the message names policy,
    request and time).

    >>> import sojourn.simulator as sim
    >>> table = pd.DataFrame({"request_id": [1, 2, 3], "arrival_s": [0, 0, 50], "departure_s": [40, 100, 90],
    ...                       "cpu_cores": [6.0, 2.0, 4.0], "mem_gib": [8.0, 8.0, 8.0]})
    >>> workload = sim.build_workload("trace", sim.Trace(table, 100), cpu_cores=8, mem_gib=32, n_hosts=2)
    >>> result = simulate(workload, "best-fit")
    >>> result.host.tolist(), result.metrics.empty_hosts_pct
    ([0, 0, 0], 50.0)
    """
    replay = prepared(workload, named_policy(policy), source, is_ranked=is_ranked, upkeep=upkeep,
                      migration=migration or Migration(), is_checked=is_checked, stop_row=-1, rectify=rectify)
    elapsed_s = replay.run()
    replay.pieces.note(replay.world.requests)
    timeline = replay.timeline
    n_empty_bound = _most_empty(workload, timeline.mark_s)
    return Result(
        replay.policy.name,
        replay.pieces.host,
        _metrics(replay),
        _mean_pct(n_empty_bound, timeline.mark_s, workload),
        _series(workload, timeline, n_empty_bound),
        _samples(replay),
        _is_disturbed(replay),
        elapsed_s,
        replay.loop.compile_s,
        _migrations(replay),
        None if rectify is None else rectify.planner,
    )


def named_policy(policy: str | Policy) -> Policy:
    """The policy of that name, or the policy itself; ValueError lists the known names.

    >>> named_policy("worst")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: policy must be one of aligned-fit, best-fit, ..., got 'worst'
    """
    if isinstance(policy, Policy):
        return policy
    if policy not in KNOWN_POLICIES:
        raise ValueError(f"policy must be one of {', '.join(sorted(KNOWN_POLICIES))}, got {policy!r}")
    return KNOWN_POLICIES[policy]


def _migrations(replay: Prepared) -> pd.DataFrame | None:
    if replay.record is None:
        return None
    replay.record.take_over(replay.world)
    held = replay.world.requests if replay.rectify is None else replay.pieces.held(replay.world)
    return replay.record.table(replay.workload, held)


def _samples(replay: Prepared) -> Samples:
    timeline, hooks = replay.timeline, replay.policy.hooks
    is_sampled = hooks is not None and bool(hooks.sampled)
    return Samples(timeline.mark_s[timeline.sample >= 0], timeline.free, timeline.n_running, timeline.last_end_s,
                   timeline.n_long, timeline.long_cpu, timeline.n_owned, timeline.n_exposed,
                   timeline.state if is_sampled else None,
                   hooks.sampled_names if hooks is not None else ())


def _most_empty(workload: Workload, mark_s: np.ndarray) -> np.ndarray:
    """Host-seconds from 0 to each mark that demand does not need: all of them before it begins."""
    needed = integral_at(workload.demand.time_s, fewest_hosts(workload.demand, workload.capacity), mark_s)
    return len(workload.capacity) * mark_s - needed


def _after_warmup(integral: np.ndarray, mark_s: np.ndarray, workload: Workload) -> np.ndarray:
    """Integrals from the end of the warm-up to the horizon."""
    return np.asarray(integral[-1] - integral[np.searchsorted(mark_s, workload.warmup_s)])


def _mean_pct(n_empty: np.ndarray, mark_s: np.ndarray, workload: Workload) -> float:
    span = workload.trace.horizon_s - workload.warmup_s
    return float(100 * _after_warmup(n_empty, mark_s, workload) / (span * len(workload.capacity)))


def _metrics(replay: Prepared) -> Metrics:
    workload, timeline = replay.workload, replay.timeline
    pieces, counts = replay.pieces, _counts_after_warmup(replay)
    n_resources = workload.capacity.shape[1]
    span = workload.trace.horizon_s - workload.warmup_s
    whole = _after_warmup(timeline.integral, timeline.mark_s, workload)
    allocated, in_use = whole[ALLOCATED:ALLOCATED + n_resources], whole[ALLOCATED + n_resources:]
    utilisation = 100 * shares(allocated, workload.capacity.sum(axis=0) * span)
    cpu = workload.resources.index("cpu_cores")
    reasons = np.concatenate(pieces.reasons)
    n_requests, n_rejected = int((workload.placed_s >= workload.warmup_s).sum()), len(reasons)
    return Metrics(
        empty_hosts_pct=_mean_pct(timeline.integral[:, EMPTY_HOSTS], timeline.mark_s, workload),
        packing_density_pct=float(100 * shares(allocated, in_use)[cpu]),
        utilisation_pct={name: float(utilisation[d]) for d, name in enumerate(workload.resources)},
        n_requests=n_requests,
        n_rejected=n_rejected,
        rejected_pct=100 * n_rejected / max(n_requests, 1),
        rejections=reason_names(reasons, workload.resources),
        mean_wait_s=pieces.wait_s / max(n_requests - n_rejected, 1),
        n_planned_migrations=counts["n_planned"],
        n_migrations=counts["n_begun"],
        migrated_gib=counts["migrated"] / UNITS_PER["mem_gib"],
        n_rescheduled=counts["n_re_placed"],
        n_lost=counts["n_lost"],
        n_updated=int(replay.world.cluster.is_updated.sum()),
        voided_core_h=counts["voided"] / UNITS_PER["cpu_cores"] / 3600,
        n_rescores=counts["n_rescores"],
        n_events=int(replay.world.counts["n_events"][0]),
    )


def _counts_after_warmup(replay: Prepared) -> dict[str, int]:
    """The loop's counts from the end of the warm-up on, that second included."""
    warmup_s, marks, counts = replay.workload.warmup_s, replay.timeline, replay.world.counts[0]
    before = marks.counts[np.searchsorted(marks.mark_s, warmup_s - 1)] if warmup_s > 0 else np.zeros(1, COUNTS)[0]
    return {name: int(counts[name] - before[name]) for name in _COUNTED}


def _is_disturbed(replay: Prepared) -> bool:
    return replay.pieces.is_disturbed or bool(replay.world.counts["n_begun"][0] > 0)


def _series(workload: Workload, timeline: Timeline, n_empty_bound: np.ndarray) -> pd.DataFrame:
    edges = bin_edges(workload.trace.horizon_s)
    k = np.searchsorted(timeline.mark_s, edges)
    room = np.diff(edges) * len(workload.capacity)
    return pd.DataFrame({
        "time_s": edges[:-1],
        "empty_hosts_pct": 100 * np.diff(timeline.integral[k, EMPTY_HOSTS]) / room,
        "bound_empty_hosts_pct": 100 * np.diff(n_empty_bound[k]) / room,
    })
