"""Builds the wheel, installs it with each extra in a clean environment, and tries there what that extra is for.

No environment sees a compiler: its PATH is its own folder, and packages are installed as wheels only. Code that numba
compiles is kept in a folder of the check that is empty at first: each loop is compiled once, and read from there by the
other environments, but for `fast`, whose first answer is timed. The sizes that are printed are those of README.md.
"""

from __future__ import annotations

import os
import shutil
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
EXTENSION = "serving/native/compiled.abi3.so"
HEAVY = ("pandas", "lightgbm", "sksurv", "mlflow", "prefect", "numba")
BARE = f"""
import sys, time
started = time.perf_counter()
import sojourn.serving
print(f"import of sojourn.serving: {{time.perf_counter() - started:.2f}} s")
loaded = [name for name in {HEAVY!r} if name in sys.modules]
assert not loaded, f"sojourn.serving must not load {{loaded}}"
from sojourn.serving import Predictor, example_bundle
predictor = Predictor.load(example_bundle())
vm = predictor.admit({{"subscription": "s4", "cpu_cores": 2}}, now_s=time.time())
assert vm.remaining(3600) > vm.remaining(0) > 0
assert predictor.info()["walk"] == "leaf masks" and "numba" not in sys.modules, predictor.info()
print(f"first answer, nothing compiled before: {{time.perf_counter() - started:.2f}} s")
"""
COMPILERS = ("cc", "c++", "gcc", "g++", "clang", "tcc", "c99", "icx")
FAST = """
import time
from sojourn.serving import CurvePool, Predictor, example_bundle
started = time.perf_counter()
vm = Predictor.load(example_bundle()).admit({"subscription": "s4", "cpu_cores": 2}, now_s=time.time())
pool = CurvePool()
assert pool.remaining([pool.add(vm)], [3600.0])[0] == vm.remaining(3600)
print(f"first answer of a pool with numba, nothing compiled before: {time.perf_counter() - started:.1f} s")
"""
SIMULATOR = f"""
from sojourn.features.readers import read_trace
import sojourn.simulator as sim
trace, _ = read_trace("swf", {str(ROOT / "examples" / "nasa-ipsc-1993.swf.gz")!r})
workload = sim.build_workload("trace", trace, cpu_cores=24.0, mem_gib=96.0)
assert len(sim.compare(workload, [("nilas", "oracle", sim.Oracle(workload))]).table) == 2
"""
NOT_PROMOTED = 3
"""The exit code of a retrain whose version passed no gate: without a replay none can."""
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
        for name in ("py.typed", EXTENSION):
            if f"sojourn/{name}" not in names:
                sys.exit(f"the wheel must hold sojourn/{name}, got none")
        if "-cp311-abi3-" not in wheel.name:
            sys.exit(f"one wheel must do for all versions of CPython, got {wheel.name}")
        with ThreadPoolExecutor(2) as workers:  # an installation waits for the disk and for packages
            tried = [workers.submit(installed, work / name, wheel, extras, code) for name, extras, code in (
                ("whole", "[pipeline]", WHOLE), ("bare", "", BARE), ("fast", "[fast]", FAST),
                ("simulator", "[simulator]", SIMULATOR), ("pull", "[pull,serve]", BARE), ("serve", "[serve]", BARE),
                ("pull-alone", "[pull]", BARE))]
            whole, bare, _, _, pull, served, _ = (each.result() for each in tried)
        refused(bare, (), "sojourn needs typer", "'.[pull]'", "'.[pipeline]'")
        refused(bare, ("model", "pull", "models:/made@champion", "served"), "sojourn model pull needs typer",
                "'.[pull]'")
        refused(bare, ("train",), "sojourn train needs typer", "'.[pipeline]'")
        run(str(whole / "python"), "-c", MAKE, str(ROOT / "tests"), cwd=work)
        check_pull(pull, work)
        refused(bare, ("serve", "extender", "served"), "sojourn serve extender needs ", "'.[serve]'")
        serve(served, work)
        check_pipeline(whole, work)
    print(f"wheel: {', '.join(PACKAGES)} import from a clean environment, and each extra runs its commands "
          "without a compiler")


def check_pull(programs: Path, work: Path) -> None:
    """The small extra of a scheduler's host: pull, predict, export-c and extender; what else says what it needs."""
    run(str(programs / "python"), "-c", REGISTER, cwd=work)
    sojourn = str(programs / "sojourn")
    for arguments in (("model", "pull", "models:/made@champion", "served", "--store", "store"),
                      ("model", "predict", "served", '{"cpu_cores": 2}', "--explain"), ("model", "export-c", "served")):
        run(sojourn, *arguments, cwd=work)
    serve(programs, work)
    refused(programs, ("gain",), "sojourn gain needs ", "'.[pipeline]'")
    refused(programs, ("train", "--store", str(work / "other")), "sojourn train needs ", "'.[pipeline]'")
    refused(programs, ("trace", "describe", "."), "sojourn trace needs pandas", "'.[pipeline]'")


