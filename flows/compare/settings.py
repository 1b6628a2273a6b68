"""Settings of `sojourn gain`, with defaults, and the presets: named comparisons.

A preset's settings are replaced by what flags, the environment or a TOML file give
(docs/simulator/evaluations.md runs presets)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pydantic import Field, ValidationInfo, field_validator, model_validator

from sojourn.flows.settings.retrain import HostSettings, LaterPartSettings, WorkerSettings, load_config
from sojourn.flows.settings.store import distinct
from sojourn.flows.settings.trace import SharedSettings, Start

if TYPE_CHECKING:
    from sojourn.flows.compare.grid import Cell
    from sojourn.flows.placement.workloads import TraceSpec

_OF_PRESET = ("policies", "predictors", "rectifiers", "loads", "seeds", "starts")
_MOST_SEEDS = 10_000
OF_PAST = "best-of-past"
"""The preset that chooses before it replays."""
QUEUE = "queue"
"""The preset of a batch system's queue, which has no hosts."""
_OF_HOSTS = ("policies", "rectifiers", "loads", "seeds", "n_seeds", "starts", "recipe", "host_cpu_cores",
             "host_mem_gib", "price_per_host_hour", "dask")
_RECALLS = tuple(f"recall:{share:g}" for share in (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0))


@dataclass(frozen=True, slots=True)
class Preset:
    """Settings of a comparison. about: one line."""

    about: str
    policies: tuple[str, ...] = ()
    predictors: tuple[str, ...] = ()
    loads: tuple[float, ...] = (0.8,)
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    starts: tuple[Start, ...] = ()
    rectifiers: tuple[str, ...] = ()


PRESETS: Mapping[str, Preset] = MappingProxyType({
    "lava-table": Preset(
        "every policy with every kind of predictor",
        ("random", "first-fit", "first-in-use", "best-fit", "worst-fit", "waste-min", "la-binary", "la", "nilas",
         "nilas-expected", "lava", "joint-fit", "joint-exact", "aligned-fit"),
        ("oracle", "noise:1", "recall:0.8", "hazard", "km", "one-shot:hazard", "one-shot:km")),
    OF_PAST: Preset(
        "the policy, predictor and migrations that gained most on the trace's past, replayed on what came after",
        ("nilas-expected", "joint-fit", "joint-exact"), ("hazard", "km")),
    "recall-sweep": Preset(
        "how good predictions must be: recall of long requests from 40 to 100 %, and reprediction against one-shot",
        ("nilas", "nilas-expected", "lava", "joint-fit"), (*_RECALLS, "hazard", "one-shot:hazard")),
    "load-sweep": Preset(
        "from 60 to 95 % of the hosts in use at the peak, cold start and warm start",
        ("nilas", "lava", "joint-fit"), ("oracle", "noise:1"),
        loads=(0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95), starts=("cold", "warm")),
    "rectification": Preset(
        "two and five live migrations a day that free hosts, under any policy",
        ("nilas", "nilas-expected", "joint-fit", "joint-exact", "dapp"), ("oracle", "noise:1"),
        rectifiers=("pdre:2", "value:2", "pdre:5", "value:5")),
    QUEUE: Preset(
        "parallel jobs that wait for processors: hours of waiting that another order and predicted run times save",
        (), ("hazard",)),
})
"""By name."""


def known_preset(name: object) -> Preset:
    """The preset of a name; ValueError that lists the known ones."""
    if not isinstance(name, str) or name not in PRESETS:
        raise ValueError(f"preset must be one of {', '.join(PRESETS)}, got {name!r}")
    return PRESETS[name]


