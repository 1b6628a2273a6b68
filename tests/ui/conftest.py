"""What a person opens in a browser: two versions in MLflow, their runs in Prefect, and Chromium to look at them."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from playwright.sync_api import Browser, sync_playwright

from sojourn.flows.commands.options import CHALLENGER
from watched_pages import Team, Watched


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """The system's Chromium, headless. While it is open an event loop runs in this thread: no longer than one file."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("there is no Chromium here: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture()
def watched(chromium: Browser) -> Iterator[Watched]:
    """A new page. At the end nothing may have gone wrong on it, and nothing may have been asked of another host."""
    context = chromium.new_context(viewport={"width": 1280, "height": 1000})
    context.set_default_timeout(120_000)
    watched = Watched(context.new_page())
    yield watched
    context.close()
    assert watched.problems == []
    assert watched.hosts <= {"127.0.0.1", ""}


@pytest.fixture(scope="session")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    """Two retrains on the traces of two weeks, by the command line, against one Prefect server."""
    folder = tmp_path_factory.mktemp("team")
    with _prefect(folder) as url:
        for seed in (0, 1):
            _sojourn("train", "--store", str(folder / "store"), "--n-requests", "3000", "--seed", str(seed),
                     PREFECT_API_URL=url, SOJOURN_N_REPLICAS="2", SOJOURN_MAX_REPLICAS="2", SOJOURN_N_THREADS="1",
                     SOJOURN_FAMILIES='["hazard"]')
        yield Team(folder / "store", url.removesuffix("/api"))


@pytest.fixture(scope="session")
def mlflow_url(team: Team) -> Iterator[str]:
    """MLflow's pages, as `sojourn store ui` opens them."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with _served(["store", "ui", "--store", str(team.store), "--port", str(port)], f"{url}/health"):
        yield url


@pytest.fixture(scope="session")
def sojourn() -> Callable[..., str]:
    """Runs a command; returns what it prints."""
    return _sojourn


def _sojourn(*arguments: str, **environment: str) -> str:
    done = subprocess.run([sys.executable, "-c", _code(arguments)], env={**os.environ, **environment},
                          capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode in (0, CHALLENGER), done.stderr
    return done.stdout


def _code(arguments: Sequence[str]) -> str:
    return f"import sys; sys.argv = {['sojourn', *arguments]!r}; from sojourn.flows.entry import main; main()"


@contextmanager
def _prefect(folder: Path) -> Iterator[str]:
    """A server with pages, in a process of its own: Playwright's loop runs in this one, which Prefect would use."""
    code = ("import sys; from pathlib import Path; from sojourn.flows.workers.prefect import prefect_server\n"
            "with prefect_server(Path(sys.argv[1]), is_scheduling=True) as url:\n"
            "    print(url, flush=True)\n    sys.stdin.read()\n")
    with subprocess.Popen([sys.executable, "-c", code, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.communicate(timeout=60)


@contextmanager
def _served(arguments: Sequence[str], url: str) -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-c", _code(arguments)], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        limit_s = time.monotonic() + 200
        while not _answers(url):
            assert process.poll() is None, "the server ended"
            assert time.monotonic() < limit_s, f"no answer at {url}"
            time.sleep(0.2)
        yield
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(30)


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=5):
            return True
    except (URLError, OSError):
        return False
