"""Where a trace ends: what enough rows carry, so that one damaged cell moves no horizon, in any reader."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from made_files import DLRM_HEADER, TASK_TAIL, flavors_folder, huawei_file, packing_file
from sojourn.features import Trace
from sojourn.features.readers import READERS, read_trace
from sojourn.features.readers._ending import LatestTimes, horizon_of, since_start

N = 300
FAR_S = 90_000_000


def azure_vm(folder: Path, far_s: int | None) -> Path:
    """200 VMs deleted one by one, 100 that still run at 60,000."""
    ends = [1_000 + 100 * idx for idx in range(200)] + [60_000] * 100
    ends[7] = ends[7] if far_s is None else far_s
    (folder / "vmtable.csv").write_text("".join(
        f"v{idx},s,d,{10 + idx},{end},9,1,5,Interactive,2,4\n" for idx, end in enumerate(ends)))
    return folder


def openb(folder: Path, far_s: int | None) -> Path:
    ends = [1_000 + 100 * idx for idx in range(N - 20)] + [60_000] * 20
    ends[7] = ends[7] if far_s is None else far_s
    path = folder / "openb_pod_list_default.csv"
    path.write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,"
                    "scheduled_time\n" + "".join(f"p{idx},1000,1024,0,0,,LS,Running,{idx},{end},{idx}\n"
                                                 for idx, end in enumerate(ends)))
    return folder


def dlrm(folder: Path, far_s: int | None) -> Path:
    ends: list[int | str] = [1_000 + 100 * idx for idx in range(N - 20)] + [""] * 20
    ends[7] = ends[7] if far_s is None else far_s
    path = folder / "dlrm.csv"
    path.write_text(DLRM_HEADER + "\n" + "".join(
        f"i{idx},CN,a,1,1,0,0,1,1,1.0,1.0,1.0,1.0,-1,{idx},{idx},{end}\n" for idx, end in enumerate(ends)))
    return path


def swf(folder: Path, far_s: int | None) -> Path:
    runs = [1_000 + 50 * idx for idx in range(N)]
    runs[7] = runs[7] if far_s is None else far_s
    path = folder / "log.swf"
    path.write_text("".join(f"{idx + 1} {idx} 0 {run} 1 -1 -1 1 -1 -1 1 1 1 1 1 1 -1 -1\n"
                            for idx, run in enumerate(runs)))
    return path


def table(folder: Path, far_s: int | None) -> Path:
    ends: list[int | str] = [1_000 + 100 * idx for idx in range(N - 20)] + [""] * 20
    ends[7] = ends[7] if far_s is None else far_s
    path = folder / "vms.csv"
    path.write_text("id,start,end\n" + "".join(f"v{idx},{idx},{end}\n" for idx, end in enumerate(ends)))
    return path


def sacct(folder: Path, far_s: int | None) -> Path:
    ends: list[int | None] = [1_000 + 100 * idx for idx in range(N - 20)] + [None] * 20
    ends[7] = ends[7] if far_s is None else far_s
    shown = [("Unknown", "RUNNING") if end is None else (f"{np.datetime64(1_767_600_000 + end, 's')}", "COMPLETED")
             for end in ends]
    path = folder / "sacct.txt"
    path.write_text("JobID|Start|End|State|AllocCPUS\n" + "".join(
        f"{idx}|{np.datetime64(1_767_600_000 + idx, 's')}|{end}|{state}|1\n" for idx, (end, state) in enumerate(shown)))
    return path


def nova(folder: Path, far_s: int | None) -> Path:
    ends: list[int | None] = [1_000 + 100 * idx for idx in range(N - 20)] + [None] * 20
    ends[7] = ends[7] if far_s is None else far_s
    path = folder / "instances.tsv"
    path.write_text("uuid\tcreated_at\tterminated_at\tdeleted\tvcpus\tmemory_mb\n" + "".join(
        f"v{idx}\t{np.datetime64(1_767_600_000 + idx, 's')}\t"
        f"{'NULL' if end is None else np.datetime64(1_767_600_000 + end, 's')}\t{0 if end is None else idx + 1}\t1\t1\n"
        for idx, end in enumerate(ends)))
    return path


def google(folder: Path, far_s: int | None) -> Path:
    events = [(600 + idx, idx, 1) for idx in range(N)] + [(2_000 + 10 * idx, idx, 4) for idx in range(N - 20)]
    events[N + 7] = (events[N + 7][0] if far_s is None else far_s, *events[N + 7][1:])
    path = folder / "task_events.csv"
    path.write_text("".join(f"{time_s * 10**6},,{idx},0,7,{kind},{TASK_TAIL}\n" for time_s, idx, kind in events))
    return path


def batch_tasks(folder: Path, far_s: int | None) -> Path:
    ends = [1_000 + 100 * idx for idx in range(N)]
    ends[7] = ends[7] if far_s is None else far_s
    path = folder / "batch_task.csv"
    path.write_text("".join(f"M1,1,j_{idx},1,{'Running' if idx > N - 20 else 'Terminated'},{idx + 1},"
                            f"{0 if idx > N - 20 else end},50,0.2\n" for idx, end in enumerate(ends)))
    return path


def containers(folder: Path, far_s: int | None) -> Path:
    rows = [f"c_{idx},m,{idx},a,started,400,400,1.5" for idx in range(N)]
    times = [1_000 + 10 * idx for idx in range(N)]
    times[7] = times[7] if far_s is None else far_s
    rows += [f"c_{idx},m,{time_s},a,{'stopped' if idx == 7 else 'started'},400,400,1.5"
             for idx, time_s in enumerate(times)]
    path = folder / "container_meta.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


def packing(folder: Path, far_s: int | None) -> Path:
    ends: list[float | None] = [(1_000 + 100 * idx) / 86_400 for idx in range(N - 20)] + [None] * 20
    ends[7] = ends[7] if far_s is None else far_s / 86_400
    return packing_file(folder / "packing.sqlite", *((idx, 9, 7, 0, 0.001, end) for idx, end in enumerate(ends)))


def flavors(folder: Path, far_s: int | None) -> Path:
    """Arrivals every 300 s; the last ones are censored."""
    arrivals = [3_600 + 300 * idx for idx in range(N)]
    arrivals[7] = arrivals[7] if far_s is None else far_s
    table = pd.DataFrame({"arrival_s": arrivals, "batch": range(N), "flavor": "a",
                          "censored": [idx == N - 1 for idx in range(N)], "dur_bin": 0})
    return flavors_folder(folder / "flavors", table)


def surf(folder: Path, far_s: int | None) -> Path:
    durations = [1_000_000 + 50_000 * idx for idx in range(N)]
    durations[7] = durations[7] if far_s is None else far_s * 1_000
    pd.DataFrame({"id": range(N), "submission_time": [1_000 * idx for idx in range(N)], "duration": durations,
                  "cpu_count": 16, "cpu_capacity": 1e3, "mem_capacity": 1e3}).to_parquet(folder / "x_tasks.parquet")
    return folder


def bitbrains(folder: Path, far_s: int | None) -> Path:
    """Most VMs run from the month's first sample to its last, which jitters by seconds."""
    last = [1_000_000 + 50_000 + idx % 5 for idx in range(N)]
    last[7], last[8] = last[7] if far_s is None else 1_000_000 + far_s, 1_020_000
    pd.DataFrame({"month": "2013-7", "vm": range(N), "cores": 1, "cap_mhz": 1e3, "mem_cap_mb": 1e3,
                  "first_ts": 1_000_000, "last_ts": last}).to_parquet(folder / "vm_meta.parquet")
    pd.DataFrame({"vm": [1], "ts": [1_000_300], "cpu_pct": [1.0]}).to_parquet(folder / "rnd_2013-7.parquet")
    return folder


