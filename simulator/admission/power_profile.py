"""A power budget that varies: how many cores may be on, over time; from a table or a CSV file."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sojourn.inflated import text_of
from sojourn.simulator.admission.jobs import MAX_TIME_S

N_BYTES_MAX = 8 << 20
"""Of a profile's file: a day by seconds is 2 MB."""
_COLUMNS = ("cores", "watts")


@dataclass(frozen=True, slots=True)
class PowerProfile:
    """How many cores are on: cores[k] from time_s[k] until time_s[k + 1], cores[-1] until end_s; none before and after.

    Core k is on where more than k cores are: cores are turned off from the highest number down, and a job runs only
    while all its cores are on. An accepted job is guaranteed under the profile.

    time_s: int64 (n,), rising, 0 or above. cores: int64 (n,), 0 or above. end_s: after the last time. Refused with
    ValueError: anything else.

    >>> day = PowerProfile(np.array([0, 100]), np.array([2, 1]), 150)
    >>> day.core_seconds(0, 150), day.core_seconds(90, 1_000)
    (250, 70)
    """

    time_s: np.ndarray
    cores: np.ndarray
    end_s: int

    def __post_init__(self) -> None:
        time, cores = np.asarray(self.time_s), np.asarray(self.cores)
        if time.ndim != 1 or time.shape != cores.shape or len(time) == 0:
            raise ValueError(f"power profile must have rows with a time and cores, got shapes {time.shape} and "
                             f"{cores.shape}")
        for name, values in (("time_s", time), ("cores", cores)):
            is_bad = ~(np.isfinite(values) & (values >= 0) & (values < MAX_TIME_S) & (values == np.floor(values)))
            if is_bad.any():
                row = int(np.flatnonzero(is_bad)[0])
                raise ValueError(f"{name} of a power profile must be a whole number of at least 0 and below 2**40, "
                                 f"got {values[row].item()!r} (row {row + 1})")
        late = np.flatnonzero(np.diff(time) <= 0)
        if len(late):
            raise ValueError(f"time_s of a power profile must rise, got {time[late[0] + 1].item()!r} after "
                             f"{time[late[0]].item()!r} (row {int(late[0]) + 2})")
        if not time[-1] < self.end_s < MAX_TIME_S or self.end_s != int(self.end_s):
            raise ValueError(f"end_s of a power profile must be a whole number after the last time "
                             f"{time[-1].item()!r}, got {self.end_s!r}")
        object.__setattr__(self, "time_s", time.astype(np.int64))
        object.__setattr__(self, "cores", cores.astype(np.int64))

    @property
    def most_cores(self) -> int:
        """Cores that are on at once, at most."""
        return int(self.cores.max())

    def repeated(self, n: int) -> PowerProfile:
        """The profile n times, one after the other; it must begin at 0.

        >>> PowerProfile(np.array([0, 10]), np.array([2, 1]), 30).repeated(2).time_s.tolist()
        [0, 10, 30, 40]
        """
        if n < 1 or self.time_s[0] != 0:
            raise ValueError(f"a power profile that is repeated must begin at 0, n at least 1; got {n!r} from "
                             f"{int(self.time_s[0])}")
        shifts = np.repeat(np.arange(n) * self.end_s, len(self.time_s))
        return PowerProfile(np.tile(self.time_s, n) + shifts, np.tile(self.cores, n), n * self.end_s)

    def core_seconds(self, from_s: int, to_s: int) -> int:
        """Core-seconds that are on between two times."""
        ends = np.append(self.time_s[1:], self.end_s)
        held = np.minimum(ends, to_s) - np.maximum(self.time_s, from_s)
        return int((np.maximum(held, 0) * self.cores).sum())

    def intervals(self, n_cores: int) -> np.ndarray:
        """The table of free intervals, int64 (5, n): one for each time in which one of the first n_cores is on."""
        edges = np.append(self.time_s, self.end_s)
        rows = []
        for number in range(min(n_cores, self.most_cores)):
            is_on = np.concatenate([[False], self.cores > number, [False]])
            turns = np.flatnonzero(is_on[1:] != is_on[:-1])
            rows += [(int(edges[on]), int(edges[off]), number) for on, off in turns.reshape(-1, 2).tolist()]
        rows.sort(key=lambda row: (row[0], -row[2]))
        start, end, core = np.array(rows, np.int64).reshape(-1, 3).T
        return np.array([start, end, core, np.ones(len(rows), np.int64), start])


def read_power_profile(path: str | Path, *, busy_w: float | None = None,
                       may_have_gaps: bool = False) -> PowerProfile:
    """The profile in a CSV file with a header: `time_s` and `cores`, or `time_s` and `watts`.

    A row holds until the next one; the last one for as long as the one before it, a single row for an hour. watts:
    whole cores that can all be busy, watts / busy_w, rounded down. Rows must have equal distances, so that a missing
    one is found; may_have_gaps: a row then holds over the gap.

    Refused with ValueError: columns that are missing, text that is no number, rows at unequal distances, watts without
    busy_w, and what PowerProfile refuses.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "solar.csv"
    >>> _ = path.write_text("time_s,watts\\n0,250\\n3600,1000\\n")
    >>> profile = read_power_profile(path, busy_w=100)
    >>> profile.cores.tolist(), profile.end_s
    ([2, 10], 7200)
    """
    try:
        lines = list(csv.reader(io.StringIO(text_of(Path(path), N_BYTES_MAX), newline=""), strict=True))
    except csv.Error as error:
        raise ValueError(f"{path} must be a CSV file, got {error}") from error
    header = [name.strip() for name in lines[0]] if lines else []
    amounts = [name for name in header if name in _COLUMNS]
    if header.count("time_s") != 1 or len(amounts) != 1:
        raise ValueError(f"{path}: columns must be time_s and one of cores and watts, each once, got "
                         f"{', '.join(map(_shown, header))[:200] or 'none'}")
    column = amounts[0]
    time, amount = (_numbers(lines, header, name, path) for name in ("time_s", column))
    if len(time) == 0:
        raise ValueError(f"{path}: a power profile must have rows, got none")
    if column == "watts":
        if busy_w is None or not busy_w > 0:
            raise ValueError(f"busy_w must be above 0 with a profile in watts, got {busy_w!r}")
        amount = np.floor(amount / busy_w)
    steps = np.diff(time)
    odd = np.flatnonzero(steps != steps[0]) if len(steps) else steps
    if len(odd) and not may_have_gaps:
        row = int(odd[0])
        raise ValueError(f"{path}: rows must have equal distances, got {time[row + 1]:g} after {time[row]:g} where "
                         f"rows before are {steps[0]:g} s apart: a row is missing (may_have_gaps: the one before it "
                         "holds)")
    try:
        return PowerProfile(time, amount, int(time[-1] + (steps[-1] if len(steps) else 3_600)))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _shown(name: str) -> str:
    return name if name.isprintable() else repr(name)


def _numbers(lines: list[list[str]], header: list[str], name: str, path: str | Path) -> np.ndarray:
    """A column; its line stands in an error."""
    found = []
    for number, line in enumerate(lines[1:], 2):
        if not any(cell.strip() for cell in line):
            continue
        if len(line) > len(header):
            raise ValueError(f"{path}: a row must have {len(header)} values, got {len(line)} (line {number})")
        text = line[header.index(name)].strip() if len(line) > header.index(name) else ""
        try:
            value = float(text) if text.isascii() and "_" not in text else math.nan
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or value < 0:
            raise ValueError(f"{path}: {name} must be a number of at least 0, got {text[:80]!r} (line {number})")
        found.append(value)
    return np.array(found)
