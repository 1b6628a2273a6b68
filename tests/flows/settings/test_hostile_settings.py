"""Files of settings and cron texts that nobody meant: each is read, or refused in one line; nothing hangs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from inspect import get_annotations
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mutations import TOML_VALUES, renewed
from sojourn.features.readers._parts import Declaration
from sojourn.flows.admission.settings import AdmitConfig
from sojourn.flows.cli import app
from sojourn.flows.commands.options import plain_errors
from sojourn.flows.compare.settings import CompareConfig
from sojourn.flows.schedule.deployment import next_times
from sojourn.flows.settings.other_jobs import MonitorConfig, TrainUsageConfig
from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.flows.settings.store import load_settings
from sojourn.flows.settings.trace import TraceSettings

KINDS = (RetrainConfig, MonitorConfig, TrainUsageConfig, AdmitConfig, CompareConfig)


def refusal(kind: type[TraceSettings], file: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What a command with these settings prints before it ends with code 2; "" if they are read."""

    @plain_errors
    def command() -> None:
        load_settings(kind, file)

    try:
        command()
    except Exception as error:
        if getattr(error, "exit_code", None) != 2:
            raise
    else:
        return ""
    return capsys.readouterr().err


def tried(kind: type[TraceSettings]) -> list[tuple[str, str]]:
    """Settings with values: every value of those that no kind before this one has, of the others every sixth.

    Which of them these are changes from setting to setting, so that the rules of a whole kind meet all values too.
    """
    before = {_declared(other, name) for other in KINDS[:KINDS.index(kind)] for name in other.model_fields}
    return [(name, value) for at, name in enumerate(kind.model_fields)
            for value in (TOML_VALUES[at % 6::6] if _declared(kind, name) in before else TOML_VALUES)]


def _declared(kind: type[TraceSettings], name: str) -> tuple[type, str]:
    """A setting by the class that declares it."""
    return next(each for each in kind.__mro__ if name in get_annotations(each)), name


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow
def test_every_value_of_every_setting_is_read_or_refused(kind: type[TraceSettings], tmp_path: Path,
                                                         capsys: pytest.CaptureFixture[str]) -> None:
    file, trace = tmp_path / "run.toml", tmp_path / "t.swf"
    trace.write_text("x")
    of_kind = {AdmitConfig: {"trace": f'"{trace}"', "reader": '"swf"'}, TrainUsageConfig: {"usage_trace": '"u"'},
               MonitorConfig: {"model_name": '"m"', "log": '"log"'}}
    needed = of_kind.get(kind, {})
    n_read = n_refused = 0
    for name, value in tried(kind):
        lines = {**needed, name: value}
        renewed(file, "".join(f"{key} = {each}\n" for key, each in lines.items()).encode("latin-1"))
        told = refusal(kind, file, capsys)
        n_read, n_refused = n_read + (not told), n_refused + bool(told)
        if told:
            what = f"{name} = {value[:20]}: {told[:300]}"
            assert told.startswith("error: ") and told.count("\n") == 1 and len(told) < 3_100, what
            assert str(file) in told or name in told, what
    assert n_read > 10 < n_refused


MAP = {"columns": '{arrival="start",departure="end",request_id="id"}', "units": "{}", "timezone": '"UTC"',
       "at_horizon": '"auto"', "at_start": '"auto"', "never_ran": "[]", "owners": '["user"]',
       "categories": "[]", "numbers": "[]", "resources": "[]", "known_at_end": "[]"}
GROWING = {"columns": '{arrival="start",departure="end"}', "origin": "2026-11-01", "owners": '["user"]',
           "categories": "[]", "numbers": "[]", "resources": "[]", "known_at_end": "[]", "ignored": "[]",
           "sql": '{query="select 1",watermark="w",overlap="7d",url_variable="SOJOURN_SQL_URL"}'}


@pytest.mark.slow
@pytest.mark.parametrize(("whole", "is_map"), [(MAP, True), (GROWING, False)])
def test_every_value_of_a_map_of_columns_is_read_or_refused(whole: Mapping[str, str], is_map: bool,
                                                            tmp_path: Path) -> None:
    file, n_read, n_refused = tmp_path / "map.toml", 0, 0
    inner = [f"{name}.{key.split('=')[0]}" for name, value in whole.items() if value[0] == "{"
             for key in value.strip("{}").split(",") if key]
    for name in (*whole, *inner, "origin", "stranger", "columns.stranger", "units.start"):
        for value in TOML_VALUES:
            table, _, key = name.partition(".")
            lines = {**whole, table: f"{{{key} = {value}}}" if key else value}
            renewed(file, "".join(f"{each} = {lines[each]}\n" for each in lines).encode("latin-1"))
            try:
                _map(file) if is_map else Declaration.read(file, is_sql=True)
                n_read += 1
            except ValueError as error:
                n_refused += 1
                what, told = f"{name} = {value[:20]}", str(error)
                assert "\n" not in told and ("map.toml" in told or "t.csv" in told), what
            except Exception as error:
                error.add_note(f"{name} = {value[:40]}")
                raise
    assert n_read > 5 < n_refused


