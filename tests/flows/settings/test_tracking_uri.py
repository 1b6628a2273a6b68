"""A password in the tracking URI shows nowhere: not in settings, logs, errors or tracebacks."""

from __future__ import annotations

import io
import logging
import re
import traceback
from pathlib import Path

import pytest
import typer

from sojourn.flows.commands.options import DEBUG, plain_errors
from sojourn.flows.compare.settings import CompareConfig
from sojourn.flows.entry import main
from sojourn.flows.settings.retrain import RetrainConfig, load_config
from sojourn.flows.settings.store import TrackingUri, possible_uri, without_secrets
from sojourn.flows.settings.trace import possible_dask
from sojourn.flows.tracking.client import TrackingError, answering
from sojourn.flows.tracking.tracker import Tracker

SECRET = "s3cr%40t-word"
DECODED = "s3cr@t-word"
URIS = (
    f"http://me:{SECRET}@127.0.0.1:9", f"http://{SECRET}@127.0.0.1:9/path", f"http://127.0.0.1:9?token={SECRET}",
    f"https://me:{SECRET}@127.0.0.1:9/mlflow", f"http://127.0.0.1:9/mlflow?user=me&password={SECRET}",
    f"http://me:{DECODED}@127.0.0.1:9",
)  # fmt: skip


RULE = "http://HOST:PORT of an MLflow server or sqlite:///PATH"
INSTEAD = "put an MLflow server in front of another database"


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
    (SECRET, f"tracking_uri must be {RULE}, got another beginning; {INSTEAD}"),
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
    assert str(raised.value).endswith("got could not parse https://127.0.0.1:9/mlflow, with the password ***")
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


@pytest.mark.parametrize("uri", [
    f"postgresql://joe:{DECODED}@127.0.0.1:1/db", f"postgresql://joe:t-word/x@{SECRET}@127.0.0.1:1/db",
    f"postgresql://t-word/x:{SECRET}@127.0.0.1:1/db", f"postgresql://joe:{SECRET}/db", f"mysql://joe:{SECRET}",
    f"postgresql://joe:{SECRET} x@127.0.0.1:1/db", f"postgresql://joe:x@h?{SECRET}@127.0.0.1/db",
    f"http://joe:{SECRET}", f"http://joe:12t-word/{SECRET}", f"http://joe:12/{SECRET}@127.0.0.1:9",
    f"http://joe:{SECRET} x@127.0.0.1:1", f"http://joe:with/{SECRET}@127.0.0.1:9", f"http://:{SECRET}",
    f"htp://joe:{SECRET}@127.0.0.1:1", f"databricks://joe:{SECRET}", f"{SECRET} http://127.0.0.1",
    f"HTTP://joe:{SECRET}@127.0.0.1:1", f"sqlite://joe:{SECRET} x@y/db", f"file://joe:{SECRET}@x",
])  # fmt: skip
def test_what_libraries_would_split_elsewhere_is_refused_and_not_shown(
        uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv(DEBUG, "1")
    monkeypatch.setenv("SOJOURN_TRACKING_URI", uri)

    @plain_errors
    def settings() -> None:
        load_config()

    @plain_errors
    def opened() -> None:
        Tracker(TrackingUri(uri), tmp_path / "artifacts")

    for command in (settings, opened):
        with pytest.raises(typer.Exit):
            command()
        err = capsys.readouterr().err
        assert err.splitlines()[-1].startswith("error: tracking_uri ")
        assert not _has_secret(err)
    assert not _has_secret(f"{TrackingUri(uri)!r} {TrackingUri(uri)}")


@pytest.mark.parametrize("uri", [
    "https://joe:a@b:c@h/path", "http://[::1]:5000", "http://h_1.example:5000/?a=b",
    "sqlite:////data/a@b:c/mlflow.db",
])  # fmt: skip
def test_other_forms_are_taken(uri: str) -> None:
    assert possible_uri(TrackingUri(uri)).plain == uri


@pytest.mark.parametrize("scheme", ["htp", "postgresql", "postgres", "mysql+pymysql", "file", "databricks"])
def test_another_scheme_is_one_line_that_says_what_is_put_in_front_of_a_database(scheme: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=rf"got {re.escape(scheme)}://; {INSTEAD}$") as raised:
        Tracker(TrackingUri(f"{scheme}://me:abc@127.0.0.1/mlflow"), tmp_path / "artifacts")
    assert str(raised.value).startswith(f"tracking_uri must be {RULE}, ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("text", "cleaned"), [
    ("at postgresql://joe:SECRET", "at postgresql://joe:***"),
    ("at postgresql://joe:SEC/RET, again", "at postgresql://joe:*** again"),
    ("at tls://us/er:SECRET@10.0.0.1:8786.", "at tls://10.0.0.1:8786."),
    ("at tls://SEC/RET@10.0.0.1:8786.", "at tls://10.0.0.1:8786."),
    ("'postgresql://joe:a?b=SECRET@h/db'", "'postgresql://h/db'"),
    ("at http://[::1]:SECRET", "at http://[::1]:***"),
    ("'http://h:5000', (http://h:5000) http://h:5000: http://h:5000/a:b http://h: x", None),
    ("such as tcp://HOST:PORT, or postgresql://USER:PASSWORD@HOST/DATABASE", None),
])  # fmt: skip
def test_all_up_to_the_last_at_sign_and_a_word_for_a_port_are_cleaned(text: str, cleaned: str | None) -> None:
    assert without_secrets(text) == (text if cleaned is None else cleaned)


def test_an_error_of_any_kind_that_holds_the_password_is_cleaned() -> None:
    uri = TrackingUri(URIS[3])
    with pytest.raises(TrackingError, match=r"got .*'\*\*\*'\n") as raised, answering(uri):
        int(DECODED)
    assert not _has_secret("".join(traceback.format_exception(raised.value)))
    with pytest.raises(ValueError, match="'word'"), answering(uri):
        int("word")


def test_tracebacks_in_the_logs_of_libraries_are_cleaned(tmp_path: Path) -> None:
    handler = logging.StreamHandler(io.StringIO())
    logger = logging.getLogger("distributed.made")
    logger.addHandler(handler)
    logger.setLevel(logging.ERROR)
    try:
        Tracker(TrackingUri("http://127.0.0.1:9"), tmp_path, is_asked=False)
        try:
            raise ValueError(f"no answer at {URIS[0]}")
        except ValueError:
            logger.exception("%s failed", URIS[0])
    finally:
        logger.removeHandler(handler)
    err = handler.stream.getvalue()
    assert "http://127.0.0.1:9 failed" in err and "ValueError: no answer at http://127.0.0.1:9" in err
    assert not _has_secret(err)


def test_the_traceback_of_a_fault_is_cleaned(monkeypatch: pytest.MonkeyPatch,
                                             capsys: pytest.CaptureFixture[str]) -> None:
    def fails() -> None:
        raise KeyError(URIS[0])

    monkeypatch.setattr("sys.argv", ["sojourn", "store", "status"])
    monkeypatch.setattr("sojourn.flows.cli.app", fails)
    with pytest.raises(SystemExit) as raised:
        main()
    assert raised.value.code == 1
    err = capsys.readouterr().err
    assert err.startswith("Traceback") and "KeyError: 'http://127.0.0.1:9'" in err
    assert not _has_secret(err)


def test_an_address_of_dask_with_a_password_is_refused_and_not_shown() -> None:
    with pytest.raises(ValueError, match="without a user and a password") as raised:
        possible_dask(f"tls://joe:{SECRET}@10.0.0.1:8786")
    assert not _has_secret(str(raised.value))
