"""Jobs that a server runs on a schedule: Prefect deployments whose parameters are a job's settings.

The settings are checked when a schedule is made and again when a run begins. A run that is killed leaves what any
killed job leaves; the next one repairs it.
"""

from __future__ import annotations

from typing import Annotated, Any

from prefect import flow
from pydantic import WithJsonSchema

from sojourn.flows.jobs.schedule_settings import JOBS, parameter_schema

MonitorSettings = Annotated[dict[str, Any], WithJsonSchema(parameter_schema(JOBS["monitor"]))]
RetrainSettings = Annotated[dict[str, Any], WithJsonSchema(parameter_schema(JOBS["retrain"]))]
TrainUsageSettings = Annotated[dict[str, Any], WithJsonSchema(parameter_schema(JOBS["train-usage"]))]
"""What Prefect's server checks parameters by, before a run begins: unknown names and other types are refused."""


@flow(name="scheduled-retrain", log_prints=False, persist_result=False)
def scheduled_retrain(settings: RetrainSettings) -> None:
    """`sojourn retrain` with these settings, names as in `RetrainConfig`."""
    from sojourn.flows.jobs.retrain import retrain
    from sojourn.flows.settings.retrain import RetrainConfig

    retrain(RetrainConfig(**settings))


@flow(name="scheduled-train-usage", log_prints=False, persist_result=False)
def scheduled_train_usage(settings: TrainUsageSettings) -> None:
    """`sojourn train-usage` with these settings, names as in `TrainUsageConfig`."""
    from sojourn.flows.jobs.train_usage import train_usage
    from sojourn.flows.settings.other_jobs import TrainUsageConfig

    train_usage(TrainUsageConfig(**settings))


@flow(name="scheduled-monitor", log_prints=False, persist_result=False)
def scheduled_monitor(settings: MonitorSettings) -> None:
    """`sojourn monitor` with these settings, names as in `MonitorConfig`."""
    from sojourn.flows.jobs.monitor import monitor
    from sojourn.flows.settings.other_jobs import MonitorConfig

    monitor(MonitorConfig(**settings))
