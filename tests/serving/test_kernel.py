"""Compiled loops kept on disk: made anew where any source behind them changed, and never an error."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numba
import numpy as np
import pytest

import sojourn
from sojourn import kept_kernels as compiling
from sojourn.serving.forest._walk_kernels import goes_true
from sojourn.serving.kernel import kernel

CALLED = "def interval_hazard(score: float, offset: float) -> float:"
ANSWER = """
import numpy as np
from sojourn.serving.curves import formulas
import importlib, sys, types
{prepare}
from sojourn.models._kernels import hazards_of
scores = np.array([[-1.0, 0.5]])
compiled = np.empty_like(scores)
hazards_of(scores, np.array([0.0, 0.25]), compiled)
plain = [[formulas.interval_hazard(-1.0, 0.0), formulas.interval_hazard(0.5, 0.25)]]
assert compiled.tolist() == plain, (compiled.tolist(), plain)
print(compiled[0, 0], sum(hazards_of.stats.cache_hits.values()))
"""
WITHOUT_MODELS = """
models = types.ModuleType("sojourn.models")  # its own __init__ loads all families
models.__path__ = [next(iter(importlib.import_module("sojourn").__path__)) + "/models"]
sys.modules["sojourn.models"] = models
"""


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the package that may be edited, the links followed."""
    package = Path(sojourn.__path__[0])
    skipped = shutil.ignore_patterns("__pycache__", "features", "flows", "simulator", "lifetime", "measures")
    shutil.copytree(package, tmp_path / "tree" / "sojourn", ignore=skipped)
    return tmp_path / "tree"


def answer(tree: Path) -> tuple[float, int]:
    """What a compiled kernel answers in a process of its own, equal to plain Python; and how often it was kept."""
    code = ANSWER.format(prepare=WITHOUT_MODELS)
    done = subprocess.run([sys.executable, "-W", "error", "-P", "-c", code], capture_output=True, text=True,
                          cwd=tree, env=os.environ | {"PYTHONPATH": str(tree), "NUMBA_CACHE_DIR": str(tree / "cache")})
    assert done.returncode == 0, done.stderr
    first, hits = done.stdout.split()
    return float(first), int(hits)


def edit(tree: Path) -> None:
    """Another answer of a function that the kernel calls, in another file."""
    file = tree / "sojourn" / "serving" / "curves" / "formulas.py"
    text = file.read_text()
    assert text.count(CALLED) == 1
    body = text.index('"""', text.index('"""', text.index(CALLED)) + 3) + 3
    file.write_text(f"{text[:body]}\n    return score + offset + 42.0{text[body:]}")


def kept(tree: Path) -> list[str]:
    return sorted(path.name for path in (tree / "cache" / "sojourn").glob("_kernels.hazards_of-*"))


@pytest.mark.slow
def test_an_edit_of_a_function_that_a_kernel_calls_in_another_file_is_seen(copied: Path) -> None:
    first, hits = answer(copied)
    assert (first, hits) != (41.0, 0)
    assert answer(copied) == (first, 1), "what is unchanged is not compiled again"
    before = kept(copied)
    edit(copied)
    assert answer(copied) == (41.0, 0)
    assert len(kept(copied)) == len(before) + 2 == 4
    assert answer(copied) == (41.0, 1)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where kernels are kept that are made in this test."""
    monkeypatch.setattr(compiling, "cache_folder", lambda: tmp_path)
    return tmp_path


def hits() -> int:
    """How often a small kernel, made and called anew, was found."""
    made = kernel(goes_true.py_func)
    assert made(1.0, 1.0, 0, False, np.zeros(1), 0, 0)
    return sum(made.stats.cache_hits.values())


def test_damaged_files_are_compiled_anew(folder: Path) -> None:
    assert (hits(), hits()) == (0, 1)
    assert len(list(folder.iterdir())) == 2
    for file in sorted(folder.iterdir()):
        whole = file.read_bytes()
        for damaged in (b"", whole[:len(whole) // 2], b"nothing" * 9):
            file.write_bytes(damaged)
            assert (hits(), hits()) == (0, 1), "and kept again"


def test_a_folder_that_can_no_longer_be_written_is_done_without(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "cache_folder", lambda: folder / "gone")
    assert (hits(), hits()) == (0, 0)


def test_each_signature_has_files_of_its_own(folder: Path) -> None:
    """numba numbers them in an index: two processes that write it at once would read each other's code."""
    made = kernel(goes_true.py_func)
    made(1.0, 1.0, 0, False, np.zeros(1), 0, 0)
    first = {file: file.read_bytes() for file in folder.iterdir()}
    made(np.float32(1.0), 1.0, 0, False, np.zeros(1), 0, 0)
    assert len(list(folder.iterdir())) == 4
    assert all(file.read_bytes() == content for file, content in first.items())


