"""A password in the tracking URI shows nowhere: not in settings, logs, errors or tracebacks."""

from __future__ import annotations

import logging
import traceback
from pathlib import Path

import pytest
import typer

from sojourn.flows.commands.options import plain_errors
from sojourn.flows.commands.variables import DEBUG
from sojourn.flows.compare.compare_config import CompareConfig
from sojourn.flows.config import RetrainConfig, load_config
from sojourn.flows.outside.tracking import Tracker
from sojourn.flows.outside.tracking_client import TrackingError, answering
from sojourn.flows.tracking_uri import TrackingUri, without_secrets

SECRET = "s3cr%40t-word"
DECODED = "s3cr@t-word"
URIS = (
    f"http://me:{SECRET}@127.0.0.1:9", f"http://{SECRET}@127.0.0.1:9/path", f"http://127.0.0.1:9?token={SECRET}",
    f"postgresql://me:{SECRET}@127.0.0.1:9/mlflow", f"postgresql://127.0.0.1:9/mlflow?user=me&password={SECRET}",
    f"http://me:{DECODED}@127.0.0.1:9", f"http://me:with/slash{DECODED}@127.0.0.1:9",
)  # fmt: skip


def _has_secret(text: str) -> bool:
    return SECRET in text or DECODED in text or "t-word" in text


@pytest.mark.parametrize("uri", URIS)
def test_settings_show_the_host_and_no_secret(uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "run.toml"
    file.write_text(f'tracking_uri = "{uri}"\n')
    monkeypatch.setenv("SOJOURN_TRACKING_URI", uri)
    for config in (load_config(file), load_config(), RetrainConfig(tracking_uri=TrackingUri(uri))):
        assert config.mlflow_uri.plain == uri
        shown = [repr(config), str(config), config.model_dump_json(), str(config.model_dump()), str(config.resolved()),
                 f"{config.mlflow_uri}", repr(config.mlflow_uri)]
        assert not any(map(_has_secret, shown))
        assert all("127.0.0.1:9" in text for text in shown)


def test_workers_of_a_comparison_are_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOJOURN_TRACKING_URI", URIS[0])
    config = CompareConfig()
    assert config.mlflow_uri.plain == URIS[0]
    cells = config.cells()
    assert cells
    assert "tracking_uri" not in repr(cells)
    assert URIS[0] not in repr(cells)


@pytest.mark.parametrize(("given", "message"), [
    (SECRET, "tracking_uri must be a URI such as http://HOST:PORT or postgresql://HOST/DATABASE, "
             f"got {len(SECRET)} characters without ://"),
    (["http://", SECRET], "tracking_uri must be valid: Input should be a valid string"),
])  # fmt: skip
def test_what_is_no_uri_is_refused_and_not_shown(given: object, message: str,
                                                 capsys: pytest.CaptureFixture[str],
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DEBUG, "1")

    @plain_errors
    def command() -> None:
        load_config(tracking_uri=given)

    with pytest.raises(typer.Exit):
        command()
    err = capsys.readouterr().err
    assert err.splitlines()[-1] == f"error: {message}"
    assert "Traceback" in err
    assert not _has_secret(err)


@pytest.mark.parametrize("uri", URIS)
def test_a_store_that_does_not_answer_is_one_line_and_a_traceback_without_secrets(
        uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(TrackingError) as raised:
        Tracker(TrackingUri(uri), tmp_path / "artifacts")
    text = "".join(traceback.format_exception(raised.value))
    assert str(raised.value).startswith("the tracking store must answer at ")
    assert "127.0.0.1:9" in str(raised.value)
    assert text.count("Traceback") >= 2  # MLflow's own stands in the notes
    assert not _has_secret(text)
    assert not _has_secret("".join(capfd.readouterr()))


def test_what_a_library_says_of_the_uri_is_cleaned() -> None:
    from sqlalchemy.exc import ArgumentError

    uri = TrackingUri(URIS[3])
    with pytest.raises(TrackingError) as raised, answering(uri):
        try:
            raise KeyError(DECODED)
        except KeyError as error:
            raise ArgumentError(f"could not parse {URIS[3]}, with the password {DECODED}") from error
    assert str(raised.value).endswith("got could not parse postgresql://127.0.0.1:9/mlflow, with the password ***")
    assert not _has_secret("".join(traceback.format_exception(raised.value)))


def test_what_mlflow_logs_is_cleaned(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    Tracker(TrackingUri("http://127.0.0.1:9"), tmp_path, is_asked=False)
    for handler in logging.getLogger("mlflow").handlers:
        record = logging.makeLogRecord({"msg": "retrying %s", "args": (URIS[0],), "levelno": logging.WARNING})
        assert handler.filter(record)
        assert record.getMessage() == "retrying http://127.0.0.1:9"


def test_paths_and_plain_uris_stay() -> None:
    for text in ("sqlite:////data/a@b:c/mlflow.db", "http://127.0.0.1:5000", "models:/a@champion", "me@host: no //"):
        assert without_secrets(text) == text


def test_a_password_with_an_at_sign_is_refused_for_a_database() -> None:
    with pytest.raises(ValueError, match=r"tracking_uri of a database must have one @, .*%40") as raised:
        load_config(tracking_uri="postgresql://joe:first@second@127.0.0.1:1/db")
    assert "first" not in str(raised.value) and "second@" not in str(raised.value)
    load_config(tracking_uri="postgresql://joe:first%40second@127.0.0.1:1/db?options=a@b")
