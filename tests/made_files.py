"""Small files made by hand in the formats of public traces, one maker per reader."""

import gzip
import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd

FLAVORS = "flavor,vcpu,memory_gb\na,1.0,1.75\nb,4.0,7.0\n"
DURATION_BINS = "bin,dur_lo_s,dur_hi_s\n0,0,0\n1,300,300\n2,600,3600\n3,3900,7200\n"


def flavors_table(**changed: list[object]) -> pd.DataFrame:
    """Six VMs in three batches; observation ends at 10,800, 300 s after the last arrival."""
    columns: dict[str, list[object]] = {
        "arrival_s": [3600, 3600, 3600, 7200, 7200, 10500],
        "batch": [0, 1, 1, 2, 2, 3],
        "flavor": ["a", "b", "b", "a", "b", "a"],
        "censored": [False, False, True, False, False, False],
        "dur_bin": [0, 3, 3, 2, 1, 0],
    }
    return pd.DataFrame(columns | changed)


def flavors_folder(folder: Path, table: pd.DataFrame | None = None) -> Path:
    """A folder of the `azure-flavors` reader, with `table` as its VMs."""
    folder.mkdir(exist_ok=True)
    (folder / "flavors.csv").write_text(FLAVORS)
    (folder / "duration_bins.csv").write_text(DURATION_BINS)
    (flavors_table() if table is None else table).to_parquet(folder / "dev.parquet", index=False)
    return folder


DLRM_HEADER = ("instance_sn,role,app_name,cpu_request,cpu_limit,gpu_request,gpu_limit,rdma_request,rdma_limit,"
               "memory_request,memory_limit,disk_request,disk_limit,max_instance_per_node,creation_time,"
               "scheduled_time,deletion_time")
DLRM_ROWS = (
    "i-0,HN,app_0,12,12,1,1,25,25,120.0,120.0,640.0,800.0,8,,,",
    "i-1,HN,app_0,12,12,1,1,25,25,120.0,120.0,640.0,800.0,8,,,400.0",
    "i-2,CN,app_1,64,64,0,0,1,1,320.0,320.0,255.0,300.0,-1,475.00000000000006,623.0,",
    "i-3,CN,app_1,64,64,0,0,1,1,320.0,320.0,255.0,300.0,-1,610.0,683.0,899.9999",
)


def dlrm_file(folder: Path, *rows: str) -> Path:
    """A file of the `dlrm` reader with `rows` (default: one of each kind of censoring)."""
    path = folder / "disaggregated_DLRM_trace.csv"
    path.write_text("\n".join([DLRM_HEADER, *(rows or DLRM_ROWS)]) + "\n")
    return path


TASK_TAIL = "alice,2,9,0.5,0.25,0.001,0"
TASK_EVENTS = (
    # Task 1-0 runs at time 0 and finishes; 2-0 waits 10 s, is evicted, scheduled again and stays.
    f"0,,1,0,77,1,{TASK_TAIL}",
    f"0,2,2,1,77,0,{TASK_TAIL.replace('0.5,0.25,0.001,0', ',,,')}",
    f"610000000,,2,0,,0,{TASK_TAIL}",
    f"620000000,,2,0,77,1,{TASK_TAIL}",
    f"650500000,,2,0,77,2,{TASK_TAIL}",
    f"650500000,,2,0,,0,{TASK_TAIL}",
    # Task 2-1 ran before the trace, though no schedule says so; 3-0 is killed while it waits.
    f"660000000,,2,1,77,5,{TASK_TAIL}",
    f"670000000,,3,0,,0,{TASK_TAIL.replace('alice', 'bob')}",
    f"680000000,,3,0,,5,{TASK_TAIL.replace('alice', 'bob')}",
)
TASK_EVENTS_LATER = (
    f"690000000,,2,0,78,1,{TASK_TAIL}",
    f"700000000,,2,0,78,8,{TASK_TAIL.replace('0.5', '0.75')}",
    f"710000001,,1,0,,4,{TASK_TAIL}",
)


