"""Runs every example and compares what it prints with the file beside it; `--write` stores what it prints.

An example takes the folder of a bundle as its only argument; here, as by default, the one installed with Sojourn.
"""

from __future__ import annotations

import difflib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def main() -> int:
    is_writing = "--write" in sys.argv[1:]
    is_same = True
    here = Path(__file__).resolve().parent
    examples = [example for example in sorted(here.glob("*.py")) if example.name != Path(__file__).name]

    def ended(example: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, str(example)], capture_output=True, text=True, check=False)

    with ThreadPoolExecutor(os.cpu_count()) as workers:
        runs = list(workers.map(ended, examples))
    for example, run in zip(examples, runs, strict=True):
        expected = example.with_suffix(".out")
        if is_writing:
            expected.write_text(run.stdout)
        wanted = expected.read_text() if expected.exists() else ""
        printed = run.stdout if run.returncode == 0 else run.stdout + run.stderr
        print(f"{example.name}: {'as written' if printed == wanted else 'differs'}")
        sys.stdout.writelines(difflib.unified_diff(wanted.splitlines(True), printed.splitlines(True), expected.name,
                                                   "printed now"))
        is_same &= printed == wanted
    return 0 if is_same else 1


if __name__ == "__main__":
    sys.exit(main())
