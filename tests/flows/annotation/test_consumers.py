"""Each consumer's line, to the letter, and ids that name nothing it knows."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest

from made_pods import recording
from sojourn.features.readers import read_trace
from sojourn.flows.annotation.annotate import CONSUMERS, go_duration
from sojourn.flows.annotation.bounds import Bound

POD = Bound("1f2e-uid", 0.9, 1_800, 7_230, 1_767_225_600, "web/api-7d9f-x2")
JOB = Bound("1234_7", 0.95, 1_800, 7_230, 1_767_225_600, "1234_7")


@pytest.mark.parametrize(("name", "bound", "words"), [
    ("karpenter", POD, ["kubectl", "annotate", "pod", "api-7d9f-x2", "-n", "web",
                        "karpenter.sh/do-not-disrupt=2h30s"]),
    ("chronos", POD, ["kubectl", "annotate", "pod", "api-7d9f-x2", "-n", "web",
                      "scheduling.workload.io/expected-duration-seconds=7230"]),
    ("slurm", JOB, ["scontrol", "update", "JobId=1234_7",
                    "AdminComment=sojourn: 95 % of such jobs end by 2026-01-01T00:00:00Z (2h30s from their start)"]),
])
def test_a_line_is_one_command(name: str, bound: Bound, words: list[str]) -> None:
    assert shlex.split(CONSUMERS[name].line(bound) or "") == words


def test_kai_annotates_the_pod_group_of_the_pod() -> None:
    """Run by a shell with a `kubectl` that says what it was asked: the group's name is looked up first."""
    line = CONSUMERS["kai"].line(POD)
    fake = 'kubectl() { if [ "$1" = get ]; then echo group-of-$3; else echo "$@"; fi; }\n'
    done = subprocess.run(["sh", "-c", f"{fake}{line}"], capture_output=True, text=True, check=True)
    assert done.stdout == "annotate podgroup group-of-api-7d9f-x2 -n web kai.scheduler/expected-runtime=2h30s\n"


def test_a_second_run_of_a_slurm_job_is_that_job() -> None:
    assert "JobId=9 " in (CONSUMERS["slurm"].line(Bound("9/2", 0.9, 1, 2, None, "9/2")) or "")


@pytest.mark.parametrize("name", ["", "pod", "a/b/c", "Web/api", "web/api;reboot", "web/$(reboot)", "web/-x",
                                        "web/api\n", "-n/x", "../x", "web/" + "a" * 300])
@pytest.mark.parametrize("consumer", ["karpenter", "chronos", "kai"])
def test_what_is_no_pod_has_no_line(consumer: str, name: str) -> None:
    assert CONSUMERS[consumer].line(Bound("1", 0.9, 1, 2, None, name)) is None


@pytest.mark.parametrize("name", ["", "x", "1;reboot", "0", "-1", "1_2_3", "12+1", "1\n", "1 Priority=9"])
def test_what_is_no_job_has_no_line(name: str) -> None:
    assert CONSUMERS["slurm"].line(Bound("1", 0.9, 1, 2, None, name)) is None


def test_json_takes_any_id() -> None:
    said = json.loads(CONSUMERS["json"].line(Bound("a b\n'", 0.5, 10, 25, None, "x/y")) or "")
    assert said == {"request_id": "a b\n'", "level": 0.5, "uptime_s": 10, "total_s": 25, "remaining_s": 15,
                    "end_unix_s": None, "name": "x/y", "kind": None}


def test_no_line_replaces_what_stands_there_already() -> None:
    """A user's own `do-not-disrupt: "true"` must stay: kubectl annotate refuses without --overwrite."""
    assert not any("--overwrite" in (each.line(POD) or "") for each in CONSUMERS.values())


def test_durations_are_gos() -> None:
    assert [go_duration(s) for s in (0, 1, 60, 3_600, 3_661, 90_000)] == ["0s", "1s", "1m", "1h", "1h1m1s", "25h"]


def test_a_recorded_pod_has_a_line(tmp_path: Path) -> None:
    """The reader kubernetes keeps uids as ids, and what kubectl calls a pod beside them."""
    trace, _ = read_trace("kubernetes", recording(tmp_path))
    running = trace.requests[trace.requests["departure_s"].isna()]
    assert len(running)
    for request_id, name in zip(running["request_id"], running["pod"], strict=True):
        namespace, pod = name.split("/")
        line = CONSUMERS["karpenter"].line(Bound(request_id, 0.9, 1, 2, None, name)) or ""
        assert line.startswith(f"kubectl annotate pod {pod} -n {namespace} ")
