"""What Prefect's server said is told where it does not start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sojourn.flows.outside.prefect_server import _await


@pytest.mark.parametrize(("logged", "told"), [
    ("Traceback\n  File x\nsqlite3.OperationalError: attempt to write a readonly database\n\nIt ends.\n",
     ": sqlite3.OperationalError: attempt to write a readonly database; it logs to"),
    ("no room at postgresql://me:s3cret@host/db\n", ": no room at postgresql://host/db; it logs to"),
    ("", "code -6; it logs to"),
])  # fmt: skip
def test_a_server_that_does_not_start_is_quoted(logged: str, told: str, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("ValueError: of an earlier server\n")
    n_logged = log.stat().st_size
    with log.open("a") as stream:
        process = subprocess.Popen([sys.executable, "-c", f"import os, sys; sys.stderr.write({logged!r}); "
                                                          "sys.stderr.flush(); os.abort()"],
                                   stdout=subprocess.PIPE, stderr=stream)
    with process, pytest.raises(RuntimeError, match="Prefect's server must start, got its end with code -6") as raised:
        _await(process, log, n_logged)
    assert told in str(raised.value)
    assert "earlier" not in str(raised.value) and "s3cret" not in str(raised.value)
