"""Labels of bundles in printed tables."""

from __future__ import annotations

import pandas as pd

from sojourn.flows.reports.comparison_report import folder_lines, short_labels, shortened

LONG = "bundle:/srv/a-cluster/with/a-long/path/.sojourn/bundles/sojourn-lifetime"


def test_a_label_is_as_short_as_others_allow() -> None:
    assert short_labels([LONG, "oracle", ""]) == {LONG: "bundle:sojourn-lifetime"}
    other = LONG.replace("a-cluster", "another")  # differs above five equal parts
    assert short_labels([LONG, other])[other] == "bundle:" + other.removeprefix("bundle:/srv/")
    assert short_labels(["bundle:x", "bundle:a/x"]) == {"bundle:x": "bundle:x", "bundle:a/x": "bundle:a/x"}


def test_tables_have_the_label_and_a_line_has_the_folder() -> None:
    summary = pd.DataFrame({"predictor": ["", LONG, f"one-shot:{LONG}", "km"],
                            "label": ["best-fit", f"nilas ({LONG})", f"nilas (one-shot:{LONG})", "nilas (km)"]})
    short = shortened(summary)
    assert short["predictor"].tolist() == ["", "bundle:sojourn-lifetime", "one-shot:bundle:sojourn-lifetime", "km"]
    assert short["label"].tolist() == ["best-fit", "nilas (bundle:sojourn-lifetime)",
                                       "nilas (one-shot:bundle:sojourn-lifetime)", "nilas (km)"]
    assert folder_lines(summary) == [f"bundle:sojourn-lifetime is the folder {LONG.removeprefix('bundle:')}"]
    assert folder_lines(short) == []
