"""Settings of a comparison, with defaults; from flags, the environment, a TOML file or a preset."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator, model_validator

from sojourn.flows.compare.grid import NONE, Cell, grid_of, rectifier_name
from sojourn.flows.compare.presets import known_preset
from sojourn.flows.placement.predictors import parse_predictor
from sojourn.flows.placement.workloads import Start, TraceSpec, WorkloadSpec
from sojourn.flows.settings.retrain import HostSettings, LaterPartSettings, load_config, shape_options
from sojourn.flows.settings.store import MOST_WORKERS
from sojourn.flows.settings.trace import SharedSettings
from sojourn.simulator import KNOWN_POLICIES, POLICIES, WORKLOADS
from sojourn.simulator.engine import named_policy

_OF_PRESET = ("policies", "predictors", "rectifiers", "loads", "seeds", "starts")
_MOST_SEEDS = 10_000


class CompareConfig(HostSettings, LaterPartSettings, SharedSettings):
    """One comparison: policies x predictors x rectifiers x loads x seeds on one trace."""

    preset: str | None = None
    """A named comparison (`sojourn compare --help` lists them); other settings replace its own."""
    n_requests: int = Field(60_000, ge=1_000, le=100_000_000)
    """Requests of the synthetic trace."""
    policies: tuple[str, ...] = tuple(POLICIES)
    """Placement policies; best-fit is always among them."""
    predictors: tuple[str, ...] = ("oracle",)
    """As `--predictor` of `sojourn compare` takes them. One that is learnt leaves only the warm start."""
    rectifiers: tuple[str, ...] = ()
    """Moves a day that free hosts, as `--rectify` of `sojourn compare` takes them; none is always among them."""
    loads: tuple[float, ...] = (0.8,)
    """Whole-trace peaks of the binding resource over capacity."""
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    """Of the pairs of replays; all different."""
    n_seeds: int | None = Field(None, ge=1, le=_MOST_SEEDS)
    """So many seeds, from 0 on, in place of `seeds`."""
    starts: tuple[Start, ...] = ()
    """`cold`: the whole trace by its recipe, with its warm-up; `warm`: the later part, with what was running. Default:
    warm where a predictor is learnt, else cold."""
    n_workers: int = Field(default_factory=lambda: os.cpu_count() or 1, ge=1, le=MOST_WORKERS)
    """Processes; `dask` brings its own."""
    price_per_host_hour: float | None = Field(None, gt=0.0, allow_inf_nan=False)
    """Of one host, in any currency: gains are also said in money."""
    page: Path | None = None
    """HTML page to write; the tables stand beside it as CSV."""

    @model_validator(mode="before")
    @classmethod
    def _of_preset(cls, given: dict[str, Any]) -> dict[str, Any]:
        given = cls._counted(given)
        if given.get("preset") is None:
            return given
        chosen = known_preset(given["preset"])
        preset = {key: getattr(chosen, key) for key in _OF_PRESET}
        preset["policies"] = tuple(policy for policy in chosen.policies if policy in KNOWN_POLICIES)
        return {**preset, **given}

    @classmethod
    def _counted(cls, given: dict[str, Any]) -> dict[str, Any]:
        """With the seeds that `n_seeds` counts."""
        n_seeds = str(given.get("n_seeds", ""))
        if n_seeds and "seeds" in given:
            raise ValueError(f"n_seeds must not be given with seeds, got {n_seeds} and {given['seeds']}")
        if n_seeds.isdecimal() and 1 <= int(n_seeds) <= _MOST_SEEDS:  # else the field's own rule says what it may be
            given = {**given, "seeds": tuple(range(int(n_seeds)))}
        return given

    @field_validator("recipe")
    @classmethod
    def _known_recipe(cls, value: str | None) -> str | None:
        if value is not None and value not in WORKLOADS:
            raise ValueError(f"recipe must be one of {', '.join(WORKLOADS)}, got {value!r}")
        return value

    @field_validator("policies")
    @classmethod
    def _known_policies(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(named_policy(name).name for name in dict.fromkeys(value))

    @field_validator("predictors")
    @classmethod
    def _known_predictors(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(parse_predictor(text).name for text in value))

    @field_validator("rectifiers")
    @classmethod
    def _known_rectifiers(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name for name in dict.fromkeys(map(rectifier_name, value)) if name != NONE)

    @field_validator("loads")
    @classmethod
    def _possible_loads(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        bad = [load for load in value if not 0.0 < load <= 1.0 or math.isnan(load)]
        if bad or not value:
            raise ValueError(f"load must be above 0 and at most 1, got {bad[0] if bad else 'none'!r}")
        return tuple(dict.fromkeys(value))

    @field_validator("seeds")
    @classmethod
    def _different_seeds(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if not value or len(set(value)) < len(value) or min(value) < 0:
            raise ValueError(f"seeds must be different ones, 0 or more, got {', '.join(map(str, value)) or 'none'}")
        return value

    @property
    def chosen_recipe(self) -> str:
        """The recipe that is meant: `trace` where a shape of hosts is given, since other recipes have their own."""
        return self.recipe or ("trace" if self.host_cpu_cores is not None else self.own_recipe)

    def trace_specs(self) -> dict[int, TraceSpec]:
        """The trace of each seed; a file's is the same for all, and read once for the hash of its content.

        Its paths are absolute: a worker may stand in another folder.
        """
        from sojourn.flows.retrain.ingest import input_hash

        configs = {seed: load_config(
            store=self.store.absolute(), trace=self.trace and self.trace.absolute(), reader=self.reader,
            horizon_s=self.horizon_s, column_map=self.column_map or None,
            map_file=self.map_file and self.map_file.absolute(), trace_timezone=self.trace_timezone,
            n_requests=self.n_requests, test_share=self.test_share,
            seed=seed if self.trace is None else 0) for seed in self.seeds}
        hashes = {source: input_hash(source) for source in dict.fromkeys(one.source for one in configs.values())}
        return {seed: TraceSpec(one.source, hashes[one.source], one.store, one.test_share, one.valid_share)
                for seed, one in configs.items()}

    def cells(self) -> list[Cell]:
        """The grid; reads the trace's files once, for the hash that stands for their content."""
        is_asked = bool(self.rectifiers) or any(KNOWN_POLICIES[name].predictions != "none" for name in self.policies)
        predictors = [parse_predictor(text) for text in self.predictors if is_asked]
        learnt = next((predictor.name for predictor in predictors if predictor.is_learnt), None)
        starts = tuple(dict.fromkeys(self.starts)) or ("cold" if learnt is None else "warm",)
        if learnt is not None and "cold" in starts:
            raise ValueError(f"start must be warm with predictor {learnt}, which is learnt from the earlier part of "
                             "the trace and judged on the later, got 'cold'")
        shape = shape_options(self.host_cpu_cores, self.host_mem_gib)
        if self.host_cpu_cores is not None and self.chosen_recipe != "trace":
            raise ValueError(f"recipe must be trace with host_cpu_cores and host_mem_gib, got {self.chosen_recipe!r}, "
                             "which has hosts of its own")
        options = tuple(shape.items()) if self.chosen_recipe == "trace" else ()
        traces = self.trace_specs()
        workloads = [WorkloadSpec(traces[seed], self.chosen_recipe, load, seed, start, options)
                     for start in starts for seed in self.seeds for load in self.loads]
        return grid_of(workloads, self.policies, predictors, self.rectifiers)
