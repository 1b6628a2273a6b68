"""The later part of a trace as workloads, with a model of its earlier part, both as the flow `retrain` has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import sojourn.simulator as sim
from sojourn.features import Trace
from sojourn.features.creation import FeatureRows, backoff_keys, build_rows, default_encoder
from sojourn.features.readers import read_trace
from sojourn.features.split import Split
from sojourn.features.synthetic import synthesize
from sojourn.flows.placement.predictors import TableSource, asked_rows
from sojourn.flows.placement.workloads import later_workload
from sojourn.flows.retrain.train import fit_family, windows
from sojourn.flows.settings.retrain import RetrainConfig, load_config
from sojourn.models import FitSettings
from sojourn.models.lifetime import EventLog
from sojourn.models.measures import choose_threshold


def of_file(spec: str, **settings: Any) -> tuple[RetrainConfig, Trace]:
    """The trace of READER=PATH, and the settings of a retrain on it, besides those given."""
    reader, path = spec.split("=", 1)
    return load_config(trace=Path(path), reader=reader, **settings), read_trace(reader, Path(path))[0]


def of_name(name: str) -> tuple[RetrainConfig, Trace]:
    """The same of READER=PATH, or of the synthetic trace of 60,000 requests: synthetic:SEED."""
    if "=" in name:
        return of_file(name)
    seed = int(name.partition(":")[2] or 0)
    return load_config(n_requests=60_000, seed=seed), synthesize(60_000, seed=seed)


def learning(config: RetrainConfig, trace: Trace) -> tuple[FeatureRows, Split, FitSettings]:
    """A trace's rows, its windows, and the settings of a fit on one thread that may follow the log."""
    encoder = default_encoder(trace)
    rows = build_rows(trace, encoder)
    settings = FitSettings(backoff_keys(encoder), 1, config.seed, names=rows.names,
                           log=EventLog.of(rows, encoder.history))
    return rows, windows(rows, config.test_share, config.valid_share), settings


def later_parts(config: RetrainConfig, trace: Trace, seeds: Sequence[int],
                family: str = "hazard") -> Iterator[tuple[sim.Workload, sim.LifetimeSource]]:
    """A workload of each seed, and what the family says of it; it is fitted once."""
    encoder = default_encoder(trace)
    rows = build_rows(trace, encoder)
    split = windows(rows, config.test_share, config.valid_share)
    settings = FitSettings(backoff_keys(encoder), config.n_threads, config.seed, names=rows.names)
    model = fit_family(family, split, settings, choose_threshold(split.train)).model
    for seed in seeds:
        workload = later_workload(config.chosen_recipe, config.model_copy(update={"seed": seed}), trace,
                                  split.test_from_s)
        asked = asked_rows(workload, trace, rows)
        source = TableSource(model.curve_table(asked.rows), asked.request_ids, idx=asked.idx)
        curves = source.curves(workload.trace.requests)
        yield workload, sim.Held(workload.request_ids, curves)
