"""Hypothesis draws the same examples on every run; `make fuzz` draws new ones and prints a find as an `@example`."""

from __future__ import annotations

import fcntl
import gc
import hashlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from found_examples import example_lines
from sojourn.kept_kernels import cache_folder, environment, keep
from sojourn.simulator.jit import is_kernel

FOUND = "hypothesis find"
LONGEST = ("test_bad_traces.py", "test_contributing.py", "test_engine_twin.py", "test_faults.py", "test_full_twin.py",
           "test_inflation.py", "test_pool_twin.py", "test_remote_server.py", "test_schedule.py", "test_team_pages.py",
           "test_work_pool.py")
"""Files of slow tests that begin first: the last one that a process takes is a short one."""
FUZZ_UNTIL = "FUZZ_UNTIL_S"
"""The second of the epoch after which no test of the fuzz begins."""
_CLOCK_FREE = {"deadline": None, "database": None, "print_blob": True,
               "suppress_health_check": [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]}
settings.register_profile("fixed", derandomize=True, **_CLOCK_FREE)  # type: ignore[arg-type]
# said in full: where a variable says that this is CI, Hypothesis' own default is derandomised, and a seed is ignored
settings.register_profile("fuzz", derandomize=False, **_CLOCK_FREE)  # type: ignore[arg-type]
settings.load_profile("fixed")


def pytest_configure() -> None:
    folder = cache_folder()
    if folder is not None and folder.name == "sojourn":  # programs with a home of their own need not compile again
        os.environ.setdefault("NUMBA_CACHE_DIR", str(folder.parent))
    if settings.get_current_profile_name() == "fixed":
        # Hypothesis also draws constants of the modules that are loaded, which depends on the tests that ran before.
        nothing = Constants()
        providers._get_local_constants = lambda: nothing


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if settings.get_current_profile_name() == "fuzz":  # in the seed's order: a short budget meets others each time
        seed = config.getoption("--hypothesis-seed")
        items.sort(key=lambda item: hashlib.sha256(f"{seed} {item.path.name}".encode()).digest())
    elif config.getoption("markexpr") == "slow":
        items.sort(key=lambda item: item.path.name not in LONGEST)


def pytest_collection_finish() -> None:
    """Scorers and hooks that tests call alone are kept on disk too: else each run compiles them for half a minute."""
    root, digest = Path(__file__).parents[1], hashlib.sha256(environment().encode())
    for file in sorted(file for part in ("simulator", "studies") for file in (root / part).rglob("*.py")):
        digest.update(file.read_bytes())
    for name, module in list(sys.modules.items()):
        if name.startswith(("sojourn.simulator.policies.", "studies.policies.")):
            for each in vars(module).values():
                if is_kernel(each) and each.py_func.__module__ == name:
                    keep(each, each.py_func, None if name.startswith("sojourn.") else digest.hexdigest()[:16])
    # what is there now stays until the end: to look through it for garbage again and again took a quarter of the time
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if settings.get_current_profile_name() == "fuzz" and time.time() > float(os.environ.get(FUZZ_UNTIL, "inf")):
        pytest.skip("the fuzz's time is over")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Slow tests wait for servers and schedules: one process more than there are cores."""
    return (os.cpu_count() or 1) + 1 if config.getoption("markexpr") == "slow" else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    report = yield
    if call.excinfo is not None and settings.get_current_profile_name() == "fuzz":
        report.user_properties.extend((FOUND, text) for text in example_lines(call.excinfo.value, item.nodeid))
    return report


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    found = [text for report in terminalreporter.stats.get("failed", ()) for name, text in report.user_properties
             if name == FOUND]
    if found:
        seed = config.getoption("--hypothesis-seed")
        terminalreporter.section(f"examples to add, found with --hypothesis-seed={seed}")
        for text in found:
            terminalreporter.write_line(text)


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An MLflow database as a first run makes it, which takes 8 s: the first process that asks makes it for all."""
    from sojourn.flows.tracking.databases import ready_database

    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "empty_database"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "ready").exists():
            ready_database(folder / "mlflow.db", folder / "artifacts")
            (folder / "ready").touch()
    return folder / "mlflow.db"


@pytest.fixture(scope="session")
def new_store(empty_database: Path) -> Callable[[Path], Path]:
    """Makes a folder a store with an empty database; returns the folder."""

    def make(folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(empty_database, folder / "mlflow.db")
        return folder

    return make
