"""Files of few published series: aggregates of Azure 2019 and Google 2019, and the CloudWatch series of NAB."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from sojourn.features.read_report import ReadLedger
from sojourn.features.usage._columns import csv_columns, numbers, parquet_columns, request_rows, unix_seconds
from sojourn.features.usage.usage_block import RequestTable
from sojourn.features.usage.usage_reader import UsageReader
from sojourn.features.usage.usage_stream import MAX_CPU, RawSamples, UsageStream
from sojourn.serving.usage import DayClock

_STEP_S = 300
_NAB = ("timestamp", "value", "series")
_IS_CPU = "cpu_utilization"


def stream_azure_2019(path: str | Path, *, timezone: str = "UTC", max_cpu: float = MAX_CPU) -> UsageStream:
    """The one series of `vm_cpu_readings_month_aggregated*.csv(.gz)`, what all VMs use; path: it, or its folder.

    cpu is cpu_usage over its own maximum, since the capacity is not published: the shape of the month, no level. The
    assigned memory is not in use and is left out.

    Raises FileNotFoundError where the file is missing, ValueError where it is not the format.
    """
    file = _one(Path(path), "vm_cpu_readings_month_aggregated*.csv*")
    blocks = csv_columns(file, ("timestamp", "cpu_usage"), ReadLedger())
    largest = max(float(np.nanmax(numbers(columns["cpu_usage"]), initial=0.0)) for _, columns in blocks)
    if not 0 < largest < np.inf:
        raise ValueError(f"{file}: cpu_usage must have a finite maximum above 0, got {largest!r}")

    def read(table: RequestTable, ledger: ReadLedger) -> Iterator[RawSamples]:
        for first_row, columns in csv_columns(file, ("timestamp", "cpu_usage"), ledger):
            cpu = numbers(columns["cpu_usage"]) / largest
            yield _one_series(file, first_row, "all VMs", table, numbers(columns["timestamp"]), cpu)

    return UsageStream(f"Azure 2019, {file.name}", DayClock(0, timezone), read, max_cpu=max_cpu)


def stream_google_2019(path: str | Path, *, timezone: str = "UTC", max_cpu: float = MAX_CPU) -> UsageStream:
    """The one series of `instance_usage_grouped_*.csv(.gz)`, a cell's mean every 300 s; path: it, or its folder.

    cpu and mem are avg_cpu and avg_mem, shares of the cell. Times are not published: the first row is at 0.

    Raises FileNotFoundError where the file is missing, ValueError where it is not the format.
    """
    file = _one(Path(path), "instance_usage_grouped_*.csv*")

    def read(table: RequestTable, ledger: ReadLedger) -> Iterator[RawSamples]:
        for first_row, columns in csv_columns(file, ("avg_cpu", "avg_mem"), ledger):
            cpu = numbers(columns["avg_cpu"])
            yield _one_series(file, first_row, "cell", table, (first_row - 1 + np.arange(len(cpu))) * float(_STEP_S),
                              cpu, numbers(columns["avg_mem"]))

    return UsageStream(f"Google 2019, {file.name}", DayClock(0, timezone), read, max_cpu=max_cpu)


def stream_aws_nab(path: str | Path, *, timezone: str = "UTC", max_cpu: float = MAX_CPU) -> UsageStream:
    """The CPU series of `aws_cloudwatch_5min.parquet` (EC2 and RDS); path: it, or its folder.

    A request is a series whose name holds `cpu_utilization`, cpu its value / 100; sizes are not published. The other
    series are bytes and counts, no usage of a request, and are not read. The series are of different weeks. The stamps
    are taken as UTC.

    Raises FileNotFoundError where the file is missing, ValueError where it is not the format.
    """
    file = _one(Path(path), "aws_cloudwatch*.parquet")

    def read(table: RequestTable, ledger: ReadLedger) -> Iterator[RawSamples]:
        for first_row, columns in parquet_columns(file, _NAB):
            is_cpu = _is_cpu(columns)
            ids, rows = request_rows(columns["series"].filter(is_cpu), table)
            time_s = np.floor(unix_seconds(columns["timestamp"])[is_cpu])
            yield RawSamples(file.name, first_row, ids, rows, time_s,
                             numbers(columns["value"])[is_cpu] / 100)

    return UsageStream(f"AWS CloudWatch (NAB), {file.name}", DayClock(0, timezone), read, max_cpu=max_cpu)


AZURE_2019 = UsageReader(stream_azure_2019, path="`vm_cpu_readings_month_aggregated*.csv(.gz)` or its folder",
                         cpu="the series' own maximum (capacity not published)")
GOOGLE_2019 = UsageReader(stream_google_2019, path="`instance_usage_grouped_*.csv(.gz)` or its folder",
                          cpu="the cell; mem: the same")
AWS_NAB = UsageReader(stream_aws_nab, path="`aws_cloudwatch_5min.parquet` or its folder", cpu="the instance")


def _one_series(file: Path, first_row: int, name: str, table: RequestTable, time_s: np.ndarray, cpu: np.ndarray,
                mem: np.ndarray | None = None) -> RawSamples:
    return RawSamples(file.name, first_row, np.full(len(cpu), name, object), np.repeat(table.rows([name]), len(cpu)),
                      time_s, cpu, mem)


def _is_cpu(columns: Mapping[str, pa.Array]) -> np.ndarray:
    coded = columns["series"].dictionary_encode()
    is_cpu = np.array([_IS_CPU in str(name) for name in coded.dictionary.to_pylist()] + [False])
    return is_cpu[coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)]


def _one(path: Path, pattern: str) -> Path:
    if not path.is_dir():
        return path
    found = sorted(path.glob(pattern))
    if len(found) != 1:
        names = ", ".join(file.name for file in found)
        raise FileNotFoundError(f"{path} must hold one {pattern}, got {names or 'none'}")
    return found[0]
