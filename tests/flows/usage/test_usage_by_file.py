"""Series read by file: the same store and the same report as read in one, in every reader that has several files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sojourn.features.usage import UsageSource, read_usage, store_usage
from sojourn.flows.usage import train_usage as usage_by_file
from sojourn.flows.usage.train_usage import ReadingOrder, done, stored_usage
from sojourn.flows.workers.dask import Here, cluster

_TASK_USAGE = "{start},0,{job},0,m,{cpu},{mem},,,,,,,,,,,,,"


def _readings(folder: Path) -> Path:
    """Three files of Azure readings: VMs in other orders, strangers, repeats, times that go back, wrong rows."""
    folder.mkdir()
    vms = "\n".join(f"v{k},s,d,0,90000,90,50,60,Delay-insensitive,4,8" for k in range(6))
    (folder / "vmtable.csv").write_text(vms + "\n")
    for file, order in enumerate(("012345", "543210", "31x05y")):
        rows = [f"{300 * (step if step != 3 else 1) + 3000 * file},v{vm},1,{cpu},{cpu}" if vm.isdigit() else
                f"{300 * step},{vm},1,80,20"
                for step in range(6) for vm in order for cpu in (10 * step + int(vm) if vm.isdigit() else 5,)]
        rows += ["300,v1,1", "x,v2,1,2,3", *(f"{300 * k},v3,1,1,-5" for k in range(4))]
        (folder / f"vm_cpu_readings-file-{file + 1}-of-3.csv").write_text("\n".join(rows) + "\n")
    return folder


def _tasks(folder: Path) -> Path:
    """Two files of Google task usage without sizes; the second names tasks that the first lacks."""
    folder.mkdir()
    for file, jobs in enumerate(("abca", "dbae")):
        rows = [_TASK_USAGE.format(start=(600 + 300 * k) * 1_000_000, job=job, cpu=0.1 * k, mem=0.5)
                for k, job in enumerate(jobs)]
        (folder / f"task_usage-{file}.csv").write_text("\n".join(rows) + "\n")
    return folder


CASES: list[tuple[str, Callable[[Path], Path], dict[str, Any], int]] = [
    ("azure-vm", _readings, {}, 3),
    ("azure-vm", _readings, {"only_known": False}, 3),
    ("google-2011", _tasks, {}, 2),
    ("synthetic", lambda folder: folder, {"n_requests": 1_000, "n_usage": 3, "days": 2.0}, 1),
]


def _both(reader: str, path: Path, options: dict[str, Any], tmp_path: Path, dask: str) -> None:
    whole, by_file = read_usage(reader, path, **options), read_usage(reader, path, **options)
    store_usage(whole, tmp_path / "whole")
    stored_usage(by_file, UsageSource(read_usage, (reader, path), tuple(options.items())), dask, tmp_path / "by_file")
    files = [sorted((tmp_path / name).iterdir()) for name in ("whole", "by_file")]
    assert [file.name for file in files[0]] == [file.name for file in files[1]]
    for mine, theirs in zip(*files, strict=True):
        assert mine.read_bytes() == theirs.read_bytes()
    assert by_file.report().text() == whole.report().text()
    assert by_file.report().without_request == whole.report().without_request
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three workers, all of them this process."""
    from contextlib import nullcontext

    monkeypatch.setattr(usage_by_file, "workers_of", lambda _: nullcontext([Here] * 3))


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("reader", "made", "options", "n_files"), CASES)
def test_bytes_and_report_are_those_of_one_read(reader: str, made: Callable[[Path], Path], options: dict[str, Any],
                                                n_files: int, tmp_path: Path) -> None:
    path = made(tmp_path / "trace")
    assert read_usage(reader, path, **options).n_files == n_files
    _both(reader, path, options, tmp_path, "here")


@pytest.mark.usefixtures("here")
def test_a_damaged_file_is_named_as_in_one_read(tmp_path: Path) -> None:
    folder = _readings(tmp_path / "trace")
    for file in (2, 3):
        (folder / f"vm_cpu_readings-file-{file}-of-3.csv").write_text("")
    messages = []
    for dask in (None, "here"):
        with pytest.raises(ValueError, match="file-2-of-3") as raised:
            stored_usage(read_usage("azure-vm", folder), UsageSource(read_usage, ("azure-vm", folder)), dask,
                         tmp_path / "usage")
        messages.append(str(raised.value))
    assert messages[0] == messages[1]
    assert not (tmp_path / "usage").exists()


def test_other_code_is_refused() -> None:
    with pytest.raises(ValueError, match="a worker must have the code and libraries that asked for 0000"):
        done(ReadingOrder(len, (), "0" * 64))


@pytest.mark.slow
def test_a_cluster_leaves_the_same_store(tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="dask.distributed is not installed")
    with cluster("local:2") as address:
        _both("azure-vm", _readings(tmp_path / "trace"), {"only_known": False}, tmp_path, address)
