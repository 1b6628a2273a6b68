"""The exposition text, read back by a parser that allows nothing but the format 0.0.4."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from made_bundles import Made, rewrite_schema
from made_prometheus import parsed
from sojourn.serving import Predictor, prometheus_text
from sojourn.serving.live import COUNTERS
from sojourn.serving.prometheus import LATENCY_EDGES_S, Histogram, Metric, _escaped, exposition

HOSTILE = 'a "b"\n} 1\n# TYPE evil counter\\ \r\u2028ü'


def test_the_values_are_the_counters(made: Made) -> None:
    predictor = Predictor.load(made.folders["hazard"])
    vms = [predictor.admit(made.request(idx), 10**7) for idx in range(3)]
    predictor.ended(vms[0], 10**7 + 5)
    with pytest.raises(ValueError, match="colour"):
        predictor.predict({"colour": 1}, 0)
    predictor.reload()
    samples, types, helps = parsed(prometheus_text(predictor))
    counters = {name: samples.pop((f"sojourn_{name}_total", ())) for name in predictor.counters}
    assert counters == predictor.counters
    assert {name: counters[name] for name in ("predictions", "ended", "errors", "reloads")} == {
        "predictions": 3, "ended": 1, "errors": 1, "reloads": 1}
    assert samples == {("sojourn_bundle_info", (("version", predictor.version), ("family", "made-hazard"),
                                               ("kind", "hazard"))): 1.0}
    assert types.pop("sojourn_bundle_info") == "gauge"
    assert types == {f"sojourn_{name}_total": "counter" for name in COUNTERS}
    assert helps["sojourn_reloads_total"] == COUNTERS["reloads"]
    assert list(predictor.counters) == list(COUNTERS)


def test_a_hostile_family_stays_a_label(made: Made, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(made.folders["once"], tmp_path / "bundle"))
    rewrite_schema(folder, lambda schema: schema.update(family=HOSTILE + "\ud800"))
    text = prometheus_text(Predictor.load(folder))
    samples, types, _ = parsed(text)
    ((name, labels),) = [key for key in samples if key[1]]
    assert (name, dict(labels)["family"]) == ("sojourn_bundle_info", HOSTILE + "?")
    assert "evil" not in types
    assert text.encode()


def test_a_histogram_has_cumulative_counts_by_edge() -> None:
    times = Histogram()
    for seconds in (0.0, 0.001, 0.0011, 3.0, 11.0):  # an edge belongs to the bucket that it ends
        times.add(seconds)
    samples, types, _ = parsed(exposition([Metric("t_seconds", "histogram", "h", (({"verb": "a"}, times),))]))
    verb = ("verb", "a")
    counts = [samples.pop(("t_seconds_bucket", (verb, ("le", edge)))) for edge in (*map(str, LATENCY_EDGES_S), "+Inf")]
    assert counts == [2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 4, 4, 5]
    assert samples == {("t_seconds_sum", (verb,)): 14.0021, ("t_seconds_count", (verb,)): 5}
    assert types == {"t_seconds": "histogram"}


@given(st.text(st.characters(codec="utf-8")))
def test_every_text_comes_back(value: str) -> None:
    samples, _, _ = parsed(f'# HELP m h\n# TYPE m gauge\nm{{a="{_escaped(value)}"}} 1\n')
    assert list(samples) == [("m", (("a", value),))]


@pytest.mark.parametrize("text", [
    "# HELP m h\n# TYPE m histogram\nm 1\n", "# HELP m h\n# TYPE m gauge\nm_sum 1\n",
    "m 1\n", "# HELP m h\n# TYPE m gauge\nm 1", '# HELP m h\n# TYPE m gauge\nm{a="\n"} 1\n',
    '# HELP m h\n# TYPE m gauge\nm{a="""} 1\n', "\n", "# TYPE m gauge\n",
])  # fmt: skip
def test_the_parser_is_strict(text: str) -> None:
    with pytest.raises(ValueError):
        parsed(text)
