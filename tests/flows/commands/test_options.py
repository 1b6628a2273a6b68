"""What a command reports in one line with exit code 2, and what it leaves to a programmer."""

from __future__ import annotations

import errno
import os
import pwd
import subprocess
import sys
from enum import Enum, StrEnum
from pathlib import Path, PosixPath

import numpy as np
import pytest
import typer
from mlflow.exceptions import MlflowException
from sqlalchemy.exc import OperationalError

from sojourn.flows.commands.options import DEBUG, plain_errors
from sojourn.flows.process import CLOSED_OUTPUT
from sojourn.serving import BundleError

URI = "postgresql://me:s3cret@host/db"


class Kind(StrEnum):
    SWF = "swf"


class Code(Enum):
    ONE = 1


@plain_errors
def command(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(("error", "line"), [
    (ValueError("load must be above 0, got -1"), "load must be above 0, got -1"),
    (OSError(28, "No space left on device"), "[Errno 28] No space left on device"),
    (BundleError("schema.json must be JSON"), "schema.json must be JSON"),
    (RuntimeError("Prefect's server must start"), "Prefect's server must start"),
    (RuntimeError(), "RuntimeError"),
    (ValueError(f"trace must be a file, got {PosixPath('a (1).swf')!r}"), "trace must be a file, got 'a (1).swf'"),
    (ValueError(f"kind must be one, got {Kind.SWF!r} of {Code.ONE!r}"), "kind must be one, got 'swf' of 1"),
    (ValueError(f"n must be 5, got {np.int64(4)!r} of {np.float64(0.5)!r}"), "n must be 5, got 4 of 0.5"),
    (MlflowException(f"no answer at {URI}\nsecond line"), "no answer at postgresql://host/db"),
    (OperationalError("SELECT 1", {}, OSError("database is locked")), "(builtins.OSError) database is locked"),
])  # fmt: skip
def test_it_is_one_line_and_with_debug_its_traceback(
        error: Exception, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv(DEBUG, raising=False)
    with pytest.raises(typer.Exit) as raised:
        command(error)
    assert raised.value.exit_code == 2
    assert capsys.readouterr().err == f"error: {line}\n"
    monkeypatch.setenv(DEBUG, "1")
    with pytest.raises(typer.Exit):
        command(error)
    err = capsys.readouterr().err
    assert err.startswith("Traceback (most recent call last):")
    assert err.endswith(f"error: {line}\n")
    assert "s3cret" not in err


@plain_errors
def writing(error: Exception, **given: Path | None) -> None:
    raise error


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EFBIG, errno.EDQUOT])
@pytest.mark.parametrize(("given", "named"), [
    ({"store": Path("made"), "trace": Path("a.swf")}, "store 'made'"),
    ({"store": None, "config": None}, "store '.sojourn'"),
    ({"store": None, "page": Path("a.html")}, "store '.sojourn' or page 'a.html'"),
    ({"out": Path("plan.csv")}, "out 'plan.csv'"),
])
def test_a_full_disk_names_what_is_written(number: int, given: dict[str, Path | None], named: str,
                                           capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOJOURN_STORE", raising=False)
    words = os.strerror(number)
    with pytest.raises(typer.Exit):
        writing(OSError(number, words), **given)
    assert capsys.readouterr().err == f"error: [Errno {number}] {words}: {named}\n"
    with pytest.raises(typer.Exit):
        writing(OSError(number, words, "a.json"), **given)
    assert capsys.readouterr().err == f"error: [Errno {number}] {words}: 'a.json'\n"


def test_a_full_disk_names_the_store_of_the_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOJOURN_STORE", raising=False)
    config = tmp_path / "settings.toml"
    config.write_text('store = "kept"\n')
    full = OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(typer.Exit):
        writing(full, store=None, config=config)
    assert capsys.readouterr().err.endswith("device: store 'kept'\n")
    monkeypatch.setenv("SOJOURN_STORE", "elsewhere")
    with pytest.raises(typer.Exit):
        writing(full, store=None, config=config)
    assert capsys.readouterr().err.endswith("device: store 'elsewhere'\n")


@pytest.mark.parametrize("error", [KeyError("cpu"), TypeError("x"), AssertionError(), NotImplementedError("later"),
                                   RecursionError(), IndexError()])
def test_a_programming_error_passes_as_it_is(error: Exception) -> None:
    with pytest.raises(type(error)) as raised:
        command(error)
    assert raised.value is error


def test_an_exit_passes_as_it_is() -> None:
    with pytest.raises(typer.Exit) as raised:
        command(typer.Exit(1))
    assert raised.value.exit_code == 1


@pytest.mark.parametrize("arguments", [("trace", "describe", "small.swf", "--reader", "swf"),
                                       ("trace", "fetch", "--list")])
def test_a_closed_output_ends_a_command_quietly(arguments: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "small.swf").write_text("1 10 5 60 4 -1 -1 4 600 -1 1 3 1 -1 1 1 -1 -1\n")
    reading, writing = os.pipe()
    os.close(reading)
    found = subprocess.run([sys.executable, "-c", "from sojourn.flows.entry import main; main()", *arguments],
                           cwd=tmp_path, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (found.returncode, found.stderr) == (CLOSED_OUTPUT, "")


def test_an_error_of_another_pipe_is_one() -> None:
    with pytest.raises(typer.Exit) as raised:
        command(BrokenPipeError(32, "Broken pipe"))
    assert raised.value.exit_code == 2


def test_an_error_of_permissions_says_whose_files_a_store_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                                capsys: pytest.CaptureFixture[str]) -> None:
    owner = os.geteuid()
    (tmp_path / "prefect").mkdir()

    @plain_errors
    def fails(error: Exception, store: Path | None = None) -> None:
        raise error

    def said(error: Exception) -> str:
        with pytest.raises(typer.Exit):
            fails(error, store=tmp_path)
        return capsys.readouterr().err.strip()

    denied = PermissionError(errno.EACCES, "Permission denied", str(tmp_path / ".sojourn-probe-1"))
    assert said(denied).endswith(".sojourn-probe-1'")  # all files are this user's
    monkeypatch.setattr(os, "geteuid", lambda: 987_654)
    me = pwd.getpwuid(owner).pw_name
    words = f"; {str(tmp_path)!r} belongs to {me}, and this runs as user 987654: run it as one user alone"
    assert words in said(denied)
    assert words in said(RuntimeError("Prefect's server must start, got its end with code -6"))
    assert words in said(OSError("x must be opened, got attempt to write a readonly database"))
    assert "belongs to" not in said(ValueError("load must be above 0, got -1"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)  # root may write to all
    assert "belongs to" not in said(denied)
