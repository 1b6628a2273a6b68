"""Project scheduling by the same core: published optima of the PSPLIB, and what a file must hold."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pytest

from naive_planning import problems_of, step_usage
from sojourn.simulator.planning import Instance, Limits, RecurringJob
from studies.planners import least_makespan, read_project

FILES = Path(__file__).parents[3] / "shared" / "data" / "psplib" / "j30.sm.tar.gz"
PUBLISHED = (43, 47, 47, 62, 39, 48, 60, 53, 49, 45)
"""Least makespans of j301_1 to j301_10."""
SMALL = """************************************************************************
horizon                       :  12
************************************************************************
PRECEDENCE RELATIONS:
jobnr.    #modes  #successors   successors
   1        1          2           2   3
   2        1          1           4
   3        1          1           5
   4        1          1           5
   5        1          0
************************************************************************
REQUESTS/DURATIONS:
jobnr. mode duration  R 1
------------------------------------------------------------------------
  1      1     0       0
  2      1     4       2
  3      1     3       2
  4      1     5       1
  5      1     0       0
************************************************************************
RESOURCEAVAILABILITIES:
  R 1
    3
************************************************************************
"""


def test_a_small_project() -> None:
    # 2 and 3 do not fit together, 4 comes after 2 and fits beside 3: 4 + 5
    day = read_project(SMALL)
    assert [(job.name, job.parents) for job in day.jobs] == [("2", ()), ("3", ()), ("4", ("2",))]
    found = least_makespan(day, Limits())
    assert (found.status, found.makespan, found.bound) == ("optimal", 9, 9.0)


def test_what_is_no_project_is_refused() -> None:
    with pytest.raises(ValueError, match=r"text must .*, got none with 'PRECEDENCE"):
        read_project("nothing")
    run = np.array([2]), np.array([3.0])
    with pytest.raises(ValueError, match="capacity must be given for a least makespan"):
        least_makespan(Instance((RecurringJob("a", 0, 9, 20, *run),)), Limits())


@pytest.mark.skipif(not FILES.is_file(), reason="the shared data is not beside the repository")
def test_published_optima() -> None:
    with tarfile.open(FILES) as archive:
        for number, makespan in enumerate(PUBLISHED, 1):
            member = archive.extractfile(f"j301_{number}.sm")
            assert member is not None
            day = read_project(member.read().decode())
            found = least_makespan(day, Limits(limit_s=20.0))
            assert (found.status, found.makespan) == ("optimal", makespan)
            assert found.starts is not None and day.capacity is not None
            durations = np.array([job.durations[0] for job in day.jobs])
            usage = np.array([job.usage[0] for job in day.jobs])
            assert not problems_of(day, found.starts, durations)
            for resource, room in enumerate(day.capacity):
                assert step_usage(found.starts, durations, usage[:, resource], makespan).max() <= room
