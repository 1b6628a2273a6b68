"""Runs `sojourn` commands in processes forked from one that has imported everything: a try takes seconds, not half
a minute.

One Prefect server serves all of them; that a run's own server ends with it is a row of its own, with real commands.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from benchmarks.faults.injection import Action, Events

_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER: what a killed run leaves behind becomes this process's child
_NEW_HOST = 0x04000000  # CLONE_NEWUTS: a host name of its own
_SERVER_WITHIN_S = 300.0
Command = Sequence[str] | Callable[[], object]
"""The arguments of `sojourn`, or a function that is called instead."""
LIMIT_S = 900.0
"""A run that takes longer hangs."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended: its exit code, or minus the signal; what it printed; and how long it took."""

    code: int
    printed: str
    seconds: float

    @property
    def last_line(self) -> str:
        """The last line that it printed, where an error stands."""
        lines = [line for line in self.printed.splitlines() if line.strip()]
        return lines[-1][:200] if lines else ""


class Started:
    """A process under way."""

    def __init__(self, pid: int, output: Path) -> None:
        self.pid, self._output, self._since = pid, output, time.monotonic()

    def printed(self) -> str:
        """What it has printed so far."""
        return self._output.read_text(errors="replace") if self._output.exists() else ""

    def wait_until_stopped(self) -> bool:
        """True once the process is halted by SIGSTOP; False where it ended before."""
        return os.WIFSTOPPED(self._wait(os.WUNTRACED))

    def ends_within(self, seconds: float) -> bool:
        """True once the process has ended; False after so many seconds. It is still to be waited for."""
        deadline = time.monotonic() + seconds
        while os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.05)
        return True

    def go_on(self) -> None:
        """Let a halted process run again."""
        os.kill(self.pid, signal.SIGCONT)

    def wait(self) -> Ended:
        """Wait for its end; after LIMIT_S it is killed."""
        code = os.waitstatus_to_exitcode(self._wait(0))
        return Ended(code, self._output.read_text(errors="replace"), time.monotonic() - self._since)

    def _wait(self, options: int) -> int:
        while True:
            pid, status = os.waitpid(self.pid, options | os.WNOHANG)
            if pid:
                return status
            if time.monotonic() - self._since > LIMIT_S:
                os.kill(self.pid, signal.SIGKILL)
            time.sleep(0.02)


class Launcher:
    """Starts commands, each in a process of its own; `folder` holds what they print.

    spared: pids that are no run's leftovers while they are here.
    """

    def __init__(self, folder: Path, server: Server) -> None:
        self._folder, self._server, self._n = folder, server, 0
        self.spared = {server.pid}

    def restart_server(self, away_s: float) -> None:
        """Kill Prefect's server; after so many seconds it is started at the same address, and is waited for."""
        self.spared.discard(self._server.pid)
        self._server.kill()
        time.sleep(away_s)
        self._server.start()
        self.spared.add(self._server.pid)
        self._server.wait_ready()

    def start(self, arguments: Command, store: Path, at: int | str = 0, action: Action | None = None,
              log: Path | None = None, *, is_promoting: bool = True, host: str | None = None) -> Started:
        """Begin `sojourn ARGUMENTS`, or a function; before its event number `at` under the store, or the first one
        that holds that text, `action` is called.

        is_promoting: every gate holds, else none does, whatever luck a tiny trace has. host: the name of the host that
        the process is on, which takes root's rights; default: this one's.
        """
        def command() -> None:
            if host is not None:
                _move_to(host)
            Events(store, at, action, log).install()
            _decide_gates(is_promoting)
            if callable(arguments):
                arguments()
                return
            from sojourn.flows.cli import app
            from sojourn.flows.commands.options import ALARM, CHALLENGER

            try:
                app(list(arguments))
            except SystemExit as end:
                if end.code not in (CHALLENGER, ALARM):  # runs that are whole
                    raise

        return self.call(command)

    def run(self, arguments: Command, store: Path, at: int | str = 0, action: Action | None = None,
            log: Path | None = None, *, is_promoting: bool = True) -> Ended:
        """`start` and wait."""
        return self.start(arguments, store, at, action, log, is_promoting=is_promoting).wait()

    def call(self, function: Callable[[], object]) -> Started:
        """Begin a function in a process of its own; what it raises is printed, and its exit code is 1."""
        self._n += 1
        output = self._folder / f"{self._n}.txt"
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                os.dup2(file, 1)
                os.dup2(file, 2)
                os.setsid()
                function()
                code = 0
            except SystemExit as error:
                code = error.code if isinstance(error.code, int) else int(error.code is not None)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        return Started(pid, output)

    def left_behind(self, within_s: float = 10.0) -> list[str]:
        """The command lines of processes that runs left behind and that still live after `within_s`; ends them."""
        deadline = time.monotonic() + within_s
        while living := [child for child in psutil.Process().children()
                         if child.pid not in self.spared and _lives(child)]:
            if time.monotonic() > deadline:
                break
            time.sleep(0.1)
        found = [" ".join(child.cmdline())[:120] for child in living]
        for child in living:
            child.kill()
        return found