def test_a_refused_value_is_named_with_its_file(tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "run.toml"
    file.write_text("load = 7\n")
    assert refusal(RetrainConfig, file, capsys) == (
        f"error: {file}: load must be valid: Input should be less than or equal to 1, got 7\n")
    monkeypatch.setenv("SOJOURN_LOAD", "8")  # which wins over the file
    assert refusal(RetrainConfig, file, capsys) == (
        "error: load must be valid: Input should be less than or equal to 1, got '8'\n")


@pytest.mark.parametrize(("content", "rule"), [
    ("x = [\n", "must be TOML, got Invalid value"),
    ("seed = 1\nseed = 2\n", "must be TOML, got Cannot overwrite a value"),
    (f"x = {'[' * 5_000}", "must be TOML that is nested less deeply"),
    (f"a{'.a' * 50_000} = 1", ": line 1 must have at most 100 dots, got 50,000"),
    (f"seed = {'9' * 5_000}", "must be TOML with numbers of at most 64 bits"),
    (f"seed = 0x{'f' * 20_000}", ": seed must be a number of at most 64 bits, got one of 80,000"),
    ("seed = 1e309", ": seed must be valid: "),
    ('store = "a\\u0000b"', ": 'store' must be text without a NUL, got 'a\\x00b'"),
    ("seed = 1\n# a\0b", ": line 2 must be text, got a NUL"),
    ("seed = 1 # \xe9".encode("latin-1"), ": line 1 must be UTF-8, got the byte 0xe9"),
    ("seed = 1".encode("utf-16"), ": line 1 must be UTF-8, got the byte 0xff"),
    (b"# a line of a hundred megabytes\n" * 3_300_000, ": must hold at most 1 MiB of text, got more"),
])
def test_what_is_no_toml_is_told_by_file_and_place(content: str | bytes, rule: str, tmp_path: Path,
                                                   capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "run.toml"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    told = refusal(RetrainConfig, file, capsys)
    assert told.startswith(f"error: {file}") and rule in told and told.count("\n") == 1 and len(told) < 500
    with pytest.raises((ValueError, OSError), match=r"run\.toml"):  # a map of columns is read alike
        _map(file)


def _map(file: Path) -> None:
    from sojourn.features.readers import read_trace

    table = file.with_name("t.csv")
    table.write_text("id,start,end,user\na,2026-11-01,2026-11-02,u\nb,2026-11-01,2026-11-03,v\n")
    read_trace("csv", table, columns_file=file)


def test_a_mark_of_utf_8_and_an_empty_file_are_read(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_bytes(b"\xef\xbb\xbfseed = 7\r\n")
    assert load_settings(RetrainConfig, file).seed == 7
    file.write_bytes(b"")
    assert load_settings(RetrainConfig, file).seed == 0


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name in ("pipe", "loop", ".", "none", "a" * 300):
        told = CliRunner().invoke(app, ["train", "--config", str(tmp_path / name)])
        assert told.exit_code == 2, name
        assert told.stderr.count("\n") == 1 and (tmp_path / name).name[:200] in told.stderr, told.stderr
        told = CliRunner().invoke(app, ["trace", "describe", str(tmp_path / name if name != "." else "/dev/null"),
                                        "--reader", "csv"])
        assert told.exit_code == 2 and told.stderr.startswith("error: trace must be a file or folder, got '"), name
    for name in ("pipe", "."):
        with pytest.raises(ValueError, match=r"must be a TOML file, got (a folder|something else)$"):
            _map(tmp_path / name)


@pytest.mark.parametrize(("cron", "rule"), [
    *((cron, "in their ranges") for cron in (
        "*/0 * * * *", "60 * * * *", "-1 * * * *", "1.5 * * * *", "a b c d e", "0 0 * 13 *", "0 0 * * 1#", "H H * * *",
        "R(0-9) * * * *", "? ? ? ? ?", "\0 * * * *", "٣ * * * *", "１ * * * *", "9" * 400 + " * * * *",
        "1," * 60_000 + "1 * * * *")),
    *((cron, "must have five fields") for cron in ("* * * * * *", "@reboot", "@daily", "", "* * * *", "9" * 100_000)),
    *((cron, "must fire at some time") for cron in ("0 0 31 2 *", "0 0 31 4,6,9,11 *", "0 0 30 2 *")),
])
def test_a_cron_text_that_is_none_is_refused_in_one_short_line(cron: str, rule: str) -> None:
    with pytest.raises(ValueError, match=r"^cron must ") as told:
        next_times(cron, "UTC")
    assert rule in str(told.value) and "\n" not in str(told.value) and len(str(told.value)) < 250


@pytest.mark.parametrize("zone", ["Mars/X", "../../etc/passwd", "", "/etc/passwd", "a\0b", "x" * 100_000, "UTC\n",
                                  "Europe", "posixrules", "right/UTC", "\udce9"])
def test_an_unknown_time_zone_is_refused(zone: str) -> None:
    with pytest.raises(ValueError, match=r"^timezone must be an IANA name, got '") as told:
        next_times("0 3 * * 1", zone)
    assert len(str(told.value)) < 250


def test_what_fires_is_taken() -> None:
    for cron in ("0 3 * * 1", "*/5 0-7,12 * jan-mar MON", " 0  3 1 * 7\n", "0 0 29 2 *", "0 0 L * *", "0 0 * * 5#2"):
        assert len(next_times(cron, "Europe/Berlin")) == 3
