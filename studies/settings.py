"""Settings of the studies that replay, each with the options that it reads."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from pydantic import model_validator

import studies.policies  # noqa: F401  # settings may name them
from sojourn.flows.compare.settings import CompareConfig
from sojourn.flows.retrain.ingest import with_kept_trace
from sojourn.flows.settings.store import load_settings

OF_USAGE = ("trace", "reader", "seeds")
"""What studies of placement by usage read, beside the store."""
OF_REPLAYS = ("trace", "reader", "recipe", "n_requests", "host_cpu_cores", "host_mem_gib", "policies", "loads", "seeds")
"""What studies read that replay with perfect lifetimes."""
OF_COMPARISONS = (*OF_REPLAYS, "predictors", "rectifiers", "starts", "page")
"""What comparisons read."""
_OPTIONS = {"policies": "policy", "predictors": "predictor", "rectifiers": "rectifier", "loads": "load",
            "seeds": "seed", "starts": "start"}
"""Options that may be repeated, by their setting."""
_TYPES: dict[str, Callable[[str], Any]] = {
    "n_requests": int, "loads": float, "seeds": int, "host_cpu_cores": float, "host_mem_gib": float, "trace": Path,
    "batch_trace": Path, "test_share": float, "page": Path}


class StudySettings(CompareConfig):
    """A comparison's settings under the name of a study. batch_trace: of `ctcl`."""

    batch_trace: Path | None = None
    """Table of batch tasks (reader alibaba-2018), whose services are the trace's."""

    @property
    def about(self) -> str:
        """Nothing: a study says itself what it is."""
        return ""

    @model_validator(mode="before")
    @classmethod
    def _of_preset(cls, given: dict[str, Any]) -> dict[str, Any]:
        return cls._counted(given)

    @classmethod
    def _readers(cls) -> Collection[str]:
        from sojourn.features.usage import USAGE_READERS

        return sorted({*super()._readers(), *USAGE_READERS} - {"synthetic"})


def run_study(name: str | None, run: Callable[[StudySettings], int], reads: Collection[str],
              kind: type[StudySettings] = StudySettings, **defaults: Any) -> None:
    """Run a study with what its options say; they are those of `reads`. Exits with 1 if a part of it failed.

    name: as its run is logged.
    """
    parser = argparse.ArgumentParser(description=run.__doc__)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--tracking-uri")
    for setting in reads:
        repeated = setting in _OPTIONS
        option = f"--{_OPTIONS.get(setting, setting).replace('_', '-')}"
        parser.add_argument(option, dest=setting, type=_TYPES.get(setting, str),
                            action="append" if repeated else "store")
    if "seeds" in reads:
        parser.add_argument("--n-seeds", type=int)
    given = {key: value for key, value in vars(parser.parse_args()).items() if value is not None}
    if "n_seeds" in given or "seeds" in given:
        defaults.pop("seeds", None)
    try:
        settings = load_settings(kind, None, preset=name, **{**defaults, **given})
        is_of_usage = tuple(reads) == OF_USAGE or "batch_trace" in reads
        n_failed = run(settings if is_of_usage else with_kept_trace(settings))
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")
    sys.exit(int(n_failed > 0))
