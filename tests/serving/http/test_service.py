"""The answer service over HTTP and as a process: its bits, its token, its document, its restarts, its Go client."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from fastapi.openapi.models import OpenAPI

from made_bundles import Made, publish
from made_extender import ask, connect, serving
from made_prometheus import parsed
from sojourn.serving import Predictor
from sojourn.serving.http import AnswerCalls, JsonServer, Limits, bind, main, openapi
from sojourn.serving.http.calls import CALLS

EXAMPLES = Path(__file__).parents[3] / "examples" / "http"
TOKEN = "a-token-of-28-characters.~+/="


@contextmanager
def served(made: Made, kind: str = "hazard", **options: Any) -> Iterator[JsonServer]:
    """A service in this process, its clock at the end of the made trace."""
    predictor = Predictor.load(made.folders[kind])
    calls = AnswerCalls(predictor, clock=lambda: made.trace.horizon_s, n_max=1_000)
    with serving(bind(calls, predictor, "127.0.0.1", 0, **options)) as server:
        yield server


def test_answers_over_http_have_the_bits_of_a_predictor_in_process(made: Made) -> None:
    ours, now_s = Predictor.load(made.folders["hazard"]), made.trace.horizon_s
    with served(made) as server:
        connection = connect(server)
        for idx in range(20):
            request = {"cpu_cores": 0.1 * idx + 0.1, "mem_gib": 1e-7 + idx / 3, "subscription": f"s{idx % 4}"}
            vm = ours.admit(request, now_s)
            status, answer = ask(connection, "/admit", {"request_id": f"{idx}", "request": request,
                                                        "quantiles": [0.1, 0.9]})
            assert (status, answer["remaining_s"]) == (200, vm.remaining(0.0))
            assert answer["quantiles_s"] == [vm.quantile(0.1, 0.0), vm.quantile(0.9, 0.0)]
        connection.close()


def _schemas(path: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Schemas of what a call takes and gives, with the components that they refer to."""
    document = openapi()
    call = document["paths"][path]["post"]
    parts = (call["requestBody"], call["responses"]["200"])
    taken, given = ({**part["content"]["application/json"]["schema"], "components": document["components"]}
                    for part in parts)
    for each in (taken, given):
        jsonschema.Draft202012Validator.check_schema(each)
    return taken, given


def test_the_document_is_openapi_and_true(made: Made) -> None:
    """Each call, single and in a batch: what is sent and what comes back are what the document says."""
    item = {"request_id": "a", "request": {"cpu_cores": 2, "zone": None}}
    asked = [("/admit", item), ("/admit", item), ("/admit", {"items": [item, {**item, "request_id": "b"}]}),
             ("/predict", {"request": {}, "quantiles": [0.5]}), ("/started", {"request_id": "a"}),
             ("/remaining", {"request_id": "a", "quantiles": [0.5]}), ("/remaining", {"items": ["a", "c"]}),
             ("/remaining", {"all": True, "quantiles": [0.5]}), ("/refresh", {"request_id": "a"}),
             ("/refresh", ["a", "c"]), ("/withdraw", {"request_id": "b"}), ("/ended", {"request_id": "a"}),
             ("/ended", {"items": ["a", {"request_id": "c"}]})]
    assert {path for path, _ in asked} == {*CALLS}
    with served(made) as server:
        connection = connect(server)
        status, document = ask(connection, "/openapi.json")
        assert status == 200 and document == openapi()
        OpenAPI.model_validate(document)
        assert {*document["paths"]} == {*server.posts, *server.gets}
        for path, body in asked:
            taken, given = _schemas(path)
            jsonschema.validate(body, taken)
            status, answer = ask(connection, path, body)
            assert status == 200
            jsonschema.validate(answer, given)
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate({**body, "nonsense": 1} if isinstance(body, dict) else [{"nonsense": 1}], taken)
        status, answer = ask(connection, "/remaining", {"request_id": "none"})
        assert status == 404
        jsonschema.validate(answer, document["components"]["schemas"]["Error"])
        connection.close()


