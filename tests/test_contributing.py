"""What CONTRIBUTING.md says of adding something, and the pages that it sends to, followed word by word."""

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import sojourn.simulator as sim
from sojourn.features.synthetic import synthesize

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("features", "flows", "models", "serving", "simulator")
JOBS = "job,user,start_s,end_s,cores,mem_gib\n" + "".join(
    f"j{k},u{k % 3},{60 * k},{60 * k + 600 if k < 40 else ''},2,8\n" for k in range(50)) + "j1,u1,0,9,2,8\n"


def section(file: Path, heading: str) -> str:
    """What stands under a heading of the second level."""
    parts = re.split(r"^## (.+)\n", file.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))[heading]


def pages(recipe: str) -> list[str]:
    """The sections that a recipe of CONTRIBUTING sends to: pages with a quoted heading."""
    sent = re.findall(r'(docs/[\w/]+\.md),\s+"([^"]+)"', section(ROOT / "CONTRIBUTING.md", recipe))
    assert sent, recipe
    return [section(ROOT / page, " ".join(heading.split())) for page, heading in sent]


def blocks(text: str) -> list[str]:
    """The Python code of a section."""
    return [textwrap.dedent(code) for code in re.findall(r" *```python\n(.*?)```", text, re.DOTALL)]


def follow(source: Path, text: str) -> None:
    """Write the file that a section shows, and put its import and its line into the registry that it names.

    source: the folder of the package.
    """
    file = re.search(r"The whole of\s+`([\w/]+\.py)`", text)
    registry = re.search(r"Import it in `([\w/]+\.py)` and add its line to `(\w+)`", text)
    if file is None:  # a line alone
        alone = re.search(r"Add its line to `(\w+)` in `([\w/]+\.py)`", text)
        assert alone is not None, text
        add_line(source / alone[2], alone[1], blocks(text)[0].rstrip())
        return
    assert registry is not None, text
    written, lines, *_ = blocks(text)
    imported, line = lines.splitlines()
    assert not (source / file[1]).exists()
    (source / file[1]).write_text(written)
    old = (source / registry[1]).read_text()
    first = re.search(r"^from sojourn\.", old, re.MULTILINE)
    assert first is not None
    (source / registry[1]).write_text(f"{old[:first.start()]}{imported}\n{old[first.start():]}")
    add_line(source / registry[1], registry[2], line)


def add_line(file: Path, registry: str, line: str) -> None:
    """Put a line at the end of a literal mapping."""
    old = file.read_text()
    new, n_added = re.subn(rf"(^{registry}: .*?\n)(}}\))", rf"\g<1>{line}\n\g<2>", old, count=1,
                           flags=re.DOTALL | re.MULTILINE)
    assert n_added == 1
    file.write_text(new)


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A copy of the package."""
    source = tmp_path / "sojourn"
    source.mkdir()
    for file in (ROOT / "src/sojourn").glob("*.py"):
        shutil.copy(file, source)
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return source


def run(house: Path, *arguments: str) -> str:
    """What the program of the copy prints."""
    command = [sys.executable, "-c", "from sojourn.flows.cli import app; app()", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(house.parent), "COLUMNS": "200"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500, cwd=house.parent)
    assert done.returncode == 0, done.stderr
    return done.stdout


RECIPES = ("Add a policy", "Add a reader", "Add a lifetime family", "Add a metric", "Add a preset")


def test_a_recipe_is_one_file_and_one_line(house: Path) -> None:
    for recipe in RECIPES:
        for text in pages(recipe):
            follow(house, text)
            registry = re.search(r"(?:Import it|Add its line to `\w+`) in `([\w/]+\.py)`", text)
            assert registry is not None and f"`{registry[1]}`" in section(ROOT / "CONTRIBUTING.md", recipe)
    for file in house.rglob("*.py"):
        compile(file.read_text(), str(file), "exec")
    written = blocks(pages("Add a policy")[0])[0]
    assert "._" not in written  # no private import
    assert len(written.splitlines()) <= 40


@pytest.mark.slow
def test_a_policy_and_a_metric_are_compared_by_a_preset(house: Path) -> None:
    for text in (pages("Add a policy")[0], pages("Add a metric")[0], pages("Add a preset")[0]):
        follow(house, text)
    printed = run(house, "gain", "--preset", "fit-by-load", "--policy", "least-requests", "--n-seeds", "2",
                  "--n-requests", "2000", "--n-workers", "1", "--store", "store", "--page", "page.html")
    assert "least-requests" in printed
    assert all(f"load {load}" in printed for load in ("0.6", "0.75", "0.9"))
    assert "most on one host<small>requests</small><small>lower is better</small>" in (
        house.parent / "page.html").read_text()
    cells = (house.parent / "page-cells.csv").read_text().splitlines()
    at = cells[0].split(",").index("n_running_max")
    assert all(float(row.split(",")[at]) >= 1 for row in cells[1:])
    assert "fit-by-load" in run(house, "gain", "--help")


@pytest.mark.slow
def test_a_reader_reads_a_file(house: Path) -> None:
    follow(house, pages("Add a reader")[0])
    (house.parent / "jobs.csv").write_text(JOBS)
    printed = run(house, "trace", "describe", "jobs.csv", "--reader", "job-list")
    assert re.search(r"rows read +51\n", printed) and re.search(r"rows kept +50\n", printed)
    assert "refused: duplicate job" in printed
    assert "job-list" in run(house, "train", "--help")


@pytest.mark.slow
def test_a_family_and_a_measure_are_in_a_study(house: Path) -> None:
    follow(house, pages("Add a lifetime family")[0])
    follow(house, pages("Add a metric")[1])
    printed = run(house, "lab", "evaluate", "--family", "pooled", "--family", "km", "--n-requests", "2000", "--store",
                  "store")
    assert re.search(r"│ pooled ", printed)
    assert "within" in printed and "Within factor 2: share of observed ends" in " ".join(printed.split())


@pytest.mark.parametrize("k", [pytest.param(2, marks=pytest.mark.slow), 3])  # compiled; in NumPy
def test_the_unregistered_policies_of_the_page_run(k: int) -> None:
    names: dict[str, object] = {}
    code = blocks(pages("Add a policy")[0])[k]
    assert "._" not in code
    exec(code, names)
    policy = names["mine"]
    assert isinstance(policy, sim.Policy)
    workload = sim.build_workload("synthetic", synthesize(1_000, seed=2))
    result = sim.simulate(workload, policy)
    assert (np.asarray(result.host) >= 0).all()
