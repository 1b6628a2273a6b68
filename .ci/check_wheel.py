"""Builds the wheel, installs it bare in a clean environment, and imports what a scheduler imports."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("features", "flows", "models", "serving", "simulator")
HEAVY = ("pandas", "lightgbm", "sksurv", "mlflow", "prefect", "numba")
BARE = f"""
import sys, time
started = time.perf_counter()
import sojourn.serving
print(f"import of sojourn.serving: {{time.perf_counter() - started:.2f}} s")
loaded = [name for name in {HEAVY!r} if name in sys.modules]
assert not loaded, f"sojourn.serving must not load {{loaded}}"
"""


def main() -> None:
    """Exit with an error where the wheel lacks a package or its bare import needs more than it should."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        run(sys.executable, "-m", "build", "--wheel", "--outdir", folder, str(ROOT))
        wheel = next(work.glob("*.whl"))
        names = zipfile.ZipFile(wheel).namelist()
        for package in PACKAGES:
            if f"sojourn/{package}/__init__.py" not in names:
                sys.exit(f"the wheel must hold sojourn/{package}, got {len(names)} files without it")
        if "sojourn/py.typed" not in names:
            sys.exit("the wheel must hold sojourn/py.typed, got none")
        check(work / "bare", wheel, "", BARE)
        every = "".join(f"import sojourn.{package}\n" for package in PACKAGES)
        check(work / "whole", wheel, "[pipeline]", every + "import sojourn.flows.cli, sojourn.flows.retrain\n")
    print(f"wheel: {', '.join(PACKAGES)} import from a clean environment")


def check(folder: Path, wheel: Path, extras: str, code: str) -> None:
    """Install the wheel with extras into a fresh environment and run code there, away from the sources."""
    venv.create(folder, with_pip=True)
    python = str(folder / "bin" / "python")
    constraints = str(ROOT / "constraints.txt")
    uv = Path(sys.executable).with_name("uv")
    tool = [str(uv), "pip", "install", "--python", python] if uv.exists() else [python, "-m", "pip", "install"]
    run(*tool, "-q", f"{wheel}{extras}", "-c", constraints)
    run(python, "-W", "error::ImportWarning", "-c", code, cwd=folder)


def run(*command: str, cwd: Path = ROOT) -> None:
    """Run a command; its failure ends the check."""
    subprocess.run(command, check=True, cwd=cwd)


if __name__ == "__main__":
    main()