def pods(folder: Path, far_s: int | None) -> Path:
    """A list of pods of which 20 still run."""
    def stamp(time_s: int) -> str:
        return f"{datetime.fromtimestamp(1_767_225_600 + time_s, UTC):%Y-%m-%dT%H:%M:%SZ}"

    ends = [1_000 + 100 * idx for idx in range(N - 20)]
    ends[7] = ends[7] if far_s is None else far_s
    states = [{"terminated": {"finishedAt": stamp(end)}} for end in ends] + [{"running": {}}] * 20
    items = [{"metadata": {"uid": f"u{idx}", "name": f"p{idx}", "namespace": "a"}, "spec": {"nodeName": "n"},
              "status": {"phase": "Running" if "running" in state else "Succeeded", "startTime": stamp(idx),
                         "containerStatuses": [{"name": "c", "state": state}]}} for idx, state in enumerate(states)]
    path = folder / "pods.json"
    path.write_text(json.dumps({"kind": "List", "items": items}))
    return path


def instances(folder: Path, far_s: int | None) -> Path:
    ends = [700_000_000 + 1_000_000 * idx for idx in range(N)]
    ends[7] = ends[7] if far_s is None else 600_000_000 + far_s * 1_000_000
    of = [{"instance_index": 0, "collection_id": idx, "resource_request": {"cpus": 0.5, "memory": 0.5}}
          for idx in range(N)]
    rows = [{"time": str(601_000_000), "type": 3, **each} for each in of]
    rows += [{"time": str(end), "type": 6, **each} for end, each in zip(ends[:-20], of, strict=False)]
    path = folder / "instance_events.json"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def huawei(folder: Path, far_s: int | None) -> Path:
    ends = [1_000 + 100 * idx for idx in range(N - 20)]
    ends[7] = ends[7] if far_s is None else far_s
    return huawei_file(folder / "Huawei-East-1.csv", *(f"{idx},1,2,{idx},0" for idx in range(N)),
                       *(f"{idx},1,2,{end},1" for idx, end in enumerate(ends)))


