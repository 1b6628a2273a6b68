"""What a command reports in one line with exit code 2, and what it leaves to a programmer."""

from __future__ import annotations

import pytest
import typer
from mlflow.exceptions import MlflowException
from sqlalchemy.exc import OperationalError

from sojourn.flows.command_options import DEBUG, plain_errors
from sojourn.serving import BundleError

URI = "postgresql://me:s3cret@host/db"


@plain_errors
def command(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(("error", "line"), [
    (ValueError("load must be above 0, got -1"), "load must be above 0, got -1"),
    (OSError(28, "No space left on device"), "[Errno 28] No space left on device"),
    (BundleError("schema.json must be JSON"), "schema.json must be JSON"),
    (RuntimeError("Prefect's server must start"), "Prefect's server must start"),
    (RuntimeError(), "RuntimeError"),
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
