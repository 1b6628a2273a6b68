"""Runs every example and compares what it prints with the file beside it; `--write` stores what it prints.

Each example gets the folder of a bundle as its only argument: a small model, trained here with a fixed seed. Without
it, an example takes the bundle that `make run` leaves.
"""

from __future__ import annotations

import difflib
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from sojourn.features.creation import backoff_keys, build_rows, default_encoder
from sojourn.features.split import split_by_time
from sojourn.features.synthetic import synthesize
from sojourn.models import LIFETIME_MODELS, FitSettings, write_bundle
from sojourn.serving.inputs import HistoryState

FAMILY = "hazard"


def train(folder: Path) -> Path:
    """A bundle of a small model on a small synthetic trace."""
    trace = synthesize(2_000, seed=1)
    encoder = default_encoder(trace)
    history = HistoryState(encoder.history)
    split = split_by_time(build_rows(trace, encoder, history))
    settings = FitSettings(backoff_keys(encoder), n_threads=1, params={"num_leaves": 15, "learning_rate": 0.3})
    exported = LIFETIME_MODELS[FAMILY]().fit(split.train, split.valid, split.past, settings).export()
    if exported is None:
        raise ValueError(f"the family of the examples must be one that is served, got {FAMILY!r}")
    training = {"to_s": split.test_from_s, "n_requests": len(split.past), "history_to_s": trace.horizon_s,
                "start_unix_s": trace.meta["start_unix_s"]}
    return write_bundle(folder, FAMILY, exported, encoder, history, {"training": training})


def main() -> int:
    is_writing = "--write" in sys.argv[1:]
    is_same = True
    here = Path(__file__).resolve().parent
    with tempfile.TemporaryDirectory() as root:
        bundle = train(Path(root) / "bundle")
        examples = [example for example in sorted(here.glob("*.py")) if example.name != Path(__file__).name]

        def ended(example: Path) -> subprocess.CompletedProcess[str]:
            return subprocess.run([sys.executable, str(example), str(bundle)], capture_output=True, text=True,
                                  check=False)

        with ThreadPoolExecutor(os.cpu_count()) as workers:
            runs = list(workers.map(ended, examples))
        for example, run in zip(examples, runs, strict=True):
            expected = example.with_suffix(".out")
            if is_writing:
                expected.write_text(run.stdout)
            wanted = expected.read_text() if expected.exists() else ""
            found = run.stdout if run.returncode == 0 else run.stdout + run.stderr
            print(f"{example.name}: {'as written' if found == wanted else 'differs'}")
            sys.stdout.writelines(difflib.unified_diff(wanted.splitlines(True), found.splitlines(True), expected.name,
                                                       "printed now"))
            is_same &= found == wanted
    return 0 if is_same else 1


if __name__ == "__main__":
    sys.exit(main())