def samples(folder: Path, far_s: int | None) -> Path:
    """Hourly samples, at the first, the third and the last hour of each VM; most are there at both ends."""
    last = [100 * 3_600] * N
    last[7], last[8] = last[7] if far_s is None else far_s, 50 * 3_600
    rows = [(at, name) for name in range(N) for at in (0, 3_600, last[name])]
    path = folder / "vrops_virtualmachine_cpu_usage_ratio_all.csv"
    path.write_text("Timestamp,Value,Instance\n" + "".join(f"{1_722_470_400 + at},5,i-{name}\n" for at, name in rows))
    return path


MAKERS: dict[str, Callable[[Path, int | None], Path]] = {
    "alibaba-2018": batch_tasks, "alibaba-2018-containers": containers, "azure-flavors": flavors,
    "azure-packing": packing, "azure-vm": azure_vm, "bitbrains": bitbrains, "csv": table, "dlrm": dlrm,
    "google-2011": google, "google-2019": instances, "huawei-east": huawei, "kubernetes": pods, "sap": samples,
    "openb": openb, "openstack": nova, "slurm": sacct, "surf": surf, "swf": swf,
}  # fmt: skip


def test_every_reader_has_a_file_here() -> None:
    # planetlab's day is always 86,400 s, and our own format says where it ends; in a growing source no time lies after
    # the day on which its row was written
    growing = {name for name, reader in READERS.items() if reader.is_growing}
    assert set(MAKERS) == set(READERS) - {"planetlab", "parquet"} - growing


@pytest.mark.parametrize("name", MAKERS)
def test_one_damaged_cell_moves_no_horizon(name: str, tmp_path: Path) -> None:
    (tmp_path / "good").mkdir()
    (tmp_path / "bad").mkdir()
    good, _ = read_trace(name, MAKERS[name](tmp_path / "good", None))
    bad, report = read_trace(name, MAKERS[name](tmp_path / "bad", FAR_S))
    assert bad.horizon_s == good.horizon_s
    assert abs(int((~bad.is_event()).sum()) - int((~good.is_event()).sum())) <= 1  # without this, all are ended or none
    assert any("1 row beyond the horizon" in line for line in report.notes)
    assert any("--horizon-s" in line for line in report.text().splitlines())
    assert report.n_read == report.n_kept + report.n_hosts + report.n_joined + report.n_refused


def test_a_cell_that_moves_a_little_does_not_end_those_that_still_ran(tmp_path: Path) -> None:
    # 600 s later than all others: what the table of V1 did with 909 of its VMs
    trace, report = read_trace("azure-vm", azure_vm(tmp_path, 60_600))
    assert (trace.horizon_s, int((~trace.is_event()).sum())) == (60_000, 101)
    assert dict(report.repaired) == {"end after the horizon: censored": 1}
    assert report.notes[0] == "horizon 60,000 s, carried by 100 rows of 300"


def test_what_begins_after_the_horizon_is_refused_with_its_line(tmp_path: Path) -> None:
    path = azure_vm(tmp_path, None) / "vmtable.csv"
    path.write_text(path.read_text() + "late,s,d,80000000,90000000,9,1,5,Interactive,2,4\n")
    trace, report = read_trace("azure-vm", tmp_path)
    assert (trace.horizon_s, dict(report.refused)) == (60_000, {"begins after the horizon": 1})
    assert report.rejected[["line", "raw"]].values.tolist() == [[301, "late: 80000000 s to 90000000 s"]]


