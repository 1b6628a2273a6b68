"""A schedule as settings: which jobs can be scheduled, when a cron expression fires, and a `prefect.yaml` for a
process work pool. Read before Prefect is imported, which makes its home then."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias
from zoneinfo import available_timezones

import yaml

from sojourn.flows.settings.other_jobs import MonitorConfig, TrainUsageConfig
from sojourn.flows.settings.retrain import RetrainConfig

Scheduled: TypeAlias = MonitorConfig | RetrainConfig | TrainUsageConfig
JOBS: Mapping[str, type[Scheduled]] = MappingProxyType({
    "monitor": MonitorConfig, "retrain": RetrainConfig, "train-usage": TrainUsageConfig})
"""The jobs that can be scheduled, and their settings."""
_NO_PARAMETERS = ("tracking_uri",)
_PATHS = ("store", "trace", "usage_trace", "log", "retrain_config")
_FIELDS = re.compile(r"[0-9A-Za-z*/,#-]+( [0-9A-Za-z*/,#-]+){4}", re.ASCII)
_N_SIGNS_MAX = 1_000
"""Of an expression: each minute of an hour by name has 170."""
POOL = "sojourn"
_HOW = f"""\
# prefect work-pool create {POOL} --type process
# prefect deploy --all
# prefect worker start --pool {POOL}
"""


def parameter_schema(settings: type[Scheduled]) -> dict[str, Any]:
    """The JSON schema of a deployment's parameters: a job's settings, but for the address of a tracking server.

    >>> schema = parameter_schema(RetrainConfig)
    >>> schema["additionalProperties"], "load" in schema["properties"], "tracking_uri" in schema["properties"]
    (False, True, False)
    """
    schema = settings.model_json_schema()
    return {**schema, "properties": {name: value for name, value in schema["properties"].items()
                                     if name not in _NO_PARAMETERS}}


def settings_document(settings: Scheduled) -> dict[str, Any]:
    """The settings as JSON values for a deployment's parameters: paths absolute, no address of a tracking server.

    The address may hold a password, and Prefect keeps parameters in its database. Runs get it from the environment.

    >>> settings_document(RetrainConfig(store=Path("/s"), tracking_uri="http://me:secret@host", load=0.5))
    {'store': '/s', 'load': 0.5}
    """
    document = settings.model_dump(mode="json", exclude={*_NO_PARAMETERS}, exclude_defaults=True)
    document["store"] = str(settings.store)
    return {name: str(Path(value).absolute()) if name in _PATHS else value for name, value in document.items()}


def next_times(cron: str, timezone: str, n: int = 3) -> list[datetime]:
    """The next times at which a cron expression fires.

    ValueError: it is none, it never fires (31 February), or the time zone is not known.
    """
    from prefect.server.schemas.schedules import CronSchedule

    if timezone not in available_timezones():
        raise ValueError(f"timezone must be an IANA name, got {repr(timezone)[:80]}")
    fields, shown = " ".join(cron.split()), repr(cron)[:80]
    if fields.count(" ") != 4:
        raise ValueError(f"cron must have five fields (minute hour day month weekday), got {shown}")
    rule = "cron must have five fields (minute hour day month weekday) in their ranges"
    if len(fields) > _N_SIGNS_MAX or not _FIELDS.fullmatch(fields):
        raise ValueError(f"{rule}, of at most {_N_SIGNS_MAX:,} signs, got {shown}")
    try:
        found = asyncio.run(CronSchedule(cron=fields, timezone=timezone).get_dates(n))
    except ValueError as error:  # croniter's own errors are ValueErrors, too
        if "find next date" in str(error):
            raise ValueError(f"cron must fire at some time, got {shown}") from error
        raise ValueError(f"{rule}, got {shown}") from error
    return [datetime.fromisoformat(str(time)) for time in found]


def deployment_file(settings: Scheduled, cron: str, timezone: str = "UTC") -> str:
    """The text of a `prefect.yaml` with one deployment, named like the registered model.

    It holds no address of a tracking server: workers take SOJOURN_TRACKING_URI from their environment.

    >>> from sojourn.flows.settings.retrain import RetrainConfig
    >>> text = deployment_file(RetrainConfig(store="/data/store"), "0 3 * * 1")
    >>> yaml.safe_load(text)["deployments"][0]["parameters"]
    {'settings': {'store': '/data/store'}}
    """
    job = next(name for name, kind in JOBS.items() if isinstance(settings, kind))
    deployment: dict[str, Any] = {
        "name": settings.registered_name,
        "entrypoint": f"sojourn.flows.schedule.run.scheduled_{job.replace('-', '_')}",
        "parameters": {"settings": settings_document(settings)},
        "schedules": [{"cron": cron, "timezone": timezone}],
        "concurrency_limit": {"limit": 1, "collision_strategy": "CANCEL_NEW"},
        "work_pool": {"name": POOL},
    }
    return _HOW + yaml.safe_dump({"name": "sojourn", "deployments": [deployment]}, sort_keys=False)
