"""Reads the VMs of the SAP Cloud Infrastructure Dataset from the series of a metric, a sample of a VM in a row.

Uhlig, Braun and Wählisch, "The SAP Cloud Infrastructure Dataset", IMC 2025 (doi:10.1145/3730567.3764480,
doi:10.5281/zenodo.17141306). File names and columns are those that two public projects read: `Instance` and `Value` of
`vrops_virtualmachine_*_all.csv`, and `Timestamp` of `vrops_compute_host_*_all.csv`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from sojourn.features.read_report import ReadLedger, ReadReport
from sojourn.features.readers._ending import cut_at, horizon_of, since_start, trace_of, without_ended
from sojourn.features.readers._rows import TextRows, delimited_rows
from sojourn.features.readers._stamps import StampForm, stamp_form, stamps_s
from sojourn.features.readers.reader import Reader
from sojourn.features.trace import Roles, Trace

_FILE = "vrops_virtualmachine_cpu_usage_ratio_all.csv"
_COLUMNS = ("Timestamp", "Value", "Instance")


def read_sap(path: str | Path, *, interval_s: int | None = None,
             horizon_s: int | None = None) -> tuple[Trace, ReadReport]:
    """The trace of one file `vrops_virtualmachine_<metric>_all.csv(.gz)`.

    path: that file, or the folder `data` with the one of `cpu_usage_ratio`.

    A VM is a request from its first sample to one interval after its last. If its first (last) sample is within an
    interval of the dataset's first (last), it ran before (after): start unknown (censored). So starts and ends are
    known to an interval only, and a VM that is off at an end of its life, and gives no samples then, looks shorter.
    Samples may be in any order; gaps of a VM do not end it, and a migration neither ends it nor shows.

    interval_s: between samples, whole seconds above 0; by default the median over VMs of (last - first) / (n - 1).
    Times are ISO 8601 (without a zone UTC) or Unix time of any unit; the trace has Unix seconds.

    Sizes of single VMs are not published: 1 core and 0 GiB. Known at the end, without a role:
    `n_samples` and `mean_value`, of the metric. There are no owners.

    horizon_s: end of observation, a Unix second or seconds after the first sample; by default the
    last time that enough VMs share.

    Raises FileNotFoundError if the file is missing, ValueError if it has another format.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "vrops_virtualmachine_cpu_usage_ratio_all.csv"
    >>> days = [f"2024-08-0{day} 00:00:00" for day in range(1, 6)]
    >>> rows = [(day, 4.5, "instance-a") for day in days] + [(day, 3, "instance-b") for day in days[1:3]]
    >>> _ = path.write_text(chr(10).join(["Timestamp,Value,Instance", *(",".join(map(str, row)) for row in rows)]))
    >>> trace, report = read_sap(path)
    >>> since = trace.since_begin()
    >>> since.requests[["request_id", "arrival_s", "departure_s", "n_samples"]].values.tolist()
    [['instance-a', <NA>, <NA>, 5], ['instance-b', 86400, 259200, 2]]
    """
    source = Path(path)
    table = _file_in(source) if source.is_dir() else source
    if interval_s is not None and (not isinstance(interval_s, int) or interval_s <= 0):
        raise ValueError(f"interval_s must be a whole number above 0, got {interval_s!r}")
    ledger = ReadLedger()
    series = _Series()
    form: StampForm | None = None
    for rows in delimited_rows(table, ledger):
        missing = [name for name in _COLUMNS if name not in rows.names]
        if missing:
            raise ValueError(f"{table}: line 1 must have the columns {', '.join(_COLUMNS)}, got "
                             f"{', '.join(rows.names)[:200]!r}")
        if form is None:
            form = _form(table, rows)
        _take(rows, form, series)
    vms = series.table()
    if vms.empty:
        raise ValueError(f"{table}: must hold at least one sample, got none; refused: {dict(ledger.report(0).refused)}")
    if form is None or not form.is_dated:
        raise ValueError(f"{table}: Timestamp must be dates or Unix time, got {form or 'none'}")
    step_s = interval_s or _interval_s(table, vms)
    first_s, last_s = vms["first_s"].to_numpy(np.int64), vms["last_s"].to_numpy(np.int64)
    # both ends of the observation are times that many VMs share; the first one by the mirrored rule
    start_s = -horizon_of(-first_s, is_shared=True, tolerance_s=step_s).time_s
    since_s = last_s - start_s
    horizon = horizon_of(since_s, since_start(horizon_s, start_s, int(max(since_s.max(), 1))), is_shared=True,
                         tolerance_s=step_s)
    if horizon.time_s <= 0:
        raise ValueError(f"{table}: must hold samples of more than one time, got {len(vms)} VMs at one")
    ledger.note(f"a sample of a VM about every {step_s:,} s{'' if interval_s is None else ', as declared'}")
    arrival, departure = pd.Series(first_s - start_s, dtype="Int64"), pd.Series(since_s + step_s, dtype="Int64")
    requests = pd.DataFrame({
        "line": vms["line"], "request_id": vms["name"], "arrival_s": arrival.mask(arrival < step_s),
        "departure_s": departure.mask((departure > horizon.time_s) & (since_s <= horizon.time_s)),
        "cpu_cores": 1.0, "mem_gib": 0.0, "n_samples": vms["n"], "mean_value": vms["total"] / vms["n"]})
    requests = without_ended(requests, "request_id", ledger, table.name)
    requests = cut_at(requests, horizon, ledger, table.name)
    meta = {"source": f"SAP Cloud Infrastructure Dataset (IMC 2025), {table.name}", "licence": "CC BY 4.0",
            "units": "cpu_cores and mem_gib are not published: 1 and 0 taken", "start_unix_s": start_s,
            "interval_s": step_s, "known_at_end": ["n_samples", "mean_value"]}
    return trace_of(requests, horizon.time_s, Roles(), ledger, meta, is_event_log=True)


SAP = Reader(
    read_sap,
    path="`vrops_virtualmachine_<metric>_all.csv` of the SAP Cloud Infrastructure Dataset (IMC 2025), or its folder",
    arrival="first sample; none within an interval of the dataset's first",
    departure="an interval after the last sample; none within an interval of the dataset's last",
    no_role="`n_samples`, `mean_value`",
)


@dataclass(slots=True)
class _Series:
    """Of each VM so far its row in the arrays; memory grows with VMs, not with samples."""

    rows: dict[str, int] = field(default_factory=dict)
    line: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    first_s: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    last_s: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    n: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    total: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def add(self, name: np.ndarray, line: np.ndarray, time_s: np.ndarray, value: np.ndarray) -> None:
        """Add samples, arrays of one length."""
        row = np.array([self.rows.setdefault(each, len(self.rows)) for each in name], np.int64)
        n_new = len(self.rows) - len(self.n)
        most = np.iinfo(np.int64).max
        self.line = np.append(self.line, np.full(n_new, most))
        self.first_s = np.append(self.first_s, np.full(n_new, most))
        self.last_s = np.append(self.last_s, np.full(n_new, -1))
        self.n, self.total = np.append(self.n, np.zeros(n_new, np.int64)), np.append(self.total, np.zeros(n_new))
        np.minimum.at(self.line, row, line)
        np.minimum.at(self.first_s, row, time_s)
        np.maximum.at(self.last_s, row, time_s)
        np.add.at(self.n, row, 1)
        np.add.at(self.total, row, value)

    def table(self) -> pd.DataFrame:
        """A row for each VM, in the order of their first rows."""
        return pd.DataFrame({"name": pd.Series(list(self.rows), dtype="str"), "line": self.line,
                             "first_s": self.first_s, "last_s": self.last_s, "n": self.n, "total": self.total})


def _form(table: Path, rows: TextRows) -> StampForm | None:
    try:
        return stamp_form("Timestamp", rows.text("Timestamp"))
    except ValueError as error:
        raise ValueError(f"{table}: {error}") from None


def _take(rows: TextRows, form: StampForm | None, series: _Series) -> None:
    """Add one block's samples."""
    value, name = rows.number("Value"), rows.text("Instance")
    stamps = stamps_s(rows.text("Timestamp"), form or StampForm("iso"))
    rows.refuse("Timestamp missing", stamps.is_missing)
    rows.refuse("Timestamp in another form, or no time", stamps.is_bad)
    rows.refuse("Instance missing", name == "")
    rows.refuse("Value negative", value < 0)
    kept = rows.is_kept
    if kept.any():
        series.add(name[kept], rows.line[kept], np.floor(stamps.values[kept]).astype(np.int64), value[kept])


def _interval_s(table: Path, vms: pd.DataFrame) -> int:
    """The median over VMs of the mean time between samples, whole seconds."""
    several = vms[(vms["n"] > 1) & (vms["last_s"] > vms["first_s"])]
    if several.empty:
        raise ValueError(f"{table}: must hold several samples of a VM, got none with two times: give interval_s")
    return max(round(float(((several["last_s"] - several["first_s"]) / (several["n"] - 1)).median())), 1)


def _file_in(folder: Path) -> Path:
    for name in (_FILE, f"{_FILE}.gz"):
        if (folder / name).is_file():
            return folder / name
    raise FileNotFoundError(f"{folder} must hold {_FILE} or {_FILE}.gz")
