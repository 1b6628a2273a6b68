"""A recorded cluster through the commands: checked, trained on, and served to a scheduler; as docs/extender.md says."""

import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from made_pods import maker
from sojourn.features.readers import read_trace
from sojourn.flows.cli import app
from sojourn.flows.commands.options import DEBUG
from sojourn.flows.retrain.ingest import content_hash
from sojourn.flows.settings.retrain import RetrainConfig

ROOT = Path(__file__).parents[3]
RECORDED = ROOT / "examples" / "kubernetes"


def commands() -> list[list[str]]:
    """What docs/extender.md says to type, as arguments of `sojourn`."""
    text = (ROOT / "docs" / "extender.md").read_text()
    block = re.search(r"run by tests/flows/commands/test_kubernetes_trace.py -->\n```sh\n(.*?)```", text, re.DOTALL)
    assert block is not None
    return [line.partition("#")[0].split()[1:] for line in block[1].splitlines()]


def test_a_check_reads_the_example_and_names_the_next_command() -> None:
    done = CliRunner().invoke(app, ["check", str(RECORDED / "watch.json.gz"), "--reader", "kubernetes"],
                              env={DEBUG: "0"})
    assert done.exit_code == 0, done.output
    assert "controller      owner" in done.output and "look at" not in done.output
    assert f"next     sojourn gain {RECORDED / 'watch.json.gz'} --reader kubernetes" in done.output


def test_a_check_of_lists_says_how_ends_are_known() -> None:
    done = CliRunner().invoke(app, ["trace", "describe", str(RECORDED / "lists"), "--reader", "kubernetes"],
                              env={DEBUG: "0"})
    assert done.exit_code == 0, done.output
    assert "ends lie between two lists, or in a break of a watch, and are drawn uniformly there" in " ".join(
        done.output.split())


def test_the_example_is_what_its_maker_writes(tmp_path: Path) -> None:
    made = maker()
    pods = made.cluster(1.0, 24, 0)
    name = "pods-20260301T120000Z.json.gz"
    text = made.list_text(made.listed(pods, made.START_S + made.DAY_S // 2))
    assert gzip.decompress((RECORDED / "lists" / name).read_bytes()).decode() == text
    first = gzip.decompress((RECORDED / "watch.json.gz").read_bytes()).decode().partition("\n")[0]
    assert first + "\n" == made.event_line(*next(made.watch(pods, made.START_S + made.DAY_S)))


def test_a_list_of_another_name_is_another_trace_since_the_name_says_its_time(tmp_path: Path) -> None:
    hashes = []
    for name in ("pods-20260301T000000Z.json.gz", "pods-20260301T000500Z.json.gz"):
        shutil.copy(RECORDED / "lists" / "pods-20260301T000000Z.json.gz", tmp_path / name)
        hashes.append(content_hash(RetrainConfig(trace=tmp_path / name, reader="kubernetes").source))
    assert hashes[0] != hashes[1]


@pytest.mark.slow
def test_from_a_recorded_cluster_to_a_served_extender_in_three_commands(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefect_server: None,
        new_store: Callable[[Path], Path]) -> None:
    check, retrain, extender = commands()
    shutil.copy(RECORDED / "watch.json.gz", tmp_path)
    monkeypatch.chdir(tmp_path)
    new_store(tmp_path / ".sojourn")
    for name, value in {DEBUG: "0", "COLUMNS": "200", "SOJOURN_N_REPLICAS": "2", "SOJOURN_MAX_REPLICAS": "2",
                        "SOJOURN_N_DRAWS": "20", "SOJOURN_FAMILIES": '["km", "hazard"]',
                        "SOJOURN_N_THREADS": "1"}.items():
        monkeypatch.setenv(name, value)
    assert CliRunner().invoke(app, check).exit_code == 0
    done = CliRunner().invoke(app, retrain)
    assert done.exit_code in (0, 3), done.output  # 3: a challenger, which small pools of hosts often give
    bundle = next(line.split()[1] for line in done.output.splitlines() if line.startswith("bundle "))
    assert done.exit_code == 3 or bundle == extender[1]
    lists = gzip.decompress((RECORDED / "lists" / "pods-20260302T000000Z.json.gz").read_bytes())
    process = subprocess.Popen([sys.executable, "-m", "sojourn.serving.extender", bundle, "--port", "0",
                                "--log-to", "log"], stdout=subprocess.PIPE, text=True,
                               env={**os.environ, "PYTHONUNBUFFERED": "1"})
    try:
        assert process.stdout is not None
        port = int(re.search(r":(\d+),", process.stdout.readline())[1])  # type: ignore[index]
        connection = HTTPConnection("127.0.0.1", port, timeout=30)

        def post(path: str, body: bytes) -> Any:
            connection.request("POST", path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            assert response.status == 200
            return json.loads(response.read())

        told = post("/running", lists)
        assert told["placed"] > 50 and told["ignored"] > 0 and "refused" not in told
        pod = next(item for item in json.loads(lists)["items"] if item["spec"].get("nodeName"))
        nodes = sorted({item["spec"]["nodeName"] for item in json.loads(lists)["items"] if "nodeName" in item["spec"]})
        scores = post("/prioritize", json.dumps({"Pod": pod, "NodeNames": [*nodes, "empty"]}).encode())
        assert {each["Host"] for each in scores} == {*nodes, "empty"}
        assert scores[-1] == {"Host": "empty", "Score": 0} and max(each["Score"] for each in scores) > 0
        connection.close()
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        if process.stdout is not None:
            process.stdout.close()
    placed, _ = read_trace("kubernetes", tmp_path / "log")  # what it logged is a recording again
    assert len(placed) == told["placed"] and placed.roles.owners == ("namespace", "controller")
