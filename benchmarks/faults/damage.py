"""Rows of a store whose files are damaged, and of a disk that is too small."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.faults.tries import KILLED, NEXT, Bench, Try, plain_failure, timed

SMALL_DISKS = ("300k", "900k", "2m", "6m")
_KEPT = ("traces", "features")


def _truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:file.stat().st_size // 2])


def _empty(file: Path) -> None:
    file.write_bytes(b"")


def _flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0x10
    file.write_bytes(content)


DAMAGE: dict[str, Callable[[Path], None]] = {"cut in half": _truncate, "emptied": _empty, "with a bit flipped": _flip,
                                             "removed": Path.unlink}


def damaged_caches(bench: Bench) -> Iterator[Try]:
    """Each cached file cut, emptied, with a bit flipped, or removed; then a full run"""
    bench.promoted()
    files = sorted(path.relative_to(bench.store) for kept in _KEPT for path in (bench.store / kept).rglob("*")
                   if path.is_file() and not path.name.startswith("."))
    # the caches of one trace: the others are its like
    trace = sorted({_stem(path) for path in files})[0]

    def problems(path: Path, damage: Callable[[Path], None]) -> list[str]:
        bench.promoted()
        damage(bench.store / path)
        found = []
        for seed in (NEXT, KILLED, 1):  # one of them reads it
            found += bench.after(seed)
        return found

    for path in files:
        if _stem(path) != trace:
            continue
        for name, damage in DAMAGE.items():
            if bench.is_over():
                return
            yield timed(f"{path.parent.parts[0]}: {path.name} {name}",
                        partial(problems, path, damage))


def _stem(path: Path) -> str:
    """What the name of a cached trace's folder and of its features begin with."""
    return "-".join(path.parts[1].split(".")[0].split("-")[:2])


def small_disk(bench: Bench) -> Iterator[Try]:
    """A first run in a store on a disk that is too small, then one with room"""
    def problems(size: str) -> list[str]:
        bench.empty()
        bench.store.mkdir()
        _mount(bench.store, size)
        try:
            ended = bench.launcher.run(bench.retrain(KILLED), bench.store)
            found = plain_failure(ended, "the run")
            subprocess.run(["mount", "-o", "remount,size=200m", bench.store], check=True)
            return found + bench.after(is_promoting=True)
        finally:
            subprocess.run(["umount", "-l", bench.store], check=True)

    if not _can_mount(bench.folder / "probe"):
        yield Try("", ("not tried: it takes the right to mount a disk",), 0.0)
        return
    for size in SMALL_DISKS:
        if not bench.is_over():
            yield timed(f"of {size}B", partial(problems, size))


def _mount(folder: Path, size: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=True, capture_output=True)


def _can_mount(folder: Path) -> bool:
    folder.mkdir(exist_ok=True)
    if shutil.which("mount") is None:
        return False
    try:
        _mount(folder, "1m")
    except subprocess.CalledProcessError:
        return False
    subprocess.run(["umount", folder], check=True)
    return True
