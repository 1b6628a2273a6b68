"""Reads the PlanetLab CPU series (CoMon, Mar-Apr 2011) as Parquet: VMs over one day each, a sample every 5 minutes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from sojourn.features.read_report import ReadLedger, ReadReport
from sojourn.features.readers._ending import trace_of
from sojourn.features.readers._rows import MAX_USAGE_ROWS, NO_USAGE, n_parquet_rows, record_batches
from sojourn.features.readers.reader import Reader
from sojourn.features.trace import DAY_S, Roles, Trace

_COLUMNS = ("day", "vm", "cpu_pct")
_N_SAMPLES = 288
_INTERVAL_S = 300
_BLOCK = 1024
"""VM-days per block: about 300,000 samples."""


def read_planetlab(path: str | Path, *, day: str | None = None, usage: bool | None = None,
                   horizon_s: int | None = None) -> tuple[Trace, ReadReport]:
    """The trace of `planetlab_cpu_5min.parquet`; path: the file, or the folder with only this file.

    day: one day ("20110303"); by default all of them on the same 24 hours, since the days are weeks apart. A request is
    one VM on one day, named by its row in the file (from 1): it ran before the day (start unknown) and after
    (censored), so this trace has no lifetimes. Sizes are not published: 1 core and 0 GiB.

    horizon_s: end the day so many seconds after its start; by default the whole day.

    Owner: `vm` (node and slice, which recur from day to day); `day` has no role. `Trace.usage`: cpu_pct / 100, the k-th
    sample (from 0) at k x 300 s of the day. usage: None = up to 5,000,000 samples, True = any number, False = not.

    Raises FileNotFoundError if the file is missing, ValueError if it has another format.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "planetlab.parquet"
    >>> pd.DataFrame({"day": ["20110303"], "vm": ["node_slice"], "cpu_pct": [[24] * 287 + [99]]}).to_parquet(path)
    >>> trace, report = read_planetlab(path)
    >>> trace.requests[["request_id", "arrival_s", "departure_s", "vm", "day"]].values.tolist()
    [[1, <NA>, <NA>, 'node_slice', '20110303']]
    >>> trace.usage.tail(1).values.tolist()
    [[1.0, 86100.0, 0.99]]
    """
    source = Path(path)
    table = source / "planetlab_cpu_5min.parquet" if source.is_dir() else source
    if source.is_dir() and not table.is_file():
        raise FileNotFoundError(f"{source} must hold {table.name}")
    n_samples = n_parquet_rows(table, _COLUMNS) * _N_SAMPLES
    has_usage = usage is True or (usage is None and n_samples <= MAX_USAGE_ROWS)
    if horizon_s is not None and not 0 < horizon_s <= DAY_S:
        raise ValueError(f"horizon_s must be above 0 and at most {DAY_S}, got {horizon_s!r}")
    end_s = DAY_S if horizon_s is None else horizon_s
    ledger = ReadLedger()
    days: set[str] = set()
    parts = list(_vm_days(table, day, has_usage, days, ledger))
    requests = pd.concat([part[0] for part in parts], ignore_index=True) if parts else pd.DataFrame()
    if requests.empty:
        which = "VM" if day is None else f"VM of the day {day!r}"
        got = ", ".join(sorted(days))[:200] or "none"
        raise ValueError(f"{table}: must hold at least one {which}, got days {got}; "
                         f"refused: {dict(ledger.report(0).refused)}")
    series = pd.concat([part[1] for part in parts], ignore_index=True) if has_usage else None
    if series is not None and horizon_s is not None:
        series = series[series["time_s"] <= end_s].reset_index(drop=True)
    meta = {"source": f"PlanetLab CPU usage (CoMon), {table.name}", "licence": "none stated (CoMon project)",
            "units": "cpu_cores and mem_gib are not published: 1 and 0 taken",
            "days": sorted(set(requests["day"])),
            "usage": "cpu_pct / 100 every 300 s" if has_usage else "not read", "known_at_end": []}
    return trace_of(requests, end_s, Roles(owners=("vm",)), ledger, meta, others=("day",), usage=series)


PLANETLAB = Reader(
    read_planetlab,
    path="`planetlab_cpu_5min.parquet`, or its folder",
    arrival="none: all ran before",
    departure="none: all ran on",
    owners="`vm`",
    no_role="`day`",
)


def _vm_days(path: Path, day: str | None, has_usage: bool, days: set[str],
             ledger: ReadLedger) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    """Requests and usage of each block; adds the file's days to `days`."""
    n_rows = 0
    ids: set[tuple[str, str]] = set()
    for batch in record_batches(path, _COLUMNS, _BLOCK):
        kept_names: list[tuple[int, str, str]] = []
        kept_series: list[np.ndarray] = []
        of_day = [_text(value) for value in batch.column("day").to_pylist()]
        of_vm = [_text(value) for value in batch.column("vm").to_pylist()]
        for i, (name, vm, series) in enumerate(zip(of_day, of_vm, _series(path, batch.column("cpu_pct")), strict=True)):
            days.add(name)
            if day is not None and name != day:
                continue  # other days are other traces, no refused rows
            ledger.read(1)
            rule = _broken_rule(name, vm, series, ids)
            if rule:
                ledger.refuse(rule, path.name, np.array([n_rows + i + 1]), [f"{name},{vm},{_shown(series)}"])
                continue
            ids.add((name, vm))
            kept_names.append((n_rows + i + 1, name, vm))
            if series is not None:
                kept_series.append(series)
        n_rows += batch.num_rows
        yield _requests(kept_names), _usage(kept_names, kept_series) if has_usage else NO_USAGE


