"""EASY on published logs: mean bounded slowdowns and waits of an independent prototype, within 1 %."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sojourn.features.readers import read_trace
from sojourn.simulator import Oracle
from sojourn.simulator.queueing import QueueRules, queue_jobs, replay_queue, requested

ROOT = Path(__file__).resolve().parents[3]
LOGS = ROOT.parent / "shared" / "data" / "swf"
NASA = ROOT / "examples" / "nasa-ipsc-1993.swf.gz"
GOLDEN = {
    "SDSC-BLUE-2000-4.2-cln": (232_536, 0.770, ((36.58, 7_907), (19.61, 5_916), (32.11, 7_608), (13.32, 5_300))),
    "HPC2N-2002-2.1-cln": (202_876, 0.600, ((90.77, 11_524), (85.50, 10_907), (78.22, 11_653), (64.01, 10_541))),
    "LLNL-Thunder-2007-1.1-cln": (113_613, 0.865, ((4.97, 339), (2.21, 190), (4.31, 331), (1.75, 172))),
}
"""Jobs, load, and (mean bounded slowdown, mean wait) of requested fcfs, requested sjf, oracle fcfs, oracle sjf."""


def check(log: Path, n_jobs: int, load: float, golden: tuple[tuple[float, float], ...], wait_rel: float) -> None:
    jobs = queue_jobs(read_trace("swf", log)[0], limits="raised")
    assert len(jobs) == n_jobs
    span_s = (jobs.submission_s + jobs.run_s).max() - jobs.submission_s[0]
    assert (jobs.run_s * jobs.size).sum() / (span_s * jobs.n_processors) == pytest.approx(load, abs=0.0015)
    pairs = [(source, order) for source in (requested(jobs), Oracle(jobs)) for order in ("fcfs", "sjf")]
    for (source, order), (slowdown, wait_s) in zip(pairs, golden, strict=True):
        schedule = replay_queue(jobs, QueueRules(backfill_order=order), source)
        run_s = np.maximum(jobs.run_s, 10)
        assert np.maximum((schedule.wait_s + jobs.run_s) / run_s, 1).mean() == pytest.approx(slowdown, rel=0.01)
        assert schedule.wait_s.mean() == pytest.approx(wait_s, rel=wait_rel)


def test_the_shipped_log_has_the_published_figures() -> None:
    check(NASA, 18_066, 0.466, ((1.01, 4), (1.01, 4), (1.01, 4), (1.01, 4)), 0.125)  # 4 s has one digit


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_large_logs_have_the_published_figures(name: str) -> None:
    log = LOGS / f"{name}.swf.gz"
    if not log.is_file():
        pytest.skip(f"needs {name}")
    check(log, *GOLDEN[name], wait_rel=0.01)
