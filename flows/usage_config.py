"""Settings of `sojourn train-usage`, with defaults; from flags, the environment (SOJOURN_*) or a TOML file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from sojourn.flows.config import MODEL_NAME
from sojourn.flows.trace_settings import MOST_SEED, MOST_WORKERS, SharedSettings, TraceSettings

OPTION = bool | int | float | str


class TrainUsageConfig(SharedSettings):
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
    seed: int = Field(0, ge=0, le=MOST_SEED)
    """Of all random numbers."""
    n_threads: int = Field(2, ge=1, le=MOST_WORKERS)
    """Threads that fit; the result does not depend on it."""
    model_name: str | None = None
    """Registered model; default: `sojourn-lifetime-FILE-usage`."""

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
