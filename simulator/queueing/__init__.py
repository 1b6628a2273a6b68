"""Rigid parallel jobs that wait for a pool of processors: orders, backfilling, and what predictions change.

May import: `predictions` and what it may import.
"""

from sojourn.simulator.queueing.jobs import (
    LEFT_OUT,
    LastTwo,
    QueueJobs,
    QueueSetting,
    last_two,
    parse_queue,
    queue_jobs,
    queue_names,
    requested,
    says_processors,
)
from sojourn.simulator.queueing.measures import (
    N_WEEKS_MIN,
    bounded_slowdown,
    compare_queues,
    compare_schedules,
    counted,
    measures_by_class,
    queue_measures,
)
from sojourn.simulator.queueing.replay import (
    BACKFILLING,
    ORDERS,
    DrawingLearner,
    DrawnRunTimes,
    Learner,
    LearningSource,
    QueueRules,
    RunTimes,
    Schedule,
    replay_queue,
)
from sojourn.simulator.queueing.start_times import QUANTILES, QueueNow, queue_at, start_times

__all__ = [
    "BACKFILLING", "LEFT_OUT", "N_WEEKS_MIN", "ORDERS", "QUANTILES", "DrawingLearner", "DrawnRunTimes", "LastTwo",
    "Learner", "LearningSource", "QueueJobs", "QueueNow", "QueueRules", "QueueSetting", "RunTimes", "Schedule",
    "bounded_slowdown", "compare_queues", "compare_schedules", "counted", "last_two", "measures_by_class",
    "parse_queue", "queue_at", "queue_jobs", "queue_measures", "queue_names", "replay_queue", "requested",
    "says_processors", "start_times",
]  # fmt: skip
