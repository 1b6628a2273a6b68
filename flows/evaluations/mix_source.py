"""Where the mix of `ctcl-table` comes from: made, or services of a trace with usage beside a table of batch tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from sojourn.features.readers import read_alibaba_2018_instances, read_trace
from sojourn.features.usage import USAGE_READERS, UsageGrid, read_usage, store_usage
from sojourn.flows.placement.made_mix import INTERVAL_S, MixParameters, made_mix
from sojourn.flows.placement.real_mix import MEM_PER_SHARE_GIB, real_mix
from sojourn.flows.placement.recorded_mix import recorded_mix
from sojourn.serving.usage import DAY_S
from sojourn.simulator.elastic import MixedWorkload, RecordedRuns

N_DAYS = 8
_OF_CONTAINERS = "alibaba-2018-containers"
_USAGE_OF = {_OF_CONTAINERS: "alibaba-2018"}
"""Reader of requests -> reader of their usage, where the names differ."""
_PER_SERVICE = 250
"""Batch requests of a made mix for each of its services."""


@dataclass(frozen=True, slots=True)
class MixSource:
    """of_seed: the mix of a seed; its services are the same for all. recorded: what the trace itself did, None = it
    does not say."""

    of_seed: Callable[[int], MixedWorkload]
    recorded: RecordedRuns | None = None


def mix_source(trace: Path | None, reader: str, batch_trace: Path | None, n_requests: int, scratch: Path) -> MixSource:
    """A made mix of n_requests batch requests where there is no trace; else the first 8 whole local days of the usage
    at `trace`, and the tasks of `batch_trace`, by default of `batch_task.csv` beside the containers of
    alibaba-2018-containers. With `batch_instance.csv` beside them as well, the mix has the trace's own machines and
    runs, and is the same for all seeds.

    scratch: folder for the usage store, which is removed.
    """
    if trace is None:
        if batch_trace is not None:
            raise ValueError(f"batch_trace must be given with a trace of services, got {str(batch_trace)!r} without")
        settings = MixParameters(n_services=max(n_requests // _PER_SERVICE, 1), n_batch=n_requests)
        base = made_mix(np.random.default_rng(0), settings)

        def made(seed: int) -> MixedWorkload:
            return replace(made_mix(np.random.default_rng([seed, 0]), settings), services=base.services)

        return MixSource(made)
    usage_reader = _USAGE_OF.get(reader, reader)
    if usage_reader not in USAGE_READERS:
        raise ValueError(f"reader must have usage for ctcl-table: "
                         f"{', '.join(sorted({*USAGE_READERS, *_USAGE_OF}))}, got {reader!r}")
    if batch_trace is None and reader != _OF_CONTAINERS:
        raise ValueError(f"batch_trace must be given with reader {reader}: give --batch-trace PATH, got none")
    folder = trace if trace.is_dir() else trace.parent
    tasks, _ = read_trace("alibaba-2018", folder if batch_trace is None else batch_trace)
    scratch.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=scratch) as place:
        grid = _first_days(trace, usage_reader, Path(place) / "usage")

    if batch_trace is None and any((folder / f"batch_instance.csv{end}").is_file() for end in ("", ".gz")):
        containers, _ = read_trace(reader, trace, usage=False)
        runs, _ = read_alibaba_2018_instances(folder)
        mix, recorded = recorded_mix(grid, containers, tasks, runs, f"{usage_reader} as recorded")
        return MixSource(lambda _: mix, recorded)
    if usage_reader == "alibaba-2018":
        grid = replace(grid, mem_gib=grid.mem_gib * MEM_PER_SHARE_GIB)

    def real(seed: int) -> MixedWorkload:
        return real_mix([grid], tasks, np.random.default_rng([seed, 0]), description=f"{usage_reader} and {tasks_name}")

    tasks_name = (batch_trace or folder).name
    return MixSource(real)


def _first_days(trace: Path, reader: str, place: Path) -> UsageGrid:
    store = store_usage(read_usage(reader, trace), place)
    local_s = int(store.clock.local_s(np.array([store.start_s]))[0])
    begin_s = store.start_s + (-local_s) % DAY_S
    end_s = begin_s + N_DAYS * DAY_S
    if store.end_s < end_s - INTERVAL_S:
        raise ValueError(f"usage must cover {N_DAYS} whole local days for ctcl-table, got {store.start_s} to "
                         f"{store.end_s} s")
    return store.grid(None, INTERVAL_S, start_s=begin_s, end_s=end_s)
