"""Looks at the champion while a fault happens: a process that loads it again and again, as schedulers would."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.faults.soundness import NAME, served_problems
from benchmarks.faults.tries import Bench

_PAUSE_S = 0.02
_TEXTS_MAX = 3


@contextmanager
def looking(bench: Bench, found: list[str], folder: Path | None = None) -> Iterator[None]:
    """Load the champion over and over while something goes on; what could not be loaded is added to `found`.

    The bench counts the looks. folder: default: the champion's, in `bundles`. There is at least one look after the end.
    """
    answer, stop = bench.folder / "looks.json", bench.folder / "looked-enough"
    for file in (answer, stop):
        file.unlink(missing_ok=True)
    watcher = bench.launcher.call(lambda: answer.write_text(json.dumps(_looks(
        folder or bench.store / "bundles" / NAME, stop))))
    bench.launcher.spared.add(watcher.pid)
    try:
        yield
    except BaseException:
        os.kill(watcher.pid, signal.SIGKILL)
        raise
    finally:
        stop.touch()
        ended = watcher.wait()
        bench.launcher.spared.discard(watcher.pid)
    if ended.code != 0:
        found.append(f"the looks at the champion end with an error: {ended.last_line}")
        return
    texts = json.loads(answer.read_text())
    bench.n_looks += len(texts)
    bench.n_loaded += texts.count("")
    found += [f"a look at the champion fails: {text}" for text in list(filter(None, dict.fromkeys(texts)))[:_TEXTS_MAX]]


def _looks(folder: Path, stop: Path) -> list[str]:
    """Of each look what was wrong, "" = nothing."""
    texts, is_last = [], False
    while not is_last:
        is_last = stop.exists()
        texts.append("; ".join(served_problems(folder)))
        time.sleep(_PAUSE_S)
    return texts
