"""Settings of a retraining run, with defaults, and the groups of them that its stages take."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator, model_validator

from sojourn.flows.settings.store import MOST_SEED, MOST_WORKERS, Group, load_settings, one_of
from sojourn.flows.settings.trace import ColumnOptions, LaterFile, SharedSettings, Since, TraceSource, has_option

MODEL_NAME = "sojourn-lifetime"


class SeedSettings(Group):
    """What all that draws shares."""

    seed: int = Field(0, ge=0, le=MOST_SEED)
    """Seed of all random numbers."""


class WorkerSettings(Group):
    """What replays in processes."""

    n_workers: int = Field(default_factory=lambda: os.cpu_count() or 1, ge=1, le=MOST_WORKERS)
    """Processes; a Dask cluster brings its own. Default: cores."""


class RunSettings(SeedSettings):
    """What all stages that draw or compute share."""

    n_threads: int = Field(2, ge=1, le=MOST_WORKERS)
    """Threads, and replays at once; the result does not depend on it."""


class LaterPartSettings(Group):
    """Which requests judge."""

    test_share: float = Field(0.3, gt=0.0, lt=1.0)
    """Of the requests, by the time of their decision: the last ones judge."""


class WindowSettings(LaterPartSettings):
    """Which requests train, choose and judge."""

    since: str | None = None
    """Train on requests from then on: `90d` or `12h` before the trace's end, or an ISO date; default: on all."""
    valid_share: float = Field(0.15, gt=0.0, lt=1.0)
    """Of the requests: those before them choose the family."""

    @field_validator("since")
    @classmethod
    def _possible_since(cls, value: str | None) -> str | None:
        if value is not None:
            Since.parse(value)
        return value


def _trained() -> tuple[str, ...]:
    from sojourn.models.lifetime import TRAINED  # only a run's settings load the families: `pull` needs none of them

    return TRAINED


