"""The command: a dry run by default, a file on request, and only where the bounds hold."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from learnt_bundle import Learnt
from sojourn.features import Trace
from sojourn.features.creation import build_rows
from sojourn.flows.cli import app
from sojourn.flows.commands.options import DEBUG
from sojourn.serving import Predictor, load_bundle
from sojourn.serving.inputs import HistoryState


@pytest.fixture(scope="module")
def folder(learnt: Learnt, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trace with pods' names."""
    requests = learnt.trace.requests
    named = requests.assign(request_id=[f"ns/pod-{name}" for name in requests["request_id"]])
    return Trace(named, learnt.trace.horizon_s, learnt.trace.roles, meta=learnt.trace.meta).save(
        tmp_path_factory.mktemp("pods") / "trace")


def _run(*words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["serve", "annotate", *words], env={DEBUG: "0"})
    return done.exit_code, done.stdout, done.stderr


def test_a_dry_run_prints_lines_and_writes_nothing(learnt: Learnt, folder: Path) -> None:
    before = sorted(folder.parent.iterdir())
    code, lines, said = _run(str(learnt.folder), str(folder), "--consumer", "karpenter", "--any-kind")
    n = int((~learnt.rows.is_event).sum())
    assert code == 0, said
    assert lines.splitlines()[0] == "#!/bin/sh" and len(lines.splitlines()) == n + 1
    assert all(line.startswith("kubectl annotate pod pod-") for line in lines.splitlines()[1:])
    assert f"of {len(learnt.split.test):,} held-out requests end within their 90 % bound" in said
    assert "by tenth of the predicted median lifetime" in said and f"dry run   {n} lines" in said
    assert sorted(folder.parent.iterdir()) == before


def _hours(line: str) -> float:
    found = re.search(r"=(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?$", line)
    assert found is not None
    hours, minutes, seconds = (int(each or 0) for each in found.groups())
    return hours + minutes / 60 + seconds / 3_600


@pytest.fixture
def kinds(learnt: Learnt, folder: Path, tmp_path: Path) -> Path:
    """The pods, of Deployments, Jobs and CronJobs in turn."""
    trace = Trace.load(folder)
    names = [("Deployment", "Job", "CronJob")[idx % 3] for idx in range(len(trace))]
    requests = trace.requests.assign(kind=names)
    return Trace(requests, trace.horizon_s, trace.roles, meta=trace.meta).save(tmp_path / "kinds")


def test_karpenter_protects_pods_of_jobs_unless_told_otherwise(learnt: Learnt, kinds: Path) -> None:
    requests = Trace.load(kinds).requests
    running = requests[requests["departure_s"].isna()]
    of_jobs = {name.partition("/")[2] for name in running.loc[running["kind"] != "Deployment", "request_id"]}
    assert 0 < len(of_jobs) < len(running)
    words = (str(learnt.folder), str(kinds), "--consumer", "karpenter")
    code, lines, said = _run(*words)
    assert code == 0, said
    assert {line.split()[3] for line in lines.splitlines()[1:]} <= of_jobs
    assert f"left out  {len(running) - len(of_jobs):,} pods of no Job" in said
    assert len(_run(*words, "--any-kind")[1].splitlines()) > len(lines.splitlines())
    assert len(_run(*words[:-1], "chronos")[1].splitlines()) == len(running) + 1


def test_pods_of_unknown_kind_are_not_protected(learnt: Learnt, folder: Path) -> None:
    code, lines, said = _run(str(learnt.folder), str(folder), "--consumer", "karpenter")
    assert (code, lines) == (0, "#!/bin/sh\n")
    assert "pods of no Job" in said


def test_no_bound_is_longer_than_its_cap(learnt: Learnt, kinds: Path) -> None:
    words = (str(learnt.folder), str(kinds), "--consumer", "karpenter", "--any-kind", "--quantile", "0.99")
    trace = Trace.load(kinds)
    recorded_h = (trace.horizon_s - int(trace.requests["arrival_s"].min())) / 3_600
    _, lines, _ = _run(*words)
    assert max(map(_hours, lines.splitlines()[1:])) <= recorded_h
    code, lines, said = _run(*words, "--at-most", "12h")
    assert code == 0, said
    assert max(map(_hours, lines.splitlines()[1:])) == 12.0
    assert "bounds at 12h (--at-most)" in said
    assert "have run for 12h already (--at-most)" in said


def test_a_cap_holds_for_every_consumer(learnt: Learnt, folder: Path) -> None:
    found = [json.loads(line) for line in _run(str(learnt.folder), str(folder), "--at-most", "12h")[1]
             .splitlines()]
    assert found and all(each["uptime_s"] < each["total_s"] <= 43_200 for each in found)


def test_a_file_holds_what_the_dry_run_printed(learnt: Learnt, folder: Path, tmp_path: Path) -> None:
    words = (str(learnt.folder), str(folder), "--any-coverage")
    _, lines, _ = _run(*words)
    code, printed, said = _run(*words, "--output", str(tmp_path / "made" / "out.jsonl"))
    assert (code, printed) == (0, "") and "written" in said
    assert (tmp_path / "made" / "out.jsonl").read_text() == lines
    assert all(json.loads(line)["remaining_s"] >= 1 for line in lines.splitlines())


