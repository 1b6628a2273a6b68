"""Settings of `sojourn lab admit`, with defaults; from flags, the environment or a TOML file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field, field_validator, model_validator

from sojourn.flows.settings.retrain import SeedSettings, WorkerSettings
from sojourn.flows.settings.store import distinct, one_of
from sojourn.flows.settings.trace import TraceSettings, TraceSource

if TYPE_CHECKING:
    from sojourn.flows.admission.runs import Entry, Setting
    from sojourn.simulator.admission import PowerProfile

MOST_CORES = 10_000_000
"""Of a machine: each core that is on has a place in tables."""
MOST_POWERED = 1_000_000
"""With a power profile: each core that is on has intervals of its own."""
_MOST_SLACK = 1_000_000


class AdmitConfig(SeedSettings, WorkerSettings, TraceSettings):
    """One comparison of ways to admit: allocations on days of one trace."""

    trace: Path = Field()
    """Trace file or folder: jobs with their cores and run times."""
    allocations: tuple[str, ...] = ("best-fit",)
    """Cores of a job: {allocations}. The first one is the baseline."""
    backfill: bool = False
    """Also each allocation with conservative backfilling."""
    slacks: tuple[float, ...] = (0.5,)
    """By what share of its run time a job may end later."""
    sigma: float | None = Field(None, ge=0.0, le=100.0)
    """Deviation of the logarithm of slacks; default: slack / 2.5."""
    mean: str = "geometric"
    """Which mean of drawn slacks is the slack: geometric or arithmetic."""
    cores: int | None = Field(None, ge=1, le=MOST_CORES)
    """Cores that are on; default: as many as the load of each day fills."""
    core_limit: int | None = Field(None, ge=1, le=MOST_CORES)
    """Leave out jobs on more cores."""
    n_days: int = Field(10, ge=1, le=100_000)
    """Days with the most jobs, at most."""
    n_draws: int = Field(10, ge=1, le=100_000)
    """Draws of slacks for each day."""
    shortest_s: int = Field(60, ge=1, le=86_400)
    """Jobs that ran for a shorter time are left out."""
    power: Path | None = None
    """CSV file with the power over time, from the start of a day: time_s and cores, or watts; instead of `cores`."""
    repeat_power: bool = False
    """The profile is that of every day: jobs of a day can run for three days."""
    idle_w: float = Field(60.0, ge=0.0, allow_inf_nan=False)
    """Power of an idle core, W."""
    busy_w: float = Field(100.0, gt=0.0, allow_inf_nan=False)
    """Power of a busy core, W."""
    predict: str | None = None
    """Instead: accept greedily by quantiles of predicted run times, beside the user's estimate, on the later days:
    {families}, or bundle:FOLDER; estimate: that estimate alone, with and without known ends. Not with backfilling or a
    power profile."""
    quantiles: tuple[float, ...] = (0.5, 0.75, 0.9, 0.95)
    """Of `predict`: the share of jobs that should end within their planned time."""
    past_share: float = Field(0.7, gt=0.0, lt=1.0)
    """Of the jobs: the days that are judged begin after so many."""
    out: Path | None = None
    """Folder for tables (CSV) and pictures (PNG)."""
    page: Path | None = None
    """HTML page to write, with the tables and pictures."""

    @field_validator("allocations")
    @classmethod
    def _known_allocations(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        from sojourn.simulator.admission import ALLOCATIONS

        return distinct("allocation", value, ALLOCATIONS.__contains__, f"one of {', '.join(ALLOCATIONS)}")

    @field_validator("slacks")
    @classmethod
    def _possible_slacks(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        return distinct("slack", value, lambda slack: 0 <= slack <= _MOST_SLACK, f"in 0..{_MOST_SLACK:,}")

    @field_validator("quantiles")
    @classmethod
    def _possible_quantiles(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        return distinct("quantile", value, lambda share: 0 < share < 1, "above 0 and below 1")

    @field_validator("mean")
    @classmethod
    def _known_mean(cls, value: str) -> str:
        return one_of("mean", value, ("geometric", "arithmetic"))

    @model_validator(mode="after")
    def _fitting(self) -> AdmitConfig:
        if self.trace is None:
            raise ValueError("trace must be a file or folder, got none")
        if self.predict is not None and (self.backfill or self.power is not None):
            raise ValueError("predict must be given without backfilling or a power profile, got "
                             f"{self.predict!r} with one")
        if self.power is not None and self.cores is not None:
            raise ValueError(f"cores must not be given with a power profile, which says how many are on, got "
                             f"{self.cores!r}")
        if self.idle_w > self.busy_w:
            raise ValueError(f"idle_w must be at most busy_w, got {self.idle_w!r} and {self.busy_w!r}")
        return self

    @property
    def source(self) -> TraceSource:
        """Where the trace comes from."""
        return TraceSource(self.trace, self.reader, self.horizon_s, 0, self.seed, columns=self.columns)

    def entries(self) -> tuple[Entry, ...]:
        """What is compared; the first is the baseline."""
        from sojourn.flows.admission.runs import Entry

        ways = (False, True) if self.backfill else (False,)
        return tuple(Entry(allocation, way) for way in ways for allocation in self.allocations)

    def settings(self) -> tuple[Setting, ...]:
        """One for each slack; the power profile's file is read."""
        from sojourn.flows.admission.runs import Setting

        profile = self._profile()
        return tuple(Setting(slack, self.sigma, self.cores, self.mean, profile, self.idle_w, self.busy_w)
                     for slack in self.slacks)

    def _profile(self) -> PowerProfile | None:
        if self.power is None:
            return None
        from sojourn.simulator.admission import read_power_profile

        profile = read_power_profile(self.power, busy_w=self.busy_w)
        if profile.most_cores > MOST_POWERED:
            raise ValueError(f"{self.power}: cores must be at most {MOST_POWERED:,}, got {profile.most_cores:,}")
        return profile.repeated(3) if self.repeat_power else profile
