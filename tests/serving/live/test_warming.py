"""Kernels of serving that are compiled ahead: all of them, once, and into a folder that is named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from made_bundles import Made, refreshing
from sojourn.serving import warm
from sojourn.serving.curves import KINDS
from sojourn.serving.live import warming as room

WARM = "import sys; from sojourn.serving.live import warm_main; sys.exit(warm_main([]))"
USED = """
import sys
from sojourn.kept_kernels import FORMS
from sojourn.serving import CurvePool, HostExits, Predictor
for folder in sys.argv[2:]:
    for is_recalibrated in (False, True):
        predictor = Predictor.load(folder, recalibrate=is_recalibrated)
        now_s = int(sys.argv[1])
        vm = predictor.admit({"cpu_cores": 2.0, "subscription": "s1", "requested_s": 7_200.0}, now_s)
        vm.quantile(0.9, 60.0), predictor.refresh(vm, now_s + 4_000)
        pool, exits = CurvePool(), HostExits(2)
        slot = pool.add(vm)
        pool.remaining([slot], [60.0]), pool.survival(60.0, [slot], [60.0])
        exits.place(1, vm), exits.at(now_s + 8_000), exits.leave(vm)
        predictor.ended(vm, now_s + 300)
assert FORMS
print(sorted(path.name for path, is_compiled in FORMS.items() if is_compiled))
"""


def run(code: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A process of its own whose compiled code is kept in a folder."""
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False,
                          timeout=600, env=os.environ | {"NUMBA_CACHE_DIR": str(folder)})


@pytest.mark.slow
def test_nothing_is_compiled_after_it_whatever_is_served(made: Made, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = run(WARM, cache)
    assert (first.returncode, first.stderr) == (0, "")
    compiled, names, place = first.stdout.splitlines()
    assert compiled.startswith("compiled  ") and "interval_rows, " in names and "range_walk_rows, " in names
    assert place == f"kept in   {cache / 'sojourn'}"
    kept = {path.name: path.stat().st_mtime_ns for path in (cache / "sojourn").iterdir()}
    again = run(WARM, cache)
    assert again.stdout.startswith("compiled  nothing, all kernels were kept, ")
    folders = [*made.folders.values(), refreshing(made, tmp_path / "refreshing"),
               refreshing(made, tmp_path / "refreshing-limit", kind="hazard-limit")]
    used = run(USED, cache, str(made.trace.horizon_s), *map(str, folders))
    assert (used.returncode, used.stderr, used.stdout) == (0, "", "[]\n")
    assert {path.name: path.stat().st_mtime_ns for path in (cache / "sojourn").iterdir()} == kept


def test_each_kind_of_model_has_its_smallest() -> None:
    assert {*room._NUMBERS} == {*KINDS}


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                     capsys: pytest.CaptureFixture[str]) -> None:
    forms: dict[Path, bool] = {}

    def compile_one(schema: Any) -> None:
        forms[tmp_path / "_kernels.made-1-2.py311.nbi"] = True

    monkeypatch.setattr("sojourn.kept_kernels.FORMS", forms)
    monkeypatch.setattr(room, "_load", compile_one)
    monkeypatch.setattr("sojourn.kept_kernels.cache_folder", lambda: tmp_path)
    assert room.main([]) == 2
    found = capsys.readouterr()
    assert found.out == "" and found.err == (
        f"error: {tmp_path} must be a folder that may be written, got one where compiled kernels can't be kept: name "
        "one that this user may write by NUMBA_CACHE_DIR\n")
    forms.clear()
    (tmp_path / "_kernels.made-1-2.py311.nbi").touch()
    assert warm().startswith("compiled  1 kernels, ")
    assert warm().startswith("compiled  nothing, all kernels were kept, ")
    monkeypatch.setattr("sojourn.kept_kernels.cache_folder", lambda: None)
    with pytest.raises(OSError, match="the cache folder must be one that may be written, got none: name one"):
        warm()


def test_without_numba_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch,
                                               capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(room, "IS_COMPILED", False)
    assert room.main([]) == 2
    assert capsys.readouterr().err == ("error: warm needs numba, which is not installed: in a checkout, pip install "
                                       "'.[fast]'\n")
