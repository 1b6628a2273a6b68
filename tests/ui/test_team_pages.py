"""MLflow and Prefect: what a team needs to compare versions, to roll back, and to see what a retrain did."""

from __future__ import annotations

import json

import pytest
from mlflow import MlflowClient

from sojourn.flows.settings.store import TrackingUri
from sojourn.flows.tracking.tracker import SHOWN_METRICS, Tracker
from watched_pages import Team, Watched

pytestmark = pytest.mark.slow
NAME = "sojourn-lifetime"
SHOWN = ("against_km.brier_pct", "against_km.brier_pct.high", "against_best_fit.nilas_pp",
         "against_best_fit.joint-fit_pp", "against_best_fit.joint-fit_pp.low")
"""Accuracy and the simulator's pp, by the names that every version has, whatever judged it."""
KEYED = ("ages.ibs", "age_1h.mae_log10_remaining", "creation.ap_1h", "sim.nilas.gain_pp")


def test_the_experiment_opens_on_runs_that_are_named_by_their_verdict(watched: Watched, team: Team,
                                                                       mlflow_url: str) -> None:
    client = MlflowClient(TrackingUri.of_file(team.store / "mlflow.db").plain)
    page = watched.page
    page.goto(Tracker(TrackingUri.of_file(team.store / "mlflow.db"), team.store / "artifacts").runs_page(mlflow_url))
    page.get_by_text("Run Name").first.wait_for()
    versions = [client.get_model_version(NAME, str(version)) for version in (1, 2)]
    verdicts = [client.get_run(str(version.run_id)).info.run_name for version in versions]
    text = watched.text()
    for name in verdicts:
        verdict, trace, day, family = name.split()
        assert (verdict in "✓✗", trace, len(day), family) == (True, "synthetic", 5, "hazard")
        assert f"{verdict} {trace}" in text
    for column in SHOWN_METRICS[:2]:  # of the list as it opens; a window has no room for more, or no run has them
        assert column in text, column
    watched.picture("mlflow_runs.png")


def test_a_runs_page_begins_with_its_verdict(watched: Watched, team: Team, mlflow_url: str) -> None:
    client = MlflowClient(TrackingUri.of_file(team.store / "mlflow.db").plain)
    run = client.get_run(str(client.get_model_version(NAME, "2").run_id)).info
    page = watched.page
    page.goto(f"{mlflow_url}/#/experiments/{run.experiment_id}/runs/{run.run_id}")
    page.get_by_text("Its predictions are").first.wait_for()
    text = watched.text()
    assert "gates" in text and "than a table of past lifetimes" in text
    assert text.index("Its predictions are") < text.index("Metrics (")
    watched.picture("mlflow_run.png")


def test_two_versions_are_compared_in_one_table(watched: Watched, team: Team, mlflow_url: str) -> None:
    client = MlflowClient(TrackingUri.of_file(team.store / "mlflow.db").plain)
    runs = {str(version): str(client.get_model_version(NAME, str(version)).run_id) for version in (1, 2)}
    page = watched.page
    page.goto(f"{mlflow_url}/#/models/{NAME}")
    page.get_by_text("Version 2").first.wait_for()
    boxes = page.locator("input[type=checkbox]")
    for idx in (1, 2):  # the first one ticks all
        boxes.nth(idx).click()
    page.get_by_test_id("compareButton").click()
    page.get_by_text("Comparing 2 Versions").wait_for()
    page.get_by_text("against_km.brier_pct", exact=True).first.wait_for(state="attached")
    text = watched.text()
    for run in runs.values():
        assert run in text
    measured = [client.get_run(run).data.metrics for run in runs.values()]
    rows = {row.inner_text().split("\t")[0].strip(): row for row in page.locator("tr").all()}
    for name in SHOWN:
        values = [metrics[name] for metrics in measured]
        if values[0] == values[1]:  # the page shows what differs
            continue
        cells = [float(cell) for cell in rows[name].inner_text().split("\t")[1:3]]
        assert cells == pytest.approx(values, rel=2e-3, abs=6e-4), name  # as it is rounded there
    keys = [client.get_model_version(NAME, str(version)).tags["judged_on"] for version in (1, 2)]
    for idx, key in enumerate(keys):  # other data judged the other one: it has no figure of that name
        for name in KEYED:
            cells_of = [cell.strip() for cell in rows[f"{key}/{name}"].inner_text().split("\t")[1:3]]
            assert [cell not in ("", "-") for cell in cells_of] == [idx == 0, idx == 1], (name, cells_of)
    box = rows["against_km.brier_pct"].bounding_box()
    assert box is not None and box["x"] + box["width"] <= 1280  # the table is not cut
    assert json.dumps(runs).replace(" ", "") in page.evaluate("decodeURIComponent(location.href)")
    rows["against_km.brier_pct"].evaluate("row => row.scrollIntoView({block: 'center'})")
    watched.picture("mlflow_compare.png")


def test_a_version_has_its_card_its_gates_and_its_alias(watched: Watched, team: Team, mlflow_url: str) -> None:
    page = watched.page
    page.goto(f"{mlflow_url}/#/models/{NAME}")
    page.get_by_text("Version 2").first.wait_for()
    text = watched.text()
    for part in ("how long a request (VM, pod, job) stays", "judged_on : synthetic-", "not_comparable_with : version 1",
                 "trace : synthetic", "data_hash", "window : decided before", "family : hazard",
                 "gate.bit parity of the export : passed: 0 of 100,000 rows differ", "gate.accuracy against km"):
        assert part in text, part
    page.goto(f"{mlflow_url}/#/models/{NAME}/versions/2")
    page.get_by_text("95 % interval", exact=True).wait_for()
    text = watched.text()
    for part in ("gates", "Not comparable with version 1", "hazard of synthetic", "Brier score over ages against km",
                 "Brier score over ages (lower = better)",
                 "sim.nilas.gain_pp", "sim.joint_fit.gain_pp", "bit parity of the export", "Predictor.load("):
        assert part in text, part
    assert "@ challenger" in text or "@ champion" in text
    table = page.locator("table", has_text="test window").bounding_box()
    assert table is not None and table["x"] + table["width"] <= 1280


def test_a_retrain_is_a_run_that_completed(watched: Watched, team: Team) -> None:
    page = watched.page
    page.goto(f"{team.prefect}/runs")
    page.get_by_text("Completed").first.wait_for()
    text = watched.text()
    assert "2 runs" in text and text.count("Completed") == 2
    assert "Can't connect" not in text  # its pages ask the port that this server has


@pytest.mark.parametrize(("key", "parts"), [
    ("gates", ("passed: bit parity of the export. 0 of 100,000 rows differ", "accuracy against km")),
    ("result", ("sojourn-lifetime version 2", "trace:", "bundle:", "MLflow")),
    ("read-report", ("What was read of synthetic", "generated 3,000")),
])  # fmt: skip
def test_an_artifact_is_read_in_the_dashboard(watched: Watched, team: Team, key: str, parts: tuple[str, ...]) -> None:
    page = watched.page
    page.goto(f"{team.prefect}/artifacts")
    page.get_by_text(key, exact=True).first.click()
    page.wait_for_url(f"**/artifacts/key/{key}")
    page.locator('a[href*="/artifacts/artifact/"]').first.click()  # the latest
    page.get_by_text("Show raw data").wait_for()
    text = watched.text()
    for part in parts:
        assert part in text, part
    for line in page.locator("table, article li, .markdown-renderer li").all():  # nothing is cut
        box = line.bounding_box()
        assert box is not None and box["x"] + box["width"] <= 1280
    watched.picture(f"prefect_{key}.png")