class TrainSettings(WindowSettings, RunSettings):
    """Of `train`."""

    families: tuple[str, ...] = Field(default_factory=_trained)
    """Lifetime families to train (`sojourn lab evaluate --help` lists them); those that are always trained are among
    them."""
    long_lived_s: int | None = Field(None, ge=60, le=3_200_000_000)
    """What counts as long-lived, seconds; default: chosen from the training window."""
    refresh: bool = True
    """Learn a second model, which predicts running requests anew; the bundle has it if it gains."""

    @field_validator("families")
    @classmethod
    def _known_families(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        from sojourn.models.lifetime import ALWAYS_TRAINED, LIFETIME_MODELS

        strangers = [name for name in value if name not in LIFETIME_MODELS]
        if strangers:
            raise ValueError(f"families must be among {', '.join(LIFETIME_MODELS)}, got {strangers[0]!r}")
        return tuple(name for name in LIFETIME_MODELS if name in value or name in ALWAYS_TRAINED)


class HostSettings(Group):
    """The simulated workload and its hosts."""

    recipe: str | None = None
    """Recipe: {recipes}; default: the reader's own, else trace."""
    host_cpu_cores: float | None = Field(None, gt=0.0, le=1e9)
    """Cores of a simulated host, with `host_mem_gib`; default: chosen from the trace."""
    host_mem_gib: float | None = Field(None, gt=0.0, le=1e9)
    """Memory of a simulated host, GiB, with `host_cpu_cores`; default: chosen from the trace."""

    @field_validator("recipe")
    @classmethod
    def _known_recipe(cls, value: str | None) -> str | None:
        if value is None:
            return None
        from sojourn.simulator import WORKLOADS

        return one_of("recipe", value, WORKLOADS)

    @model_validator(mode="after")
    def _whole_shape(self) -> HostSettings:
        if (self.host_cpu_cores is None) != (self.host_mem_gib is None):
            raise ValueError("host_cpu_cores and host_mem_gib must be given together, got "
                             f"{self.host_cpu_cores!r} and {self.host_mem_gib!r}")
        return self

    @property
    def shape(self) -> dict[str, float]:
        """Options of the recipe `trace`: the given shape of hosts, or one that fits the trace.

        >>> HostSettings(host_cpu_cores=64.0, host_mem_gib=256.0).shape, HostSettings().shape
        ({'cpu_cores': 64.0, 'mem_gib': 256.0}, {'is_fitted': True})
        """
        if self.host_cpu_cores is None or self.host_mem_gib is None:
            return {"is_fitted": True}
        return {"cpu_cores": self.host_cpu_cores, "mem_gib": self.host_mem_gib}


class PlacementSettings(HostSettings, RunSettings):
    """Of the simulation on the later part of a trace."""

    load: float = Field(0.8, gt=0.0, le=1.0)
    """Whole-trace peak of the binding resource over capacity; fixes the number of hosts."""
    simulate: bool = True
    """Replay placements; without that, no version becomes champion."""
    n_replicas: int = Field(5, ge=1, le=10_000)
    """Slightly moved copies of the workload that every policy is replayed on."""
    max_replicas: int = Field(20, ge=1, le=10_000)
    """Gate: what is judged is replayed on more copies, up to this many in all, where too few can tell."""


class GateSettings(RunSettings):
    """Of the gates of promotion."""

    max_bundle_mb: float = Field(5.0, gt=0.0)
    """Gate: the bundle's forest may not be larger, MB."""
    confirmed_columns: tuple[str, ...] = ()
    """Columns that are known at creation, even if the model relies on them heavily."""
    max_curve_ratio: float = Field(1.0, gt=0.0)
    """Gate: the time to build one request's curve, as a share of LightGBM's own `predict` of the same answers."""


class RetrainConfig(GateSettings, PlacementSettings, TrainSettings, SharedSettings):
    """One retraining run."""

    test: Path | None = None
    """A later file that judges: all of `trace` trains and chooses; default: the last `test_share` of `trace` judges."""
    test_reader: str | None = None
    """The later file's reader; default: the trace's, with the same column map."""
    test_offset_s: int | None = None
    """When the later file begins on the trace's clock, seconds; not needed if both have dates."""
    allow_overlap: bool = False
    """Take a later file of which more than 5 % of the requests began before the trace's end."""
    allow_shrunk: bool = False
    """Take a source that grows even if it holds less than when it was last read."""
    again: bool = False
    """Train even if a finished run of the same trace, code and settings stands."""
    n_requests: int = Field(100_000, ge=1_000, le=100_000_000)
    """Requests of the synthetic trace."""
    max_requests: int = Field(1_000_000, ge=10_000)
    """Of a trace that is kept in parts, at most this many requests are trained and judged on: all requests of some
    owners."""
    n_draws: int = Field(200, ge=0, le=100_000)
    """Draws of owners for a study's intervals; 0 = none."""
    clean: bool = False
    """Whether a run that ended well cleans the store; see `keep_runs`."""
    log_system: bool = False
    """Whether MLflow logs what the machine does while the run lasts (CPU, memory, disk, network), each 10 s."""
    model_name: str | None = None
    """Registered model; default: sojourn-lifetime, and sojourn-lifetime-FILE for a trace file."""

    @model_validator(mode="after")
    def _possible_test(self) -> RetrainConfig:
        if self.test is None:
            given = [name for name in ("test_reader", "test_offset_s", "allow_overlap") if getattr(self, name)]
            if given:
                raise ValueError(f"{given[0]} must be given with test, got {getattr(self, given[0])!r} without one")
            return self
        if self.trace is None:
            raise ValueError(f"test must be given with a trace file, got {str(self.test)!r} for the synthetic trace")
        from sojourn.features.readers import READERS as known

        for name, reader in (("reader", self.reader), ("test_reader", self.test_reader or self.reader)):
            if reader not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, got {reader!r}")
            if known[reader].is_queried:
                raise ValueError(f"{name} must be one of files with test, got {reader!r}: write its trace once with "
                                 "`sojourn trace convert`, and give that with --reader parquet")
        return self

    @property
    def registered_name(self) -> str:
        """The registered model's name."""
        if self.model_name:
            return self.model_name
        if self.trace is None:
            return MODEL_NAME
        slug = re.sub(r"[^a-z0-9]+", "-", self.trace.name.lower()).strip("-")
        return f"{MODEL_NAME}-{slug}"

    @property
    def source(self) -> TraceSource:
        """Where the trace comes from."""
        return TraceSource(self.trace, self.reader, self.horizon_s, self.n_requests, self.seed, self.allow_shrunk,
                           self.columns, self.later_file)

    @property
    def later_file(self) -> LaterFile | None:
        """The file that judges, read as the trace is where nothing else is said."""
        if self.test is None:
            return None
        reader, columns = self.test_reader or self.reader, ColumnOptions()
        if reader == self.reader:
            columns = self.columns
            if self.trace is not None and has_option(reader, "columns") and not columns.files(self.test):
                columns = replace(columns, file=next(iter(columns.files(self.trace)), None))
        return LaterFile(self.test, reader, self.test_offset_s, self.allow_overlap, columns)

    @property
    def chosen_recipe(self) -> str:
        """The recipe of the simulated workload: the reader's own if none is set."""
        return self.recipe or self.own_recipe

    def resolved(self) -> dict[str, Any]:
        """All settings as JSON values, for the run's log."""
        return {**self.model_dump(mode="json"), "model_name": self.registered_name}


def load_config(file: Path | None = None, **flags: Any) -> RetrainConfig:
    """The configuration of a run from a TOML file, the environment and flags (None = not given)."""
    return load_settings(RetrainConfig, file, **flags)
