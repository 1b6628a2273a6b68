"""Jobs with deadlines, as arrays, and the deadlines that slacks give.

A power budget that varies: how many cores may be on, over time; from a table or a CSV file.
"""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sojourn.inflated import text_of
from sojourn.simulator.whole_numbers import is_whole

MAX_TIME_S = 2**40
"""Times stay below this, so that sums of them, and products with a number of cores, are exact in 64 bits."""


@dataclass(frozen=True, slots=True)
class AdmissionJobs:
    """Jobs in any order; arrays of int64, shape (n,). Where submissions are equal, the job with the lower index comes
    first.

    submission_s, deadline_s: seconds on one clock, 0 or above. processing_s: how long a job runs on all its cores at
    once, above 0. cores: 1 or more. names: of the jobs, for errors; default: their indices.

    A deadline may lie too near to be met: such a job is rejected. Refused with ValueError, which names the first bad
    job: times that are negative or 2**40 and above, a processing time or a number of cores below 1, values that are
    not whole, arrays of different lengths.

    >>> jobs = AdmissionJobs(np.array([0, 5]), np.array([10, 10]), np.array([1, 2]), np.array([12, 40]))
    >>> jobs.load_s, jobs.frame_s
    (30, 40)
    """

    submission_s: np.ndarray
    processing_s: np.ndarray
    cores: np.ndarray
    deadline_s: np.ndarray
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        n = len(np.atleast_1d(np.asarray(self.submission_s)))
        if self.names and len(self.names) != n:
            raise ValueError(f"names must be one a job, got {len(self.names)} for {n} jobs")
        for name, least in (("submission_s", 0), ("processing_s", 1), ("cores", 1), ("deadline_s", 0)):
            object.__setattr__(self, name, self._checked(name, least, n))

    def _checked(self, name: str, least: int, n: int) -> np.ndarray:
        values = np.asarray(getattr(self, name))
        if values.shape != (n,):
            raise ValueError(f"{name} must be one number a job, got shape {values.shape} for {n} jobs")
        if values.dtype.kind not in "iuf":
            raise ValueError(f"{name} must be numbers, got {values.dtype}")
        is_bad = ~((values >= least) & (values < MAX_TIME_S))
        if values.dtype.kind == "f":
            is_bad |= ~is_bad & (values != np.floor(np.where(np.isfinite(values), values, 0.0)))
        if is_bad.any():
            row = int(np.flatnonzero(is_bad)[0])
            raise ValueError(f"{name} must be a whole number of at least {least} and below 2**40, got "
                             f"{values[row].item()!r} (job {self.name_of(row)})")
        return values.astype(np.int64)

    def __len__(self) -> int:
        return len(self.submission_s)

    def name_of(self, row: int) -> str:
        """How a job is called in an error."""
        return self.names[row] if self.names else str(row)

    def take(self, rows: np.ndarray) -> AdmissionJobs:
        """The jobs of these indices or of this mask."""
        chosen = np.arange(len(self))[rows]
        names = tuple(self.names[row] for row in chosen.tolist()) if self.names else ()
        return AdmissionJobs(self.submission_s[rows], self.processing_s[rows], self.cores[rows],
                             self.deadline_s[rows], names)

    def order(self) -> np.ndarray:
        """Indices in the order in which the jobs are offered: by submission, then by index; int64 (n,)."""
        return np.argsort(self.submission_s, kind="stable")

    @property
    def load_s(self) -> int:
        """Core-seconds of all jobs."""
        return int((self.processing_s * self.cores).sum())

    @property
    def frame_s(self) -> int:
        """Seconds from the first submission to the last deadline; 0 without jobs."""
        return int(self.deadline_s.max() - self.submission_s.min()) if len(self) else 0


def deadlines_of(submission_s: np.ndarray, processing_s: np.ndarray, slacks: np.ndarray) -> np.ndarray:
    """Deadlines, int64 (n,): ceil(submission + (1 + slack) x processing) (section 1.1). Slacks must be 0 or above.

    >>> deadlines_of(np.array([0, 10]), np.array([60, 3]), np.array([0.5, 0.1])).tolist()
    [90, 14]
    """
    slack = np.asarray(slacks, np.float64)
    is_bad = ~(np.isfinite(slack) & (slack >= 0))
    if is_bad.any():
        row = int(np.flatnonzero(is_bad)[0])
        raise ValueError(f"slack must be finite and at least 0, got {slack[row].item()!r} (job {row})")
    processing = np.asarray(processing_s, np.int64)
    # only the slack's part is rounded, so that a slack of 0 gives the earliest deadline exactly
    return np.asarray(submission_s, np.int64) + processing + np.ceil(slack * processing).astype(np.int64)


def drawn_slacks(n: int, target: float, sigma: float, rng: np.random.Generator, *,
                 mean: str = "geometric") -> np.ndarray:
    """Lognormal slacks, float64 (n,). Higher = more flexible jobs.

    target: their geometric mean, which is also their median, as the paper states it (section 1.1); with mean =
    "arithmetic" their expected value. sigma: the deviation of the logarithm. The paper calls it "geometric standard
    deviation" and takes target / 3 to target / 2 (table 1). exp(sigma) is the geometric standard deviation; read as
    such itself, the paper's values would lie below 1, which is none. A target of 0 gives slacks of 0.

    >>> drawn = drawn_slacks(100_000, 0.5, 0.2, np.random.default_rng(0))
    >>> round(float(np.median(drawn)), 2), round(float(np.log(drawn).std()), 2)
    (0.5, 0.2)
    """
    if not (np.isfinite(target) and target >= 0):
        raise ValueError(f"slack must be finite and at least 0, got {target!r}")
    if not (np.isfinite(sigma) and sigma >= 0):
        raise ValueError(f"sigma must be finite and at least 0, got {sigma!r}")
    if mean not in ("geometric", "arithmetic"):
        raise ValueError(f"mean must be geometric or arithmetic, got {mean!r}")
    centre = 1.0 if mean == "geometric" else float(np.exp(-sigma * sigma / 2))
    return np.asarray(target * centre * np.exp(sigma * rng.standard_normal(n)))


def check_cores(n_cores: int) -> None:
    """ValueError where a machine's cores are no whole number that sums of times allow.

    >>> check_cores(0)
    Traceback (most recent call last):
    ValueError: n_cores must be a whole number of at least 1 and below 2**22, got 0
    """
    if not is_whole(n_cores, 1, 2**22):
        raise ValueError(f"n_cores must be a whole number of at least 1 and below 2**22, got {n_cores!r}")


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
