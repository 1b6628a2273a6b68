"""A new version in the extender's folder is served without losing what runs, under load; what it is not ready for."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from made_bundles import Made, publish, rewrite_schema
from made_extender import Clock, ask, connect, pod, serving
from made_prometheus import parsed
from sojourn.serving import Predictor, WatchEvent, load_bundle
from sojourn.serving.extender.extender import Settings, bind
from sojourn.serving.extender.nodes import PodRequests
from sojourn.serving.http import JsonServer
from sojourn.serving.inputs import Encoder, HistoryDefinition

N_THREADS = 4


def _metrics(server: JsonServer) -> dict[str, float]:
    """Samples without labels."""
    connection = connect(server)
    connection.request("GET", "/metrics")
    samples, _, _ = parsed(connection.getresponse().read().decode())
    connection.close()
    return {name: value for (name, labels), value in samples.items() if not labels}


def test_a_new_version_is_served_under_load_and_nothing_that_runs_is_lost(made: Made, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(made.folders["hazard"], tmp_path / "bundle"))
    clock = Clock(made.trace.horizon_s)
    predictor = Predictor.load(folder)
    failures: list[BaseException] = []
    reports = [0] * N_THREADS
    is_over, is_warm = threading.Event(), threading.Barrier(N_THREADS + 1)
    events: list[WatchEvent] = []
    is_told = threading.Semaphore(0)

    def note(event: WatchEvent) -> None:
        events.append(event)
        is_told.release()

    def load(thread: int) -> None:
        connection = connect(server)
        try:
            while not is_over.is_set():
                name = f"{thread}-{reports[thread]}"
                assert ask(connection, "/placed", pod(name, f"node-{thread}")) == (200, {"placed": 1})
                status, scores = ask(connection, "/prioritize", {"Pod": pod("new"), "NodeNames": [f"node-{thread}"]})
                assert (status, scores[0]["Score"] >= 1) == (200, True)
                assert ask(connection, "/ended", pod(name)) == (200, {"ended": 1})
                reports[thread] += 1
                if reports[thread] == 5:
                    is_warm.wait(60)
        except BaseException as error:
            failures.append(error)
        finally:
            connection.close()

    with serving(bind(predictor, "127.0.0.1", 0, Settings(epoch_s=0), clock)) as server:
        connection = connect(server)
        assert ask(connection, "/running", {"items": [pod("old", "node-x")]})[1]["placed"] == 1
        before = ask(connection, "/prioritize", {"Pod": pod("new"), "NodeNames": ["node-x"]})
        threads = [threading.Thread(target=load, args=(thread,)) for thread in range(N_THREADS)]
        for thread in threads:
            thread.start()
        is_warm.wait(60)
        with predictor.watch(interval_s=0.01, on_event=note):
            for kind in ("uptime", "once", "hazard"):
                publish(made.folders[kind], folder)
                assert is_told.acquire(timeout=60)
                assert ask(connection, "/healthz")[1]["version"] == load_bundle(folder).version
            is_over.set()
            for each in threads:
                each.join(60)
        assert not failures
        assert [event.is_served for event in events] == [True] * 3
        # the pod from before the reloads keeps its curve: the first version is back, and scores as before
        assert ask(connection, "/prioritize", {"Pod": pod("new"), "NodeNames": ["node-x"]}) == before
        counted = _metrics(server)
        assert (counted["sojourn_reloads_total"], counted["sojourn_extender_pods"]) == (3, 1)
        assert counted["sojourn_ended_total"] == sum(reports) > 5 * N_THREADS
        assert ask(connection, "/ended", pod("old")) == (200, {"ended": 1})
        connection.close()


def test_a_version_that_is_refused_leaves_the_old_one_serving(made: Made, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(made.folders["hazard"], tmp_path / "bundle"))
    other = Path(shutil.copytree(made.folders["hazard"], tmp_path / "other"))
    rewrite_schema(other, lambda schema: schema["history"].update(window=3))
    predictor = Predictor.load(folder)
    events: list[WatchEvent] = []
    with (serving(bind(predictor, "127.0.0.1", 0, Settings(epoch_s=0), Clock(made.trace.horizon_s))) as server,
          predictor.watch(interval_s=1e5, on_event=events.append) as watch):
        version = predictor.version
        publish(other, folder)
        watch.poll()
        connection = connect(server)
        assert ask(connection, "/healthz") == (200, {"status": "ok", "version": version})
        connection.close()
        assert _metrics(server)["sojourn_reload_errors_total"] == 1
    assert [event.is_served for event in events] == [False]


@pytest.mark.parametrize("sources", [None, {"cpu_cores": "requests.cpu", "team": "label:team"}])
def test_columns_follow_the_version(sources: Any) -> None:
    served = SimpleNamespace(encoder=Encoder(("cpu_cores",), ("team", "user"), HistoryDefinition(())))
    requests = PodRequests(cast(Predictor, served), sources)
    document = {"metadata": {"labels": {"team": "t"}, "namespace": "ns"},
                "spec": {"containers": [{"resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}]}}
    assert requests.request(document) == {"cpu_cores": 2.0} | ({"user": "ns"} if sources is None else {"team": "t"})
    served.encoder = Encoder(("mem_gib", "cpu_cores"), ("user",), HistoryDefinition(()))
    # the default sources know memory, too; the mapping's team is not read any more
    later = {"cpu_cores": 2.0, "mem_gib": 1.0, "user": "ns"} if sources is None else {"cpu_cores": 2.0}
    assert requests.request(document) == later


def test_it_is_ready_once_it_was_told_what_runs(made: Made) -> None:
    predictor = Predictor.load(made.folders["once"])
    with serving(bind(predictor, "127.0.0.1", 0, Settings(epoch_s=0), Clock(made.trace.horizon_s))) as server:
        connection = connect(server)
        assert ask(connection, "/healthz")[0] == 200
        status, answer = ask(connection, "/readyz")
        assert (status, answer["status"]) == (503, "not ready")
        assert "POST /running" in answer["reason"]
        assert ask(connection, "/placed", pod("a", "n"))[0] == 200  # one pod is not all
        assert ask(connection, "/readyz")[0] == 503
        assert ask(connection, "/running", {"items": []})[0] == 200
        assert ask(connection, "/readyz") == (200, {"status": "ready", "version": predictor.version})
        assert _metrics(server)["sojourn_extender_ready"] == 1
        connection.close()
