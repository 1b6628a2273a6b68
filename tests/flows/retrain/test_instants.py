"""Whether instant ends are apart: tried where there are enough, chosen on the validation window, served as chosen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from made_instants import SPAN_S, instant_trace
from sojourn.features import Trace
from sojourn.features.creation import build_rows, default_encoder
from sojourn.features.later_file import TEST_FROM
from sojourn.features.refreshed import with_instants_apart
from sojourn.flows.retrain import train as instants
from sojourn.flows.retrain.features import Features
from sojourn.flows.retrain.ingest import Ingested
from sojourn.flows.retrain.judge import write_candidate
from sojourn.flows.retrain.train import INSTANTS_TAG, Instants, read_instants, reread, train
from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.models.measures import BrierOverAges
from sojourn.serving import Predictor
from sojourn.serving.inputs import HistoryState

CONFIG = RetrainConfig(n_threads=1, families=("hazard",), refresh=True)


def _features(trace: Trace) -> Features:
    encoder = default_encoder(trace)
    history = HistoryState(encoder.history)
    return Features(trace, encoder, build_rows(trace, encoder, history), history)


def _never(*_: object) -> None:
    raise AssertionError("both readings were tried")


# 600 requests, of which the training window holds 357: 1 in 200 is too small a share, 1 in 4 are too few
@pytest.mark.parametrize("share", [0.0, 0.005, 0.25])
def test_with_few_instant_ends_nothing_is_tried_or_said(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instants, "_tried", _never)
    monkeypatch.setattr(instants, "_apart_rows", _never)
    features = _features(instant_trace(600, share, 0))
    found, said = read_instants(CONFIG, features)
    assert found is features and not said.is_apart
    assert said.text() == "" and said.tags() == {}


def test_without_owners_and_of_a_trace_in_part_it_is_said_why_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instants, "_tried", _never)
    trace = instant_trace(1_200, 0.5, 0)
    nobody = _features(replace(trace, roles=replace(trace.roles, owners=())))
    found, said = read_instants(CONFIG, nobody)
    assert found is nobody and said.text().endswith("are not apart in owners' histories: the trace names no owner.")
    few = _features(trace)
    crowded = replace(few, encoder=replace(few.encoder, history=replace(few.encoder.history, n_keys_max=20)))
    found, said = read_instants(CONFIG, crowded)
    assert found is crowded and "more owners than the history keeps" in said.tags()[INSTANTS_TAG]


def test_the_words_say_what_was_found() -> None:
    assert Instants(False, 0.1, 999, -0.0004, 0.0002).text() == (
        "Instant ends (10.0 % within 1 s) are not apart in owners' histories: -0.0004 +- 0.0002 on the validation "
        "window.")
    assert "no score on the validation window" in Instants(False, 0.1, 999).text()


def test_a_champions_rows_are_read_anew_only_where_they_can_be() -> None:
    features = _features(instant_trace(400, 0.2, 0))
    apart = with_instants_apart(features.encoder, 1)
    rows = reread(features, apart)
    assert rows is not None
    assert rows.features.tobytes() == build_rows(features.trace, apart).features.tobytes()
    other = replace(apart, phase_s=apart.phase_s + 1)
    assert [reread(features, each) for each in (features.encoder, other)] == [None, None]
    of_two_files = replace(features, trace=replace(features.trace, meta={TEST_FROM: 5}))
    assert reread(of_two_files, apart) is None


@pytest.mark.slow
def test_where_it_gains_it_is_chosen_and_served(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A tenth of all requests end at once, apart from their owners' habits."""
    features = _features(instant_trace(8_000, 0.1, 1))
    before = features.rows.features.copy()
    found, said = read_instants(CONFIG, features)
    assert said.is_apart and said.gain > said.error > 0.0 and said.text() in " ".join(capsys.readouterr().out.split())
    assert found.encoder == with_instants_apart(features.encoder, 1)
    assert features.rows.features.tobytes() == before.tobytes() and features.encoder.history.instant_s is None

    plain, apart = train.fn(CONFIG, features), train.fn(CONFIG, found)
    scores = [BrierOverAges.of(training.of("hazard").model.curve_table(training.split.test),
                               training.split.test).score() for training in (plain, apart)]
    assert scores[1] < scores[0]

    candidate = write_candidate(tmp_path / "candidate",
                                Ingested(tmp_path, "made", "0" * 64, ""), "0" * 64, found, apart)
    assert candidate.bundle.schema.encoder.history.instant_s == 1
    predictor, replayed = Predictor.load(candidate.folder), HistoryState(found.encoder.history)
    build_rows(found.trace, found.encoder, replayed)
    request = {"user": "u3", "cpu_cores": 1.0, "mem_gib": 4.0}
    parsed = found.encoder.parse(request)
    served = dict(zip(predictor.encoder.feature_names(), predictor.predict(request, SPAN_S).features, strict=True))
    expected = dict(zip(found.encoder.feature_names(), found.encoder.encode(parsed, SPAN_S, replayed), strict=True))
    for part in ("instant", "mean", "spread", "last", "longest", "share_1h"):
        assert served[f"user:{part}"] == expected[f"user:{part}"]
    assert 0.0 <= served["user:instant"] < 0.5 and np.isfinite(served["user:mean"])


@pytest.mark.slow
def test_the_choice_reads_no_row_of_the_test_window() -> None:
    """All that is known of the test window changed at random: the same choice, to the bit."""
    trace = instant_trace(8_000, 0.1, 1)
    features = _features(trace)
    split_s = int(np.sort(features.rows.decided_s)[int(len(features.rows) * 0.7)])
    rng = np.random.default_rng(0)
    rows = features.rows
    is_later = rows.decided_s >= split_s
    noise = np.where(is_later[:, None], rng.random(rows.features.shape), rows.features)
    lifetime_s = np.where(is_later, rng.integers(0, 9, len(rows)), rows.lifetime_s)
    other = replace(features, rows=replace(rows, features=noise, lifetime_s=lifetime_s))
    assert read_instants(CONFIG, features)[1] == read_instants(CONFIG, other)[1]
