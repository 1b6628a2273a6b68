"""The result of each row of a reader: kept, repaired by rule, or refused by rule with examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pandas as pd

N_EXAMPLES = 5
"""Refused rows shown per rule; the whole list is in `ReadReport.rejected`."""
_EXAMPLE_WIDTH = 100


@dataclass(frozen=True, slots=True)
class ReadReport:
    """Rows read, kept, repaired and refused by one reader.

    n_read: data rows (without comments, blank lines and headers). n_kept: requests in the trace.
    n_hosts: hosts in the trace, read as rows.
    repaired: rule -> number of changed rows (a row may be repaired by several rules).
    refused: rule -> number of refused rows (each counts once, under its first rule).
    rejected: one row per refused row, per rule at most as many as the ledger keeps: `file` (str),
        `line` (int64, from 1), `rule` (str), `raw` (str, as read).
    n_joined: rows that are part of another request (events), or of a task that never ran.
    notes: one line each: for example the horizon, and the number of rows at it.

    >>> ledger = ReadLedger()
    >>> ledger.read(3)
    >>> ledger.repair("wait missing: start taken as submit", 2)
    >>> ledger.refuse("departure before arrival", "jobs.swf", np.array([7]), ["7 0 0 -60"])
    >>> print(ledger.report(n_kept=2).text())
    rows read                                       3
    rows kept                                       2
    repaired: wait missing: start taken as submit   2
    refused: departure before arrival               1
        jobs.swf line 7: 7 0 0 -60
    """

    n_read: int
    n_kept: int
    n_hosts: int
    repaired: Mapping[str, int]
    refused: Mapping[str, int]
    rejected: pd.DataFrame
    n_joined: int = 0
    notes: tuple[str, ...] = ()

    @property
    def n_refused(self) -> int:
        """Rows left out of the trace."""
        return sum(self.refused.values())

    def examples(self, rule: str) -> list[str]:
        """Up to 5 refused rows of `rule`, as "file line n: text"."""
        rows = self.rejected[self.rejected["rule"] == rule].head(N_EXAMPLES)
        return [f"{file} line {line}: {raw[:_EXAMPLE_WIDTH]}"
                for file, line, raw in zip(rows["file"], rows["line"], rows["raw"], strict=True)]

    def lines(self) -> list[str]:
        """Plain text rows: labels padded to one width, counts right-aligned, examples indented; then the notes."""
        counts = [("rows read", self.n_read), ("rows kept", self.n_kept)]
        counts += [("hosts kept", self.n_hosts)] if self.n_hosts else []
        counts += [("rows joined to others", self.n_joined)] if self.n_joined else []
        counts += [(f"repaired: {rule}", count) for rule, count in self.repaired.items()]
        counts += [(f"refused: {rule}", count) for rule, count in self.refused.items()]
        width = max(len(label) for label, _ in counts)
        digits = max(len(f"{count:,}") for _, count in counts)
        rows = []
        for label, count in counts:
            rows.append(f"{label:<{width}}  {count:>{digits + 1},}")
            if label.startswith("refused: "):
                rows += [f"    {example}" for example in self.examples(label.removeprefix("refused: "))]
        return [*rows, *self.notes]

    def text(self) -> str:
        """The rows of `lines` as one string."""
        return "\n".join(self.lines())

    def write_rejected(self, folder: str | Path) -> Path | None:
        """Write the refused rows to `rejected.parquet` in the trace's folder; None if no row was refused.

        Call it after `Trace.save`, which replaces the folder.
        """
        if self.rejected.empty:
            return None
        path = Path(folder) / "rejected.parquet"
        self.rejected.to_parquet(path, index=False)
        return path

    def joined(self, later: ReadReport, n_kept: int, lines: Sequence[str]) -> ReadReport:
        """The report of two files that were joined to one trace of `n_kept` requests; lines: further notes, last."""
        counts = [{rule: one.get(rule, 0) + other.get(rule, 0) for rule in {**one, **other}}
                  for one, other in ((self.repaired, later.repaired), (self.refused, later.refused))]
        return ReadReport(self.n_read + later.n_read, n_kept, self.n_hosts + later.n_hosts, counts[0], counts[1],
                          pd.concat([self.rejected, later.rejected], ignore_index=True), self.n_joined + later.n_joined,
                          (*self.notes, *(f"test: {note}" for note in later.notes), *lines))

    def summary(self) -> dict[str, object]:
        """Counts for `Trace.meta`; plain types, so that they can be written as JSON."""
        return {"n_read": self.n_read, "n_kept": self.n_kept, "n_hosts": self.n_hosts,
                "n_joined": self.n_joined, "repaired": dict(self.repaired), "refused": dict(self.refused),
                "notes": list(self.notes)}


@dataclass(slots=True)
class ReadLedger:
    """Counts rows while a file is read in blocks; `report` gives the result.

    max_texts: the most refused rows of each rule with their text; None = all. All refused rows count.

    >>> ledger = ReadLedger()
    >>> ledger.read(2)
    >>> ledger.report(n_kept=2).n_refused
    0
    """

    n_read: int = 0
    max_texts: int | None = None
    _repaired: dict[str, int] = field(default_factory=dict)
    _n_refused: dict[str, int] = field(default_factory=dict)
    _refused: list[pd.DataFrame] = field(default_factory=list)
    _notes: list[str] = field(default_factory=list)

    def read(self, n_rows: int) -> None:
        """Count `n_rows` more data rows."""
        self.n_read += int(n_rows)

    def repair(self, rule: str, n_rows: int) -> None:
        """Count `n_rows` rows changed by `rule`; 0 does not appear in the report."""
        if n_rows:
            self._repaired[rule] = self._repaired.get(rule, 0) + int(n_rows)

    def note(self, line: str) -> None:
        """Add a line to the end of the report."""
        self._notes.append(line)

    def refuse(self, rule: str, file: str, line: np.ndarray, raw: Sequence[str]) -> None:
        """Count the rows at `line` (int64, shape (k,)) of `file` as refused, and keep them with their text `raw`.

        raw: the texts of all k rows, or of the first `n_texts`.
        """
        n_texts = self.n_texts(rule, len(line))
        if len(line):
            self._n_refused[rule] = self._n_refused.get(rule, 0) + len(line)
        if n_texts:
            self._refused.append(pd.DataFrame({
                "file": pd.Series([file] * n_texts, dtype="str"),
                "line": np.asarray(line, np.int64)[:n_texts],
                "rule": pd.Series([rule] * n_texts, dtype="str"),
                "raw": pd.Series(list(raw)[:n_texts], dtype="str")}))

    def add(self, other: ReadLedger) -> None:
        """Add the counts of another ledger with the same `max_texts`.

        >>> one, other = ReadLedger(), ReadLedger()
        >>> other.read(2)
        >>> one.add(other)
        >>> one.n_read
        2
        """
        self.n_read += other.n_read
        for rule, n_rows in other._repaired.items():
            self.repair(rule, n_rows)
        n_left = {rule: self.n_texts(rule, n_refused) for rule, n_refused in other._n_refused.items()}
        for table in other._refused:
            rule = table["rule"].iloc[0]
            if n_left[rule]:
                self._refused.append(table.iloc[:n_left[rule]])
                n_left[rule] -= len(self._refused[-1])
        for rule, n_refused in other._n_refused.items():
            self._n_refused[rule] = self._n_refused.get(rule, 0) + n_refused
        self._notes += other._notes

    def n_texts(self, rule: str, n_rows: int) -> int:
        """How many of the next `n_rows` rows refused by `rule` keep their text."""
        if self.max_texts is None:
            return n_rows
        return min(n_rows, max(self.max_texts - self._n_refused.get(rule, 0), 0))

    def report(self, n_kept: int, *, n_hosts: int = 0, is_event_log: bool = False) -> ReadReport:
        """The report of all counts so far, for `n_kept` requests and `n_hosts` hosts.

        is_event_log: a request has several rows; rows neither kept nor refused count as joined.
        """
        rejected = pd.DataFrame({"file": pd.Series(dtype="str"), "line": pd.Series(dtype="int64"),
                                 "rule": pd.Series(dtype="str"), "raw": pd.Series(dtype="str")})
        if self._refused:
            rejected = pd.concat(self._refused, ignore_index=True)
        n_refused = sum(self._n_refused.values())
        return ReadReport(self.n_read, int(n_kept), int(n_hosts), MappingProxyType(dict(self._repaired)),
                          MappingProxyType(dict(self._n_refused)), rejected,
                          self.n_read - n_kept - n_hosts - n_refused if is_event_log else 0, tuple(self._notes))
