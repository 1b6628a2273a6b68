"""Jobs on a schedule: Prefect deployments whose parameters are a job's settings, and the process that carries their
runs out one after the other.

The settings are checked when a schedule is made and again when a run begins. A run that is killed leaves what any
killed job leaves; the next one repairs it."""

from __future__ import annotations

import asyncio
import os
import signal
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

from prefect import flow
from prefect.deployments.runner import RunnerDeployment
from pydantic import WithJsonSchema

from sojourn.flows.schedule.deployment import JOBS, Scheduled, next_times, parameter_schema, settings_document
from sojourn.flows.store.lock import schedule_lock
from sojourn.flows.versions.promotion import open_store
from sojourn.flows.workers.flow import check_before_work
from sojourn.flows.workers.prefect import prefect_server

if TYPE_CHECKING:
    from prefect.client.orchestration import PrefectClient

MonitorSettings = Annotated[dict[str, Any], WithJsonSchema(parameter_schema(JOBS["monitor"]))]
RetrainSettings = Annotated[dict[str, Any], WithJsonSchema(parameter_schema(JOBS["retrain"]))]
TrainUsageSettings = Annotated[dict[str, Any], WithJsonSchema(parameter_schema(JOBS["train-usage"]))]
"""What Prefect's server checks parameters by, before a run begins: unknown names and other types are refused."""
_TRACKING = "SOJOURN_TRACKING_URI"


@flow(name="scheduled-retrain", log_prints=False, persist_result=False)
def scheduled_retrain(settings: RetrainSettings) -> None:
    """`sojourn train` with these settings, names as in `RetrainConfig`."""
    from sojourn.flows.retrain.job import retrain
    from sojourn.flows.settings.retrain import RetrainConfig

    retrain(RetrainConfig(**settings))


@flow(name="scheduled-train-usage", log_prints=False, persist_result=False)
def scheduled_train_usage(settings: TrainUsageSettings) -> None:
    """`sojourn usage train` with these settings, names as in `TrainUsageConfig`."""
    from sojourn.flows.settings.other_jobs import TrainUsageConfig
    from sojourn.flows.usage.train_usage import train_usage

    train_usage(TrainUsageConfig(**settings))


@flow(name="scheduled-monitor", log_prints=False, persist_result=False)
def scheduled_monitor(settings: MonitorSettings) -> None:
    """`sojourn model monitor` with these settings, names as in `MonitorConfig`."""
    from sojourn.flows.monitor.job import monitor
    from sojourn.flows.settings.other_jobs import MonitorConfig

    monitor(MonitorConfig(**settings))


_FLOWS = {"monitor": scheduled_monitor, "retrain": scheduled_retrain, "train-usage": scheduled_train_usage}


def run_on_schedule(settings: Scheduled, cron: str, timezone: str = "UTC",
                    tell: Callable[[str], object] = print) -> None:
    """Make a deployment of the settings' job and carry its runs out, until SIGTERM or Ctrl-C.

    The deployment has the registered model's name, so that a model has one schedule: a second one is refused while the
    first runs in the same store, and replaces one of another store on the same server. A run that is due while another
    one is under way is cancelled. Prefect's server is the one of PREFECT_API_URL, else one that lives as long as this
    process and keeps its files in the store.

    ValueError or OSError before anything is made: see `next_times` and `check_before_work`.
    """
    job = next(job for job, kind in JOBS.items() if isinstance(settings, kind))
    times = next_times(cron, timezone)
    check_before_work(settings)
    if settings.tracking_uri is not None:
        os.environ[_TRACKING] = settings.tracking_uri.plain
    with (schedule_lock(settings.store, job, settings.registered_name),
          prefect_server(settings.store, is_scheduling=True) as url):
        from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy
        from prefect.schedules import Cron
        from prefect.types.entrypoint import EntrypointType

        own = f"schedule-{uuid.uuid4().hex[:12]}"
        deployment = _FLOWS[job].to_deployment(
            settings.registered_name, tags=[own], schedule=Cron(cron, timezone=timezone),
            parameters={"settings": settings_document(settings)}, entrypoint_type=EntrypointType.MODULE_PATH,
            concurrency_limit=ConcurrencyLimitConfig(limit=1, collision_strategy=ConcurrencyLimitStrategy.CANCEL_NEW))
        assert isinstance(deployment, RunnerDeployment)  # a coroutine only where an event loop runs
        tell(f"scheduled {settings.registered_name}: {', '.join(f'{time:%Y-%m-%d %H:%M %Z}' for time in times)}, ...")
        tell(f"server    {url}")
        n_stopped = asyncio.run(_carry_out(deployment, own, str(settings.store.absolute())))
        if n_stopped:
            _end_tracked(settings, tell)
    tell("stopped")


def _end_tracked(settings: Scheduled, tell: Callable[[str], object]) -> None:
    """End in MLflow what was stopped with its schedule: Prefect kills its process, which can't do so itself."""
    try:
        open_store(settings)
    except (OSError, ValueError) as error:
        tell(f"not ended yet, the next run does it: {error}")


async def _carry_out(deployment: RunnerDeployment, own: str, store: str) -> int:
    """Register the deployment and run what is due, until SIGTERM or SIGINT; the number of runs that this stopped.

    Then its schedule is paused, if the deployment is still this process's own, which its tag tells: another one may
    have replaced it. Before and after, runs of this store that nobody carries out any more are ended.
    """
    from prefect.client.orchestration import get_client
    from prefect.runner import Runner

    runner = Runner(limit=1, pause_on_shutdown=False)
    deployment_id = await runner.aadd_deployment(deployment)
    async with get_client() as client:
        await _end_runs(client, deployment_id, store, "its schedule was killed")
    running = asyncio.ensure_future(runner.start())
    await asyncio.sleep(0)  # it has set a handler of its own, which ends in a traceback
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, running.cancel)
    with suppress(asyncio.CancelledError):
        await running
    async with get_client() as client:
        if own in (await client.read_deployment(deployment_id)).tags:
            await client.pause_deployment(deployment_id)
        return await _end_runs(client, deployment_id, store, "its schedule was stopped")


async def _end_runs(client: PrefectClient, deployment_id: UUID, store: str, why: str) -> int:
    """End the deployment's runs of this store that are under way for Prefect's server; how many that were.

    Who holds the lock of the schedule carries out none of them. Else the server holds a dead run's place for 300 s and
    cancels what is due until then.
    """
    from prefect.client.schemas.filters import (
        DeploymentFilter,
        DeploymentFilterId,
        FlowRunFilter,
        FlowRunFilterState,
        FlowRunFilterStateType,
    )
    from prefect.client.schemas.objects import StateType
    from prefect.states import Crashed

    is_under_way = FlowRunFilterStateType(any_=[StateType.PENDING, StateType.RUNNING, StateType.CANCELLING])
    runs = await client.read_flow_runs(
        deployment_filter=DeploymentFilter(id=DeploymentFilterId(any_=[deployment_id])),
        flow_run_filter=FlowRunFilter(state=FlowRunFilterState(type=is_under_way)))
    own = [run for run in runs if run.parameters.get("settings", {}).get("store") == store]
    for run in own:
        await client.set_flow_run_state(run.id, Crashed(message=why), force=True)
    return len(own)
