"""The counters of a predictor."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import MappingProxyType

COUNTERS: Mapping[str, str] = MappingProxyType({
    "predictions": "Requests answered by admit, predict and remaining_many.",
    "unknowns": "Predictions without a column that most training requests had, or with a new category or owner.",
    "refreshes": "Running requests that were predicted anew by refresh.",
    "started": "Starts of admitted requests that were reported after their admission.",
    "ended": "Admitted requests that ended.",
    "withdrawn": "Admitted requests that were withdrawn.",
    "dropped": "Running requests that were dropped without a reported end, since too many ran.",
    "errors": "Calls refused with ValueError: unknown column, wrong type, bad time, a handle that is not running.",
    "clock_steps_back": "Times that an admission, start or end had an earlier now_s than the one before it.",
    "observations": "Samples of use that were taken.",
    "observations_dropped": "Samples of use that were dropped, since the most requests are observed already.",
    "reloads": "Times that a bundle or a usage section was loaded again and served.",
    "reload_errors": "Times that a bundle or a usage section was refused at reloading; the old one serves on.",
    "corruptions": "Times that a watcher found the served bundle's files changed in place; the loaded model serves on.",
    "snapshots": "Times that the live history was written to a folder.",
    "snapshot_errors": "Times that writing a snapshot failed; the former one stays.",
    "decisions_logged": "Admissions in the decision log.",
    "decisions_lost": "Admissions, ends and withdrawals that the log lost: the disk failed for too long.",
    "log_errors": "Times that writing the log failed; the rest is kept and tried again.",
    "shadow_predictions": "Admissions that the shadow answered, too.",
    "shadow_errors": "Admissions that the shadow could not answer, and bundles refused as the shadow.",
    "shadow_class_changes": "Answers of the shadow with another lifetime class than the champion's.",
    "watch_errors": "Times that a watcher's callback, or its look at the folder, raised an exception.",
})  # fmt: skip
"""Names and meanings; each starts at 0 with the predictor and never falls."""


class Counters:
    """The counts of a predictor, under its lock, which all parts of a predictor share.

    n: by the names of `COUNTERS`; a writer must hold the lock.
    """

    __slots__ = ("lock", "n")

    def __init__(self, lock: threading.Lock) -> None:
        self.lock = lock
        self.n = dict.fromkeys(COUNTERS, 0)

    def __enter__(self) -> None:
        """A ValueError that leaves the block is counted as an error."""

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, ValueError):
            self.count("errors")

    def count(self, name: str, amount: int = 1) -> None:
        """Add to a counter; takes the lock."""
        with self.lock:
            self.n[name] += amount
