"""`sojourn model predict --explain` and `--picture`: a table that adds up, and a picture with labelled axes."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from made_bundles import Made, make
from sojourn.flows.cli import app
from sojourn.flows.commands.serve import RequestExplainer, explanation_table
from sojourn.flows.reports.figures import curve_figure
from sojourn.models.importance import shap_figure
from sojourn.serving import Predictor, load_bundle
from sojourn.serving.answers import Attribution, CurveBuilder
from sojourn.serving.answers.attribution import InputGroup

KINDS = pytest.mark.parametrize("kind", ["hazard", "hazard-limit", "uptime", "once"])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make(tmp_path_factory.mktemp("made"))


def _run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def _request(made: Made) -> str:
    return json.dumps({name: value.item() if isinstance(value, np.generic) else value
                       for name, value in made.request(-1).items()})  # fmt: skip


@KINDS
def test_the_printed_effects_add_up(made: Made, kind: str) -> None:
    code, out, _ = _run("model", "predict", made.folders[kind], _request(made), "--explain", "--uptime-s", 60)
    assert code == 0
    assert out.startswith("Why ")
    assert "after 60 s of " in out
    assert "a request of which" in out  # these bundles carry no background
    numbers = [float(found) for found in re.findall(r"([+-]?\d+\.\d{3}) │", out)]
    base, *effects, answer = numbers
    n_groups = len(made.encoder.numbers) + 1 + len(made.encoder.history.keys)
    assert len(effects) == n_groups
    assert abs(base + sum(effects) - answer) < 0.0005 * (n_groups + 2)
    assert [abs(effect) for effect in effects] == sorted((abs(effect) for effect in effects), reverse=True)
    assert any(effect != 0.0 for effect in effects)
    again = _run("model", "predict", made.folders[kind], _request(made), "--explain", "--uptime-s", 60)
    assert (code, out) == again[:2]


def test_a_bundle_with_earlier_requests_is_explained_against_them(made: Made) -> None:
    bundle = load_bundle(made.folders["hazard"])
    rows = made.rows.features[:3]
    background = [[None if value != value else value for value in row] for row in rows.tolist()]
    bundle = replace(bundle, schema=replace(bundle.schema, document={"background": background}))
    table = RequestExplainer(bundle).table(made.request(-1), 4_000, 0.0)
    assert str(next(iter(table.columns[0].cells))) == "3 earlier requests, typically"
    builder = CurveBuilder(bundle.schema, bundle.model)
    medians = [max(builder.curve(row).quantile(0.5, 0.0), 1.0) for row in rows.tolist()]
    assert next(iter(table.columns[3].cells)) == f"{np.log10(medians).mean():.3f}"


def test_one_table_for_each_request_and_uptime(made: Made, tmp_path: Path) -> None:
    file = tmp_path / "requests.jsonl"
    file.write_text(f"{_request(made)}\n{{}}\n")
    code, out, err = _run("model", "predict", made.folders["hazard"], file, "--explain", "--uptime-s", 0,
                          "--uptime-s", 600)
    assert code == 0
    assert out.count("Why ") == 4
    assert out.count("at creation") == 2
    assert "not given" in out
    assert err.startswith("warning: of {} the model does not know all; not given: ")


@KINDS
def test_a_picture_beside_the_answer(made: Made, kind: str, tmp_path: Path) -> None:
    plain = _run("model", "predict", made.folders[kind], _request(made))
    code, out, _ = _run("model", "predict", made.folders[kind], _request(made), "--picture", tmp_path / "p.png")
    assert (code, out) == plain[:2]  # still one JSON object a line
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "p.png").stat().st_size > 10_000


def test_bad_input_ends_with_one_line(made: Made, tmp_path: Path) -> None:
    file = tmp_path / "requests.jsonl"
    file.write_text("{}\n{}\n")
    for arguments, words in (
        ((file, "--picture", tmp_path / "p.png"), "a picture must be of one request, got 2"),
        (("{}", "--explain", "--uptime-s", -1), "uptime_s must be finite and >= 0, got -1.0"),
        (('{"colour": 1}', "--explain"), "column must be one of"),
        (("{}", "--picture", tmp_path / "none" / "p.png"), "none"),
    ):
        code, out, err = _run("model", "predict", made.folders["hazard"], *arguments)
        assert (code, out) == (2, "")
        assert words in err.splitlines()[-1]


@KINDS
def test_the_picture_has_human_axes(made: Made, kind: str) -> None:
    predictor = Predictor(load_bundle(made.folders[kind]))
    figure = curve_figure(predictor.predict(made.request(-1), 4_000).curve, "a request\na model")
    axes = figure.axes[0]
    assert axes.get_xscale() == axes.get_yscale() == "log"
    assert "uptime" in axes.get_xlabel()
    assert "remaining time" in axes.get_ylabel()
    assert axes.get_title(loc="left") == "a request\na model"
    for axis in (axes.xaxis, axes.yaxis):
        labels = [label.get_text() for label in axis.get_ticklabels()]
        assert len(labels) >= 2
        assert all(re.fullmatch(r"\d+ (s|min|h|d|y)", label) for label in labels)
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()][1:] == ["median", "mean"]


def test_many_inputs_are_summed_up_in_a_last_row() -> None:
    groups = tuple(InputGroup(f"[red]x{idx}", (idx,)) for idx in range(15))
    effects = tuple(0.1 * (-1) ** idx * (idx + 1) for idx in range(15))
    table = explanation_table(Attribution(groups, effects, 2.0, 1.2, False), ["1"] * 15, "base", "{}", 0.0)
    # base, 11 inputs, the 4 others, the answer: -0.8 in all, of which 0.1 - 0.2 + 0.3 - 0.4 = -0.2
    assert table.row_count == 1 + 12 + 1
    names, last = [str(cell) for cell in table.columns[0].cells], list(table.columns[3].cells)
    assert names[1] == "[red]x14"
    assert (names[-2], last[-2]) == ("4 others", "-0.200")
    assert "orders" in str(table.caption)


def test_the_shap_figure_names_its_sample() -> None:
    figure = shap_figure([f"f{idx}" for idx in range(20)], list(range(20)), "hazard", 214, "log-odds of ending")
    axes = figure.axes[0]
    assert "214 test rows" in axes.get_title(loc="left")
    assert "log-odds of ending" in axes.get_xlabel()
    assert [label.get_text() for label in axes.get_yticklabels()] == [f"f{idx}" for idx in range(5, 20)]