def google_folder(folder: Path) -> Path:
    """Two contiguous parts of the `google-2011` reader."""
    folder.mkdir(exist_ok=True)
    for number, lines in enumerate((TASK_EVENTS, TASK_EVENTS_LATER)):
        (folder / f"task_events_part-{number:05}-of-00500.csv").write_text("\n".join(lines) + "\n")
    return folder


SIZES = {"resource_request": {"cpus": 0.5, "memory": 0.25}}
INSTANCE_EVENTS: tuple[dict[str, Any], ...] = (
    # in no order: 7-0 runs at time 0 and finishes; 8-0 waits 10 s, is evicted, scheduled elsewhere and stays
    {"time": "620000000", "type": 3, "collection_id": "8", "instance_index": 0, "machine_id": "77", **SIZES},
    {"time": "610000000", "type": 0, "collection_id": "8", "instance_index": 0, "machine_id": "0", **SIZES},
    {"time": "0", "type": 3, "collection_id": "7", "instance_index": 0, "machine_id": "77", "priority": 200,
     "scheduling_class": 3, **SIZES},
    {"time": "650500000", "type": 4, "collection_id": "8", "instance_index": 0, "machine_id": "77", **SIZES},
    {"time": "690000000", "type": 3, "collection_id": "8", "instance_index": 0, "machine_id": "78", **SIZES},
    {"time": "700000000", "type": 6, "collection_id": "7", "instance_index": 0, "machine_id": "77", **SIZES},
    # 9-0 ends on a machine without any event before; 10-0 is killed while it waits
    {"time": "660000000", "type": 7, "collection_id": "9", "instance_index": 0, "machine_id": "77", **SIZES},
    {"time": "670000000", "type": 0, "collection_id": "10", "instance_index": 0, **SIZES},
    {"time": "680000000", "type": 7, "collection_id": "10", "instance_index": 0, **SIZES},
    # 11-0 is an alloc instance, and 12-0 a task in it
    {"time": "615000000", "type": 3, "collection_id": "11", "instance_index": 0, "collection_type": 1,
     "machine_id": "77", **SIZES},
    {"time": "616000000", "type": 3, "collection_id": "12", "instance_index": 0, "alloc_collection_id": "11",
     "machine_id": "77", "resource_request": {"cpus": 0.1}},
    {"time": "710000001", "type": 10, "collection_id": "8", "instance_index": 0, "machine_id": "78", **SIZES},
)


def instances_folder(folder: Path) -> Path:
    """Two files of events, one of them gzipped, and one of collections, of the `google-2019` reader."""
    folder.mkdir(exist_ok=True)
    lines = [json.dumps(event) for event in INSTANCE_EVENTS]
    (folder / "instance_events-000000000000.json").write_text("\n".join(lines[:5]) + "\n")
    (folder / "instance_events-000000000001.json.gz").write_bytes(gzip.compress("\n".join(lines[5:]).encode()))
    (folder / "collection_events-000000000000.json").write_text("".join(
        json.dumps({"collection_id": str(of), "type": 0, "user": "ann", "collection_logical_name": "daily"}) + "\n"
        for of in (7, 8, 8)))
    return folder


HUAWEI_ROWS = ("0,4,16,0.0,0", "1,8,16,2.0,0", "0,4,16,55.4,1", "9,1,1,60.0,1", "0,4,16,83.0,0", "2,2,4,90.0,0")


def huawei_file(path: Path, *rows: str) -> Path:
    """A file of the `huawei-east` reader: VM 0 comes twice, and VM 9 was there before."""
    path.write_text("\n".join(("vmid,cpu,memory,time,type", *(rows or HUAWEI_ROWS))) + "\n")
    return path


def sap_folder(folder: Path) -> Path:
    """Five days of samples of the `sap` reader: a is there all along, b for two days with a gap, c for the last two."""
    folder.mkdir(exist_ok=True)
    samples = [(day, 4.5, "a") for day in range(1, 6)] + [(2, 3, "b"), (4, 1, "b"), (5, 9, "c"), (4, 7, "c")]
    (folder / "vrops_virtualmachine_cpu_usage_ratio_all.csv").write_text("Timestamp,Value,Instance\n" + "".join(
        f"2024-08-0{day} 00:00:00,{value},instance-{name}\n" for day, value, name in samples))
    return folder


