"""The short part of `make faults`: kills, a bomb, foreign handles, each with a look at what is left; and its page."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LIMIT_S = 1_500
ROLLBACK = "kill -9 in a rollback; then a retrain on the data of the version that was left, and the same rollback again"


@pytest.mark.slow
def test_no_fault_of_the_short_part_does_harm(tmp_path: Path) -> None:
    file, output = tmp_path / "faults.json", tmp_path / "printed.txt"
    with output.open("w") as stream:
        run = subprocess.Popen([sys.executable, "-m", "benchmarks.faults", "--short", "--json", str(file)], cwd=ROOT,
                               env={**os.environ, "TMPDIR": str(tmp_path)}, stdout=stream, stderr=stream)
    try:
        code = run.wait(LIMIT_S)
    finally:
        if run.poll() is None:  # Ctrl-C lets it end its server and its runs
            run.send_signal(signal.SIGINT)
            run.wait(60)
    assert code == 0, output.read_text()
    tries = json.loads(file.read_text())
    assert {name: len(of_row) > 0 for name, of_row in tries.items()} == {
        "bomb": True, "handles": True, "killed-retrain": True}
    assert len(tries["killed-retrain"]) >= 3, output.read_text()


def test_the_page_tells_tries_events_and_what_failed(tmp_path: Path) -> None:
    def tried(*problems: str, n_events: int = 0) -> dict[str, object]:
        return {"detail": "", "problems": problems, "seconds": 1.0, "n_events": n_events}

    file, page = tmp_path / "faults.json", tmp_path / "page.md"
    file.write_text(json.dumps({
        "killed-pull": [tried(n_events=1_200), *(tried(f"left behind: {name}|", n_events=1_200) for name in "ab")],
        "killed-rollback": [{**tried(n_events=60), "n_decisions": 1, "n_kept": 1},
                            {**tried("the decision is lost", n_events=60), "n_decisions": 1, "n_kept": 0}],
        "bomb": [tried()], "handles": [tried("exit code 1: a|b")]}))
    told = subprocess.run([sys.executable, "-m", "benchmarks.faults", "--no-run", "--json", str(file), "--page",
                           str(page)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (told.returncode, told.stdout) == (1, "7 tries, 4 with problems\n"), told.stderr
    rows = {line.split(" | ")[0]: line.split(" | ", 1)[1] for line in page.read_text().splitlines() if " | " in line}
    assert rows["| A history.npz that states small sizes and inflates to 0.8 GB"] == "1 | - | 1 | - | - | - |"
    assert rows["| Handles of another process, and copies of ones that were used, given to ended()"] == (
        "1 | - | 0 | - | - | 1x exit code 1: a\\|b |")
    assert rows["| kill -9 while a new champion is pulled into a folder that a predictor watches"] == (
        "3 | 1,200 | 1 | - | - | 2x left behind |")
    assert rows["| kill -9 in a comparison"] == "0 | - | 0 | - | - | not tried |"
    assert rows[f"| {ROLLBACK}"] == "2 | 60 | 1 | - | 1 of 2 | 1x the decision is lost |"


def test_the_page_in_the_docs_is_made_of_the_tries_that_are_kept(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    told = subprocess.run([sys.executable, "-m", "benchmarks.faults", "--no-run", "--page", str(page)], cwd=ROOT,
                          capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr
    assert (ROOT / "docs" / "reliability.md").read_text() == page.read_text()
    assert "not tried" not in page.read_text()
