"""Runs `make test` many times in a row, the last ones beside two busy processes; prints how many passed.

What a failed run printed is kept in a folder, which is named at the end. The exit code is 1 where a run failed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SPIN = [sys.executable, "-c", "while True: pass"]
N_SPINNING = 2


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--busy", type=int, default=5, help="how many of them beside two busy processes")
    options = parser.parse_args()
    kept = Path(tempfile.mkdtemp(prefix="steady-"))
    n_passed = {False: 0, True: 0}
    for run in range(options.runs):
        is_busy = run >= options.runs - options.busy
        spinning = [subprocess.Popen(SPIN) for _ in range(N_SPINNING * is_busy)]
        started = time.monotonic()
        try:
            done = subprocess.run(["make", "--no-print-directory", "test"], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, check=False)
        finally:
            for process in spinning:
                process.kill()
                process.wait()
        n_passed[is_busy] += done.returncode == 0
        print(f"run {run + 1}{' (busy)' if is_busy else ''}: {'passed' if done.returncode == 0 else 'failed'} in "
              f"{time.monotonic() - started:.0f} s: {done.stdout.strip().splitlines()[-1]}", flush=True)
        if done.returncode != 0:
            (kept / f"run{run + 1}.txt").write_text(done.stdout)
    print(f"{n_passed[False]} of {options.runs - options.busy} passed, {n_passed[True]} of {options.busy} beside "
          f"{N_SPINNING} busy processes; failed runs are in {kept}")
    return 0 if sum(n_passed.values()) == options.runs else 1


if __name__ == "__main__":
    sys.exit(main())
