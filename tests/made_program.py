"""The `sojourn` program in a process of its own, in which some libraries cannot be imported."""

from __future__ import annotations

import subprocess
import sys

OF_PIPELINE = ("pandas", "pyarrow", "onnx", "lightgbm", "sksurv", "sklearn", "scipy", "prefect", "matplotlib", "numba",
               "flask", "plotly", "optuna", "distributed", "pooch")
"""What `sojourn[pull]` does not bring."""


def run_without(missing: tuple[str, ...], *arguments: str) -> tuple[int, str, str]:
    """Exit code and both outputs of the program in a process that cannot import the missing modules."""
    code = ("import sys; missing, sys.argv = sys.argv[1].split(','), ['sojourn', *sys.argv[2:]]; "
            "sys.modules.update(dict.fromkeys(missing)); from sojourn.flows.entry import main; main()")
    found = subprocess.run([sys.executable, "-c", code, ",".join(missing), *arguments], capture_output=True, text=True,
                           check=False)
    return found.returncode, found.stdout, found.stderr
