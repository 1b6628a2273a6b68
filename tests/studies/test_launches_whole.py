"""The study `launches` whole: replayed, printed, logged, on the results page."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_study_from_the_command_line(tmp_path: Path) -> None:
    store, page = tmp_path / "store", tmp_path / "results.md"
    done = subprocess.run([
        sys.executable, "-m", "studies", "launches", "--policy", "nilas-60s", "--n-requests", "1000",
        "--recipe", "trace", "--host-cpu-cores", "32", "--host-mem-gib", "128", "--n-seeds", "2", "--load", "0.6",
        "--load", "0.8", "--store", str(store)], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.count("A/B in one pool, and pre/post") == 2
    assert "load 0.6; 2 seeds" in done.stdout.replace("\n", " ")
    subprocess.run([sys.executable, "-m", "studies", "results", str(page), "--store", str(store)], check=True, cwd=ROOT)
    lines = (tmp_path / "results" / "synthetic" / "ab-pool.md").read_text().splitlines()
    assert lines[0] == "# Placement on synthetic, ab-pool"
    rows = [line.split(" | ")[1] for line in lines if line.startswith("| nilas-60s |")]
    assert rows == ["A/B", "A/B from the bound", "A/A", "pre/post"] * 2
    trials = next(store.rglob("trials.csv")).read_text().splitlines()
    assert len(trials) == 1 + 2 * 2 * 4  # loads, seeds, methods
    assert sorted(file.name for file in store.rglob("*.png")) == [
        "pre-post-nilas-60s-load-0.6.png", "pre-post-nilas-60s-load-0.8.png"]
