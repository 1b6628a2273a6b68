"""`sojourn lab eta`: tables, squeue's output and workloads of Kueue to starts, in each format; what is refused."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from sojourn.flows.cli import app
from sojourn.flows.placement.waiting import Waiting, read_waiting
from sojourn.models.curve_table import drawn_left
from sojourn.serving import Predictor
from sojourn.serving.bundle import example_bundle
from sojourn.serving.inputs import kueue_workload

PREDICTOR = Predictor.load(example_bundle())

SQUEUE = """\
JOBID|STATE|CPUS|TIME_LIMIT|SUBMIT_TIME|START_TIME|TIME|USER|ACCOUNT|PARTITION|QOS|NAME
101|RUNNING|64|1-00:00:00|2026-11-27T01:00:00|2026-11-27T02:00:00|3:00:00|ann|phys|batch|normal|relax
102|RUNNING|32|12:00:00|2026-11-27T01:30:00|2026-11-27T03:00:00|2:00:00|bob|chem|batch|normal|md | two
103|PENDING|64|6:00:00|2026-11-27T04:00:00|N/A|0:00|ann|phys|batch|normal|relax
104|PENDING|32|UNLIMITED|2026-11-27T04:10:00|2026-11-28T09:00:00|0:00|bob|chem|batch|normal|md
105_1|PENDING|16|30:00|2026-11-27T04:20:00|N/A|0:00|cat|bio|batch|normal|blast
106|COMPLETED|16|30:00|2026-11-27T04:20:00|2026-11-27T04:20:00|0:10|cat|bio|batch|normal|blast
"""
TABLE = """\
job_id,processors,limit_s,waited_s,uptime_s,owner
101,64,86400,,10800,ann
102,32,43200,,7200,bob
103,64,21600,3600,,ann
104,32,,3000,,bob
105_1,16,1800,2400,,cat
"""


def eta(folder: Path, text: str, *options: str, name: str = "jobs.csv", processors: int = 128) -> tuple[int, str, str]:
    (folder / name).write_text(text)
    found = CliRunner().invoke(app, ["lab", "eta", str(folder / name), "--bundle", str(example_bundle()),
                                     "--processors", str(processors), *options])
    return found.exit_code, found.stdout, found.stderr


def test_squeue_and_a_table_say_the_same(tmp_path: Path) -> None:
    code, of_squeue, told = eta(tmp_path, SQUEUE, "--json", name="squeue.txt")
    assert code == 0
    assert "1 of 5 jobs have no limit: they count with a year" in told
    assert "left out, neither waiting nor running: 1 COMPLETED" in told
    rows = [json.loads(line) for line in of_squeue.splitlines()]
    assert [row["job_id"] for row in rows] == ["105_1", "103", "104"]
    first, second, third = rows
    assert (first["low_s"], first["high_s"], first["by_limits_s"], first["waited_s"]) == (0, 0, 0, 2400)
    assert 0 < second["low_s"] < second["median_s"] < second["high_s"] <= second["by_limits_s"] == 36_000
    assert third["by_limits_s"] == 36_000 + 21_600
    assert eta(tmp_path, TABLE, "--json")[1] == of_squeue


def test_files_by_ending(tmp_path: Path) -> None:
    for ending, words in ((".csv", "job_id,processors,waited_s,low_s"), (".json", '"job_id": "103"'),
                          (".prom", 'sojourn_job_start_seconds{job="103",quantile="limits"} 36000')):
        code, printed, _ = eta(tmp_path, TABLE, "--out", str(tmp_path / f"starts{ending}"))
        assert code == 0
        assert max(map(len, printed.splitlines())) <= 80
        assert words in (tmp_path / f"starts{ending}").read_text()


HOLDER = """\
JOBID|STATE|CPUS|TIME_LIMIT|SUBMIT_TIME|START_TIME|TIME
1|RUNNING|90|1:00:00|2026-01-05T09:00:00|2026-01-05T09:30:00|30:00
2|PENDING|80|1:00:00|2026-01-05T09:40:00|N/A|0:00
"""


@pytest.mark.parametrize("state", ["RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "STOPPED"])
def test_states_in_which_a_run_goes_on_hold_processors(tmp_path: Path, state: str) -> None:
    found = eta(tmp_path, HOLDER.replace("RUNNING", state), "--json", name="q.txt", processors=100)[1]
    assert json.loads(found)["by_limits_s"] == 1_800


def test_what_is_assumed_is_told(tmp_path: Path) -> None:
    endless = HOLDER.replace("90|1:00:00", "90|UNLIMITED")
    code, found, told = eta(tmp_path, endless, "--json", name="q.txt", processors=100)
    row = json.loads(found)
    assert code == 0
    assert row["by_limits_s"] == 365 * 86_400 - 1_800
    assert row["high_s"] > 1_800  # the model's time, not that of the largest limit in the file
    assert "1 of 2 jobs have no limit: they count with a year" in told
    late = eta(tmp_path, HOLDER.replace("|30:00", "|2:30:00"), "--json", name="q.txt", processors=100)
    assert json.loads(late[1])["by_limits_s"] == 1
    assert "1 of 2 jobs have run past their limit: they count as ending in a second" in late[2]
    wide = eta(tmp_path, HOLDER.replace("|80|", "|800|"), name="q.txt", processors=100)
    assert wide[0] == 0
    assert "1 of 2 jobs ask for more than the machine's 100 processors: left out" in wide[2]
    alone = eta(tmp_path, HOLDER.replace("1|RUNNING", "1|REQUEUE_HOLD"), "--json", name="q.txt", processors=100)
    assert "no job runs: the latest SUBMIT_TIME counts as now" in alone[2]
    assert "left out, neither waiting nor running: 1 REQUEUE_HOLD" in alone[2]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    options = ["--bundle", str(example_bundle()), "--processors", "4"]
    found = CliRunner().invoke(app, ["lab", "eta", str(tmp_path), *options])
    assert found.exit_code == 2
    assert "jobs must be a file that is there" in " ".join(found.stderr.split())


def test_nothing_waits(tmp_path: Path) -> None:
    assert "no job waits" in eta(tmp_path, "\n".join(TABLE.splitlines()[:3]) + "\n")[1]


@pytest.mark.parametrize(("text", "name", "words"), [
    (TABLE, "64", "running jobs must fit on the machine's 64 processors, got 96"),
    (TABLE.replace("3600,,ann", ",,ann"), "", "line 4: waited_s must be a number if uptime_s is missing"),
    (TABLE.replace("103,64", "102,64"), "", "job_id must be unique, got '102'"),
    (TABLE.replace(",7200", ",x"), "", "line 3: uptime_s must be"),
    (TABLE.replace("103,64", "103,1.5"), "", "line 4: processors must be a whole number from 1 on, got 1.5"),
    (TABLE.replace("103,64", "103,0"), "", "line 4: processors must be a whole number from 1 on, got 0"),
    (TABLE.splitlines()[0] + "\n", "", "jobs must be at least one"),
    (SQUEUE.replace("|TIME|", "|LEFT|"), "", "line 1: must have the fields TIME"),
    (SQUEUE.replace("3:00:00", "3 h"), "", "line 2: TIME must be as squeue prints it, got '3 h'"),
    (SQUEUE.replace("|normal|blast", ""), "", "line 6: must have 12 fields"),
    (SQUEUE.replace("105_1", "105_[1-4]"), "", "line 6: JOBID must be one job, got the array '105_[1-4]'; print it"),
])
def test_bad_input_is_named(tmp_path: Path, text: str, name: str, words: str) -> None:
    code, _, told = eta(tmp_path, text, processors=int(name or 128), name="squeue.txt" if "|" in text else "jobs.csv")
    assert code == 2
    assert words in " ".join(told.split())


def test_out_is_no_file_that_is_read(tmp_path: Path) -> None:
    assert "no file of the snapshot" in " ".join(eta(tmp_path, TABLE, "--out", str(tmp_path / "jobs.csv"))[2].split())
    assert "must end in .csv, .json or .prom" in eta(tmp_path, TABLE, "--out", str(tmp_path / "a.txt"))[2]


def test_running_jobs_are_predicted_at_their_age(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(TABLE)
    queue = read_waiting(tmp_path / "jobs.csv", Predictor.load(example_bundle()), 128, 1_600_000_000)
    assert queue.now.uptime_s.tolist() == [10_800, 7_200, 0, 0, 0]
    assert (queue.now.now_s - queue.now.submission_s)[2:].tolist() == [3_600, 3_000, 2_400]
    assert queue.owner.tolist() == [0, 1, 0, 1, 2]


def test_draws_have_the_curves_quantiles_and_owners_are_alike() -> None:
    def quantile(share: float) -> np.ndarray:
        return np.full(4, 1_000.0 * share)

    for together in (0.0, 0.5):
        drawn = drawn_left(quantile, 4_000, np.array([5, 5, 7, -1]), alike=0.9, together=together)
        assert np.quantile(drawn, [0.1, 0.5, 0.9], axis=0) == pytest.approx(np.tile([[100], [500], [900]], 4), abs=30)
        related = np.corrcoef(drawn.T)
        assert related[0, 1] > 0.85
        assert related[[0, 0, 2], [2, 3, 3]] == pytest.approx(together, abs=0.05)
    assert (drawn_left(quantile, 5, np.array([0, 0, 1, 1])) == drawn_left(quantile, 5, np.array([0, 0, 1, 1]))).all()
    assert drawn_left(lambda share: np.zeros(0), 5, np.zeros(0, int)).shape == (5, 0)


def workload(name: str, *conditions: tuple[str, str, str], created: str | None = "2026-03-01T06:00:00Z",
             cpu: str = "500m", n_pods: int = 2, **spec: Any) -> dict[str, Any]:
    """A workload as the API server writes one of a Job. conditions: type, status, minute and second after 06:00."""
    container = {"name": "main", "image": "registry.example/train:1.2", "imagePullPolicy": "IfNotPresent",
                 "resources": {"requests": {"cpu": cpu, "memory": "50Mi"}}, "terminationMessagePolicy": "File"}
    template = {"metadata": {}, "spec": {"containers": [container], "dnsPolicy": "ClusterFirst",
                                         "restartPolicy": "Never", "terminationGracePeriodSeconds": 30}}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload",
        "metadata": {"creationTimestamp": created, "finalizers": ["kueue.x-k8s.io/resource-in-use"], "generation": 1,
                     "labels": {"kueue.x-k8s.io/job-uid": f"uid-{name}"}, "name": f"job-{name}-363b9",
                     "namespace": "team-a", "ownerReferences": [{"apiVersion": "batch/v1", "blockOwnerDeletion": True,
                                                                 "controller": True, "kind": "Job", "name": name}],
                     "resourceVersion": "16423663", "uid": f"workload-{name}"},
        "spec": {"active": True, "podSets": [{"count": n_pods, "name": "main", "template": template}], "priority": 0,
                 "priorityClassSource": "", "queueName": "user-queue", **spec},
        "status": {"conditions": [{"lastTransitionTime": f"2026-03-01T06:{at}Z", "message": kind, "reason": kind,
                                   "status": status, "type": kind} for kind, status, at in conditions]}}


RESERVED, ADMITTED = ("QuotaReserved", "True", "10:00"), ("Admitted", "True", "20:00")
EVICTED = (("QuotaReserved", "False", "30:01"), ("Evicted", "True", "30:00"), ("Admitted", "False", "30:01"))


def cluster() -> dict[str, Any]:
    """One of each state: 2 of 4 cores run, 1 is reserved, three wait, the others are left out."""
    items = [
        workload("runs", RESERVED, ADMITTED, n_pods=8, maximumExecutionTimeSeconds=3_600),
        workload("checked", RESERVED, ("Finished", "False", "10:00")),
        workload("waits", ("QuotaReserved", "False", "40:00"), cpu="1500m", maximumExecutionTimeSeconds=7_200),
        workload("preempted", *EVICTED, cpu="100m", n_pods=3),
        workload("new", created=None),
        workload("done", RESERVED, ADMITTED, ("Finished", "True", "39:00")),
        workload("stopped", ("QuotaReserved", "False", "40:00"), active=False),
        workload("idle", cpu="0")]
    # partial admission gave 5 of 8 pods, and one of them has given its room back
    items[0]["status"] |= {"reclaimablePods": [{"name": "main", "count": 1}], "admission": {
        "clusterQueue": "cluster-queue", "podSetAssignments": [
            {"count": 5, "flavors": {"cpu": "default-flavor"}, "name": "main", "resourceUsage": {"cpu": "2500m"}}]}}
    items[1]["apiVersion"] = "kueue.x-k8s.io/v1beta2"
    pod = items[2]["spec"]["podSets"][0]["template"]["spec"]
    pod |= {"initContainers": [{"name": "copy", "resources": {"requests": {"cpu": 2}}}], "overhead": {"cpu": "1m"}}
    pod["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = "1"
    return {"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}}


def test_workloads_of_kueue_wait_run_or_are_left_out(tmp_path: Path) -> None:
    code, found, told = eta(tmp_path, json.dumps(cluster(), indent=4), "--json", name="workloads.json", processors=5)
    assert code == 0
    rows = {row["job_id"]: row for row in map(json.loads, found.splitlines())}
    assert {name: (row["processors"], row["waited_s"]) for name, row in rows.items()} == {
        "team-a/job-waits-363b9": (5, 2_400),  # 2 pods of 2.001, the init container is larger
        "team-a/job-preempted-363b9": (1, 2_400), "team-a/job-new-363b9": (1, 0)}
    assert rows["team-a/job-waits-363b9"]["by_limits_s"] == 365 * 86_400 - 1_800  # 'checked' has no limit
    assert rows["team-a/job-new-363b9"]["by_limits_s"] == 365 * 86_400 - 1_800 + 7_200  # it could run for a year too
    for words in ("left out: 1 finished, 1 inactive, 1 without cpu", "1 of 5 workloads have no time",
                  "1 of 5 workloads have a quota but are not admitted yet",
                  "1 of 5 workloads ask for GPUs, which do not count: the pool is of processors",
                  "3 of 5 jobs have no limit: they count with a year"):
        assert words in " ".join(told.split())


def read_workloads(folder: Path, document: Any, now_s: int | None = None) -> Waiting:
    (folder / "w.json").write_text(json.dumps(document))
    return read_waiting(folder / "w.json", PREDICTOR, 5, now_s)


def test_the_run_counts_from_the_admission_and_columns_are_those_of_pods(tmp_path: Path) -> None:
    document = cluster() | {"kind": "WorkloadList", "apiVersion": "kueue.x-k8s.io/v1beta2"}
    document["items"][0]["status"]["accumulatedPastExexcutionTimeSeconds"] = 600
    document["items"][2]["metadata"]["labels"]["subscription"] = "vision"
    queue = read_workloads(tmp_path, document)
    assert queue.now.size.tolist() == [2, 1, 5, 1, 1]
    assert queue.now.uptime_s.tolist() == [1_200, 1_800, 0, 0, 0]
    assert queue.now.limit_s.tolist() == [3_000, 365 * 86_400, 7_200, 365 * 86_400, 365 * 86_400]
    assert queue.owner.tolist() == [0, 0, 1, 0, 0]  # the label that the model reads, else namespace and LocalQueue
    later = read_workloads(tmp_path, document, 1_772_344_800 + 3_000)
    assert later.now.uptime_s.tolist() == [1_800, 2_400, 0, 0, 0]
    found = kueue_workload(cluster()["items"][2])
    assert dict(found.columns) | {"mem_gib": 0} == {
        "namespace": "team-a", "controller": "team-a/Job/waits", "kind": "Job", "image": "registry.example/train",
        "priority_class": "none", "restart_policy": "Never", "cpu_cores": 2.001, "mem_gib": 0, "gpu": 1.0,
        "queue": "user-queue"}


WAITING_POD = ("items", 2, "spec", "podSets", 0, "template", "spec")


@pytest.mark.parametrize(("path", "value", "words"), [
    (("kind",), "PodList", "w.json: kind must be List or WorkloadList, got 'PodList'; print it with: kubectl get"),
    (("items",), {}, "items must be a list, got dict"),
    (("items", 0), 3, "object must be an object, got 3"),
    (("items", 0, "apiVersion"), "kueue.x-k8s.io/v1alpha1", "workload team-a/job-runs-363b9: apiVersion must be kueue"),
    (("items", 0, "metadata", "name"), "", "metadata.name must be given, got ''"),
    (("items", 2, "metadata", "name"), "job-runs-363b9", "job_id must be unique, got 'team-a/job-runs-363b9'"),
    (("items", 0, "metadata", "creationTimestamp"), "noon",
     "workload team-a/job-runs-363b9: metadata.creationTimestamp: time must be one such as 2026-03-01T06:00:00Z, got "),
    (("items", 0, "status", "conditions", 0, "lastTransitionTime"), 5, "lastTransitionTime: time must be one such as"),
    (("items", 0, "spec", "active"), "yes", "spec.active must be true or false, got 'yes'"),
    (("items", 0, "spec", "podSets"), [], "spec.podSets must be at least one, got none"),
    (("items", 2, "spec", "podSets", 0, "count"), -1, "count must be a whole number in 0..2147483647, got -1"),
    (("items", 0, "spec", "maximumExecutionTimeSeconds"), 0, "TimeSeconds must be a whole number in 1..2147483647"),
    ((*WAITING_POD, "overhead", "cpu"), "2x",
     "workload team-a/job-waits-363b9: cpu of pod set main: quantity must be one such as 500m, 2Gi or 1e3"),
    ((*WAITING_POD, "overhead", "cpu"), "2G", "cpu of all pods must be at most 2147483648 cores, got 4e+09"),
    (("items", 0, "metadata", "labels", "a"), 3, "metadata.labels: value must be text of at most 512 characters"),
])
def test_bad_workloads_are_named(tmp_path: Path, path: tuple[str | int, ...], value: Any, words: str) -> None:
    document = cluster()
    changed(document, path, value)
    with pytest.raises(ValueError, match=re.escape(words)):
        read_workloads(tmp_path, document)


def changed(document: Any, path: tuple[str | int, ...], value: Any) -> None:
    for name in path[:-1]:
        document = document[name]
    document[path[-1]] = value


def test_files_and_moments_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"at least the latest time in w.json, 1772347200, got 1772344800"):
        read_workloads(tmp_path, cluster(), 1_772_344_800)
    for text in ('{"a":' * 100_000, '{"kind": "List"', '{"items": [1]} x'):
        (tmp_path / "w.json").write_text(text)
        with pytest.raises(ValueError, match=r"w\.json: .*print it with: kubectl get workloads"):
            read_waiting(tmp_path / "w.json", PREDICTOR, 5, None)
    early = cluster()
    for item in early["items"]:  # Go's zero time is no time
        item["metadata"]["creationTimestamp"] = "0001-01-01T00:00:00Z"
    queue = read_workloads(tmp_path, early)
    assert (queue.now.now_s - queue.now.submission_s)[2:].tolist() == [0, 0, 0]


def paths_of(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The places in a document, from the top down."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, each in inner:
        yield (*path, name)
        yield from paths_of(each, (*path, name))


PLACES = list(paths_of(cluster()))
ANY_JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(
    ["True", "Admitted", "1e30", "-1", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"]),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=4), each, max_size=3), max_leaves=5)


@given(edits=st.lists(st.tuples(st.sampled_from(PLACES), ANY_JSON), min_size=1, max_size=2))
def test_a_spoilt_file_is_read_or_refused(tmp_path: Path, edits: list[tuple[tuple[str | int, ...], Any]]) -> None:
    document = cluster()
    for path, value in edits:
        with contextlib.suppress(KeyError, IndexError, TypeError):  # the first edit took the second's place away
            changed(document, path, value)
    try:
        queue = read_workloads(tmp_path, document)
    except ValueError as error:
        assert "must" in str(error)
    else:
        assert (queue.now.size >= 1).all()
        assert len(queue.lives) == len(queue.now.size) == len(queue.owner)