@pytest.mark.parametrize("name", [*MAKERS, "parquet"])
def test_a_declared_horizon_is_taken(name: str, tmp_path: Path) -> None:
    path = MAKERS["swf" if name == "parquet" else name](tmp_path, None)
    if name == "parquet":
        path = read_trace("swf", path)[0].save(tmp_path / "own")
    trace, report = read_trace(name, path, horizon_s=1_500)
    assert trace.span_s == 1_500
    assert (trace.requests["departure_s"].dropna() <= trace.begin_s + 1_500).all()
    assert any(line.startswith("horizon 1,500 s, as declared") for line in report.notes)
    assert isinstance(Trace.load(trace.save(tmp_path / "saved")), Trace)
    with pytest.raises(ValueError, match=r"horizon_s must be (seconds )?(above 0|after the begin), .*got 0$"):
        read_trace(name, path, horizon_s=0)


@pytest.mark.parametrize("declared_s", [1_767_225_600, 1_700_000_000, -5, 0, 4_967_232_801, 10**30])
def test_a_horizon_that_cannot_be_is_named_as_it_was_given(declared_s: int) -> None:
    """Of a trace of two hours from 1,767,225,600 on; 100 years are 3,200,000,000 s."""
    with pytest.raises(ValueError, match=rf"^horizon_s must be .* \(1767225600\), at most .*, got {declared_s}$"):
        since_start(declared_s, 1_767_225_600, 7_200)
    assert since_start(3_200_007_200, None, 7_200) == 3_200_007_200


@pytest.mark.parametrize("name", ["csv", "slurm", "openstack"])
def test_a_horizon_before_a_dated_file_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "file.csv"
    path.write_text({
        "csv": "id,start,end\na,2026-11-01 00:00:00,2026-11-01 02:00:00\n",
        "slurm": "JobIDRaw|User|Submit|Start|End|State|AllocCPUS\n"
                 "7|ann|2026-11-01T00:00:00|2026-11-01T00:01:00|2026-11-01T02:00:00|COMPLETED|1\n"
                 "8|ann|2026-11-01T00:00:00|2026-11-01T00:01:00|2026-11-01T03:00:00|COMPLETED|1\n",
        "openstack": "uuid,created_at,launched_at,deleted_at,deleted,vcpus,memory_mb\n"
                     "a,2026-11-01 00:00:00,2026-11-01 00:00:00,2026-11-01 02:00:00,1,1,1024\n"
                     "b,2026-11-01 00:00:00,2026-11-01 00:00:00,2026-11-01 03:00:00,2,1,1024\n"}[name])
    with pytest.raises(ValueError, match=r"horizon_s must .*, got 1700000000$"):
        read_trace(name, path, horizon_s=1_700_000_000)


def test_few_rows_that_carry_the_end_are_told() -> None:
    times = np.append(np.repeat(np.arange(100), 2), [1_000] * 20 + [1_010] * 10)
    found = horizon_of(times, is_shared=True)
    assert found.time_s == 1_010  # half as many are no single damaged cell
    assert found.lines()[1] == ("few rows carry the horizon: next is 1,000 s, carried by 20 (--horizon-s sets it)")


@pytest.mark.parametrize(("times", "horizon_s"), [
    ([*np.arange(1, 51).tolist(), 5000], 5_000),  # too few to tell
    ([*np.arange(1, 1001).tolist(), 1090], 1_090),  # within a tenth
    ([*np.arange(1, 1001).tolist(), 1101], 1_000),
    ([*np.arange(1, 1001).tolist(), 1101, 1102], 1_102),  # two of 1,002 are not few
    ([*np.arange(1, 3001).tolist(), 5000, 50000, 500000], 3_000),  # three of 3,003 are
    ([1] * 200, 1),
])  # fmt: skip
def test_a_few_far_times_are_left_out(times: list[int], horizon_s: int) -> None:
    assert horizon_of(np.array(times)).time_s == horizon_s
    latest = LatestTimes()
    for start in range(0, len(times), 7):
        latest.add(np.array(times[start:start + 7]))
    assert horizon_of(latest.kept, n_rows=latest.n).time_s == horizon_s


def test_the_latest_times_stay_few() -> None:
    latest = LatestTimes()
    for start in range(0, 1_000_000, 50_000):
        latest.add(np.arange(start, start + 50_000))
    assert latest.n == 1_000_000
    assert len(latest.kept) < 60_000
    assert horizon_of(latest.kept, n_rows=latest.n) == horizon_of(np.arange(1_000_000))
