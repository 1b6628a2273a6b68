"""Sojourn's own pages: one file each, no network, nothing cut, the words that a reader needs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from made_jobs import swf_log
from sojourn.flows.monitor.weeks import Alarm, DriftCheck, Week, clock_text, monitor_page, verdict
from sojourn.models.drift import DailyExits
from watched_pages import Watched

pytestmark = pytest.mark.slow
JOBS = ("name,requested_start_s,flexibility_s,deadline_s,durations_s,cpu_cores\n"
        "backup,0,7200,86400,600;720;690,2;3;2\nreport,600,7200,86400,900;800;850,4;4;5\n")


def _cut(watched: Watched) -> list[str]:
    """Tables that are wider than what a reader can see or scroll to."""
    return list(watched.page.evaluate("""() => [...document.querySelectorAll("table")].filter(table => {
        const box = table.getBoundingClientRect(), parent = table.parentElement;
        const scrolls = ["auto", "scroll"].includes(getComputedStyle(parent).overflowX);
        return box.right > document.documentElement.clientWidth + 1 && !scrolls;
    }).map(table => table.innerText.slice(0, 60))"""))


def test_the_page_of_a_comparison(watched: Watched, tmp_path: Path, sojourn: Callable[..., str]) -> None:
    log = swf_log(tmp_path / "jobs.swf", 600)
    sojourn("gain", str(log), "--reader", "swf", "--policy", "nilas", "--predictor", "oracle",
            "--n-seeds", "2", "--n-workers", "1", "--store", str(tmp_path / "store"),
            "--page", str(tmp_path / "page.html"))
    watched.page.goto((tmp_path / "page.html").as_uri())
    watched.page.get_by_text("nilas").first.wait_for()
    text = watched.text()
    for part in ("best-fit", "oracle", "empty hosts", "higher is better"):
        assert part in text, part
    assert _cut(watched) == []


def test_the_page_of_a_plan(watched: Watched, tmp_path: Path, sojourn: Callable[..., str]) -> None:
    (tmp_path / "jobs.csv").write_text(JOBS)
    sojourn("lab", "plan", str(tmp_path / "jobs.csv"), "--planner", "greedy", "--planner", "none", "--store",
            str(tmp_path / "store"), "--out", str(tmp_path / "plan"))
    watched.page.goto((tmp_path / "plan" / "plan.html").as_uri())
    watched.page.get_by_text("greedy").first.wait_for()
    text = watched.text()
    for part in ("none", "peak", "backup", "report"):
        assert part in text, part
    assert _cut(watched) == []
    assert watched.page.locator("img").first.evaluate("image => image.complete && image.naturalWidth > 100")


def test_the_page_of_a_monitor(watched: Watched, tmp_path: Path) -> None:
    expected = np.full((21, 1), 40.0)
    observed = np.where(np.arange(21)[:, None] < 14, 41.0, 70.0)
    exits = DailyExits(7, observed, expected, expected, expected[:, 0])
    alarm = Alarm(23, 21, 20, 22, "at all ages", 210.0, 120.0, 8.2)
    check = DriftCheck(exits, np.linspace(0.0, 1.4, 21), (alarm,))
    scores = {"exits": 280.0, "exits_expected": 281.5, "exits_z": -0.1, "psi_max": 0.31, "unknown_owner": 0.02,
              "ibs": 0.08, "ibs_low": 0.07, "ibs_high": 0.09, "mae_log10": 0.4, "mae_log10_ipcw": 0.5, "ap_long": 0.6,
              "cover_50": 0.5, "cover_90": 0.9, "lifetime_distance": 0.1}
    weeks = [Week(k, 604_800 * k, 300, 250, "", 604_800 * (k + 1), scores, (("hour", 0.31),)) for k in (1, 2, 3)]
    clock = clock_text(True)
    counts = {"decisions": 900, "followed": 900, "ended": 750}
    lines = verdict(check, weeks, "retrain.", clock)
    page = monitor_page("sojourn-lifetime", "As known at the end.", lines, weeks, check, counts, clock)
    (tmp_path / "monitor.html").write_text(page)
    watched.page.goto((tmp_path / "monitor.html").as_uri())
    watched.page.get_by_text("Monitor of sojourn-lifetime").first.wait_for()
    text = watched.text()
    for part in ("end earlier than predicted: 210 exits were seen where 120 were expected", "8.2 standard errors",
                 "retrain", "Accuracy by week", "Inputs that moved most", "decisions in the log"):
        assert part in text, part
    assert _cut(watched) == []
    pictures = watched.page.locator("img")
    assert pictures.count() == 2
    assert all(picture.evaluate("image => image.complete && image.naturalWidth > 300") for picture in pictures.all())