def test_what_no_process_reads_for_a_month_is_removed(folder: Path) -> None:
    day_s = 86_400
    unread, read = folder / "old.f-0-1.py311.1.nbc", folder / "new.f-0-1.py311.1.nbc"
    other = folder / "other.pyc"
    for path, n_days in ((unread, 31), (read, 29), (other, 31)):
        path.touch()
        os.utime(path, (time.time() - n_days * day_s,) * 2)
    assert hits() == 0
    assert not unread.exists() and read.exists() and other.exists()
    ours = [path for path in folder.glob("*.nb[ci]") if path != read]
    for path in ours:
        os.utime(path, (time.time() - 29 * day_s,) * 2)
    assert hits() == 1
    assert all(time.time() - path.stat().st_mtime < day_s for path in ours), "reading marks them"


def test_a_form_is_kept_under_its_key(folder: Path) -> None:
    plain = goes_true.py_func
    module, name = plain.__module__, plain.__qualname__
    for key in ("one", "two"):
        assert not compiling.is_kept(module, name, key)
        kept = compiling.keep(numba.njit(nogil=True)(plain), plain, key)
        assert kept(1.0, 1.0, 0, False, np.zeros(1), 0, 0)
        assert compiling.is_kept(module, name, key)


def test_where_kernels_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr("numba.core.config.CACHE_DIR", "")
    monkeypatch.setattr(compiling, "__file__", str(tmp_path / "package" / "kept_kernels.py"))

    def with_user_cache(path: Path) -> None:
        monkeypatch.setattr(compiling, "AppDirs", lambda **names: SimpleNamespace(user_cache_dir=str(path)))

    folder_of = compiling.cache_folder.__wrapped__
    with_user_cache(tmp_path / "user")
    assert folder_of() == tmp_path / "user"
    assert (tmp_path / "user").stat().st_mode & 0o777 == 0o700
    with_user_cache(tmp_path / "file")
    assert folder_of() == tmp_path / "package" / "__pycache__"
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path / "named"))
    assert folder_of() == tmp_path / "named" / "sojourn"
    assert (tmp_path / "named" / "sojourn").stat().st_mode & 0o722 == 0o700, "others may read, as the umask has it"
    (tmp_path / "named" / "sojourn").chmod(0o500)
    assert folder_of() == tmp_path / "named" / "sojourn", "a filled folder may be read only"
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path / "file"))
    assert folder_of() == tmp_path / "package" / "__pycache__"
    monkeypatch.setattr(compiling, "__file__", str(tmp_path / "file" / "kept_kernels.py"))
    with pytest.warns(RuntimeWarning, match="NUMBA_CACHE_DIR must name a folder that may be written"):
        assert folder_of() is None


def test_a_function_of_nobodys_source_is_compiled_and_not_kept(folder: Path) -> None:
    @kernel
    def twice(number: float) -> float:
        return 2.0 * number

    assert twice(2.0) == 4.0
    assert not list(folder.iterdir())
