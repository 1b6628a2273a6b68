"""Settings of `sojourn admit`, with defaults; from flags, the environment (SOJOURN_*) or a TOML file."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import Field, field_validator, model_validator

from sojourn.flows.evaluations.admission_runs import Entry, Setting
from sojourn.flows.settings.store import MOST_SEED, MOST_WORKERS
from sojourn.flows.settings.trace import TraceSettings, TraceSource
from sojourn.simulator.admission import ACCEPTANCES, ALLOCATIONS, PowerProfile, read_power_profile

MOST_CORES = 10_000_000
"""Of a machine: each core that is on has a place in tables."""
MOST_POWERED = 1_000_000
"""With a power profile: each core that is on has intervals of its own."""
_MOST_SLACK = 1_000_000
_GREEDY = ("greedy",)
_NOT_SWEPT = frozenset({"policies", "allocations", "is_backfilled", "slacks", "sigma", "mean", "cores", "core_limit",
                        "power", "is_power_repeated", "idle_w", "busy_w"})


class AdmitConfig(TraceSettings):
    """One comparison of ways to admit: policies x allocations on days of one trace."""

    policies: tuple[str, ...] = ("greedy",)
    """Keys of ACCEPTANCES."""
    allocations: tuple[str, ...] = ("best-fit",)
    """Keys of ALLOCATIONS. The first policy with the first allocation is what others are held against."""
    is_backfilled: bool = False
    """Also each greedy pairing with backfilling."""
    slacks: tuple[float, ...] = (0.5,)
    """By what shares of its run time a job may end later."""
    sigma: float | None = Field(None, ge=0.0, le=100.0)
    """Deviation of the logarithm of slacks; default: slack / 2.5."""
    mean: str = "geometric"
    """Which mean of the slacks the target is: geometric or arithmetic."""
    cores: int | None = Field(None, ge=1, le=MOST_CORES)
    """Default: of each day, as many as its load fills."""
    core_limit: int | None = Field(None, ge=1, le=MOST_CORES)
    """Jobs on more cores are left out."""
    n_days: int = Field(10, ge=1, le=100_000)
    """The days with the most jobs, at most."""
    n_draws: int = Field(10, ge=1, le=100_000)
    """Draws of slacks for each day."""
    seed: int = Field(0, ge=0, le=MOST_SEED)
    """Of all random numbers."""
    shortest_s: int = Field(60, ge=1, le=86_400)
    """Jobs that ran for a shorter time are left out."""
    power: Path | None = None
    """CSV file with the power budget over a day; instead of `cores`."""
    is_power_repeated: bool = False
    """The profile is repeated each day, for the three days in which the jobs of a day can run."""
    idle_w: float = Field(60.0, ge=0.0, allow_inf_nan=False)
    """Power of an idle core, W."""
    busy_w: float = Field(100.0, gt=0.0, allow_inf_nan=False)
    """Power of a busy core, W."""
    is_sweep: bool = False
    """The paper's experiments instead; of the settings above it reads `n_days`, `n_draws`, `seed` and `shortest_s`."""
    predict: str | None = None
    """A lifetime family or bundle:FOLDER: instead, greedy admission by its quantiles beside the user's estimate, on
    days after those that it is fitted on; without backfilling and with constant power. `estimate`: no model, but that
    estimate with and without ends that are told, on the same days."""
    quantiles: tuple[float, ...] = (0.5, 0.75, 0.9, 0.95)
    """Of `predict`: the shares of jobs that should end within their planned time."""
    past_share: float = Field(0.7, gt=0.0, lt=1.0)
    """Of the jobs: the days that are judged begin after so many."""
    out: Path | None = None
    """Folder for tables and pictures."""
    page: Path | None = None
    """HTML page to write."""
    n_workers: int = Field(default_factory=lambda: os.cpu_count() or 1, ge=1, le=MOST_WORKERS)
    """Processes."""

    @field_validator("policies")
    @classmethod
    def _known_policies(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return _known("policy", value, tuple(ACCEPTANCES))

    @field_validator("allocations")
    @classmethod
    def _known_allocations(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return _known("allocation", value, tuple(ALLOCATIONS))

    @field_validator("slacks")
    @classmethod
    def _possible_slacks(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        bad = [slack for slack in value if not 0 <= slack <= _MOST_SLACK]
        if bad or not value:
            raise ValueError(f"slack must be in 0..{_MOST_SLACK:,}, got {bad[0] if bad else 'none'!r}")
        return tuple(dict.fromkeys(value))

    @field_validator("quantiles")
    @classmethod
    def _possible_quantiles(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        bad = [share for share in value if not 0 < share < 1]
        if bad or not value:
            raise ValueError(f"quantile must be above 0 and below 1, got {bad[0] if bad else 'none'!r}")
        return tuple(dict.fromkeys(value))

    @field_validator("mean")
    @classmethod
    def _known_mean(cls, value: str) -> str:
        return _known("mean", (value,), ("geometric", "arithmetic"))[0]

    @model_validator(mode="after")
    def _fitting(self) -> AdmitConfig:
        if self.trace is None:
            raise ValueError("trace must be a file or folder, got none")
        odd = [name for name in self.model_fields_set if name in _NOT_SWEPT] if self.is_sweep else []
        if odd:
            raise ValueError(f"{odd[0]} must not be given with a sweep, got {getattr(self, odd[0])!r}")
        has_more = self.is_sweep or self.is_backfilled or self.power is not None or self.policies != _GREEDY
        if self.predict is not None and has_more:
            raise ValueError("predict must be given without a sweep, backfilling, a power profile or other policies "
                             f"than greedy, got {self.predict!r} with one")
        if self.power is not None and self.cores is not None:
            raise ValueError(f"cores must not be given with a power profile, which says how many are on, got "
                             f"{self.cores!r}")
        if self.idle_w > self.busy_w:
            raise ValueError(f"idle_w must be at most busy_w, got {self.idle_w!r} and {self.busy_w!r}")
        if "threshold" in self.policies:
            bad = [slack for slack in self.slacks if not 0 < slack <= 1]
            if bad:
                raise ValueError("slack must be above 0 and at most 1 with threshold acceptance, got "
                                 f"{bad[0]!r}")
            if self.core_limit != 1:
                raise ValueError(f"core_limit must be 1 with threshold acceptance, which is for sequential jobs, got "
                                 f"{self.core_limit!r}")
            if self.power is not None:
                raise ValueError(f"policy must be greedy with a power profile, got 'threshold' and {str(self.power)!r}")
        return self

    @property
    def source(self) -> TraceSource:
        """Where the trace comes from."""
        return TraceSource(self.trace, self.reader, self.horizon_s, 0, self.seed, columns=self.columns)

    def entries(self) -> tuple[Entry, ...]:
        """What is compared; the first is the baseline."""
        plain = [Entry(policy, allocation) for policy in self.policies for allocation in self.allocations]
        filled = [Entry("greedy", allocation, True) for allocation in self.allocations] if self.is_backfilled else []
        return (*plain, *filled)

    def settings(self) -> tuple[Setting, ...]:
        """One for each slack; the power profile's file is read."""
        profile = self._profile()
        return tuple(Setting(slack, self.sigma, self.cores, self.mean, profile, self.idle_w, self.busy_w)
                     for slack in self.slacks)

    def _profile(self) -> PowerProfile | None:
        if self.power is None:
            return None
        profile = read_power_profile(self.power, busy_w=self.busy_w)
        if profile.most_cores > MOST_POWERED:
            raise ValueError(f"{self.power}: cores must be at most {MOST_POWERED:,}, got {profile.most_cores:,}")
        return profile.repeated(3) if self.is_power_repeated else profile


def _known(name: str, given: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    strangers = [value for value in given if value not in names]
    if strangers or not given:
        raise ValueError(f"{name} must be one of {', '.join(names)}, got {strangers[0] if strangers else 'none'!r}")
    return tuple(dict.fromkeys(given))