def test_refusals_of_documents_have_one_form(made: Made) -> None:
    with served(made, limits=Limits(body_bytes=1_000)) as server:
        connection = connect(server)
        for body, status in ((b"{", 400), (b'{"now_s": NaN}', 400), (b"1", 400), (b" " * 1_001, 413), (b"\xff", 400),
                             (b"[" * 990, 400), (b"9" * 999, 400)):
            found, answer = ask(connection, "/remaining", body)
            assert found == status and [*answer] == ["error"], (body[:20], answer)
        assert ask(connection, "/healthz")[0] == ask(connection, "/readyz")[0] == 200
        connection.request("GET", "/metrics")
        samples, types, _ = parsed(connection.getresponse().read().decode())
        assert types["sojourn_request_seconds"] == "histogram"
        assert samples["sojourn_http_requests_total", (("verb", "remaining"), ("outcome", "refused"))] == 6
        connection.close()


def test_a_token_is_asked_of_all_but_probes(made: Made) -> None:
    with served(made, token=TOKEN) as server:
        connection = connect(server)
        for path in ("/healthz", "/readyz"):
            assert ask(connection, path)[0] == 200
        for path in ("/metrics", "/openapi.json"):
            connection.request("GET", path)
            response = connection.getresponse()
            response.read()
            assert (response.status, response.headers["WWW-Authenticate"]) == (401, "Bearer")
        for given, status in ((None, 401), ("", 401), (TOKEN, 401), (f"Bearer {TOKEN}x", 401), ("Bearer \xe9", 401),
                              (f"Basic {TOKEN}", 401), (f"Bearer {TOKEN}", 200)):
            headers = {"Content-Type": "application/json"} | ({} if given is None else {"Authorization": given})
            connection.request("POST", "/remaining", b"[]", headers)
            response = connection.getresponse()
            assert response.status == status, given
            assert TOKEN not in response.read().decode()
        connection.close()


