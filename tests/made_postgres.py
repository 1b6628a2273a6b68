"""A real PostgreSQL server from the system's packages, on a loopback port, in a folder of its own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

PASSWORD = "p0stgres/w@rd?x"
USER = "sojourn"
_ACCOUNTS = ("postgres", "nobody")
"""Accounts to run the server as where this process is root's: it refuses to run as root."""


def postgres_folder() -> Path | None:
    """The folder of PostgreSQL's programs, the newest; None where there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else None if on_path is None else Path(on_path).resolve().parent


@dataclass(frozen=True, slots=True)
class PostgresServer:
    """A server. account: who runs it, None = this process's own."""

    programs: Path
    folder: Path
    port: int
    account: str | None

    def start(self) -> None:
        """Start, and wait until it answers."""
        self._run("pg_ctl", "-D", str(self.folder / "data"), "-l", str(self.folder / "log"), "-w", "-t", "120",
                  "-o", f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self.folder} "
                        "-c fsync=off -c max_connections=60 -c shared_buffers=32MB", "start")

    def stop(self) -> None:
        """Stop at once: connections are cut."""
        self._run("pg_ctl", "-D", str(self.folder / "data"), "-w", "-t", "120", "-m", "immediate", "stop")

    def new_database(self, name: str) -> str:
        """Make an empty database; returns its URI for psycopg 3, with user and password."""
        self._run("createdb", "-h", str(self.folder), "-p", str(self.port), "-U", USER, name)
        return f"postgresql+psycopg://{USER}:{quote(PASSWORD, safe='')}@127.0.0.1:{self.port}/{name}"

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run([str(self.programs / program), *arguments], cwd=self.folder, user=self.account,
                              group=None if self.account is None else _group(self.account),
                              extra_groups=None if self.account is None else [],
                              env={**os.environ, "PGPASSWORD": PASSWORD, "LC_ALL": "C"}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            log = self.folder / "log"
            raise RuntimeError(f"{program} must succeed, got {done.stderr[-500:]} "
                               f"{log.read_text()[-500:] if log.is_file() else ''}")


def _group(account: str) -> int:
    import pwd

    return pwd.getpwnam(account).pw_gid


def _account() -> str | None:
    import pwd

    known = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in _ACCOUNTS if name in known) if os.geteuid() == 0 else None


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """A started server that asks for a password; RuntimeError where there is none, or it does not start."""
    programs = postgres_folder()
    if programs is None:
        raise RuntimeError("PostgreSQL's initdb must be installed, got none in /usr/lib/postgresql or on PATH")
    with tempfile.TemporaryDirectory(prefix="postgres-") as name, socket.create_server(("127.0.0.1", 0)) as door:
        server = PostgresServer(programs, Path(name), int(door.getsockname()[1]), _account())
        door.close()
        if server.account is not None:
            shutil.chown(name, server.account)
        word = Path(name) / "word"
        word.write_text(PASSWORD)
        server._run("initdb", "-D", str(Path(name) / "data"), "-U", USER, "-A", "scram-sha-256", "--pwfile", str(word),
                    "-E", "UTF8", "-N")
        word.unlink()
        server.start()
        try:
            yield server
        finally:
            server.stop()
