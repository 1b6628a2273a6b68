"""Running requests by id, what is learnt from their ends, and the snapshot that survives a restart.

`OpenRequests`, `OnlineRecalibration`, `UsageAnswers` and `Counters` are the parts of a predictor
that reloads do not replace. May import: `answers`, `usage` and what lies below them.
"""

from sojourn.serving.live.admitted import N_RUNNING_MAX, Admitted, LiveRequests
from sojourn.serving.live.counters import COUNTERS, Counters
from sojourn.serving.live.live_habits import LiveHabits
from sojourn.serving.live.open_requests import OpenRequests
from sojourn.serving.live.pool import CurvePool, HostExits, remaining_of
from sojourn.serving.live.recalibration import CurveNumbers, OnlineRecalibration, Recalibration
from sojourn.serving.live.snapshot import LiveHistory, content_of, live_history, read_snapshot, write_snapshot
from sojourn.serving.live.usage_answers import UsageAnswers
from sojourn.serving.live.warming import main as warm_main
from sojourn.serving.live.warming import warm

__all__ = [
    "COUNTERS", "N_RUNNING_MAX", "Admitted", "Counters", "CurveNumbers", "CurvePool", "HostExits", "LiveHabits",
    "LiveHistory", "LiveRequests", "OnlineRecalibration", "OpenRequests", "Recalibration", "UsageAnswers", "content_of",
    "live_history", "read_snapshot", "remaining_of", "warm", "warm_main", "write_snapshot",
]  # fmt: skip
