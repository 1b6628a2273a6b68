"""An export of Slurm's accounting through the commands: what is read, the next command, and the cluster's zone."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sojourn.flows.cli import app
from sojourn.flows.commands.options import DEBUG
from sojourn.flows.retrain.ingest import configured_trace, content_hash
from sojourn.flows.settings.retrain import RetrainConfig

EXPORT = Path(__file__).parents[2] / "data" / "slurm" / "sacct_runs.txt"


def test_a_check_reads_the_recorded_export_and_names_the_next_command() -> None:
    done = CliRunner().invoke(app, ["check", str(EXPORT), "--reader", "slurm", "--timezone", "Asia/Tokyo"],
                              env={DEBUG: "0"})
    assert done.exit_code == 0, done.output
    assert "5  never ran (pending)" in done.output and "taken as UTC" not in done.output
    assert "first time  2026-11-22 16:06:34 UTC" in done.output  # 01:06:34 there
    assert f"{EXPORT} --reader slurm --timezone Asia/Tokyo" in done.output


@pytest.mark.parametrize(("options", "message"), [
    (["--reader", "swf", "--timezone", "Asia/Tokyo"], "times without a zone, such as csv or slurm, got reader 'swf'"),
    (["--reader", "slurm", "--column-map", "arrival=Start"], "maps columns, such as csv, got reader 'slurm'"),
    (["--reader", "slurm", "--timezone", "CEST"], "timezone must be an IANA name"),
])
def test_options_that_do_not_fit_are_named(options: list[str], message: str) -> None:
    done = CliRunner().invoke(app, ["check", str(EXPORT), *options], env={DEBUG: "0"})
    assert done.exit_code == 2 and message in " ".join(done.output.split())


def test_settings_read_it_in_its_zone_and_another_zone_is_another_trace() -> None:
    given = [RetrainConfig(trace=EXPORT, reader="slurm", timezone=zone).source for zone in (None, "Asia/Tokyo")]
    starts = [configured_trace(source)[0].meta["start_unix_s"] for source in given]
    assert starts[0] - starts[1] == 9 * 3_600
    assert content_hash(given[0]) != content_hash(given[1])


def test_a_search_takes_a_zone_for_its_dated_files_alone() -> None:
    done = CliRunner().invoke(app, ["lab", "search", "--on", "synthetic", "--timezone", "Asia/Tokyo"], env={DEBUG: "0"})
    assert done.exit_code == 2 and "csv=PATH or slurm=PATH, got none" in " ".join(done.output.split())