def _broken_rule(day: str, vm: str, series: np.ndarray | None, ids: set[tuple[str, str]]) -> str:
    """The first rule that the row breaks, or ""."""
    if not re.fullmatch("[0-9]{8}", day):
        return "day not eight digits"
    if not vm:
        return "vm missing"
    if series is None or len(series) != _N_SAMPLES:
        return f"not {_N_SAMPLES} samples"
    if not ((series >= 0) & (series <= 100)).all():
        return "a sample missing or outside 0 .. 100"
    return "duplicate day and vm" if (day, vm) in ids else ""


def _series(path: Path, column: pa.Array) -> list[np.ndarray | None]:
    """Each row's samples as float64, NaN where one is missing; None if the row has none."""
    kind = column.type
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    if not is_list or not (pa.types.is_integer(kind.value_type) or pa.types.is_floating(kind.value_type)):
        raise ValueError(f"{path}: cpu_pct must be a column of lists of numbers, got {kind}")
    return [row.values.to_numpy(zero_copy_only=False).astype(np.float64) if row.is_valid else None for row in column]


def _requests(names: list[tuple[int, str, str]]) -> pd.DataFrame:
    n = len(names)
    return pd.DataFrame({
        "request_id": np.array([row for row, _, _ in names], np.int64),
        "arrival_s": pd.array([pd.NA] * n, dtype="Int64"),
        "departure_s": pd.array([pd.NA] * n, dtype="Int64"),
        "cpu_cores": np.ones(n),
        "mem_gib": np.zeros(n),
        "vm": pd.Series([vm for _, _, vm in names], dtype="str"),
        "day": pd.Series([day for _, day, _ in names], dtype="str"),
    })


def _usage(names: list[tuple[int, str, str]], series: list[np.ndarray]) -> pd.DataFrame:
    """`request_id`, `time_s` (int64) and `cpu_frac` (float64), 288 rows for each request."""
    return pd.DataFrame({
        "request_id": np.repeat(np.array([row for row, _, _ in names], np.int64), _N_SAMPLES),
        "time_s": np.tile(np.arange(_N_SAMPLES, dtype=np.int64) * _INTERVAL_S, len(names)),
        "cpu_frac": np.concatenate([*series, np.zeros(0)]) / 100,
    })


def _text(value: object) -> str:
    return "" if value is None else str(value).strip()


def _shown(series: np.ndarray | None) -> str:
    if series is None:
        return ""
    return f"{len(series)} samples: " + " ".join(f"{value:g}" for value in series[:8])