def test_it_does_not_start_open_to_other_machines_or_without_a_clock(
        made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, empty, foreign = str(made.folders["once"]), tmp_path / "empty", tmp_path / "foreign"
    empty.write_text("\n")
    (foreign / "history").mkdir(parents=True)
    (foreign / "history" / "mine").touch()
    for options, reason in (
            (["--epoch-s", "0", "--host", "0.0.0.0"], "--token-file must be given if --host is not a loopback"),
            (["--epoch-s", "0", "--host", "::"], "--token-file must be given"),
            (["--epoch-s", "0", "--host", "scheduler.example"], "--token-file must be given"),
            (["--epoch-s", "0", "--token-file", str(empty)], "--token-file must hold a token"),
            (["--epoch-s", "0", "--token-file", str(tmp_path / "none")], "No such file"),
            (["--epoch-s", "0", "--requests-max", "0"], "requests-max must be 1-"),
            (["--epoch-s", "0", "--snapshot", str(foreign)], "must be new, empty or a folder of snapshots only"),
            ([], "--epoch-s must be given, since the bundle's training trace had no dates")):
        assert main([folder, "--port", "0", *options]) == 2
        error = capsys.readouterr().err
        assert reason in error and error.startswith("error: ") and error.count("\n") == 1


@contextmanager
def process(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], HTTPConnection]]:
    """A service in a process of its own, and a connection to it."""
    command = [sys.executable, "-m", "sojourn.serving.http", str(folder), "--port", "0", "--epoch-s", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as service:
        try:
            assert service.stdout is not None
            line = next(line for line in service.stdout if line.startswith("answers on "))
            port = int(line.split(",")[0].rpartition(":")[2])
            with closing(HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
                yield service, connection
        finally:
            service.kill()


def _metric(connection: HTTPConnection, name: str) -> float:
    connection.request("GET", "/metrics")
    return parsed(connection.getresponse().read().decode())[0][name, ()]


def _until(connection: HTTPConnection, name: str, least: float) -> None:
    until_s = time.monotonic() + 60
    while _metric(connection, name) < least:
        assert time.monotonic() < until_s
        time.sleep(0.01)


@pytest.mark.slow
def test_requests_survive_a_stop_and_a_kill_loses_an_interval_at_most(made: Made, tmp_path: Path) -> None:
    bundle, state, now_s = tmp_path / "bundle", tmp_path / "state", made.trace.horizon_s
    publish(made.folders["hazard"], bundle)
    kept = ["--snapshot", str(state), "--snapshot-s"]
    query = {"all": True, "now_s": now_s + 7_200, "quantiles": [0.5, 0.9]}
    items = [{"request_id": f"vm-{idx}", "request": {"subscription": f"s{idx}"}, "now_s": now_s} for idx in range(50)]
    with process(bundle, *kept, "0.05", "--watch-s", "0.05") as (service, connection):
        ask(connection, "/admit", items)
        before = ask(connection, "/remaining", query)
        _until(connection, "sojourn_snapshots_total", _metric(connection, "sojourn_snapshots_total") + 2)
        second = subprocess.run([sys.executable, "-m", "sojourn.serving.http", str(bundle), "--port", "0",
                                 "--epoch-s", "0", *kept, "1"], capture_output=True, text=True, timeout=60, check=False)
        assert second.returncode == 2 and "that no other service writes to" in second.stderr
        publish(made.folders["uptime"], bundle)  # a new version is served; what runs keeps its curve
        _until(connection, "sojourn_reloads_total", 1)
        assert ask(connection, "/remaining", query) == before
        publish(made.folders["hazard"], bundle)
        _until(connection, "sojourn_reloads_total", 2)
        service.kill()
    with process(bundle, *kept, "1000") as (service, connection):
        assert ask(connection, "/remaining", query) == before
        ask(connection, "/ended", {"request_id": "vm-0", "now_s": now_s + 60})
        late = ask(connection, "/remaining", query)
        service.send_signal(signal.SIGTERM)
        assert service.wait(60) == 0
    with process(bundle, *kept, "1000") as (service, connection):
        assert ask(connection, "/remaining", query) == late
        assert ask(connection, "/ended", {"request_id": "vm-0"})[1]["state"] == "known"
        assert ask(connection, "/admit", items[1])[1]["state"] == "known"
        ask(connection, "/admit", {"request_id": "lost", "request": {}, "now_s": now_s + 60})
        service.kill()
    with process(bundle, *kept, "1000") as (service, connection):  # the last snapshot is whole
        assert ask(connection, "/remaining", query) == late


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("go") is None, reason="go is not installed")
def test_the_go_client_admits_asks_and_ends(made: Made, tmp_path: Path) -> None:
    environment = {**os.environ, "GOCACHE": str(tmp_path / "cache"), "GOFLAGS": "-mod=mod", "GO111MODULE": "off",
                   "GOPATH": str(tmp_path / "go")}
    program = tmp_path / "client"
    subprocess.run(["go", "build", "-o", program, EXAMPLES / "client.go"], env=environment, check=True, timeout=300)
    token = tmp_path / "token"
    token.write_text(TOKEN + "\n")
    with process(made.folders["hazard"], "--token-file", str(token)) as (_, connection):
        url = f"http://127.0.0.1:{connection.port}"
        environment |= {"SOJOURN_URL": url, "SOJOURN_TOKEN": TOKEN, "SOJOURN_NOW_S": str(made.trace.horizon_s)}
        done = subprocess.run([program], env=environment, capture_output=True, text=True, timeout=60, check=True)
        bad = subprocess.run([program], env={**environment, "SOJOURN_TOKEN": "wrong"}, capture_output=True, text=True,
                             timeout=60, check=False)
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        query = urllib.request.Request(f"{url}/remaining", b'{"all":true}', headers)
        with urllib.request.urlopen(query, timeout=60) as response:
            assert json.loads(response.read()) == {"items": []}
    ours, now_s = Predictor.load(made.folders["hazard"]), made.trace.horizon_s
    vm = ours.admit({"cpu_cores": 2, "subscription": "s4"}, now_s)
    first, second, third = done.stdout.splitlines()
    assert first == f"vm-1 admitted: {vm.remaining(0.0):.0f} s, 9 in 10 within {vm.quantile(0.9, 0.0):.0f} s"
    assert second == f"vm-1 after an hour: {vm.remaining(3_600.0):.0f} s"
    assert third == "vm-1 ended"
    assert bad.returncode == 1 and "401" in bad.stderr
