"""What a replay leaves out, in requests and in core-hours: a gain is of the rest alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sojourn.features.trace import Trace

LEFT_OUT_MAX = 0.05
"""Above this share of the core-hours, what is replayed is no longer the trace, and commands warn."""


def hours(trace: Trace) -> np.ndarray:
    """How long each request runs between 0 and the horizon, float64 hours, shape (n,)."""
    return np.asarray((trace.end_s() - np.maximum(trace.start_s(), 0)) / 3600.0)


def core_hours(trace: Trace) -> np.ndarray:
    """Cores of each request times its hours, float64, shape (n,)."""
    return np.asarray(trace.requests["cpu_cores"].to_numpy() * hours(trace))


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Requests that are larger than every host, and their core-hours; of how many. Core-hours end at the horizon.

    >>> LeftOut(1, 4, 30.0, 120.0).text()
    '1 (25.0%) of the requests with 25.0% of the core-hours are larger than every host and left out'
    """

    n_requests: int = 0
    n_all: int = 0
    core_hours: float = 0.0
    core_hours_all: float = 0.0

    @classmethod
    def of(cls, trace: Trace, is_kept: np.ndarray) -> LeftOut:
        """is_kept: bool (n,), the trace's requests that are replayed."""
        each = core_hours(trace)
        return cls(int((~is_kept).sum()), len(trace), float(each[~is_kept].sum()), float(each.sum()))

    @property
    def core_hour_share(self) -> float:
        """Of all core-hours; of the requests where there are no core-hours. 0 to 1."""
        if self.core_hours_all > 0:
            return self.core_hours / self.core_hours_all
        return self.request_share

    @property
    def request_share(self) -> float:
        """Of all requests, 0 to 1."""
        return self.n_requests / self.n_all if self.n_all else 0.0

    def text(self) -> str:
        """Empty where nothing is left out."""
        if not self.n_requests:
            return ""
        return (f"{self.n_requests:,} ({_percent(self.request_share)}) of the requests with "
                f"{_percent(self.core_hour_share)} of the core-hours are larger than every host and left out")


NOTHING_LEFT_OUT = LeftOut()


def _percent(share: float) -> str:
    """A share above 0 is never written as 0."""
    return f"{share:.1%}" if share >= 0.0005 else "under 0.1%"
