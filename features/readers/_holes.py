"""Long stretches without an arrival: a clock that jumped, or days that are missing in the record."""

from __future__ import annotations

import numpy as np

from sojourn.features.readers._stamps import moment
from sojourn.features.trace import Trace

_HOLE_S, _HOLE_SHARE = 7 * 86_400, 0.1
"""A hole is at least as long, and at least this share of the time from the first arrival to the last."""
_N_MIN = 20


def hole_notes(trace: Trace) -> list[str]:
    """A note on the longest stretch without an arrival, where it is a hole; none of fewer than 20 requests.

    Requests that began before the trace are left out: of those only the survivors are recorded.
    """
    start_s = np.sort(trace.start_s()[trace.is_start_known()])
    start_s = start_s[start_s >= trace.begin_s]
    if len(start_s) < _N_MIN:
        return []
    gaps_s = np.diff(start_s)
    longest, span_s = int(np.argmax(gaps_s)), int(start_s[-1] - start_s[0])
    gap_s = int(gaps_s[longest])
    if gap_s < max(_HOLE_S, _HOLE_SHARE * span_s):
        return []
    at = moment(int(start_s[longest])) if trace.is_dated else f"second {start_s[longest]:,}"
    return [f"check: nothing begins for {gap_s / 86_400:,.0f} days after {at}, {100 * gap_s / span_s:.0f} % of the "
            "time from the first start to the last: a clock that jumped, or days that are missing"]
