"""Running a job on a schedule: a Prefect deployment, and the process that carries its runs out one after the other."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress

from sojourn.flows.environment import be_quiet
from sojourn.flows.jobs.next_times import next_times
from sojourn.flows.jobs.preflight import check_before_work
from sojourn.flows.jobs.schedule_settings import JOBS, Scheduled, settings_document
from sojourn.flows.outside.prefect_server import prefect_server

be_quiet()

from prefect.deployments.runner import RunnerDeployment  # noqa: E402  (Prefect reads its settings on import)

from sojourn.flows.jobs.scheduled import scheduled_monitor, scheduled_retrain, scheduled_train_usage  # noqa: E402

_FLOWS = {"monitor": scheduled_monitor, "retrain": scheduled_retrain, "train-usage": scheduled_train_usage}
_TRACKING = "SOJOURN_TRACKING_URI"


def run_on_schedule(settings: Scheduled, cron: str, timezone: str = "UTC",
                    tell: Callable[[str], object] = print) -> None:
    """Make a deployment of the settings' job and carry its runs out, until SIGTERM or Ctrl-C.

    The deployment has the registered model's name, so that a model has one schedule: a second one replaces it. A run
    that is due while another one is under way is cancelled. Prefect's server is the one of PREFECT_API_URL, else one
    that lives as long as this process and keeps its files in the store.

    ValueError or OSError before anything is made: see `next_times` and `check_before_work`.
    """
    flow = next(_FLOWS[job] for job, kind in JOBS.items() if isinstance(settings, kind))
    times = next_times(cron, timezone)
    check_before_work(settings)
    if settings.tracking_uri is not None:
        os.environ[_TRACKING] = settings.tracking_uri.plain
    with prefect_server(settings.store, is_scheduling=True) as url:
        from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy
        from prefect.schedules import Cron
        from prefect.types.entrypoint import EntrypointType

        deployment = flow.to_deployment(
            settings.registered_name, schedule=Cron(cron, timezone=timezone),
            parameters={"settings": settings_document(settings)}, entrypoint_type=EntrypointType.MODULE_PATH,
            concurrency_limit=ConcurrencyLimitConfig(limit=1, collision_strategy=ConcurrencyLimitStrategy.CANCEL_NEW))
        assert isinstance(deployment, RunnerDeployment)  # a coroutine only where the caller is one
        tell(f"scheduled {settings.registered_name}: {', '.join(f'{time:%Y-%m-%d %H:%M %Z}' for time in times)}, ...")
        tell(f"server    {url}")
        asyncio.run(_carry_out(deployment))
    tell("stopped")


async def _carry_out(deployment: RunnerDeployment) -> None:
    """Register the deployment and run what is due, until SIGTERM or SIGINT; then its schedule is paused."""
    from prefect.runner import Runner

    runner = Runner(limit=1, pause_on_shutdown=True)
    await runner.aadd_deployment(deployment)
    running = asyncio.ensure_future(runner.start())
    await asyncio.sleep(0)  # it has set a handler of its own, which ends in a traceback
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, running.cancel)
    with suppress(asyncio.CancelledError):
        await running
