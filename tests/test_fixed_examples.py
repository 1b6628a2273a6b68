"""`make test` draws the same examples every time, whatever ran before; `make fuzz` draws new ones and prints a find."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

TESTS = Path(__file__).parent
DRAWN = """\
import sys
from pathlib import Path
from hypothesis import given, strategies as st
{imports}

@given(st.integers(), st.floats(), st.text())
def test_draws(n, x, text):
    with Path("drawn").open("a") as file:
        print((n, x, text), file=file)
    assert abs(n) < {bound}
"""


def run(folder: Path, *options: str, imports: str = "", bound: float = 1e99,
        variables: dict[str, str] | None = None) -> tuple[str, str]:
    """What pytest printed, and what the test drew, in a folder with this conftest."""
    folder.mkdir()
    for name in ("conftest.py", "found_examples.py"):
        shutil.copy(TESTS / name, folder)
    (folder / "constants.py").write_text("\n".join(f"A{number} = {number}" for number in range(1_000_000, 1_001_000)))
    (folder / "test_drawn.py").write_text(DRAWN.format(imports=imports, bound=bound))
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options], cwd=folder,
                          env={**os.environ, "PYTHONPATH": str(folder), **(variables or {})},
                          capture_output=True, text=True, check=False)
    return done.stdout, (folder / "drawn").read_text()


@pytest.mark.slow
def test_draws_are_the_same_whatever_modules_are_loaded(tmp_path: Path) -> None:
    _, first = run(tmp_path / "first")
    _, again = run(tmp_path / "again", imports="import constants")
    assert len(first.splitlines()) == 100
    assert first == again


@pytest.mark.slow
def test_a_find_of_the_fuzz_is_printed_as_an_example_to_add(tmp_path: Path) -> None:
    # Hypothesis draws without luck where this variable is set, as it is on most CI machines
    ci = {"CI": "true"}
    printed, drawn = run(tmp_path / "first", "--hypothesis-profile=fuzz", "--hypothesis-seed=1", bound=1_000,
                         variables=ci)
    _, again = run(tmp_path / "again", "--hypothesis-profile=fuzz", "--hypothesis-seed=2", bound=1_000, variables=ci)
    assert "examples to add, found with --hypothesis-seed=1" in printed
    assert "@example(n=1000, x=0.0, text='')" in printed
    assert drawn != again


def test_no_draw_and_no_health_check_looks_at_the_clock_or_at_earlier_runs() -> None:
    assert settings.default is not None
    assert settings.default.derandomize or settings.get_current_profile_name() == "fuzz"
    assert (settings.default.deadline, settings.default.database) == (None, None)
