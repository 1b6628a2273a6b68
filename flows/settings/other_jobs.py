"""Settings of `sojourn monitor` and `sojourn train-usage`, with defaults."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator, model_validator

from sojourn.flows.settings.retrain import MODEL_NAME, RunSettings
from sojourn.flows.settings.store import MOST_SEED
from sojourn.flows.settings.trace import SharedSettings, TraceSettings

REFRACTORY_DAYS, FOLLOW_UP_DAYS, MAX_AGE_DAYS = 14, (7, 28), 56
"""What the simulated year was served under (docs/drift.md)."""
OPTION = bool | int | float | str


class MonitorConfig(TraceSettings):
    """One check of a model's logged decisions.

    `trace` and `reader` name a trace of outcomes, by the ids that decisions were logged with; without one, the ends in
    the log itself are taken.
    """

    model_name: str
    """Registered model."""
    log: Path
    """The folder that `Predictor.log_to` writes."""
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
    seed: int = Field(0, ge=0, le=MOST_SEED)
    """Of all random numbers."""

    @field_validator("detector")
    @classmethod
    def _known_detector(cls, value: str) -> str:
        from sojourn.models.drift import DETECTORS

        if value not in DETECTORS:
            raise ValueError(f"detector must be one of {', '.join(DETECTORS)}, got {value!r}")
        return value

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


class TrainUsageConfig(RunSettings, SharedSettings):
    """One run. The trace of usage series has settings of its own: its readers are others than those of requests."""

    usage_trace: Path
    """File or folder of the series."""
    usage_reader: str = "parquet"
    """A name of `USAGE_READERS`."""
    usage_options: dict[str, OPTION] = Field(default_factory=dict)
    """The reader's own options."""
    timezone: str = "UTC"
    """IANA name; decides the local time of day."""
    step_s: int = Field(300, ge=1, le=900)
    """Step of the grid, seconds."""
    n_classes: int = Field(20, ge=1, le=256)
    """Workload classes, at most."""
    observed_s: int = Field(10_800, ge=10_800, le=86_400)
    """How long a newcomer is observed before it gets a class, seconds."""
    model_name: str | None = None
    """Registered model, which gets the ending -usage; default: sojourn-lifetime-FILE-usage."""

    @field_validator("usage_reader")
    @classmethod
    def _known_usage_reader(cls, value: str) -> str:
        from sojourn.features.usage import USAGE_READERS

        if value not in USAGE_READERS:
            raise ValueError(f"usage_reader must be one of {', '.join(USAGE_READERS)}, got {value!r}")
        return value

    @field_validator("timezone")
    @classmethod
    def _known_timezone(cls, value: str) -> str:
        from sojourn.features.readers import checked_timezone

        return checked_timezone(value)

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
