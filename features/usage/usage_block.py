"""Blocks of usage samples, and the requests that they belong to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

import numpy as np


@dataclass(frozen=True, slots=True)
class UsageBlock:
    """Samples that passed the rules of `UsageStream`, in the order of the file, at least one.

    idx_request: int32 (n,), the row of the request in `UsageStream.requests()`. time_s: int64 (n,), whole seconds on
        the trace's clock. cpu: float32 (n,), share of the request's cores, 0 to the cap. mem: the same of its memory,
        NaN = none; or None where the trace has none.
    """

    idx_request: np.ndarray
    time_s: np.ndarray
    cpu: np.ndarray
    mem: np.ndarray | None

    def __len__(self) -> int:
        return len(self.time_s)


@dataclass(frozen=True, slots=True)
class UsageRequests:
    """The requests of a stream, in the order in which they were named.

    request_ids: (n,), unique, int64 or str objects. cpu_cores, mem_gib: float64 (n,), what each reserved; 1 and 0 where
    that is not published.

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
    """Requests by their id while a file is read; a table that grows adds each id that it sees first.

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
        """Add requests; one that is there keeps its row and takes the larger sizes."""
        for name, cores, mem in zip(ids, cpu_cores, mem_gib, strict=True):
            row = self._row.setdefault(name, len(self._row))
            if row == len(self._cpu_cores):
                self._cpu_cores.append(float(cores))
                self._mem_gib.append(float(mem))
            else:
                self._cpu_cores[row] = max(self._cpu_cores[row], float(cores))
                self._mem_gib[row] = max(self._mem_gib[row], float(mem))

    def rows(self, ids: Iterable[int | str]) -> np.ndarray:
        """Row of each id, int32; -1 where it is not there and the table does not grow."""
        if self.is_growing:
            found = []
            for name in ids:
                if name not in self._row:
                    self.add([name], [1.0], [0.0])
                found.append(self._row[name])
            return np.array(found, np.int32)
        return np.array([self._row.get(name, -1) for name in ids], np.int32)

    def copy(self) -> RequestTable:
        """A table of its own with the same requests."""
        return RequestTable(self.is_growing, dict(self._row), list(self._cpu_cores), list(self._mem_gib))

    def names(self, first: int = 0) -> list[int | str]:
        """Ids of the requests from the row `first` on."""
        return list(islice(self._row, first, None))

    def requests(self) -> UsageRequests:
        """All requests so far."""
        names = list(self._row)
        ids = np.array(names, np.int64) if names and not isinstance(names[0], str) else np.array(names, object)
        return UsageRequests(ids, np.array(self._cpu_cores), np.array(self._mem_gib))
