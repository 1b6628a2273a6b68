"""A `prefect.yaml` for a process work pool: a job with its settings as a deployment."""

from __future__ import annotations

from typing import Any

import yaml

from sojourn.flows.jobs.schedule_settings import JOBS, Scheduled, settings_document

POOL = "sojourn"
_HOW = f"""\
# prefect work-pool create {POOL} --type process
# prefect deploy --all
# prefect worker start --pool {POOL}
"""


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
        "entrypoint": f"sojourn.flows.jobs.scheduled.scheduled_{job.replace('-', '_')}",
        "parameters": {"settings": settings_document(settings)},
        "schedules": [{"cron": cron, "timezone": timezone}],
        "concurrency_limit": {"limit": 1, "collision_strategy": "CANCEL_NEW"},
        "work_pool": {"name": POOL},
    }
    return _HOW + yaml.safe_dump({"name": "sojourn", "deployments": [deployment]}, sort_keys=False)
