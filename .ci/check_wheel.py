"""Builds the wheel, installs it with each extra in a clean environment, and tries there what that extra is for."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import venv
import zipfile
from concurrent.futures import ThreadPoolExecutor
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
from sojourn.serving import Predictor, example_bundle
vm = Predictor.load(example_bundle()).admit({{"subscription": "s4", "cpu_cores": 2}}, now_s=time.time())
assert vm.remaining(3600) > vm.remaining(0) > 0
"""
FAST = "import sojourn.serving.kernel, numba"
SIMULATOR = "import sojourn.simulator"
WHOLE = "".join(f"import sojourn.{package}\n" for package in (*PACKAGES, "flows.cli", "flows.retrain.job"))
MAKE = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from made_bundles import make
make(Path("made"))
"""
REGISTER = """
import os
from pathlib import Path
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
Path("store").mkdir()
import mlflow
client = mlflow.MlflowClient(uri := f"sqlite:///{Path('store/mlflow.db').absolute()}", uri)
client.create_registered_model("made")
client.create_model_version("made", Path("made/once").absolute().as_uri())
client.set_registered_model_alias("made", "champion", "1")
"""


def main() -> None:
    """Exit with an error where the wheel lacks a package, or an extra lacks what its commands need."""
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
        with ThreadPoolExecutor(2) as workers:  # an installation waits for the disk and for packages
            tried = [workers.submit(installed, work / name, wheel, extras, code) for name, extras, code in (
                ("whole", "[pipeline]", WHOLE), ("bare", "", BARE), ("fast", "[fast]", FAST),
                ("simulator", "[simulator]", SIMULATOR), ("pull", "[pull,serve]", BARE), ("serve", "[serve]", BARE))]
            whole, bare, _, _, pull, served = (each.result() for each in tried)
        refused(bare, ("--help",), "sojourn needs typer", "'.[pull]'", "'.[pipeline]'")
        refused(bare, ("pull", "models:/made@champion", "served"), "sojourn pull needs typer", "'.[pull]'")
        refused(bare, ("retrain",), "sojourn retrain needs typer", "'.[pipeline]'")
        run(str(whole / "python"), "-c", MAKE, str(ROOT / "tests"), cwd=work)
        check_pull(pull, work)
        refused(bare, ("extender", "served"), "sojourn extender needs ", "'.[serve]'")
        serve(served, work)
    print(f"wheel: {', '.join(PACKAGES)} import from a clean environment, and each extra runs its commands")


def check_pull(programs: Path, work: Path) -> None:
    """The small extra of a scheduler's host: pull, predict, export-c and extender; what else says what it needs."""
    run(str(programs / "python"), "-c", REGISTER, cwd=work)
    sojourn = str(programs / "sojourn")
    for arguments in (("pull", "models:/made@champion", "served", "--store", "store"),
                      ("predict", "served", '{"cpu_cores": 2}', "--explain"), ("export-c", "served")):
        run(sojourn, *arguments, cwd=work)
    serve(programs, work)
    refused(programs, ("simulate",), "sojourn simulate needs ", "'.[pipeline]'")
    refused(programs, ("retrain", "--store", str(work / "other")), "sojourn retrain needs ", "'.[pipeline]'")
    refused(programs, ("trace", "describe", "."), "sojourn trace needs pandas", "'.[pipeline]'")


def installed(folder: Path, wheel: Path, extras: str, code: str) -> Path:
    """The programs of a fresh environment with the wheel and these extras, where the code ran away from the sources."""
    python = str(folder / "bin" / "python")
    constraints = str(ROOT / "constraints.txt")
    uv = Path(sys.executable).with_name("uv")
    venv.create(folder, with_pip=not uv.exists())
    tool = [str(uv), "pip", "install", "--python", python] if uv.exists() else [python, "-m", "pip", "install"]
    run(*tool, "-q", f"{wheel}{extras}", "-c", constraints)
    size = sum(file.stat().st_size for file in (folder / "lib").rglob("*") if file.is_file())
    print(f"environment of sojourn{extras}: {size / 2**20:,.0f} MiB", flush=True)
    run(python, "-W", "error::ImportWarning", "-c", code, cwd=folder)
    return folder / "bin"


def refused(programs: Path, arguments: tuple[str, ...], *expected: str) -> None:
    """The program says in one line what is missing, and ends with 2."""
    found = subprocess.run([programs / "sojourn", *arguments], capture_output=True, text=True, cwd=programs,
                           check=False)
    lines = found.stderr.splitlines()
    if found.returncode != 2 or len(lines) != 1 or not all(each in lines[0] for each in expected):
        sys.exit(f"sojourn {' '.join(arguments)} must end with 2 and one line with {expected}, "
                 f"got {found.returncode} and {found.stderr[-2000:]!r}")


def serve(programs: Path, work: Path) -> None:
    """The extender starts on the pulled bundle, and ends when it is told to."""
    command = [programs / "sojourn", "extender", "served", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=work) as program:
        assert program.stdout is not None
        line = program.stdout.readline()
        program.send_signal(signal.SIGTERM)
    if program.returncode or "extender on http://127.0.0.1:" not in line:
        sys.exit(f"sojourn extender must serve, got {program.returncode} and {line!r}")


def run(*command: str, cwd: Path = ROOT) -> None:
    """Run a command; its failure ends the check."""
    subprocess.run(command, check=True, cwd=cwd)


if __name__ == "__main__":
    main()
