"""Reads one month of the Bitbrains "rnd" VMs (GWA-T-12) as Parquet: their CPU usage, and VMs from `vm_meta.parquet`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from sojourn.features.read_report import ReadLedger, ReadReport
from sojourn.features.readers._ending import cut_at, horizon_of, since_start, trace_of
from sojourn.features.readers._rows import (
    MAX_TIME_S,
    MAX_USAGE_ROWS,
    NO_USAGE,
    NumberRows,
    TextRows,
    n_parquet_rows,
    number_rows,
    record_batches,
    value_rows,
)
from sojourn.features.readers.reader import Reader
from sojourn.features.trace import Roles, Trace

_META = ("month", "vm", "cores", "cap_mhz", "mem_cap_mb", "first_ts", "last_ts")
_USAGE = ("vm", "ts", "cpu_pct")
_EDGE_S = 600
"""Two samples: a VM this close to an end of the month ran beyond it."""
_MIB_PER_GIB = 1024
_MAX_SIZE = 1e9
_MAX_PCT = 1000.0
"""The data reach 182 %; ten times the capacity is a damaged cell."""


def read_bitbrains(path: str | Path, *, month: str | None = None,
                   usage: bool | None = None, horizon_s: int | None = None) -> tuple[Trace, ReadReport]:
    """The trace of `rnd_<month>.parquet`; path: that file, or the folder with it and `vm_meta.parquet`.

    month: as in the file names ("2013-7"), if the path is a folder; by default the first month with a usage file. A VM
    is a request from its first sample to its last. If its first (last) sample is within 600 s of the month's first
    (last), it ran before (after): start unknown (censored). Time 0 is the month's first sample
    (`meta["start_unix_s"]`). Sizes are the VM's largest of the month; there are no owners.

    horizon_s: end of the month, seconds from its first sample; by default the last time that enough
    VMs share. The month's first sample is found in the same way.

    `Trace.usage`: cpu_pct / 100 at each sample, the mean of the five minutes before; it may exceed 1. A VM that is
    powered off has about 0. usage: None = if the file has at most 5,000,000 rows, True = any size, False = not.

    Raises FileNotFoundError if a file is missing, ValueError if one has another format.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> pd.DataFrame({"month": "2013-7", "vm": [1, 2], "cores": [2, 1], "cap_mhz": 2600.0, "mem_cap_mb": 1024.0,
    ...               "first_ts": [5000, 6200], "last_ts": [7000, 9000]}).to_parquet(folder / "vm_meta.parquet")
    >>> pd.DataFrame({"vm": [1, 2], "ts": [5000, 6200], "cpu_pct": [1.5, 50]}).to_parquet(folder / "rnd_2013-7.parquet")
    >>> trace, report = read_bitbrains(folder)
    >>> trace.requests[["request_id", "arrival_s", "departure_s", "cpu_cores", "mem_gib"]].values.tolist()
    [[1, <NA>, 7000, 2.0, 1.0], [2, 6200, <NA>, 1.0, 1.0]]
    >>> trace.usage["time_s"].tolist(), trace.usage["cpu_frac"].tolist()
    ([5000, 6200], [0.015, 0.5])
    """
    source = Path(path)
    table = _file_in(source, month) if source.is_dir() else source
    n_samples = n_parquet_rows(table, _USAGE)
    of_month = table.stem.removeprefix("rnd_")
    ledger = ReadLedger()
    vms = _vms(table.with_name("vm_meta.parquet"), of_month, ledger)
    # Both ends of the month are times that many VMs share; the first one by the mirrored rule.
    start_s = -horizon_of(-vms["first_ts"].to_numpy(), is_shared=True, tolerance_s=_EDGE_S).time_s
    last_s = vms["last_ts"].to_numpy() - start_s
    if last_s.max() <= 0:
        raise ValueError(f"{table.with_name('vm_meta.parquet')}: {of_month} must last longer than 0 s, got 0")
    horizon = horizon_of(last_s, since_start(horizon_s, start_s, int(last_s.max())), is_shared=True,
                         tolerance_s=_EDGE_S)
    arrival, departure = (pd.Series(vms[name] - start_s, dtype="Int64") for name in ("first_ts", "last_ts"))
    requests = pd.DataFrame({
        "request_id": vms["vm"],
        "arrival_s": arrival.mask(arrival <= _EDGE_S),
        "departure_s": departure,
        "cpu_cores": vms["cores"],
        "mem_gib": vms["mem_cap_mb"] / _MIB_PER_GIB,
        "core_mhz": vms["cap_mhz"] / vms["cores"].where(vms["cores"] > 0),
    })
    requests = cut_at(requests, horizon, ledger, "vm_meta.parquet")
    requests["departure_s"] = requests["departure_s"].mask(requests["departure_s"] >= horizon.time_s - _EDGE_S)
    vms = vms[vms["vm"].isin(requests["request_id"])].reset_index(drop=True)
    vms["last_ts"] = vms["last_ts"].clip(upper=start_s + horizon.time_s)
    has_usage = usage is True or (usage is None and n_samples <= MAX_USAGE_ROWS)
    series = _usage(table, vms, start_s, ledger) if has_usage else None
    meta = {"source": f"Bitbrains rnd (GWA-T-12), {table.name}",
            "licence": "Bitbrains, Grid Workloads Archive (cite Shen et al., CCGrid'15)", "start_unix_s": start_s,
            "usage": "cpu_pct / 100, the mean of the five minutes before" if has_usage else "not read",
            "known_at_end": []}
    return trace_of(requests, horizon.time_s, Roles(numbers=("core_mhz",)), ledger, meta, usage=series,
                    is_event_log=True)


BITBRAINS = Reader(
    read_bitbrains,
    path="`rnd_<month>.parquet` (Bitbrains rnd, GWA-T-12), or the folder of it and `vm_meta.parquet`",
    arrival="first sample; none within 600 s of the month's first",
    departure="last sample; none within 600 s of the month's last",
    numbers="`core_mhz`",
)


def _vms(path: Path, month: str, ledger: ReadLedger) -> pd.DataFrame:
    """The kept VMs of `month`: vm, first_ts and last_ts as int64; cores, cap_mhz and mem_cap_mb as float64."""
    chunks = []
    months: set[str] = set()
    n_rows = 0
    ids: set[object] = set()
    for batch in record_batches(path, _META):
        values = list(zip(*(batch.column(name).to_pylist() for name in _META), strict=True))
        months |= {str(row[0]) for row in values}
        rows = value_rows(path.name, _META, n_rows + 1, values, ledger)
        n_rows += len(values)
        chunks.append(_vms_of(rows, month, ids))
    vms = pd.concat(chunks, ignore_index=True) if chunks else pd.DataFrame()
    if vms.empty:
        raise ValueError(f"{path}: must hold at least one VM of the month {month!r}, got months "
                         f"{', '.join(sorted(months))[:200] or 'none'}; refused: {dict(ledger.report(0).refused)}")
    return vms


def _vms_of(rows: TextRows, month: str, ids: set[object]) -> pd.DataFrame:
    is_other = rows.text("month") != month
    rows.is_kept &= ~is_other  # other months are other traces, no refused rows
    rows.ledger.read(-int(is_other.sum()))
    vm, cores, mhz, memory, first, last = (rows.number(name) for name in _META[1:])
    rows.refuse("vm not a whole number", (vm % 1 != 0) | (np.abs(vm) > MAX_TIME_S))
    for times in (first, last):
        rows.refuse("time not a whole number in 0 .. 100 years", (times < 0) | (times > MAX_TIME_S) | (times % 1 != 0))
    rows.refuse("negative size", (cores < 0) | (mhz < 0) | (memory < 0))
    rows.refuse(f"size above {_MAX_SIZE:g}", np.any([x > _MAX_SIZE for x in (cores, mhz, memory)], axis=0))
    rows.refuse("departure before arrival", last < first)
    rows.refuse_duplicates("duplicate vm", vm, ids)
    is_kept = rows.is_kept
    return pd.DataFrame({"vm": vm[is_kept].astype(np.int64), "cores": cores[is_kept], "cap_mhz": mhz[is_kept],
                         "mem_cap_mb": memory[is_kept], "first_ts": first[is_kept].astype(np.int64),
                         "last_ts": last[is_kept].astype(np.int64)})


def _usage(path: Path, vms: pd.DataFrame, start_s: int, ledger: ReadLedger) -> pd.DataFrame:
    """The kept samples as `request_id`, `time_s` (int64), `cpu_frac` (float64), in file order."""
    index = pd.Index(vms["vm"])
    first, last = vms["first_ts"].to_numpy(), vms["last_ts"].to_numpy()
    latest: dict[float, float] = {}
    chunks = [_samples(rows, index, first, last, start_s, latest) for rows in number_rows(path, _USAGE, ledger)]
    return pd.concat(chunks, ignore_index=True) if chunks else NO_USAGE


def _samples(rows: NumberRows, index: pd.Index, first: np.ndarray, last: np.ndarray, start_s: int,
             latest: dict[float, float]) -> pd.DataFrame:
    vm, time, percent = (rows.number(name) for name in _USAGE)
    place = index.get_indexer(pd.Index(vm))
    rows.refuse("sample of a VM that is not kept", place < 0)
    rows.refuse("sample outside its VM's first .. last", (time < first[place]) | (time > last[place]))
    rows.refuse(f"cpu_pct outside 0 .. {_MAX_PCT:g}", (percent < 0) | (percent > _MAX_PCT))
    rows.refuse_not_later("sample not after the one of its VM above", vm, time, latest)
    is_kept = rows.is_kept
    return pd.DataFrame({"request_id": vm[is_kept].astype(np.int64), "time_s": time[is_kept].astype(np.int64) - start_s,
                         "cpu_frac": percent[is_kept] / 100})


def _file_in(folder: Path, month: str | None) -> Path:
    names = sorted(path.name for path in folder.glob("rnd_*.parquet"))
    file_name = f"rnd_{month}.parquet" if month is not None else next(iter(names), "rnd_<month>.parquet")
    if file_name not in names:
        raise FileNotFoundError(f"{folder} must hold {file_name}, got {', '.join(names) or 'no usage file'}")
    return folder / file_name
