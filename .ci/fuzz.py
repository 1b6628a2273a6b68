"""Runs the tests that use Hypothesis with new examples, a new seed a round, until the time is spent.

A round takes the test files in its seed's order, so that short budgets reach all of them in the long run.

A find is printed as an `@example(...)` to add, with the seed that draws it again. The exit code is 1 after a find.
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import subprocess
import sys
import time
from pathlib import Path

_RAN = re.compile(r"(\d+) (?:passed|failed)")
TESTS_FAILED = 1  # pytest's exit codes: 1 where tests failed, 2 and more where it could not run them


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="no test begins later")
    parser.add_argument("--seed", type=int, help="of the first round; the next have the numbers after it")
    parser.add_argument("tests", nargs="*", help="files or folders; by default all files that name Hypothesis")
    options = parser.parse_args()
    # to collect the other files, and the doctests, would take as long as a short round
    tests = options.tests or [str(file) for file in sorted(Path("tests").rglob("test_*.py"))
                              if "hypothesis" in file.read_text()]
    seed = secrets.randbits(31) if options.seed is None else options.seed
    failed: list[int] = []
    n_rounds = n_tests = 0
    until_s = time.time() + options.seconds
    while time.time() < until_s:
        print(f"== round {n_rounds + 1}: --hypothesis-seed={seed}", flush=True)
        last = ""
        with subprocess.Popen(
            [sys.executable, "-m", "pytest", "-q", "-n", "auto", "--dist", "loadfile", "-m", "hypothesis",
             "-p", "no:cacheprovider", "-r", "fE", "--tb=short", "--hypothesis-profile=fuzz",
             f"--hypothesis-seed={seed}", *tests],
            env={**os.environ, "PYTHONHASHSEED": str(seed), "FUZZ_UNTIL_S": str(until_s)},
            stdout=subprocess.PIPE, text=True) as run:
            assert run.stdout is not None
            for line in run.stdout:
                print(line, end="", flush=True)
                last = line
        code = run.returncode
        n_tests += sum(int(count) for count in _RAN.findall(last))
        if code > TESTS_FAILED:
            return code
        if code == TESTS_FAILED:
            failed.append(seed)
        n_rounds += 1
        seed += 1
    seeds = f": seeds {', '.join(map(str, failed))}" if failed else ""
    print(f"{n_rounds} rounds, {n_tests} tests with new examples, {len(failed)} rounds with finds{seeds}. "
          "Add each as an @example and mend what it shows.")
    if n_tests == 0:
        print("No test began in time: give more --seconds.")
    return 0 if n_tests and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