class CompareConfig(WorkerSettings, HostSettings, LaterPartSettings, SharedSettings):
    """One comparison: policies x predictors x rectifiers x loads x seeds on one trace."""

    preset: str | None = None
    """A named comparison: {presets}. Other options replace its settings."""
    policies: tuple[str, ...] = ("nilas", "lava", "joint-fit")
    """Policy: {policies}. Best-fit is always among them."""
    n_requests: int = Field(60_000, ge=1_000, le=100_000_000)
    """Requests of the synthetic trace."""
    predictors: tuple[str, ...] = ("oracle",)
    """oracle, noise:SIGMA, recall:SHARE, owner-recall:SHARE, a lifetime family (km, hazard, ...), bundle:FOLDER,
    refreshed: of one of the last two, or one-shot: of any. One that is learnt leaves only the warm start."""
    rectifiers: tuple[str, ...] = ()
    """Live migrations that free hosts, RECTIFIER:MOVES a day: {rectifiers}; none is always among them."""
    loads: tuple[float, ...] = (0.8,)
    """Peak load of the hosts, above 0 and at most 1: of the binding resource over capacity, on the whole trace."""
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    """Seed of a pair of replays; all are different. Default: 0 to 4."""
    n_seeds: int | None = Field(None, ge=1, le=_MOST_SEEDS)
    """So many seeds, from 0 on, in place of `seeds`."""
    starts: tuple[Start, ...] = ()
    """cold: the whole trace by its recipe, from an empty pool; warm: its later part, with what was running. Default:
    warm if a predictor is learnt, else cold."""
    price_per_host_hour: float | None = Field(None, gt=0.0, allow_inf_nan=False)
    """Price of one host for an hour, in any currency: gains are also said in money."""
    processors: int | None = Field(None, ge=1, le=2**31)
    """With preset queue: processors of the machine. Default: as the log says, else the most that ran at once."""
    queues: tuple[str, ...] = ()
    """With preset queue: NAME:PRIORITY or NAME:PRIORITY:PROCESSORS of a queue or partition. Larger priorities
    are served first, other queues have 0. PROCESSORS: the most that its jobs may use at once."""
    page: Path | None = None
    """HTML page to write, with its tables as CSV beside it."""
    picture: Path | None = None
    """Picture (PNG) to write: the gain of each policy."""

    @model_validator(mode="before")
    @classmethod
    def _of_preset(cls, given: dict[str, Any]) -> dict[str, Any]:
        is_queue = given.get("preset") == QUEUE
        unread = [name for name in _OF_HOSTS if given.get(name) is not None] if is_queue else []
        if unread:
            raise ValueError(f"{unread[0]} must not be given with preset {QUEUE}, which has no hosts, got "
                             f"{given[unread[0]]!r}")
        for name in ("processors", "queues"):
            if given.get(name) and not is_queue:
                raise ValueError(f"{name} must be given with preset {QUEUE} only, got {given[name]!r}")
        given = cls._counted(given)
        if given.get("preset") is None:
            return given
        chosen = known_preset(given["preset"])
        preset = {key: getattr(chosen, key) for key in _OF_PRESET}
        return {**preset, **given}

    @classmethod
    def _counted(cls, given: dict[str, Any]) -> dict[str, Any]:
        """With the seeds that `n_seeds` counts."""
        n_seeds = str(given.get("n_seeds", ""))
        if n_seeds and "seeds" in given:
            seeds = list(given["seeds"]) if isinstance(given["seeds"], tuple) else given["seeds"]
            raise ValueError(f"n_seeds must not be given with seeds, got {n_seeds} and {seeds}")
        if n_seeds.isdecimal() and 1 <= int(n_seeds) <= _MOST_SEEDS:  # else the field's own rule says what it may be
            given = {**given, "seeds": tuple(range(int(n_seeds)))}
        return given

    @field_validator("queues")
    @classmethod
    def _parsed_queues(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        from sojourn.simulator.queueing import parse_queue

        names = [parse_queue(text)[0] for text in value]
        if len(set(names)) < len(names):
            raise ValueError(f"queues must have different names, got {', '.join(names)}")
        return value

    @field_validator("policies")
    @classmethod
    def _known_policies(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        from sojourn.simulator.engine import named_policy

        return tuple(named_policy(name).name for name in dict.fromkeys(value))

    @field_validator("predictors")
    @classmethod
    def _known_predictors(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        from sojourn.flows.placement.predictors import parse_predictor
        from sojourn.models.lifetime import SERVED

        unfit = [text for text in value if text not in SERVED] if info.data.get("preset") == QUEUE else []
        if unfit:
            raise ValueError(f"predictor must be one of {', '.join(SERVED)} with preset {QUEUE}, got {unfit[0]!r}")
        return tuple(dict.fromkeys(parse_predictor(text).name for text in value))

    @field_validator("rectifiers")
    @classmethod
    def _known_rectifiers(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        from sojourn.flows.compare.grid import NONE, rectifier_name

        return tuple(name for name in dict.fromkeys(map(rectifier_name, value)) if name != NONE)

    @field_validator("loads")
    @classmethod
    def _possible_loads(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        return distinct("load", value, lambda load: 0.0 < load <= 1.0, "above 0 and at most 1")

    @field_validator("seeds")
    @classmethod
    def _different_seeds(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if not value or len(set(value)) < len(value) or min(value) < 0:
            raise ValueError(f"seeds must be different ones, 0 or more, got {', '.join(map(str, value)) or 'none'}")
        return value

    @property
    def about(self) -> str:
        """What its preset compares, as a sentence with a space after it; "" without one."""
        words = known_preset(self.preset).about if self.preset is not None else ""
        return f"{words[0].upper()}{words[1:]}. " if words else ""

    @property
    def chosen_recipe(self) -> str:
        """The recipe that is meant: `trace` where a shape of hosts is given, since other recipes have their own."""
        return self.recipe or ("trace" if self.host_cpu_cores is not None else self.own_recipe)

    def trace_specs(self) -> dict[int, TraceSpec]:
        """The trace of each seed; a file's is the same for all, and read once for the hash of its content.

        Its paths are absolute: a worker may stand in another folder.
        """
        from sojourn.flows.placement.workloads import TraceSpec
        from sojourn.flows.retrain.ingest import input_hash

        configs = {seed: load_config(
            store=self.store.absolute(), trace=self.trace and self.trace.absolute(), reader=self.reader,
            horizon_s=self.horizon_s, column_map=self.column_map or None,
            map_file=self.map_file and self.map_file.absolute(), timezone=self.timezone,
            n_requests=self.n_requests, test_share=self.test_share,
            seed=seed if self.trace is None else 0) for seed in self.seeds}
        hashes = {source: input_hash(source) for source in dict.fromkeys(one.source for one in configs.values())}
        return {seed: TraceSpec(one.source, hashes[one.source], one.store, one.test_share, one.valid_share)
                for seed, one in configs.items()}

    def cells(self) -> list[Cell]:
        """The grid; reads the trace's files once, for the hash that stands for their content."""
        from sojourn.flows.compare.grid import grid_of
        from sojourn.flows.placement.predictors import parse_predictor
        from sojourn.flows.placement.workloads import WorkloadSpec
        from sojourn.simulator import KNOWN_POLICIES

        is_asked = bool(self.rectifiers) or any(KNOWN_POLICIES[name].predictions != "none" for name in self.policies)
        predictors = [parse_predictor(text) for text in self.predictors if is_asked]
        learnt = next((predictor.name for predictor in predictors if predictor.is_learnt), None)
        starts = tuple(dict.fromkeys(self.starts)) or ("cold" if learnt is None else "warm",)
        if learnt is not None and "cold" in starts:
            raise ValueError(f"start must be warm with predictor {learnt}, which is learnt from the earlier part of "
                             "the trace and judged on the later, got 'cold'")
        if self.preset == OF_PAST and (learnt is None or "cold" in starts):
            raise ValueError(f"{OF_PAST} must have a predictor that is learnt, and the warm start: it learns from the "
                             f"past; got {', '.join(self.predictors) or 'none'} and {', '.join(starts)}")
        if self.host_cpu_cores is not None and self.chosen_recipe != "trace":
            raise ValueError(f"recipe must be trace with host_cpu_cores and host_mem_gib, got {self.chosen_recipe!r}, "
                             "which has hosts of its own")
        options = tuple(self.shape.items()) if self.chosen_recipe == "trace" else ()
        traces = self.trace_specs()
        workloads = [WorkloadSpec(traces[seed], self.chosen_recipe, load, seed, start, options)
                     for start in starts for seed in self.seeds for load in self.loads]
        return grid_of(workloads, self.policies, predictors, self.rectifiers)
