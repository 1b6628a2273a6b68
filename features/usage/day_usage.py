"""Usage of VMs over one day each, a row a VM and 288 samples in it: PlanetLab, and the GCD VMs of Google 2011."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from sojourn.features.read_report import ReadLedger
from sojourn.features.readers import n_parquet_rows, record_batches
from sojourn.features.usage._columns import numbers
from sojourn.features.usage.usage_block import RequestTable
from sojourn.features.usage.usage_reader import UsageReader
from sojourn.features.usage.usage_stream import MAX_CPU, RawSamples, UsageStream
from sojourn.serving.usage import DAY_S, DayClock

_N_SAMPLES = 288
_STEP_S = DAY_S // _N_SAMPLES
_BLOCK = 512
_SHAPE = f"not {_N_SAMPLES} samples in the row"
_AGAIN = "second row of the same VM"


def stream_planetlab(path: str | Path, *, day: str | None = None, timezone: str = "UTC",
                     max_cpu: float = MAX_CPU) -> UsageStream:
    """Samples of one day of `planetlab_cpu_5min.parquet`; path: the file, or the folder that holds it.

    day: eight digits ("20110303"); by default the first of the file. The days are weeks apart, so each is a trace of
    its own. A request is a VM (node and slice). cpu is cpu_pct / 100; the sizes are not published: 1 core and 0 GiB.
    The day is taken to begin at midnight.

    Raises FileNotFoundError where the file is missing, ValueError where it lacks the day or is not the format.
    """
    source = Path(path)
    file = source / "planetlab_cpu_5min.parquet" if source.is_dir() else source
    days = planetlab_days(file)
    wanted = day if day is not None else next(iter(days), "")
    if wanted not in days:
        raise ValueError(f"day must be one of {', '.join(days)[:200] or 'none'}, got {wanted!r}")

    def read(table: RequestTable, ledger: ReadLedger) -> Iterator[RawSamples]:
        yield from _rows(file, "vm", "cpu_pct", None, table, ledger, wanted)

    return UsageStream(f"PlanetLab (CoMon), {wanted}", DayClock(0, timezone), read, max_cpu=max_cpu)


def planetlab_days(path: str | Path) -> list[str]:
    """The days that `stream_planetlab` can read, in order. Raises as it does."""
    source = Path(path)
    file = source / "planetlab_cpu_5min.parquet" if source.is_dir() else source
    return sorted({str(value) for batch in record_batches(file, ("day",)) for value in batch.column(0).to_pylist()})


def stream_gcd_vms(path: str | Path, *, timezone: str = "UTC", max_cpu: float = MAX_CPU) -> UsageStream:
    """Samples of `gcd_vms_5min.parquet`, VMs made of Google's 2011 tasks; path: the file or its folder.

    A request is a row's `file`. cpu and mem are cpu_pct / 100 and mem_pct / 100; the sizes are not published: 1 core
    and 0 GiB. The authors kept VMs of 5 to 90 % use. The day is taken to begin at midnight.

    Raises FileNotFoundError where the file is missing, ValueError where it is not the format.
    """
    source = Path(path)
    file = source / "gcd_vms_5min.parquet" if source.is_dir() else source
    n_rows = n_parquet_rows(file, ("file", "cpu_pct", "mem_pct")) * _N_SAMPLES

    def read(table: RequestTable, ledger: ReadLedger) -> Iterator[RawSamples]:
        yield from _rows(file, "file", "cpu_pct", "mem_pct", table, ledger)

    return UsageStream("Google 2011, GCD VMs", DayClock(0, timezone), read, max_cpu=max_cpu, n_rows=n_rows)


PLANETLAB = UsageReader(stream_planetlab, path="`planetlab_cpu_5min.parquet` or its folder, one day of it",
                        cpu="the node (sizes not published)")
GCD_VMS = UsageReader(stream_gcd_vms, path="`gcd_vms_5min.parquet` or its folder",
                      cpu="the VM (sizes not published); mem: the same")


def _rows(file: Path, name: str, cpu: str, mem: str | None, table: RequestTable, ledger: ReadLedger,
          day: str | None = None) -> Iterator[RawSamples]:
    """The samples of each block of rows; a row of another length is refused whole, as 288 samples."""
    names = [name, cpu, *([mem] if mem else []), *(["day"] if day is not None else [])]
    first_row = 1
    seen: set[str] = set()
    for batch in record_batches(file, names, _BLOCK):
        ids: list[str] = []
        series: list[np.ndarray] = []
        memory: list[np.ndarray] = []
        places: list[int] = []
        values = batch.column(name).to_pylist()
        of_day = batch.column("day").to_pylist() if day is not None else [None] * batch.num_rows
        for i, vm in enumerate(values):
            if of_day[i] != day:
                continue  # other days are other traces, not refused rows
            row = [_numbers(batch.column(column)[i]) for column in names[1:3 if mem else 2]]
            rule = _SHAPE if any(len(each) != _N_SAMPLES for each in row) else _AGAIN if vm in seen else ""
            if rule:
                ledger.read(_N_SAMPLES)
                lines = np.full(_N_SAMPLES, first_row + i)
                ledger.refuse(rule, file.name, lines, [str(vm)] * _N_SAMPLES)
                continue
            seen.add(vm)
            ids.append(str(vm))
            places.append(i)
            series.append(row[0])
            memory += row[1:]
        if ids:
            time_s = np.tile(np.arange(_N_SAMPLES) * float(_STEP_S), len(ids))
            yield RawSamples(file.name, first_row, np.repeat(np.array(ids, object), _N_SAMPLES),
                             np.repeat(table.rows(ids), _N_SAMPLES), time_s, np.concatenate(series) / 100,
                             np.concatenate(memory) / 100 if mem else None,
                             row_of=np.repeat(np.array(places), _N_SAMPLES))
        first_row += batch.num_rows


def _numbers(row: pa.Scalar) -> np.ndarray:
    return numbers(row.values) if row.is_valid and row.values is not None else np.zeros(0)
