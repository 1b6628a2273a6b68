"""One stream of usage samples from any file, with every refused sample counted by its rule.

`UsageBlock` are samples, `UsageRequests` their requests. `UsageReader` is a reader: the function
that opens a stream, and its texts for help and docs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np

from sojourn.features.read_report import N_EXAMPLES, ReadLedger, ReadReport
from sojourn.serving.usage import DayClock


@dataclass(frozen=True, slots=True)
class UsageBlock:
    """Samples that passed the rules of `UsageStream`, in the order of the file, at least one.

    idx_request: int32 (n,), the row of the request in `UsageStream.requests()`. time_s: int64 (n,),
        whole seconds on the trace's clock. cpu: float32 (n,), share of the request's cores, 0 to
        the cap. mem: the same for its memory, NaN = none; or None if the trace has none.
    """

    idx_request: np.ndarray
    time_s: np.ndarray
    cpu: np.ndarray
    mem: np.ndarray | None

    def __len__(self) -> int:
        return len(self.time_s)


@dataclass(frozen=True, slots=True)
class UsageRequests:
    """The requests of a stream, in the order of their first mention.

    request_ids: (n,), unique, int64 or str objects. cpu_cores, mem_gib: float64 (n,), reservations;
    1 and 0 if not published.

    >>> requests = UsageRequests(np.array([7, 9]), np.array([2.0, 1.0]), np.array([8.0, 4.0]))
    >>> len(requests), requests.select(np.array([1])).request_ids.tolist()
    (2, [9])
    """

    request_ids: np.ndarray
    cpu_cores: np.ndarray
    mem_gib: np.ndarray

    def __len__(self) -> int:
        return len(self.request_ids)

    def select(self, idx: np.ndarray) -> UsageRequests:
        """The requests at the rows `idx` (int or bool)."""
        return UsageRequests(self.request_ids[idx], self.cpu_cores[idx], self.mem_gib[idx])


@dataclass(slots=True)
class RequestTable:
    """Requests by their id while a file is read; a growing table adds each new id.

    >>> table = RequestTable(is_growing=True)
    >>> table.rows(["a", "b", "a"]).tolist(), len(table)
    ([0, 1, 0], 2)
    """

    is_growing: bool = False
    _row: dict[int | str, int] = field(default_factory=dict)
    _cpu_cores: list[float] = field(default_factory=list)
    _mem_gib: list[float] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._row)

    def add(self, ids: Iterable[int | str], cpu_cores: Iterable[float], mem_gib: Iterable[float]) -> None:
        """Add requests; a known one keeps its row and gets the larger sizes."""
        for name, cores, mem in zip(ids, cpu_cores, mem_gib, strict=True):
            row = self._row.setdefault(name, len(self._row))
            if row == len(self._cpu_cores):
                self._cpu_cores.append(float(cores))
                self._mem_gib.append(float(mem))
            else:
                self._cpu_cores[row] = max(self._cpu_cores[row], float(cores))
                self._mem_gib[row] = max(self._mem_gib[row], float(mem))

    def rows(self, ids: Iterable[int | str]) -> np.ndarray:
        """Row of each id, int32; -1 if unknown and the table does not grow."""
        if self.is_growing:
            result = []
            for name in ids:
                if name not in self._row:
                    self.add([name], [1.0], [0.0])
                result.append(self._row[name])
            return np.array(result, np.int32)
        return np.array([self._row.get(name, -1) for name in ids], np.int32)

    def copy(self) -> RequestTable:
        """An independent table with the same requests."""
        return RequestTable(self.is_growing, dict(self._row), list(self._cpu_cores), list(self._mem_gib))

    def names(self, first: int = 0) -> list[int | str]:
        """Ids of the requests from the row `first` on."""
        return list(islice(self._row, first, None))

    def requests(self) -> UsageRequests:
        """All requests so far."""
        names = list(self._row)
        ids = np.array(names, np.int64) if names and not isinstance(names[0], str) else np.array(names, object)
        return UsageRequests(ids, np.array(self._cpu_cores), np.array(self._mem_gib))


MAX_CPU = 10.0
"""The highest use of cores as a share of the reservation; bitbrains reaches 1.8, and ten times is a damaged cell."""
_SHARE_HIGH = 0.01
MAX_TIME_S = 3_200_000_000
"""About 100 years, the bound of all readers."""

NO_REQUEST = "sample of a request that is not in the trace"
BAD_TIME = "time missing, not whole or above 100 years"
BAD_CPU = "cpu missing or not finite"
NEGATIVE_CPU = "cpu below 0"
HIGH_CPU = "cpu above the cap"
SAME_TIME = "second sample of a request at the same time"
BAD_MEM = "mem not within 0 .. cap: taken as missing"
UNORDERED = "sample before the one of its request above: sorted"
RULES = (NO_REQUEST, BAD_TIME, BAD_CPU, NEGATIVE_CPU, HIGH_CPU, SAME_TIME)
"""Rules in order; a sample counts under the first that it breaks."""


@dataclass(frozen=True, slots=True)
class RawSamples:
    """Samples of a file, before any rule.

    file, first_row: their place, for the report. ids: (n,) request ids. idx_request: int32 (n,), -1 = unknown.
    time_s, cpu: float64 (n,), NaN = missing. mem: the same, or None. odd: rule of the format ->
    bool (n,), the samples that break it; checked after `NO_REQUEST`, in this order. row_of: int64
    (n,), the row of each sample in the block, if a row has several; None = one each.
    """

    file: str
    first_row: int
    ids: np.ndarray
    idx_request: np.ndarray
    time_s: np.ndarray
    cpu: np.ndarray
    mem: np.ndarray | None = None
    odd: Mapping[str, np.ndarray] = field(default_factory=dict)
    row_of: np.ndarray | None = None


@dataclass(frozen=True, slots=True)
class UsageReport:
    """The result for every sample and every request.

    read: samples read, kept, repaired and refused by rule. n_series: requests with at least one sample.
    without_series: ids of requests without samples. without_request: ids of samples that are not in the trace.
    """

    read: ReadReport
    n_series: int
    without_series: tuple[int | str, ...]
    without_request: tuple[int | str, ...]

    def doubts(self) -> tuple[str, ...]:
        """Warnings for a person before the series are used: percent that were read as shares."""
        n_high = self.read.refused.get(HIGH_CPU, 0)
        if n_high < _SHARE_HIGH * max(self.read.n_read, 1):
            return ()
        return (f"doubt: {n_high:,} of {self.read.n_read:,} samples have {HIGH_CPU}: cpu must be a share of what is "
                "reserved; percent are divided by 100 (`full` 100, of the reader `table`)",)

    def text(self) -> str:
        """Rows of text: doubts, counts by rule, then missing series and requests, with the first five names."""
        rows = [*self.doubts(), *self.read.lines(), f"series {self.n_series:,}"]
        for what, names in (("requests without a series", self.without_series),
                            ("series without a request", self.without_request)):
            shown = ", ".join(map(str, names[:N_EXAMPLES]))
            rows.append(f"{what} {len(names):,}{': ' + shown if names else ''}"
                        f"{', ...' if len(names) > N_EXAMPLES else ''}")
        return "\n".join(rows)


Reading = Callable[[RequestTable, ReadLedger], Iterator[RawSamples]]
"""Yields raw samples, and may add to the table and to the ledger."""


@dataclass(frozen=True, slots=True)
class FileCounts:
    """The counts of one file of a stream.

    names: ids of new requests of the table. n_samples: int64, kept samples of each request of the table after that
    file. strangers: ids of samples that are not in the table. ledger: all other counts.
    """

    names: tuple[int | str, ...]
    n_samples: np.ndarray
    strangers: tuple[int | str, ...]
    ledger: ReadLedger


@dataclass(slots=True)
class UsageStream:
    """Samples of one trace, in blocks; memory grows with the requests, not with the samples.

    source: of the trace, one line. clock: local time of day of the trace's seconds. read: all raw samples, or a reading
    for each file. max_cpu: the cap of cpu and mem. n_rows: samples in the files if known.

    Rules, for each sample in this order: the request is known (`NO_REQUEST`); those of the format; the time is a whole
    number between -100 and 100 years (`BAD_TIME`); cpu is finite (`BAD_CPU`), not negative (`NEGATIVE_CPU`) and not
    above the cap (`HIGH_CPU`; above 1 is legal). A mem outside 0 .. cap is missing and the sample stays (`BAD_MEM`).

    >>> table = RequestTable()
    >>> table.add([7, 8], [2.0, 4.0], [8.0, 16.0])
    >>> def read(table, ledger):
    ...     ids = np.array([7, 7, 9])
    ...     yield RawSamples("made", 1, ids, table.rows(ids.tolist()), np.array([0.0, 300.0, 0.0]),
    ...                      np.array([0.5, -1.0, 0.5]))
    >>> stream = UsageStream("made", DayClock(), read, table)
    >>> [(block.idx_request.tolist(), block.cpu.tolist()) for block in stream.blocks()]
    [([0], [0.5])]
    >>> report = stream.report()
    >>> dict(report.read.refused), report.without_series, report.without_request
    ({'sample of a request that is not in the trace': 1, 'cpu below 0': 1}, (8,), (9,))
    """

    source: str
    clock: DayClock
    read: Reading | tuple[Reading, ...]
    table: RequestTable = field(default_factory=lambda: RequestTable(is_growing=True))
    max_cpu: float = MAX_CPU
    n_rows: int | None = None
    _ledger: ReadLedger = field(default_factory=lambda: ReadLedger(max_texts=N_EXAMPLES))
    _n_samples: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    _strangers: dict[int | str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.max_cpu > 0:
            raise ValueError(f"max_cpu must be above 0, got {self.max_cpu!r}")

    def blocks(self) -> Iterator[UsageBlock]:
        """The samples that follow the rules; a second call reads the files again and counts anew."""
        self._ledger = ReadLedger(max_texts=N_EXAMPLES)
        self._n_samples = np.zeros(len(self.table), np.int64)
        self._strangers = {}
        for raw in (raw for reading in self._readings for raw in reading(self.table, self._ledger)):
            self._ledger.read(len(raw.time_s))
            block = self._kept(raw)
            counts = np.bincount(block.idx_request, minlength=len(self.table))
            counts[:len(self._n_samples)] += self._n_samples
            self._n_samples = counts
            if len(block):
                yield block

    @property
    def n_files(self) -> int:
        """How many files can be read independently."""
        return len(self._readings)

    def file(self, place: int) -> UsageStream:
        """A stream of one file alone, with an independent table if that grows."""
        return UsageStream(self.source, self.clock, self._readings[place],
                           self.table.copy() if self.table.is_growing else self.table, self.max_cpu)

    def counts(self, n_known: int) -> FileCounts:
        """The counts of reading; n_known: the length of the table before."""
        return FileCounts(tuple(self.table.names(n_known)), self._n_samples, tuple(self._strangers), self._ledger)

    def add(self, counts: Sequence[FileCounts]) -> list[np.ndarray]:
        """Add the counts of each file's stream, in order, as from `blocks`.

        Returns for each file the rows of its table in this one, int32.
        """
        self._ledger = ReadLedger(max_texts=N_EXAMPLES)
        n_known = len(self.table)
        rows = [np.append(np.arange(n_known, dtype=np.int32), self.table.rows(each.names)) for each in counts]
        self._n_samples = np.zeros(len(self.table), np.int64)
        self._strangers = {}
        for each, row in zip(counts, rows, strict=True):
            self._ledger.add(each.ledger)
            self._n_samples[row[:len(each.n_samples)]] += each.n_samples
            self._strangers.update(dict.fromkeys(each.strangers))
        return rows

    @property
    def _readings(self) -> tuple[Reading, ...]:
        return self.read if isinstance(self.read, tuple) else (self.read,)

    def requests(self) -> UsageRequests:
        """The requests known so far: all of them before the first block, unless only the files name them."""
        return self.table.requests()

    def settle(self, n_same: int, examples: Sequence[str], n_unordered: int) -> None:
        """Add counts that need an order by time: second samples at one time, and samples out of order."""
        self._ledger.refuse(SAME_TIME, self.source, np.zeros(n_same, np.int64), examples)
        self._ledger.repair(UNORDERED, n_unordered)

    def report(self) -> UsageReport:
        """The report so far."""
        ids = self.table.requests().request_ids
        has_series = np.zeros(len(ids), bool)
        has_series[:len(self._n_samples)] = self._n_samples > 0
        report = self._ledger.report(int(self._n_samples.sum()))
        n_same = report.refused.get(SAME_TIME, 0)
        return UsageReport(replace(report, n_kept=report.n_kept - n_same), int(has_series.sum()),
                           tuple(ids[~has_series].tolist()), tuple(self._strangers))

    def nothing_kept(self) -> ValueError:
        """The error if no sample of the stream follows the rules: each rule's count, and ids that do not match."""
        counts = dict(self.report().read.refused)
        text = f"{self.source} must hold at least one sample that keeps the rules, got none; refused: {counts}"
        if self._strangers and len(self.table):
            known_id = self.requests().request_ids.tolist()[0]
            text += f"; samples name {next(iter(self._strangers))!r}, the trace {known_id!r}"
        return ValueError(text)

    def _kept(self, raw: RawSamples) -> UsageBlock:
        is_kept = np.ones(len(raw.time_s), bool)

        def refuse(rule: str, is_bad: np.ndarray) -> None:
            idx = np.flatnonzero(is_kept & is_bad)
            shown = idx[:self._ledger.n_texts(rule, len(idx))]
            texts = [f"{raw.ids[i]},{raw.time_s[i]:.15g},{raw.cpu[i]:.15g}" for i in shown]
            self._ledger.refuse(rule, raw.file, raw.first_row + (idx if raw.row_of is None else raw.row_of[idx]), texts)
            is_kept[idx] = False

        is_stranger = raw.idx_request < 0
        if is_stranger.any():
            self._strangers.update(dict.fromkeys(raw.ids[is_stranger].tolist()))
        refuse(NO_REQUEST, is_stranger)
        for rule, is_bad in raw.odd.items():
            refuse(rule, is_bad)
        with np.errstate(invalid="ignore"):
            refuse(BAD_TIME, ~(np.abs(raw.time_s) <= MAX_TIME_S) | (raw.time_s % 1 != 0))
            refuse(BAD_CPU, ~np.isfinite(raw.cpu))
            refuse(NEGATIVE_CPU, raw.cpu < 0)
            refuse(HIGH_CPU, raw.cpu > self.max_cpu)
            mem = None
            if raw.mem is not None:
                is_odd = ~((raw.mem >= 0) & (raw.mem <= self.max_cpu)) & ~np.isnan(raw.mem)
                self._ledger.repair(BAD_MEM, int((is_odd & is_kept).sum()))
                mem = np.where(is_odd, np.nan, raw.mem).astype(np.float32)[is_kept]
        return UsageBlock(raw.idx_request[is_kept], raw.time_s[is_kept].astype(np.int64),
                          raw.cpu[is_kept].astype(np.float32), mem)


@dataclass(frozen=True, slots=True)
class UsageReader:
    """An entry of the registry of usage readers; its texts are Markdown.

    stream: from a path to a stream, with `timezone`, `max_cpu` and the reader's options as keywords. path: the
    files. cpu: the base of its share. stamp: the meaning of a sample's time. step_s: its usual interval.

    >>> UsageReader(lambda path, *, day=None, timezone="UTC", max_cpu=10.0: None, "a file", "cores").options
    ('day',)
    """

    stream: Callable[..., UsageStream]
    path: str
    cpu: str
    stamp: str = "start of its interval"
    step_s: int = 300

    @property
    def options(self) -> tuple[str, ...]:
        """The keywords of `stream` besides `timezone` and `max_cpu`, which every reader has."""
        return tuple(name for name, parameter in inspect.signature(self.stream).parameters.items()
                     if parameter.kind is inspect.Parameter.KEYWORD_ONLY and name not in ("timezone", "max_cpu"))
