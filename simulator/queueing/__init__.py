"""Rigid parallel jobs that wait for a pool of processors: orders, backfilling, and what predictions change.

May import: `predictions` and what it may import.
"""

from sojourn.simulator.queueing.jobs import QueueJobs, queue_jobs
from sojourn.simulator.queueing.measures import (
    bounded_slowdown,
    compare_queues,
    measures_by_class,
    queue_measures,
)
from sojourn.simulator.queueing.replay import BACKFILLING, ORDERS, FitSource, QueueRules, Schedule, replay_queue
from sojourn.simulator.queueing.sources import LastTwo, Requested, TwoSources

__all__ = [
    "BACKFILLING", "ORDERS", "FitSource", "LastTwo", "QueueJobs", "QueueRules", "Requested", "Schedule",
    "TwoSources", "bounded_slowdown", "compare_queues", "measures_by_class", "queue_jobs", "queue_measures",
    "replay_queue",
]  # fmt: skip