def _lives(child: psutil.Process) -> bool:
    try:
        if child.status() == psutil.STATUS_ZOMBIE:
            child.wait(0)
            return False
        return child.is_running()
    except psutil.Error:
        return False


def _decide_gates(is_every_passed: bool) -> None:
    """Every gate holds, or none does: a sweep passes through a promotion each time, and what follows passes it by.

    Not so the gate that a person decided, which is about no figure.
    """
    from sojourn.flows.retrain.verdict import Gate, Reason

    made = Gate.__init__

    def passed(self: Gate, name: str, is_passed: bool, finding: str, reason: Reason = Reason.OTHER) -> None:
        made(self, name, is_passed if name == "not rolled back" else is_every_passed, finding, reason)

    Gate.__init__ = passed  # type: ignore[method-assign]


@contextmanager
def launcher(folder: Path) -> Iterator[Launcher]:
    """A launcher with everything imported and a Prefect server that answers."""
    for name in [name for name in os.environ if name.startswith(("SOJOURN_", "PREFECT_", "MLFLOW_"))]:
        del os.environ[name]  # a developer's own server is no place for these runs
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    os.environ["PREFECT_HOME"] = str(folder / "prefect")
    os.environ["OMP_NUM_THREADS"] = "1"
    from sojourn.flows import be_quiet

    be_quiet()
    server = Server(folder)
    try:
        os.environ["PREFECT_API_URL"] = server.url
        server.start()
        _import_everything()
        server.wait_ready()
        (folder / "printed").mkdir()
        yield Launcher(folder / "printed", server)
    finally:
        server.kill()


class Server:
    """A Prefect server that may be killed and started again at the same address."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as door:
            self._port = door.getsockname()[1]
        self._log = folder / "prefect-server.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address of its API."""
        return f"http://127.0.0.1:{self._port}/api"

    @property
    def pid(self) -> int:
        """Its process; 0 = none."""
        return 0 if self._process is None else self._process.pid

    def start(self) -> None:
        """Begin to start it."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "uvicorn", "--factory", "prefect.server.api.server:create_app", "--port",
                 str(self._port), "--log-level", "error"], start_new_session=True, stdout=log, stderr=log)

    def wait_ready(self) -> None:
        """Wait until it answers."""
        _await(f"{self.url}/health")

    def kill(self) -> None:
        """End it with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def _move_to(host: str) -> None:
    """This process is on a host of that name from now on; no other process is."""
    if ctypes.CDLL(None, use_errno=True).unshare(_NEW_HOST) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    socket.sethostname(host)


def _import_everything() -> None:
    import lightgbm  # noqa: F401
    import matplotlib.pyplot  # noqa: F401
    import mlflow.store.model_registry.sqlalchemy_store
    import mlflow.store.tracking.sqlalchemy_store  # noqa: F401
    import optuna  # noqa: F401
    import sklearn  # noqa: F401

    import sojourn.flows.cli
    import sojourn.flows.retrain.job
    import sojourn.models.lifetime
    import sojourn.simulator.admission  # noqa: F401


def _await(url: str) -> None:
    deadline = time.monotonic() + _SERVER_WITHIN_S
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
