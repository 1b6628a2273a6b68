"""What Prefect and MLflow cost a retrain, apart: starting Prefect's server, its flow and tasks, MLflow's import, its
database, and all calls to it.

One process, first run of a new store, then a second one with other data (its database and server are there). Prints a
table, shares of the whole run beside the seconds, and writes JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SPENT: dict[str, float] = {}


@contextmanager
def spending(what: str) -> Iterator[None]:
    """Add the seconds within to `SPENT`."""
    started = time.perf_counter()
    try:
        yield
    finally:
        SPENT[what] = SPENT.get(what, 0.0) + time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n-requests", type=int, default=5_000)
    parser.add_argument("--json", type=Path, default=Path("overhead.json"))
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="overhead-") as folder:
        _measure(Path(folder), asked.n_requests)
    whole = SPENT["whole retrain, second run"]
    for what, seconds in SPENT.items():
        print(f"{what:<44}{seconds:>8.2f} s{seconds / whole:>8.2f} of the second run")
    asked.json.write_text(json.dumps(SPENT, indent=1) + "\n")


def _measure(store: Path, n_requests: int) -> None:
    from sojourn.flows.process import keep_prefect_in

    keep_prefect_in(store)
    os.environ["OMP_NUM_THREADS"] = "1"
    with spending("import Prefect"):
        from prefect import flow, task
    with spending("import MLflow"):
        import mlflow
        import mlflow.store.tracking.sqlalchemy_store  # noqa: F401
    from sojourn.flows.retrain.job import retrain
    from sojourn.flows.settings.retrain import RetrainConfig
    from sojourn.flows.settings.store import TrackingUri
    from sojourn.flows.tracking import client
    from sojourn.flows.tracking.databases import ready_database
    from sojourn.flows.workers.prefect import prefect_server

    with spending("make MLflow's database"):
        ready_database(store / "mlflow.db", store / "artifacts")
    answering = client.answering

    @contextmanager
    def timed(uri: TrackingUri) -> Iterator[None]:
        with spending(f"calls to MLflow, {which}"), answering(uri):
            yield

    client.answering = timed

    @task
    def nothing() -> None:
        return None

    @flow
    def empty() -> None:
        for _ in range(5):
            nothing()

    server = prefect_server(store)
    with spending("start Prefect's server"):
        server.__enter__()
    try:
        with spending("first flow of five empty tasks"):
            empty()
        with spending("second flow of five empty tasks"):
            empty()
        for which, seed in (("first run", 0), ("second run", 1)):
            config = RetrainConfig(store=store, n_requests=n_requests, seed=seed, n_threads=1, simulate=False)
            with spending(f"whole retrain, {which}"):
                retrain(config)
    finally:
        with spending("end Prefect's server"):
            server.__exit__(None, None, None)


if __name__ == "__main__":
    main()
