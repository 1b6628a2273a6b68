"""Settings of the commands that neither retrain nor compare, with defaults.

`monitor` and `train-usage` read variables and a TOML file, too; the others have their options alone."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator, model_validator

from sojourn.flows.settings.retrain import MODEL_NAME, RunSettings, SeedSettings
from sojourn.flows.settings.store import Group, one_of, own_folder
from sojourn.flows.settings.trace import SYNTHETIC, ReadSettings, SharedSettings, TraceSettings

if TYPE_CHECKING:
    from sojourn.simulator.planning import PlanSettings
    from sojourn.simulator.queueing import QueueRules
    from sojourn.simulator.rectification import Rectify

REFRACTORY_DAYS, FOLLOW_UP_DAYS, MAX_AGE_DAYS = 14, (7, 28), 56
"""What the simulated year was served under (docs/drift.md)."""
PLANNED = ("schedule.csv", "schedule.parquet", "schedule.png", "metrics.json", "plan.html")
"""What `sojourn lab plan` writes."""
DESCRIBED = ("classes.png", "errors.png", "periods.png", "series.parquet", "series.png", "spectrum.png")
"""What `sojourn usage describe` writes beside the store `usage`."""
_LEAST_H, _MOST_H = 0.001, 876_600
"""Of a long stay: 100 years at most."""
_MOST_MINUTES = 1_440
"""Of a migration: a day, since what is freed later counts for nothing."""
_MOST_STEP_S = 1_800
"""Steps are shorter: the filter of the fit cuts at an hour, two of them."""
OPTION = bool | int | float | str


class MonitorConfig(SeedSettings, TraceSettings):
    """One check of a model's logged decisions.

    The ids of `trace` are those that decisions were logged with.
    """

    trace: Path | None = None
    """Trace of what became of the requests, by their ids; default: the ends in the log."""
    reader: str = SYNTHETIC
    """How to read the outcomes: {readers}; default: by the file's name."""
    model_name: str
    """Registered model."""
    log: Path
    """Folder that the predictor logs its decisions to."""
    alias: str = "champion"
    """The version that must be registered; decisions of all versions of the model are taken."""
    as_of_s: int | None = None
    """The time of the check, seconds on the predictor's clock; nothing later is read. Default: the log's latest."""
    long_lived_s: int | None = Field(None, ge=60, le=3_200_000_000)
    """What counts as long-lived, seconds; default: what the version was trained with."""
    detector: str = "level-or-owners"
    """A name of `DETECTORS`."""
    refractory_days: int = Field(REFRACTORY_DAYS, ge=1, le=36_500)
    """Alarms within so many days of one that was acted upon are the same drift; older ones are not acted upon."""
    follow_up_days: tuple[int, ...] = FOLLOW_UP_DAYS
    """So many days after an alarm that was acted upon, retrain once more; needs a way to retrain."""
    max_age_days: int = Field(MAX_AGE_DAYS, ge=0, le=36_500)
    """Retrain, where there is a way to, once the data of the model in force ended so many days ago; 0 = never."""
    retrain_deployment: str | None = None
    """On an alarm, run this Prefect deployment, `flow/deployment`."""
    retrain_config: Path | None = None
    """On an alarm, retrain with these settings, a TOML file, within the check."""

    @field_validator("detector")
    @classmethod
    def _known_detector(cls, value: str) -> str:
        from sojourn.models.drift import DETECTORS

        return one_of("detector", value, DETECTORS)

    @field_validator("follow_up_days")
    @classmethod
    def _rising(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if any(later <= earlier for earlier, later in pairwise((0, *value))):
            raise ValueError(f"follow_up_days must rise from 1, got {value!r}")
        return value

    @model_validator(mode="after")
    def _one_way_to_retrain(self) -> MonitorConfig:
        if self.retrain_deployment is not None and self.retrain_config is not None:
            raise ValueError("retrain_deployment must be given without retrain_config, got both")
        if self.retrain_deployment is not None and self.retrain_deployment.count("/") != 1:
            raise ValueError(f"retrain_deployment must be FLOW/DEPLOYMENT, got {self.retrain_deployment!r}")
        return self

    @property
    def registered_name(self) -> str:
        """The registered model's name."""
        return self.model_name

    def resolved(self) -> dict[str, Any]:
        """The settings as JSON values, for the run's log."""
        return self.model_dump(mode="json", exclude={"tracking_uri"})


class UsageSettings(Group):
    """How usage series are read."""

    usage_reader: str = "parquet"
    """How to read the usage: {usage_readers}."""
    usage_options: dict[str, OPTION] = Field(default_factory=dict)
    """The reader's own options."""
    day_timezone: str = "UTC"
    """IANA name: the zone whose days and hours are learnt."""

    @field_validator("usage_reader")
    @classmethod
    def _known_usage_reader(cls, value: str) -> str:
        from sojourn.features.usage import USAGE_READERS

        return one_of("usage_reader", value, USAGE_READERS)

    @field_validator("day_timezone")
    @classmethod
    def _known_timezone(cls, value: str) -> str:
        from sojourn.features.readers import checked_timezone

        return checked_timezone(value)


class DescribeUsageConfig(UsageSettings):
    """Of `usage describe`."""

    step_s: int = 300
    """Step that waves are fitted on, seconds."""
    n_classes: int = 20
    """Classes of series with the same day, at most."""
    out: Path | None = None
    """Folder for the pictures (PNG), a table of all series and the stored series."""

    @field_validator("out")
    @classmethod
    def _own_folder(cls, value: Path | None) -> Path | None:
        return None if value is None else own_folder(value, "usage describe", cls._is_own)

    @staticmethod
    def _is_own(name: str) -> bool:
        """Whether `usage describe` writes it, or a run that was killed left it."""
        own = (*DESCRIBED, "usage")
        return name in own or name.startswith(tuple(f".{each}." for each in own))

    @field_validator("step_s")
    @classmethod
    def _possible_step(cls, value: int) -> int:
        if not 1 <= value < _MOST_STEP_S:
            raise ValueError(f"step_s must be at least 1 and below {_MOST_STEP_S}, got {value!r}")
        return value


class TrainUsageConfig(RunSettings, UsageSettings, SharedSettings):
    """One run. The trace of usage series has settings of its own: its readers are others than those of requests."""

    usage_trace: Path
    """File or folder of the series."""
    step_s: int = Field(300, ge=1, le=900)
    """Step of the grid, seconds."""
    n_classes: int = Field(20, ge=1, le=256)
    """Workload classes, at most."""
    observed_s: int = Field(10_800, ge=10_800, le=86_400)
    """How long a newcomer is observed before it gets a class, seconds."""
    model_name: str | None = None
    """Registered model, which gets the ending -usage; default: sojourn-lifetime-FILE-usage."""

    @property
    def registered_name(self) -> str:
        """The registered model's name; it ends in -usage, so that it is no lifetime model's."""
        slug = re.sub(r"[^a-z0-9]+", "-", self.usage_trace.name.lower()).strip("-")
        name = self.model_name or f"{MODEL_NAME}-{slug}"
        return name if name.endswith("-usage") else f"{name}-usage"

    def resolved(self) -> dict[str, Any]:
        """The settings of usage as JSON values, for the run's log; those of a trace of requests play no part."""
        own = set(type(self).model_fields) - set(TraceSettings.model_fields)
        return {**self.model_dump(mode="json", include=own), "model_name": self.registered_name}


def _check_written(name: str, out: Path, tables: Sequence[Path], bundle: Path) -> None:
    """ValueError if a file can't be written there, or would stand in the place of what is read."""
    if out.is_dir():
        raise ValueError(f"{name} must be a file, got the folder {str(out)!r}")
    above = next(parent for parent in out.absolute().parents if parent.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise ValueError(f"{name} must be a file in a folder that can be written to, got {str(out)!r}")
    is_table = any(out.resolve() == table.resolve() or (out.exists() and table.exists() and out.samefile(table))
                   for table in tables)
    if is_table or out.resolve().parent == bundle.resolve():
        raise ValueError(f"{name} must be no file of the snapshot or of the bundle, got {str(out)!r}")


class EtaConfig(Group):
    """Of `eta`: when the jobs of a queue start."""

    jobs: Path
    """Table of jobs, CSV or Parquet, or what squeue prints."""
    bundle: Path
    """Bundle folder: the model that predicts run times."""
    processors: int = Field(ge=1, le=2**31)
    """Processors of the machine."""
    order: str = "fcfs"
    """In which order jobs start: fcfs, sjf, saf, wfp3 or unicef."""
    backfill_order: str = "fcfs"
    """In which order others start before their turn; as `order`."""
    backfilling: str = "easy"
    """Which waiting jobs have a reservation: none, easy (the first), depth:K, conservative (all)."""
    guard_h: float | None = Field(None, ge=0, le=876_600)
    """Hours after which a waiting job comes first; default: never."""
    draws: int = Field(200, ge=1, le=10_000)
    """How often the queue is served, each time with other run times."""
    seed: int = Field(0, ge=0, le=2**32 - 1)
    """Of the draws."""
    now_s: int | None = None
    """The moment, whole seconds on the training trace's clock; default: its end."""
    out: Path | None = None
    """File to write, too: .csv, .json, or .prom, Prometheus text."""

    @model_validator(mode="after")
    def _possible(self) -> EtaConfig:
        _ = self.rules
        if self.out is not None:
            if self.out.suffix not in (".csv", ".json", ".prom"):
                raise ValueError(f"out must end in .csv, .json or .prom, got {str(self.out)!r}")
            _check_written("out", self.out, [self.jobs], self.bundle)
        return self

    @property
    def rules(self) -> QueueRules:
        """As the simulator takes them."""
        from sojourn.simulator.queueing import QueueRules

        if "f1" in (self.order, self.backfill_order):
            raise ValueError("order must not be f1, which counts from the log's first submission, got f1")
        guard_s = None if self.guard_h is None else round(3_600 * self.guard_h)
        return QueueRules(self.order, self.backfill_order, self.backfilling, guard_s)


class RectifyConfig(Group):
    """Of `rectify`: the moves of one day in a pool."""

    snapshot: Path
    """Folder with the tables hosts and requests, CSV or Parquet."""
    bundle: Path
    """Bundle folder: the model that predicts."""
    budget: int = 5
    """Migrations at most."""
    rectifier: str = "value"
    """What plans them: {rectifiers}."""
    long_h: float | None = None
    """Of pdre: hours from which on a predicted stay is long; default: 24."""
    minutes: int = 20
    """How long a migration takes, minutes."""
    at_once: int = 3
    """Migrations that go at a time."""
    now_s: int | None = None
    """The snapshot's time, whole seconds on the training trace's clock; default: its end."""
    out: Path | None = None
    """CSV file to write the list to."""
    record: Path | None = None
    """JSON file that keeps, from one call to the next, how soon hosts are in use again and which migrations were begun:
    `budget` is then of the last 24 hours. Made if it is not there."""

    @field_validator("long_h")
    @classmethod
    def _possible_hours(cls, value: float | None) -> float | None:
        if value is not None and not _LEAST_H <= value <= _MOST_H:  # nan too
            raise ValueError(f"long_h must be hours in {_LEAST_H}..{_MOST_H}, got {value:g}")
        return value

    @model_validator(mode="after")
    def _possible(self) -> RectifyConfig:
        from sojourn.simulator.rectification import BUDGET_MAX

        _ = self.rectify
        if self.long_h is not None and self.rectifier != "pdre":
            raise ValueError(f"long_h must be given with the rectifier pdre alone, got {self.long_h:g} with "
                             f"{self.rectifier!r}")
        for name, number, most in (("minutes", self.minutes, _MOST_MINUTES), ("at_once", self.at_once, BUDGET_MAX)):
            if not 1 <= number <= most:
                raise ValueError(f"{name} must be in 1..{most}, got {number}")
        for name, file in (("out", self.out), ("record", self.record)):
            if file is not None:
                tables = [self.snapshot / f"{table}{suffix}" for table in ("hosts", "requests")
                          for suffix in (".csv", ".parquet")]
                _check_written(name, file, tables, self.bundle)
        if self.out is not None and self.record is not None and self.out.resolve() == self.record.resolve():
            raise ValueError(f"out must be another file than record, got {str(self.out)!r} for both")
        return self

    @property
    def rectify(self) -> Rectify:
        """The settings of the planner."""
        from sojourn.simulator.rectification import Rectify

        long_h = 24.0 if self.long_h is None else self.long_h
        return Rectify(self.rectifier, self.budget, long_s=round(3_600 * long_h))


class PlanConfig(Group):
    """Of `plan`: start times of a day's jobs."""

    jobs: Path
    """The table of jobs."""
    planners: tuple[str, ...] = ("cospis",)
    """Planner: {planners}; several are compared. The first one's schedule is written."""
    against: str = "det-p50"
    """Planner that the others are held against."""
    out: Path = Path("plan")
    """Folder for the schedule (CSV, Parquet), its picture (PNG), the metrics (JSON) and a page (HTML)."""
    replan_at: float | None = None
    """Plan the rest of the day at this time, seconds: what started_s and ended_s say has happened by then stays."""
    n_samples: int = 25
    """Samples of pairs of duration and usage (K)."""
    alpha: float = 0.4
    """Share of samples that may break deadlines, 0 to 1."""
    step_s: float = 1.0
    """Step of all times, seconds; coarser = faster on long days."""
    resources: tuple[str, ...] = ("cpu_cores",)
    """Column of a resource."""
    bundle: Path | None = None
    """Bundle folder: jobs with few runs get their durations from its lifetime model; the table then has a column
    `request`, the request's attributes as JSON."""
    least_runs: int = 5
    """With `bundle`: from so many runs on a job's own are used."""
    capacity: tuple[float, ...] | None = None
    """What there is of each resource, in their order: refuses jobs that never fit. Default: not looked at."""
    held_out: float = 0.3
    """Share of each job's runs, the latest, to test on."""
    n_runs: int = 50
    """Days that are drawn from them."""
    limit_s: float = 30.0
    """Time limit of a planner, seconds."""
    work_limit: float | None = None
    """The solver's deterministic limit, about seconds of one core: the same schedule on any machine."""
    seed: int = 0
    """Seed of all random numbers."""
    n_workers: int = 1
    """Threads of the solver; 1 repeats exactly."""
    least_moved: bool = False
    """Of the schedules with the lowest peak found, one that moves jobs least."""

    @model_validator(mode="after")
    def _possible(self) -> PlanConfig:
        from sojourn.simulator.planning import planner

        for name in (*self.planners, self.against):
            planner(name)
        _ = self.planning
        return self

    @field_validator("out")
    @classmethod
    def _own_folder(cls, value: Path) -> Path:
        return own_folder(value, "plan", PLANNED.__contains__)

    @property
    def planning(self) -> PlanSettings:
        """The settings of a planner."""
        from sojourn.simulator.planning import Limits, PlanSettings

        return PlanSettings(self.n_samples, self.alpha, Limits(
            limit_s=self.limit_s, work_limit=self.work_limit, seed=self.seed, n_workers=self.n_workers,
            is_least_moved=self.least_moved))


class AnnotateConfig(ReadSettings):
    """Of `serve annotate`."""

    trace: Path = Field()
    """Trace file or folder that holds what runs now: what has no end is annotated. What has ended since the training
    shows the coverage."""
    bundle: Path
    """Bundle folder."""
    consumer: str = "json"
    """Who reads it: {consumers}."""
    quantile: float = 0.9
    """The share of requests that should end within their bound, above 0 and below 1."""
    only: Path | None = None
    """Text file of request ids, one a line: annotate no others; default: all that run."""
    requests: Path | None = None
    """File with one JSON object a line: requests that have not started, their columns and request_id; they are
    annotated in place of what runs."""
    corrected: bool = False
    """Ask the model for the quantile that held on the earlier half of the held-out requests."""
    at_most: str | None = None
    """No bound is longer, from the request's start, such as 12h or 2d."""
    any_kind: bool = False
    """For karpenter: pods of all controllers, and not of Jobs and CronJobs alone."""
    output: Path | None = None
    """File to write; default: none: a dry run, which prints what would be written."""
    any_coverage: bool = False
    """Write the file even if coverage is unknown or more than 2 points too low."""
