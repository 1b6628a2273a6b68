"""What each stage of a run reads of its configuration: `RetrainConfig` makes these, a property each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sojourn.flows.trace_source import TraceSource


@dataclass(frozen=True, slots=True)
class IngestSettings:
    """Of `ingest`. store: folder in which the trace is kept. source: where the trace comes from."""

    store: Path
    source: TraceSource


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """Of `train`.

    families: keys of LIFETIME_MODELS. test_share, valid_share: of the requests, by the time of their decision: the
    last ones judge, those before them choose. long_lived_s: what counts as long-lived, s; None = chosen from the
    training window. n_threads: of LightGBM. seed: of the fits. since: where the training window begins, see
    `flows.since`; None = at the trace's start. is_refreshed: whether a second model predicts running requests anew.
    """

    families: tuple[str, ...]
    test_share: float
    valid_share: float
    long_lived_s: int | None
    n_threads: int
    seed: int
    since: str | None = None
    is_refreshed: bool = True


@dataclass(frozen=True, slots=True)
class PlacementSettings:
    """Of the simulation on the later part of a trace.

    recipe: a key of WORKLOADS; one that does not draw is replaced by `trace`. host_cpu_cores, host_mem_gib: of each
    host, for `trace`; None = chosen from the trace. load: peak of the binding resource over capacity, above 0 to 1.
    seed: of the workload. n_replicas: slightly moved copies that every policy is replayed on. max_replicas: up to so
    many for the cells that the gates compare.
    """

    recipe: str
    host_cpu_cores: float | None
    host_mem_gib: float | None
    load: float
    seed: int
    n_replicas: int
    max_replicas: int


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """Of `judge`. placement: None = nothing is simulated. seed: of the draws of owners. n_threads: replays at once."""

    placement: PlacementSettings | None
    seed: int = 0
    n_threads: int = 1


@dataclass(frozen=True, slots=True)
class GateSettings:
    """Of the gates of promotion.

    max_bundle_mb: the largest forest, MB. max_curve_ratio: the longest time to build a curve, as a share of LightGBM's
    own `predict` of the same answers. confirmed_columns: known at creation, whatever rests on them. seed: of the
    draws of rows and owners.
    """

    max_bundle_mb: float
    max_curve_ratio: float
    confirmed_columns: tuple[str, ...]
    seed: int


@dataclass(frozen=True, slots=True)
class PromoteSettings:
    """Of `promote`, and of whatever reads registered versions. store: folder of bundles. name: the registered model."""

    store: Path
    name: str


@dataclass(frozen=True, slots=True)
class RetentionSettings:
    """Of a cleaning. keep_runs: of each model and kind of run so many of the newest stay whole. keep_days: so do those
    that ended within so many days. keep_caches: of each kind of cache so many of the newest entries stay.
    keep_parts_days: what was read of a growing source stays if it was last read within so many days."""

    keep_runs: int
    keep_days: float
    keep_caches: int
    keep_parts_days: float


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Of a run's log. params: all settings, as the run's parameters. test_share: of the requests. seed, n_threads: of
    the SHAP values."""

    store: Path
    source: TraceSource
    params: Mapping[str, Any]
    test_share: float
    seed: int
    n_threads: int