def check_pipeline(programs: Path, work: Path) -> None:
    """The whole extra: a trace is read and replayed, and a model is learnt from another one."""
    log = str(ROOT / "examples" / "nasa-ipsc-1993.swf.gz")
    sojourn = str(programs / "sojourn")
    run(sojourn, "trace", "describe", log, "--reader", "swf", cwd=work)
    run(sojourn, "gain", log, "--policy", "nilas", cwd=work)
    run(sojourn, "train", "--n-requests", "2000", "--no-simulate", "--store", "store-of-retrain", cwd=work,
        codes=(NOT_PROMOTED,))


def installed(folder: Path, wheel: Path, extras: str, code: str) -> Path:
    """The programs of a fresh environment with the wheel and these extras, where the code ran away from the sources."""
    python = str(folder / "bin" / "python")
    constraints = str(ROOT / "constraints.txt")
    uv = Path(sys.executable).with_name("uv")
    venv.create(folder, with_pip=not uv.exists())
    tool = [str(uv), "pip", "install", "--python", python] if uv.exists() else [python, "-m", "pip", "install"]
    own_mib = size_mib(folder)  # pip itself, and what comes with it
    byte_code = ["--compile-bytecode"] if uv.exists() else []  # as pip leaves it
    run(*tool, *byte_code, "-q", "--only-binary", ":all:", f"{wheel}{extras}", "-c", constraints)
    programs = folder / "bin"
    if found := [name for name in COMPILERS if shutil.which(name, path=str(programs))]:
        sys.exit(f"the environment of sojourn{extras} must have no compiler, got {', '.join(found)}")
    print(f"site-packages of sojourn{extras}: {size_mib(folder) - own_mib:,.0f} MiB", flush=True)
    run(python, "-W", "error::ImportWarning", "-c", code, cwd=folder)
    return programs


def size_mib(folder: Path) -> float:
    """Sizes of the files of site-packages, byte code too; links are not followed."""
    files = (path for site in (folder / "lib").glob("python*/site-packages") for path in site.rglob("*"))
    return sum(path.stat().st_size for path in files if path.is_file() and not path.is_symlink()) / 2**20


def surroundings(programs: Path) -> dict[str, str]:
    """The variables of a user whose PATH holds an environment's programs alone: no compiler."""
    ours = {name: value for name, value in os.environ.items() if name not in ("CC", "CXX", "PYTHONPATH")}
    environment = programs.parent
    kept = (environment if environment.name == "fast" else environment.parent) / "compiled"
    return {**ours, "PATH": str(programs), "NUMBA_CACHE_DIR": str(kept)}


def refused(programs: Path, arguments: tuple[str, ...], *expected: str) -> None:
    """The program says in one line what is missing, and ends with 2."""
    found = subprocess.run([programs / "sojourn", *arguments], capture_output=True, text=True, cwd=programs,
                           env=surroundings(programs), check=False)
    lines = found.stderr.splitlines()
    if found.returncode != 2 or len(lines) != 1 or not all(each in lines[0] for each in expected):
        sys.exit(f"sojourn {' '.join(arguments)} must end with 2 and one line with {expected}, "
                 f"got {found.returncode} and {found.stderr[-2000:]!r}")


def serve(programs: Path, work: Path) -> None:
    """The extender starts on the pulled bundle, and ends when it is told to."""
    command = [str(programs / "sojourn"), "serve", "extender", "served", "--port", "0", "--epoch-s", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=work, env=surroundings(programs)) as program:
        assert program.stdout is not None
        line = program.stdout.readline()
        program.send_signal(signal.SIGTERM)
    if program.returncode or "extender on http://127.0.0.1:" not in line:
        sys.exit(f"sojourn serve extender must serve, got {program.returncode} and {line!r}")


def run(*command: str, cwd: Path = ROOT, codes: tuple[int, ...] = (0,)) -> None:
    """Run a command; another exit code than these ends the check. A program of an environment sees no compiler."""
    programs = Path(command[0]).parent
    is_ours = cwd != ROOT
    done = subprocess.run(command, check=False, cwd=cwd, env=surroundings(programs) if is_ours else None)
    if done.returncode not in codes:
        sys.exit(f"{' '.join(command)[:200]} must end with {codes}, got {done.returncode}")


if __name__ == "__main__":
    main()
