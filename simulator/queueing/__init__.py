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
from sojourn.simulator.queueing.replay import BACKFILLING, ORDERS, QueueRules, RunTimes, Schedule, replay_queue
from sojourn.simulator.queueing.sources import last_two, requested

__all__ = [
    "BACKFILLING", "ORDERS", "QueueJobs", "QueueRules", "RunTimes", "Schedule", "bounded_slowdown",
    "compare_queues", "last_two", "measures_by_class", "queue_jobs", "queue_measures", "replay_queue", "requested",
]  # fmt: skip
