"""A work pool of Prefect: its worker and the run get SIGKILL, and the next run finishes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import yaml

from scheduled_runs import own_environment, version_1, wait_for
from sojourn.flows.schedule.deployment import POOL, deployment_file
from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.serving import Predictor


@pytest.mark.slow
def test_a_worker_of_a_pool_is_killed_and_the_next_run_finishes(new_store: Callable[[Path], Path], tmp_path: Path,
                                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    """The deployment of the printed file, each 20 s, on a process work pool; the worker and its run get SIGKILL.

    The worker has the limit of one run here, not the deployment: Prefect's server holds the place of a killed run among
    the deployment's for 300 s, which no setting shortens.
    """
    from mlflow import MlflowClient
    from prefect.settings import PREFECT_API_URL, temporary_settings

    from sojourn.flows.workers.prefect import prefect_server

    store = new_store(tmp_path / "store")
    before = version_1(store, tmp_path)
    client = MlflowClient(f"sqlite:///{store / 'mlflow.db'}")
    for name in set(os.environ) - set(own_environment()):
        monkeypatch.delenv(name)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    monkeypatch.setenv("PREFECT_SERVER_SERVICES_SCHEDULER_LOOP_SECONDS", "2")
    document = yaml.safe_load(deployment_file(RetrainConfig(
        store=store, n_requests=2_000, simulate=False, n_draws=0, n_threads=1, model_name="m"), "* * * * *"))
    document["deployments"][0] |= {"schedules": [{"interval": 20}], "concurrency_limit": None}
    (tmp_path / "prefect.yaml").write_text(yaml.safe_dump(document))

    def runs(status: str) -> list[str]:
        names = [found.experiment_id for found in client.search_experiments()]
        found = client.search_runs(names, f"attributes.status = '{status}'")
        return [run.info.run_id for run in found if "mlflow.parentRunId" not in run.data.tags]

    looks = []

    def looked(what: Callable[[], object]) -> object:
        looks.append(Predictor.load(store / "bundles" / "m").version == before)
        return what()

    # a server of its own also where the session has one already, which makes no runs of schedules
    with temporary_settings(restore_defaults={PREFECT_API_URL}), prefect_server(
            tmp_path, is_scheduling=True) as url, ExitStack() as stack:
        environment = {**os.environ, "PREFECT_API_URL": url, "PREFECT_WORKER_QUERY_SECONDS": "1"}
        command = [sys.executable, "-m", "prefect", "--no-prompt"]
        for arguments in (["work-pool", "create", POOL, "--type", "process"], ["deploy", "--all"]):
            subprocess.run([*command, *arguments], env=environment, cwd=tmp_path, check=True, capture_output=True)

        def worker() -> subprocess.Popen[bytes]:
            process = subprocess.Popen([*command, "worker", "start", "--pool", POOL, "--limit", "1"], env=environment,
                                       cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                       start_new_session=True)
            stack.callback(_kill_all, process)
            return process

        first = worker()
        wait_for(lambda: looked(lambda: runs("RUNNING")), 240)  # it is half-way
        _kill_all(first)
        assert runs("FINISHED") == []
        worker()
        wait_for(lambda: looked(lambda: runs("KILLED") and runs("FINISHED")), 240)
    looks += [Predictor.load(store / "bundles" / "m").version == before for _ in range(100 - len(looks))]
    assert all(looks) and len(looks) >= 100


def _kill_all(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to a worker and to the runs that it began, which lead sessions of their own."""
    import psutil

    with suppress(psutil.NoSuchProcess):
        children = psutil.Process(process.pid).children(recursive=True)
        for each in (psutil.Process(process.pid), *children):
            with suppress(psutil.NoSuchProcess):
                each.kill()
    process.wait()
