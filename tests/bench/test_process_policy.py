"""Placements by another process: equal to the built-in best fit; what breaks the protocol is named, line and rule."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sojourn.simulator as sim
from bench import process_policy
from bench.process_policy import ProcessFault, process_replay
from sojourn.features.readers import read_trace

ROOT = Path(__file__).parents[2]
PYTHON = [sys.executable, str(ROOT / "bench" / "examples" / "best_fit.py")]
HELLO = "import sys, json, time; hello = json.loads(input()); print('{\"protocol\": 1, \"name\": \"x\"}', flush=True)\n"
FIRST = HELLO + "asked = json.loads(input())\n"


@pytest.fixture(scope="module")
def jobs() -> sim.Workload:
    """The first 1,500 jobs of a real log, some of them at equal seconds, on hosts of 48 processors."""
    trace, _ = read_trace("swf", ROOT / "examples" / "nasa-ipsc-1993.swf.gz")
    part = trace.requests.iloc[:1500]
    return sim.build_workload("trace", sim.Trace(part, trace.horizon_s, trace.roles, meta=trace.meta),
                              cpu_cores=48, mem_gib=64, n_hosts=5)


@pytest.fixture(scope="module")
def three() -> sim.Workload:
    """Three requests on two hosts of 8 cores: the first ran before, and leaves when the third comes."""
    table = pd.DataFrame({"request_id": ["a", "b", "c"], "arrival_s": [-100, 0, 50], "departure_s": [50, 100, 90],
                          "cpu_cores": [6.0, 4.0, 4.0], "mem_gib": [8.0, 8.0, 8.0], "owner": ["ann", "bob", None],
                          "limit_s": [60.0, np.nan, 3600.0]})
    roles = sim.Trace(table.drop(columns=["owner", "limit_s"]), 100).roles
    trace = sim.Trace(table, 100, type(roles)(owners=("owner",), numbers=("limit_s",)))
    return sim.build_workload("trace", trace, cpu_cores=8, mem_gib=32, n_hosts=2)


def script(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def test_best_fit_in_python_places_a_real_log_as_the_built_in_one(jobs: sim.Workload) -> None:
    result, decisions = process_replay(PYTHON, jobs)
    built_in = sim.simulate(jobs, "best-fit")
    assert result.host.tolist() == built_in.host.tolist() and result.metrics == built_in.metrics
    assert len(set(result.host.tolist()) - {-1}) > 2  # it has something to decide
    assert len(decisions.each_us) == len(jobs.need) and (decisions.each_us > 0).all()
    assert decisions.text().startswith("best-fit in Python: 1,735 decisions, p50 ")  # of jobs in parts of 48 cores


@pytest.mark.slow
def test_best_fit_in_go_places_a_real_log_as_the_built_in_one(jobs: sim.Workload, tmp_path: Path) -> None:
    if shutil.which("go") is None:
        pytest.skip("there is no Go compiler")
    source = ROOT / "bench" / "examples" / "best_fit.go"
    subprocess.run(["go", "build", "-o", tmp_path / "best_fit", source], check=True)
    result, _ = process_replay([str(tmp_path / "best_fit")], jobs)
    assert result.host.tolist() == sim.simulate(jobs, "best-fit").host.tolist()


def test_each_line_has_what_the_process_wants(three: sim.Workload, tmp_path: Path) -> None:
    log = tmp_path / "lines.jsonl"
    process_replay(script(
        "import sys, json\n"
        f"log = open({str(log)!r}, 'w')\n"
        "for number, line in enumerate(sys.stdin):\n"
        "    print(line.strip(), file=log, flush=True)\n"
        "    print(json.dumps({'protocol': 1, 'name': 'x', 'wants': ['curve', 'features', 'fitting']} if number == 0\n"
        "                     else {'host': json.loads(line)['fitting'][0]}), flush=True)\n"), three, sim.Oracle(three))
    hello, *requests = [json.loads(line) for line in log.read_text().splitlines()]
    assert hello == {"protocol": 1, "resources": ["cpu_cores", "mem_gib"], "hosts": [[8000, 32768]] * 2,
                     "host_ids": ["0", "1"], "horizon_s": 100, "n_requests": 3, "has_predictions": True}
    assert requests[0] == {"request": 0, "now_s": 0, "need": [6000, 8192], "age_s": 100, "ended": [], "exit_s": 50,
                           "features": {"request_id": "a", "owner": "ann", "limit_s": 60.0},
                           "curve": {"uptime_s": [0], "total_s": [150]}, "fitting": [0, 1]}
    # a holds 6 of host 0's 8 cores, so b fits on host 1 alone; at 50 s a has gone
    assert (requests[1]["fitting"], requests[1]["features"]["limit_s"]) == ([1], None)
    assert (requests[2]["ended"], requests[2]["fitting"], requests[2]["exit_s"]) == ([0], [0, 1], 90)
    assert requests[2]["features"]["owner"] is None


def test_gpus_are_verified_one_by_one() -> None:
    table = pd.DataFrame({"request_id": ["a", "b", "c"], "arrival_s": 0, "departure_s": 90, "cpu_cores": 1.0,
                          "mem_gib": 1.0, "gpu": [0.5, 1.0, 1.0]})
    hosts = pd.DataFrame({"host_id": ["h"], "cpu_cores": [8.0], "mem_gib": [32.0], "gpu": [2.0]})
    workload = sim.Workload("gpus", sim.Trace(table, 100), hosts, np.full(3, 90))
    # two and a half GPUs are asked for; b fits beside a, c does not fit though a half is free
    with pytest.raises(ProcessFault, match=r"line 4 of .*: host must be one with room for .* with \[500, "):
        process_replay(script(HELLO + "for line in sys.stdin: print('{\"host\": 0}', flush=True)"), workload)
    result, _ = process_replay(script("import sys, json\nfor line in sys.stdin:\n    fitting = json.loads(line)"
                                      ".get('fitting')\n    print(json.dumps({'protocol': 1, 'name': 'x', 'wants': "
                                      "['fitting']} if fitting is None else {'host': (fitting or [None])[0]}), "
                                      "flush=True)"), workload)
    assert result.host.tolist() == [0, 0, -1]


def test_null_rejects_a_request(three: sim.Workload) -> None:
    result, _ = process_replay(script(HELLO + "for line in sys.stdin: print('{\"host\": null}', flush=True)"), three)
    assert result.host.tolist() == [-1, -1, -1] and result.metrics.n_rejected == 3


@pytest.mark.parametrize(("text", "words"), [
    ("print('{\"protocol\": 2, \"name\": \"x\"}')", "line 1 of .*: protocol must be 1, got 2$"),
    ("print('{\"protocol\": 1, \"name\": \"\"}')", "line 1 .*: name must be a printable text of 1 to 100 .*, got $"),
    ("print('{\"protocol\": 1, \"name\": \"a\\\\nb\"}')", r'name must be a printable text of .*, got "a\\nb"$'),
    ("print('{\"protocol\": 1, \"name\": \"x\", \"wants\": [\"all\"]}')",
     r'wants must be a list of curve, features, fitting, got \["all"\]$'),
    ("print('{\"protocol\": 1, \"name\": \"x\", \"wants\": [\"curve\"]}')",
     "wants must be without curve in a replay without predictions, got"),
    (FIRST + "print('host 3')", "line 2 of .*: answer must be a JSON object, got 'host 3'$"),
    (FIRST + "print('[3]')", r"answer must be a JSON object, got '\[3\]'$"),
    (FIRST + "print('[' * 60000)", r"answer must be a JSON object, got '\[\["),
    (FIRST + "sys.stdout.buffer.write(b'\\xff\\n')", "answer must be a JSON object, got "),
    (FIRST + "print('{\"hots\": 1}')", 'line 2 of .*: host must be null or in 0..1, got {"hots": 1}$'),
    (FIRST + "print('{\"host\": 2}')", "host must be null or in 0..1, got 2$"),
    (FIRST + "print('{\"host\": -1}')", "host must be null or in 0..1, got -1$"),
    (FIRST + "print('{\"host\": true}')", "host must be null or in 0..1, got true$"),
    (FIRST + "print('{\"host\": 0.0}')", "host must be null or in 0..1, got 0.0$"),
    (FIRST + "print('{\"host\": NaN}')", "host must be null or in 0..1, got NaN$"),
    (HELLO + "for line in sys.stdin: print('{\"host\": 0}', flush=True)",
     r"line 3 .*: host must be one with room for \[4000, 8192\] \(request 1\), got host 0 with \[2000, 24576\] free$"),
    (FIRST + "print('{\"host\": 0}\\n{\"host\": 1}', flush=True); sys.stdin.read()",
     'line 3 of .*: answers must be one line per request, got {"host": 1}'),
    (FIRST + "print('x' * 70000, flush=True); sys.stdin.read()", "answer must be at most 65536 bytes long, got "),
    (FIRST + "sys.exit('no memory left')",
     "line 2 of .*: process must be there until its input ends, got its end with exit code 1: no memory left$"),
    ("raise SystemExit(0)", "line 1 of .*: process must be there until its input ends, got its end with exit code 0$"),
    (FIRST + "sys.stdout.close(); import os; os.close(1); sys.stdin.read()", "got a closed output$"),
])
def test_what_breaks_the_protocol_is_named(three: sim.Workload, text: str, words: str) -> None:
    with pytest.raises(ProcessFault, match=words):
        process_replay(script(text), three)


def test_what_a_process_wrote_before_its_end_counts(three: sim.Workload, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = process_policy._Lines.__init__

    def begin_late(lines: Any, *arguments: Any) -> None:
        begin(lines, *arguments)
        lines._process.wait(20)

    monkeypatch.setattr(process_policy._Lines, "__init__", begin_late)
    for text, words in (("print('{\"protocol\": 2}')", "protocol must be 1, got 2$"),
                        ("raise SystemExit(4)", "line 1 of .*: process must be there .* its end with exit code 4$")):
        with pytest.raises(ProcessFault, match=words):
            process_replay(script(text), three)


def test_a_silent_process_ends_the_replay_in_time(three: sim.Workload) -> None:
    with pytest.raises(ProcessFault, match=r"line 2 of .*: answer must be there within 0\.2 s, got none$"):
        process_replay(script(HELLO + "time.sleep(60)"), three, timeout_s=0.2)


def test_a_process_that_does_not_read_can_not_block_the_replay(three: sim.Workload) -> None:
    table = pd.DataFrame({"host_id": range(20_000), "cpu_cores": 8.0, "mem_gib": 32.0})  # a hello of 400 kB
    many = sim.Workload("many", three.trace, table, three.total_s)
    with pytest.raises(ProcessFault, match="line 2 of"):
        process_replay(script("import time; print('{\"protocol\": 1, \"name\": \"x\"}', flush=True); time.sleep(60)"),
                       many, timeout_s=0.2)


def test_bad_arguments_are_refused(three: sim.Workload) -> None:
    with pytest.raises(ProcessFault, match=r"command must be a program that starts, got \['/no/such'\]"):
        process_replay(["/no/such"], three)
    with pytest.raises(ValueError, match=r"command must be a list of a program and its arguments, got 'python x\.py'"):
        process_replay("python x.py", three)
    with pytest.raises(ValueError, match="timeout_s must be above 0, got 0"):
        process_replay(PYTHON, three, timeout_s=0)
    apart = sim.Workload("apart", three.trace, three.hosts, three.total_s,
                         constraints=sim.Constraints(apart_by="owner"))
    with pytest.raises(ValueError, match="workload must have no constraints for a process, got Constraints"):
        process_replay(PYTHON, apart)