VM_TYPES = ((0, 7, 3, 0.5, 0.25, 0.1, 0.1, 0.1), (1, 7, 4, 0.25, 0.125, 0.1, 0.1, 0.1),
            (2, 8, 4, 1.0, 0.5, 0.1, 0.1, 0.1))
VMS = ((1, 90, 7, 0, -0.5, 0.25), (2, 90, 8, 1, 0.125, None), (3, 91, 7, 1, 0.5, 0.50001))


def packing_file(path: Path, *vms: Sequence[object], types: Sequence[Sequence[object]] = VM_TYPES) -> Path:
    """A file of the `azure-packing` reader; type 7 fits machines 3 and 4, type 8 only 4."""
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as made:
        made.execute("create table vmType (id, vmTypeId, machineId, core, memory, hdd, ssd, nic)")
        made.execute("create table vm (vmId, tenantId, vmTypeId, priority, starttime, endtime)")
        made.executemany("insert into vmType values (?, ?, ?, ?, ?, ?, ?, ?)", types)
        made.executemany("insert into vm values (?, ?, ?, ?, ?, ?)", vms or VMS)
        made.commit()
    return path


VM_ROWS = (
    "v1,s1,d1,0,2591700,99.4,3.4,10.2,Delay-insensitive,1,1.75",
    "v2,s1,d1,0,1539300,100,6.2,34.0,Interactive,2,3.5",
    "v3,s1,d2,300,600,94.1,32.5,94.1,Unkown,8,56",
    "v4,s2,d3,600,2591700,94.1,,94.1,Unknown,>24,>64",
)


def vm_table(path: Path, *rows: str) -> Path:
    """A VM table of the `azure-vm` reader; v4 has V2's buckets."""
    path.write_text("\n".join(rows or VM_ROWS) + "\n")
    return path


BATCH_TASKS = (
    # An ended task, one that still runs, one that failed, one cut short with its job.
    "M1,4,j_1,1,Terminated,100,160,50,0.2",
    "R2_1,2,j_1,1,Running,160,0,100,0.3",
    "task_x=,1,j_2,6,Failed,200,230,200,0.5",
    "J3_1_2,139,j_2,1,Running,150,230,,",
    "M1,1,j_3,1,Terminated,150,400,50,0.2",
)


def batch_task_file(path: Path, *rows: str) -> Path:
    """A table of the `alibaba-2018` reader; the last task ends at 400."""
    path.write_text("\n".join(rows or BATCH_TASKS) + "\n")
    return path


CONTAINERS = (
    # One that runs all the time; one placed later and stopped; one that was stopped at first; one restarted in place;
    # one that ran before and ends; one that was never placed.
    "c_1,m_1,0,app_1,started,400,400,1.56",
    "c_1,m_1,900,app_1,started,400,480,1.56",
    "c_2,m_1,60,app_1,allocated,50,100,3.13",
    "c_2,m_1,90,app_1,started,50,100,3.13",
    "c_2,m_1,600,app_1,stopped,50,100,3.13",
    "c_2,m_1,700,app_1,stopped,50,100,3.13",
    "c_3,m_2,0,app_2,stopped,800,800,6.25",
    "c_3,m_2,120,app_2,started,800,800,6.25",
    "c_4,m_2,30,app_2,started,400,400,1.56",
    "c_4,m_2,40,app_2,stopped,400,400,1.56",
    "c_4,m_2,50,app_2,unknown,400,400,1.56",
    "c_4,m_2,80,app_2,started,400,400,1.56",
    "c_5,m_3,0,app_2,unknown,,,",
    "c_5,m_3,10,app_2,started,400,,1.56",
    "c_5,m_3,20,app_2,stopped,400,400,1.56",
    "c_6,m_3,0,app_3,stopped,400,400,1.56",
)
CONTAINER_USAGE = (
    "c_1,m_1,0,10,50,,,,0.1,0.1,5",
    "c_1,m_1,290,20,,1.5,2.0,3,0.1,0.1,5",
    "c_1,m_1,300,100,40,,,,0.1,0.1,5",
    "c_2,m_1,60.0,3,,,,,0.1,0.1,-1",
    "c_6,m_3,60,3,4,,,,0.1,0.1,101",
)


