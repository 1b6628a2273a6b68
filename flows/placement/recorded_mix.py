"""A mix as a trace recorded it: services and instances with their machines, and the runs of each instance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from sojourn.features.trace import Trace
from sojourn.features.usage import UsageGrid
from sojourn.flows.placement.made_mix import INTERVAL_S
from sojourn.flows.placement.real_mix import MEM_PER_SHARE_GIB, longest_before, services_of
from sojourn.simulator.elastic import BatchRequests, MixedWorkload, RecordedRuns

_UNKNOWN_S = 3600.0
"""Longest time of a task whose name has not ended before."""


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
