"""`sojourn trace fetch`: the list, a fetch from a publisher on this machine, and what it says of bad input."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from typer.testing import CliRunner

from made_server import publishing
from sojourn.features import fetch
from sojourn.flows.cli import app


def _run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["trace", "fetch", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def test_list() -> None:
    code, out, _ = _run("--list")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == list(fetch.TRACES)


def test_fetch_then_describe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with publishing() as publisher:
        publisher.body = gzip.compress(b"1 0 5 60 4 -1 -1 4 600 -1 1 1 1 -1 1 1 -1 -1\n")
        trace = fetch.PublicTrace((fetch.RemoteFile("log.swf.gz", publisher.url),), "swf", "free", "small")
        monkeypatch.setattr(fetch, "TRACES", {"log": trace})
        code, out, _ = _run("log", "--folder", tmp_path)
    path = tmp_path / "log" / "log.swf.gz"
    assert code == 0 and path.is_file()
    assert out.splitlines()[-3:] == ["licence  free", "note     small",
                                     f"next     sojourn trace describe {path} --reader swf"]
    assert CliRunner().invoke(app, ["trace", "describe", str(path), "--reader", "swf"]).exit_code == 0


def test_bad_input_ends_with_one_line() -> None:
    code, _, err = _run("borg")
    assert code == 2 and err.startswith("error: trace must be one of") and err.endswith("got 'borg'\n")
    code, _, err = _run()
    assert code == 2 and err == "error: NAME must be given, got none (--list shows the known traces)\n"
