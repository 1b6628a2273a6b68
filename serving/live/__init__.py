"""What runs, by its id, what is learnt from how it ends, and the snapshot by which it outlives a restart.

May import: `lifetime`, `bundle` and what lies below them.
"""

from sojourn.serving.live.admitted import N_RUNNING_MAX, Admitted, LiveRequests, Refreshed, names_of_refresh
from sojourn.serving.live.pool import CurvePool, HostExits, remaining_of
from sojourn.serving.live.recalibration import CurveNumbers, Recalibration
from sojourn.serving.live.snapshot import LiveHistory, content_of, live_history, read_snapshot, write_snapshot

__all__ = [
    "N_RUNNING_MAX", "Admitted", "CurveNumbers", "CurvePool", "HostExits", "LiveHistory", "LiveRequests",
    "Recalibration", "Refreshed", "content_of", "live_history", "names_of_refresh", "read_snapshot", "remaining_of",
    "write_snapshot",
]  # fmt: skip
