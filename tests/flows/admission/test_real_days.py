"""Schedules of a real day, checked one by one: every rule, with backfilling and varying power."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from naive_admission import faults
from sojourn.features.readers import read_trace
from sojourn.flows.admission.runs import DAY_S, Setting, busiest_days, jobs_by_day, jobs_with_deadlines, submitted_jobs
from sojourn.simulator.admission import ALLOCATIONS, PowerProfile, admit

LOG = Path(__file__).resolve().parents[3].parent / "shared" / "data" / "swf" / "NASA-iPSC-1993-3.1-cln.swf.gz"
N_CORES = 16


@pytest.mark.skipif(not LOG.is_file(), reason="needs the NASA log")
def test_no_schedule_of_a_real_day_breaks_a_promise() -> None:
    days = jobs_by_day(submitted_jobs(read_trace("swf", LOG)[0]), 16)
    day = busiest_days(days, 1)[0]
    jobs = jobs_with_deadlines(days[day], Setting(0.5), 0, day, 0)
    counts = [N_CORES if 6 <= hour % 24 < 18 else N_CORES // 2 for hour in range(72)]
    power = PowerProfile(3_600 * np.arange(72), np.array(counts), 3 * DAY_S)
    steps = [(3_600 * hour, 3_600 * hour + 3_600, count) for hour, count in enumerate(counts)]
    for allocation in ALLOCATIONS:
        for is_backfilling in (False, True):
            for profile, checked in ((None, []), (power, steps)):
                decisions = admit(jobs, N_CORES, allocation, is_backfilling=is_backfilling, power=profile)
                assert faults(jobs, decisions, N_CORES, checked) == []
                assert 0.3 < decisions.is_accepted.mean() < 1.0
