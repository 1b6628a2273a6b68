"""A folder of Alibaba's original files: what the trace did is read, and replayed as the line `trace`."""

from __future__ import annotations

from pathlib import Path

import pytest

from sojourn.serving.usage import DAY_S
from studies.ctcl import N_DAYS, mix_source, replayed, rows

READER = "alibaba-2018-containers"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two containers on m_1 and m_2, with a sample each quarter of an hour; a task of two instances, of which one was
    interrupted on m_2 and started again on m_3."""
    made = tmp_path / "original"
    made.mkdir()
    end_s = N_DAYS * DAY_S
    meta = [f"c_{k},m_{k},{time},app,started,400,400,2.0" for k in (1, 2) for time in (0, end_s)]
    usage = [f"c_{k},m_{k},{time},{20 * k},50,,,,,," for time in range(0, end_s, 900) for k in (1, 2)]
    instances = ["i_1,M1,j_1,1,Interrupted,86400,86500,m_2,1,2,100,200,0.5,0.6",
                 "i_1,M1,j_1,1,Terminated,86520,86720,m_3,2,2,100,200,0.5,0.6",
                 "i_2,M1,j_1,1,Terminated,86410,86610,m_1,1,1,100,200,0.5,0.6",
                 "i_3,M9,j_9,1,Terminated,86410,86610,m_1,1,1,100,200,0.5,0.6"]  # its task is in no table
    for name, lines in (("container_meta", meta), ("container_usage", usage), ("batch_instance", instances),
                        ("batch_task", ["M1,2,j_1,1,Terminated,86400,86720,100,0.5"])):
        (made / f"{name}.csv").write_text("\n".join(lines) + "\n")
    return made


def test_machines_and_runs_are_those_of_the_files(folder: Path, tmp_path: Path) -> None:
    source = mix_source(folder, READER, None, 0, tmp_path / "scratch")
    mix, runs = source.of_seed(0), source.recorded
    assert runs is not None
    assert (mix.services.machine.tolist(), mix.batch.machine.tolist()) == ([0, 1], [1, 0])
    assert mix.services.reserved.tolist() == [[4000, 7864]] * 2  # 2 % of 384 GiB
    assert mix.batch.arrival_ms.tolist() == [86_400_000, 86_410_000]
    assert mix.batch.duration_ms.tolist() == [200_000, 200_000]  # the whole run, not the interrupted one
    assert mix.batch.requested.tolist() == [[1000, 1966]] * 2
    assert mix.batch.peak[:, 0].tolist() == [2000, 2000]
    assert (runs.request.tolist(), runs.machine.tolist()) == ([0, 0, 1], [1, 2, 0])
    assert "2 services (0 left out), 2 instances (1 left out), 3 machines" in mix.description


@pytest.mark.slow
def test_the_line_trace_is_what_the_trace_did(folder: Path, tmp_path: Path) -> None:
    source = mix_source(folder, READER, None, 0, tmp_path / "scratch")
    replays, _ = replayed(source, {name: rows()[name] for name in ("trace", "demand-blind")}, (0,))
    row = replays.set_index("algorithm").loc["trace"]
    # one of two, once; 100 s lost and 20 s until its next start
    assert (row["n_rescheduled"], row["n_multi_rescheduled"], row["mean_cost_s"]) == (1, 0, 120.0)
    assert row["most_machines"] == 3