def container_folder(folder: Path, *rows: str, usage: Sequence[str] = CONTAINER_USAGE) -> Path:
    """A folder of the `alibaba-2018-containers` reader; the last state is of 900."""
    folder.mkdir(exist_ok=True)
    (folder / "container_meta.csv").write_text("\n".join(rows or CONTAINERS) + "\n")
    (folder / "container_usage.csv").write_text("\n".join(usage) + "\n")
    return folder


def surf_tables(**changed: list[object]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Four tasks from 60 s to 360 s with a fragment each 30 s; the last two fragments are of the first task."""
    columns: dict[str, list[object]] = {
        "id": [11, 12, 13, 14],
        "submission_time": [60_000, 90_000, 150_500, 240_000],
        "duration": [90_000, 60_000, 209_500, 90_000],
        "cpu_count": [16] * 4,
        "cpu_capacity": [32_000.0] * 4,
        "mem_capacity": [102_400] * 4,
    }
    fragments = {"id": [11, 12, 12, 14, 14, 14, 11, 11], "duration": [30_000] * 8,
                 "cpu_usage": [0.0, 8_000.0, 32_000.0, 1.0, 2.0, 3.0, 16_000.0, 33_600.0]}
    return pd.DataFrame(columns | changed), pd.DataFrame(fragments)


def surf_folder(folder: Path, tasks: pd.DataFrame | None = None, fragments: pd.DataFrame | None = None) -> Path:
    """A folder of the `surf` reader, as OpenDC lays it out."""
    folder.mkdir(exist_ok=True)
    (surf_tables()[0] if tasks is None else tasks).to_parquet(folder / "tasks.parquet", index=False)
    (surf_tables()[1] if fragments is None else fragments).to_parquet(folder / "fragments.parquet", index=False)
    return folder


def bitbrains_meta() -> pd.DataFrame:
    """Three VMs of a month from 1,000,000 to 1,002,400 s, of which the second starts and the third ends within it."""
    return pd.DataFrame({
        "month": ["2013-7", "2013-7", "2013-7", "2013-8"], "vm": [1, 2, 3, 1], "cores": [2, 4, 1, 2],
        "cap_mhz": [5200.0, 10_400.0, 2600.0, 5200.0], "mem_cap_mb": [1024.0, 8192.0, 512.0, 1024.0],
        "first_ts": [1_000_000, 1_001_200, 1_000_300, 2_000_000],
        "last_ts": [1_002_100, 1_002_400, 1_001_500, 2_000_900]})


def bitbrains_usage() -> pd.DataFrame:
    """Seven samples of the three VMs."""
    return pd.DataFrame({
        "vm": [1, 1, 1, 2, 2, 3, 3], "cpu_pct": [1.5, 0.0, 182.0, 50.0, 100.0, 0.25, 4.0], "mem_use_mb": 100,
        "ts": [1_000_000, 1_000_300, 1_002_100, 1_001_200, 1_002_400, 1_000_300, 1_001_500], "cores": 2})


def bitbrains_folder(folder: Path, meta: pd.DataFrame | None = None, usage: pd.DataFrame | None = None) -> Path:
    """A folder of the `bitbrains` reader with one month."""
    folder.mkdir(exist_ok=True)
    (bitbrains_meta() if meta is None else meta).to_parquet(folder / "vm_meta.parquet", index=False)
    (bitbrains_usage() if usage is None else usage).to_parquet(folder / "rnd_2013-7.parquet", index=False)
    return folder


def planetlab_file(path: Path, **changed: list[object]) -> Path:
    """A file of the `planetlab` reader: two VMs on one day, one of them on the next."""
    columns: dict[str, list[object]] = {
        "day": ["20110303", "20110303", "20110306"], "vm": ["a_x", "b_x", "a_x"],
        "cpu_pct": [list(range(96)) * 3, [0] * 288, [50] * 287 + [99]]}
    pd.DataFrame(columns | changed).to_parquet(path, index=False)
    return path