def test_bounds_that_do_not_hold_are_not_written(learnt: Learnt, folder: Path, tmp_path: Path) -> None:
    """What runs alone tells nothing of coverage."""
    trace = Trace.load(folder)
    running = trace.select(~trace.is_event()).save(tmp_path / "running")
    out = tmp_path / "out"
    words = (str(learnt.folder), str(running), "--output", str(out))
    code, _, said = _run(*words)
    assert code == 2 and "coverage is not known" in said and "--any-coverage" in said and not out.exists()
    code, _, _ = _run(*words, "--any-coverage")
    assert code == 0
    assert len(out.read_text().splitlines()) == int(Trace.load(running).is_start_known().sum())


def test_only_the_listed_are_annotated(learnt: Learnt, folder: Path, tmp_path: Path) -> None:
    _, lines, _ = _run(str(learnt.folder), str(folder))
    wanted = json.loads(lines.splitlines()[1])["request_id"]
    listed = tmp_path / "ids"
    listed.write_text(f"{wanted}\n\nns/gone\n")
    code, lines, said = _run(str(learnt.folder), str(folder), "--only", str(listed))
    assert code == 0 and [json.loads(line)["request_id"] for line in lines.splitlines()] == [wanted]
    assert "1 of --only are not among them: ns/gone" in said


def test_requests_that_have_not_started_are_annotated_in_place(learnt: Learnt, folder: Path, tmp_path: Path) -> None:
    """As a predictor answers them at the trace's end that knows all of the trace, what runs included."""
    file = tmp_path / "waiting.jsonl"
    known = {"cpu_cores": 2, "mem_gib": 8, "subscription": str(learnt.trace.requests["subscription"].iloc[-1])}
    file.write_text(json.dumps({"request_id": "ns/new", **known}) + "\n\n" + '{"request_id": "ns/other"}\n')
    code, lines, _ = _run(str(learnt.folder), str(folder), "--requests", str(file))
    found = [json.loads(line) for line in lines.splitlines()]
    assert code == 0 and [each["name"] for each in found] == ["ns/new", "ns/other"]
    bundle = load_bundle(learnt.folder)
    history = HistoryState(bundle.schema.encoder.history)
    build_rows(learnt.trace, bundle.schema.encoder, history)
    life = Predictor(bundle, history).predict(known, learnt.trace.horizon_s)
    assert found[0]["total_s"] == found[0]["remaining_s"] == life.quantile(0.9, 0.0) and found[0]["uptime_s"] == 0
    code, lines, _ = _run(str(learnt.folder), str(folder), "--requests", str(file), "--consumer", "chronos")
    assert code == 0 and f"expected-duration-seconds={found[0]['total_s']}" in lines


@pytest.mark.parametrize(("text", "message"), [
    ("", "requests must be a file with one JSON object a line, got an empty one"),
    ("{", "line 1 must be a JSON object, got '{'"),
    ("[1]", "line 1 must be a JSON object, got '[1]'"),
    ('{"cpu_cores": 1}', "line 1: request_id must be text and differ from request to request, got None"),
    ('{"request_id": "a"}\n\n{"request_id": "a"}', "waiting.jsonl: line 3: request_id must be text and differ"),
    ('{"request_id": "a", "gpu": 1, "gpu": 2}', "'gpu' stands there twice"),
    ('{"request_id": "a", "colour": 1}', "waiting.jsonl: line 1: column must be one of"),
    ('{"request_id": "a", "cpu_cores": "two"}', "cpu_cores must be a"),
    ('{"request_id": "a", "cpu_cores": -2}', "cpu_cores must be finite and at least 0, got -2"),
    ('{"request_id": "a", "mem_gib": NaN}', "mem_gib must be finite and at least 0, got nan"),
])
def test_wrong_requests_are_named(learnt: Learnt, folder: Path, tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "waiting.jsonl"
    file.write_text(text)
    code, lines, said = _run(str(learnt.folder), str(folder), "--requests", str(file))
    assert code == 2 and lines == "" and message in " ".join(said.split())


@pytest.mark.parametrize(("words", "message"), [
    (("--consumer", "nomad"), "--consumer must be one of chronos, json, kai, karpenter, slurm, slurm-limits, got "
     "'nomad'"),
    (("--at-most", "12"), "--at-most must be a number of days or hours, such as 90d or 12h, got '12'"),
    (("--any-kind",), "--any-kind must be given with --consumer karpenter, got 'json'"),
    (("--quantile", "1"), "quantile must be above 0 and below 1, got 1.0"),
    (("--quantile", "nan"), "quantile must be above 0 and below 1, got nan"),
    (("--reader", "slurm", "--column-map", "arrival=x"), "reader that maps columns"),
])
def test_wrong_options_are_named(learnt: Learnt, folder: Path, words: tuple[str, ...], message: str) -> None:
    code, _, said = _run(str(learnt.folder), str(folder), *words)
    assert code == 2 and message in " ".join(said.split())


def test_ids_that_a_consumer_does_not_know_are_named(learnt: Learnt, folder: Path) -> None:
    code, lines, said = _run(str(learnt.folder), str(folder), "--consumer", "slurm")
    assert code == 0 and lines == "#!/bin/sh\n" and "requests left out, since --consumer slurm needs names of" in said
