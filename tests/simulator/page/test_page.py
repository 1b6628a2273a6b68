"""The page of a comparison: what it shows, the interval that it gives, and that no text from data becomes markup."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest
from plotly.offline import get_plotlyjs

from sojourn.simulator import page as page_room
from sojourn.simulator.measures import HostMap
from sojourn.simulator.page import ComparisonData, write_page
from sojourn.simulator.page.figures import (
    N_LINES,
    distribution_figure,
    empty_hosts_figure,
    gain_figure,
    host_map_figure,
    sweeps,
)
from sojourn.simulator.page.headline import compared, leaves_out
from sojourn.simulator.page.table import MAX_HOSTS, MOST_COLUMNS, boxed, html_table, migration_rows, shown_decision
from studies.compare import write_heat_map_png, write_sensitivity_png

FIRST_PAGE = ["Empty hosts, % of the hosts", "What it covers", "What it does not cover"]
HOSTILE = """</script><img src=x onerror="alert(1)"><b>&amp;'"""
GAINS = {("first-fit", ""): 1.0, ("nilas", "oracle"): 4.0, ("nilas", "noise:1"): 2.0, ("nilas", "recall:0.8"): 3.0}


def summary_of(gains: dict[tuple[str, str], float], half_pp: float = 0.5, load: float = 0.8) -> pd.DataFrame:
    """Best-fit with 30 % empty hosts below a bound of 40 %, and the others with these gains and half intervals."""
    every = {("best-fit", ""): 0.0, **gains}
    return pd.DataFrame([{
        "workload": "trace", "load": load, "policy": policy, "predictor": predictor,
        "label": f"{policy} ({predictor})" if predictor else policy, "n_seeds": 5, "empty_hosts_pct": 30.0 + gain,
        "bound_empty_hosts_pct": 40.0, "gain_pp": gain, "gain_low_pp": gain - half_pp, "gain_high_pp": gain + half_pp,
        "gap_closed_pct": 10 * gain, "packing_density_pct": 70.0, "rejected_pct": 0.0,
    } for (policy, predictor), gain in every.items()])  # fmt: skip


def made_data(text: str = "plain") -> ComparisonData:
    """A small comparison with everything in it; `text` stands wherever data may bring text of its own."""
    rng = np.random.default_rng(0)
    summary = pd.concat([summary_of({**GAINS, (text, ""): 0.5}), summary_of(GAINS, load=0.6)], ignore_index=True)
    summary["workload"] = text
    cells = summary.drop(columns=["n_seeds", "gain_low_pp", "gain_high_pp"]).assign(seed=0)
    time_s = np.arange(50) * 7200
    series = {label: pd.DataFrame({"time_s": time_s, "empty_hosts_pct": 30 + rng.random(50),
                                   "bound_empty_hosts_pct": 40.0}) for label in ("best-fit", "nilas (oracle)", text)}
    classes = rng.integers(0, 5, (20, 6)).astype(np.int8)
    maps = {"best-fit": HostMap(time_s[:20], classes),
            text: HostMap(time_s[:20], classes, (classes % 3).astype(np.int8), ("empty", text, "recycling"))}
    decision = {
        "policy": text, "predictor": text, "request": {text: text}, "time_s": 90_061, "chosen": text,
        "columns": [{"name": text, "meaning": text}], "hosts": [["a", text, math.nan], [text, "", 0.0], ["c", "", 2.5]],
    }  # fmt: skip
    for k, name in enumerate(("migrations_a_day", "n_dropped", "n_freed_host", "n_freed_none", "moved_expected_h",
                              "moved_freed_h")):
        cells.loc[cells["policy"] == text, name] = 1.0 + k
    return ComparisonData(text, text, cells, summary, series, maps, [decision], 14_400, main_load=0.8,
                          migrations={text: migrations_of(text)})


def migrations_of(text: str) -> pd.DataFrame:
    """One that freed its host, and one that was dropped."""
    return pd.DataFrame({
        "planned_s": [90_000, 180_000], "group": [0, 1], "request_id": [text, "b"], "from_host": [text, "1"],
        "to_host": ["2", text], "n_together": 1, "remaining_s": [36_000, 3_600], "chance": [0.94, 0.5],
        "chance_without": [0.5, 0.25], "likely_s": [1_200.0, math.nan], "expected_h": [9.7, 6.0],
        "begun_s": [90_600.0, math.nan], "empty_s": [97_200.0, math.nan], "freed_h": [8.5, math.nan]})


class Page(HTMLParser):
    """What a browser would find: elements with their attributes, headings, text of scripts."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.headings: list[str] = []
        self.scripts: list[str] = []
        self.text = ""
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        last = self.elements[-1][0] if self.elements else ""
        if last == "script":
            self.scripts.append(data.strip())
        elif last == "h2" and data.strip():
            self.headings.append(data.strip())
        if last not in ("script", "style"):
            self.text += data

    @property
    def data(self) -> Any:
        return json.loads(next(script for script in self.scripts if script.startswith("{")))


def test_every_section_has_its_place_and_its_data(tmp_path: Path) -> None:
    page = Page(write_page(tmp_path / "page.html", made_data()))
    assert page.headings == [*FIRST_PAGE, "Summary", "Gain over best-fit", "Empty hosts over time",
                             "How many hosts are empty for how much of the time", "Hosts over time",
                             "Gain against recall", "Gain against noise", "Gain against load",
                             "Migrations that free hosts", "Why this host?", "Every replay", "Words"]
    assert [attrs["id"] for _, attrs in page.elements if attrs.get("class") == "plot"] == [
        "plot-gain-0", "plot-empty-hosts", "plot-distribution", "plot-map", "plot-sweep-recall", "plot-sweep-noise",
        "plot-sweep-load"]
    assert list(page.data["figures"]) == ["gain-0", "empty-hosts", "distribution", "sweep-recall", "sweep-noise",
                                          "sweep-load"]
    assert list(page.data["maps"]) == ["best-fit", "plain"]
    assert len(page.data["decisions"]) == 1


def test_a_migration_is_shown_with_its_worth(tmp_path: Path) -> None:
    text = write_page(tmp_path / "page.html", made_data()).read_text("utf-8")
    rows = re.findall("<tr>(.*?)</tr>", text.split("<summary>plain: 2 migrations</summary>")[1].split("</details>")[0])
    cells = [re.findall("<td[^>]*>(.*?)</td>", row) for row in rows[1:]]
    # planned at 25 h; 36,000 s are 10 h, 1,200 s are 0.3 h; begun 600 s later, empty 7,200 s later
    assert cells[0] == [
        "day 1, 01:00", "plain", "plain", "2", "1", "10.0", "94", "50", "0.3", "9.7", "10", "2.0", "8.5"]
    assert cells[1] == ["day 2, 02:00", "b", "1", "plain", "1", "1.0", "50", "25", "–", "6.0", "–", "–", "–"]


def test_migrations_are_summed_over_the_seeds_and_deployable_ones_come_first() -> None:
    summary = summary_of({("nilas", "oracle"): 4.0, ("nilas", "hazard"): 1.0}).assign(freed_h_per_migration=2.0)
    cells = pd.concat([summary.assign(seed=seed) for seed in (0, 1)])[1:]
    # hazard has 3 and 1 that freed their host, and 2 and 0 that did not: 6 that began, expected to free 30 + 6 h
    cells = cells.assign(migrations_a_day=[2.0, 2.0, math.nan, 4.0, 4.0], n_dropped=[1.0, 1.0, math.nan, 2.0, 2.0],
                         n_freed_host=[3.0, 3.0, math.nan, 1.0, 1.0], n_freed_none=[2.0, 2.0, math.nan, 0.0, 0.0],
                         moved_expected_h=[30.0, 30.0, math.nan, 6.0, 6.0],
                         moved_freed_h=[12.0, 12.0, math.nan, -3.0, -3.0])
    found = migration_rows(ComparisonData("", "", cells, summary, {}, {}, [], 0))
    assert found["label"].tolist() == ["nilas (hazard)", "nilas (oracle)"]
    row = found.iloc[0]
    assert (row["migrations_a_day"], row["n_dropped"], row["n_freed_host"], row["n_freed_none"]) == (3.0, 3.0, 4.0, 2.0)
    assert (row["expected_each_h"], row["freed_each_h"], row["freed_h_per_migration"]) == (6.0, 1.5, 2.0)


def test_a_page_of_best_fit_alone_and_nothing_else(tmp_path: Path) -> None:
    page = Page(write_page(tmp_path / "page.html", ComparisonData(
        "One", "", pd.DataFrame(), summary_of({}), {}, {}, [], 0)))
    assert page.headings == [*FIRST_PAGE, "Summary", "Words"]
    assert page.data == {"figures": {}, "maps": {}, "decisions": []}
    assert "No answer: only best-fit was replayed" in page.text


def test_the_page_asks_for_nothing_outside_and_stays_small(tmp_path: Path) -> None:
    path = write_page(tmp_path / "page.html", made_data())
    page, text = Page(path), path.read_text("utf-8")
    assert not [attrs for _, attrs in page.elements if {"src", "href", "srcset", "action"} & set(attrs)]
    policy = next(attrs["content"] for _, attrs in page.elements if attrs.get("http-equiv"))
    assert policy == "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
    assert text.count(get_plotlyjs()) == 1
    ours = text.replace(get_plotlyjs(), "")
    assert not re.search(r"https?:|//[a-z]+\.|@import|url\(", ours)
    assert len(ours) < 60_000


def test_text_from_data_never_becomes_markup(tmp_path: Path) -> None:
    plain, hostile = (Page(write_page(tmp_path / "page.html", made_data(text))) for text in ("plain", HOSTILE))
    assert [tag for tag, _ in hostile.elements] == [tag for tag, _ in plain.elements]
    assert [set(attrs) for _, attrs in hostile.elements] == [set(attrs) for _, attrs in plain.elements]
    assert hostile.scripts[1:] == plain.scripts[1:]  # the first is the data
    assert hostile.data["decisions"][0]["chosen"] == HOSTILE
    # Plotly reads tags in what it draws.
    assert "<img" not in json.dumps([[trace.get("name"), trace.get("hovertext"), figure["layout"]["yaxis"]]
                                     for figure in hostile.data["figures"].values() for trace in figure["data"]])
    assert HOSTILE in hostile.data["figures"]["empty-hosts"]["data"][-1]["meta"]
    assert HOSTILE in hostile.text


def test_the_same_data_give_the_same_bytes(tmp_path: Path) -> None:
    first, second = (write_page(tmp_path / name, made_data()).read_bytes() for name in ("a.html", "b.html"))
    assert first == second


def test_plotly_knows_every_property_of_the_figures(tmp_path: Path) -> None:
    data = Page(write_page(tmp_path / "page.html", made_data())).data
    for figure in [*data["figures"].values(), *data["maps"].values()]:
        go.Figure(figure)


@pytest.mark.parametrize(("change", "message"), [
    ({"summary": pd.DataFrame()}, "summary must hold best-fit at the main load, got 0 rows without it"),
    ({"summary": summary_of(GAINS).iloc[1:]}, "summary must hold best-fit at the main load, got 4 rows without it"),
    ({"series": {"lava": pd.DataFrame()}}, "series must be of labels in the summary at the main load, got 'lava'"),
    ({"host_maps": {"x": HostMap(np.array([0]), np.array([[5]], np.int8))}}, r"lifetime class must be 0..4, got 5..5"),
])  # fmt: skip
def test_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        write_page(tmp_path / "page.html", replace(made_data(), **change))
    assert not (tmp_path / "page.html").exists()


def rejecting() -> pd.DataFrame:
    """Of two policies the second by gain rejects more than best-fit, whose 0.2 % the first does too."""
    rows = summary_of({("nilas", "km"): 2.0, ("first-fit", ""): 1.0})
    return rows.assign(rejected_pct=[0.2, 0.2, 1.5])


def test_whatever_rejects_more_says_so_wherever_it_is_shown() -> None:
    rows = rejecting()
    assert leaves_out(rows)[0] == ("More requests rejected than by best-fit: first-fit. Part of the empty hosts may be "
                                   "work that was not taken.")
    table = html_table(rows)
    warned = re.findall(r'<td class="text" data-value="([^"]+)">[^<]+<small class="warning">([^<]+)<', table)
    assert warned == [("first-fit", "rejects more than best-fit")]
    figure = gain_figure(rows, {"first-fit": "#0072b2", "nilas": "#d55e00"})
    assert figure["layout"]["yaxis"]["ticktext"] == ["⚠ first-fit <b>+1.00</b>", "nilas (km) <b>+2.00</b>"]
    assert [text.endswith("; rejects more than best-fit") for text in figure["data"][0]["hovertext"]] == [True, False]
    series = {label: pd.DataFrame({"time_s": [0, 60], "empty_hosts_pct": 30.0, "bound_empty_hosts_pct": 40.0})
              for label in rows["label"]}
    data = ComparisonData("", "", rows, rows, series, {}, [], 0)
    lines = empty_hosts_figure(data, {"best-fit": "#000000", "nilas": "#0072b2", "first-fit": "#d55e00"})["data"]
    assert [line["name"] for line in lines] == ["bound", "best-fit", "nilas (km)",
                                                "first-fit<br>rejects more than best-fit"]
    # of each seed by its own best-fit
    cells = pd.concat([rows.assign(seed=0), rows.assign(seed=1, rejected_pct=[2.0, 0.2, 1.5])])
    assert html_table(cells).count("rejects more than best-fit") == 1


@pytest.mark.parametrize(("n_hosts", "n_seeds", "said"), [
    (30.0, 5, []), (29.0, 5, ["Only 29 hosts: "]), (900.0, 4, ["Only 4 seeds: "]),
    (1.0, 1, ["Only 1 host and 1 seed: "]),
])  # fmt: skip
def test_few_hosts_or_seeds_are_said(tmp_path: Path, n_hosts: float, n_seeds: int, said: list[str]) -> None:
    rows = summary_of({("nilas", "km"): 2.0}).assign(n_hosts=n_hosts, n_seeds=n_seeds)
    expected = [f"{words}differences of a point or two may be chance." for words in said]
    assert [line for line in leaves_out(rows) if "may be chance" in line] == expected
    page = Page(write_page(tmp_path / "page.html", ComparisonData("", "", pd.DataFrame(), rows, {}, {}, [], 0)))
    # on the first page and above the figure
    assert page.text.count("may be chance") == 2 * len(said)


def test_what_was_compared() -> None:
    assert compared(made_data()) == (
        "2 policies against best-fit and first-fit with 3 predictors on plain at 60, 80 % peak load, 5 seeds each.")


def test_the_table_has_only_what_is_known() -> None:
    rows = summary_of({("nilas", "km"): 2.0}).assign(stranded_cpu_cores_pct=math.nan, n_migrations=[0, 1200])
    rows.loc[1, "packing_density_pct"] = math.nan
    table = html_table(rows)
    titles = re.findall(r'<button type="button">([^<]+)', table)
    assert titles == ["policy", "predictor", "gain over best-fit", "empty hosts", "bound", "gap closed",
                      "packing density", "rejected", "migrations", "seeds"]
    measured = html_table(rows.assign(**dict.fromkeys((
        "stranded_cpu_cores_pct", "stranded_cpu_cores_at_misfit_pct", "stranded_mem_gib_pct",
        "stranded_mem_gib_at_misfit_pct", "used_cpu_pct", "violation_rate_pct", "violation_severity_pct",
        "decision_us"), 1.0)))
    assert re.findall(r'<button type="button">([^<]+)', measured)[7:-2] == [
        "stranded CPU", "stranded CPU at misfit", "stranded memory", "stranded memory at misfit", "CPU used",
        "violation rate", "violation severity", "rejected", "migrations", "decision"][:9]
    assert '<td data-value="2"><b>+2.00</b> <small>[+1.50, +2.50]</small></td>' in table
    assert '<td data-value="0">0.00 <small>[-0.50, +0.50]</small></td>' in table  # includes 0: not bold
    assert '<td data-value="">–</td>' in table
    assert '<td class="further" data-value="1200">1,200</td>' in table
    assert "predictor" not in html_table(rows.assign(predictor=""))
    assert '<td data-value="0">0.00</td>' in html_table(summary_of({}, math.nan))  # one seed


def test_a_table_shows_eight_columns_and_the_others_by_a_switch() -> None:
    rows = summary_of({("nilas", "km"): 2.0}).assign(**dict.fromkeys((
        "stranded_cpu_cores_pct", "decision_us", "events_per_s", "used_cpu_pct"), 1.0))
    table = html_table(rows)
    headers = re.findall(r'<th( class="[^"]+")? .*?<button type="button">([^<]+)', table)
    shown = [title for kind, title in headers if "further" not in kind]
    assert shown == ["policy", "predictor", "gain over best-fit", "empty hosts", "bound", "gap closed",
                     "packing density", "rejected"]
    assert len(shown) == MOST_COLUMNS < len(headers) == 13
    first = table.split("<tbody>")[1].split("</tr>")[0]
    assert first.count("<td") - first.count('further"') == MOST_COLUMNS
    box = boxed(table, "summary")
    assert '<input class="switch" type="checkbox" id="all-summary">' in box
    assert '<label class="switch" for="all-summary">all 13 columns</label><div class="wide"><table>' in box
    assert "switch" not in boxed(html_table(rows[["policy", "gain_pp", "empty_hosts_pct"]]), "few")


def test_every_table_of_the_page_shows_eight_columns_at_most(tmp_path: Path) -> None:
    text = write_page(tmp_path / "page.html", made_data()).read_text("utf-8")
    heads = re.findall("<thead><tr>(.*?)</tr></thead>", text.split("<script")[0])
    assert len(heads) == 4  # summary, migrations, a list of them, every replay
    assert all(head.count("<th") - head.count('further"') <= MOST_COLUMNS for head in heads)
    names = re.findall(r'id="(all-[^"]+)"', text)
    assert len(names) == len(set(names)) > 0


def test_no_number_of_the_page_is_minus_zero(tmp_path: Path) -> None:
    summary = summary_of({("nilas", "km"): -0.0001, ("lava", "km"): -0.0}, 0.0002).assign(decision_us=-0.04)
    own = {"time_s": [0, 60], "empty_hosts_pct": [-0.00001, -0.0], "bound_empty_hosts_pct": 40.0}
    series = {label: pd.DataFrame(own) for label in summary["label"]}
    data = ComparisonData("", "", summary.assign(seed=0), summary, series, {}, [], 0)
    page = Page(write_page(tmp_path / "page.html", data))
    assert not re.search(r"[-−]0(\.0+)?(?![.\d])", page.text)
    assert not re.search(r"[-−]0\.0*(?![\d])", json.dumps(page.data["figures"]))
    assert "0.00 [0.00, 0.00]" in page.text


def test_a_print_draws_every_figure_and_begins_with_a_page_of_its_own() -> None:
    folder = Path(page_room.__file__).parent
    script, style = ((folder / name).read_text("utf-8") for name in ("page.js", "page.css"))
    assert "IntersectionObserver" not in script  # no figure waits until it is seen
    assert 'addEventListener("beforeprint"' in script and 'matchMedia("print")' in script
    printed = style.split("@media print {")[1]
    assert "header { break-after: page; }" in printed
    assert ".plot .svg-container { width: 100% !important;" in printed  # scaled where it is not drawn again, never cut
    assert ".wide { max-height: none; overflow: visible;" in printed


def test_bars_stand_best_on_top_and_far_losses_are_cut() -> None:
    rows = summary_of({("worst-fit", ""): -30.0, ("nilas", "km"): 2.0})
    figure = gain_figure(rows, {"worst-fit": "#0072b2", "nilas": "#d55e00"})
    assert figure["layout"]["yaxis"]["ticktext"] == ["◀ worst-fit <b>-30.00</b>", "nilas (km) <b>+2.00</b>"]
    assert figure["data"][0]["marker"]["color"] == ["#0072b2", "#d55e00"]
    # The bound, 10 pp above best-fit, is the farthest to the right: -12.5 = -1.25 x 10 on the left.
    assert figure["layout"]["xaxis"]["range"][0] == -12.5
    assert figure["layout"]["shapes"][0]["x0"] == 10.0
    assert figure["data"][0]["error_x"]["arrayminus"] == [0.5, 0.5]
    long = gain_figure(summary_of({("x" * 50, ""): 2.0}), {"x" * 50: "#d55e00"})
    assert long["layout"]["yaxis"]["ticktext"] == [f"{'x' * 39}… <b>+2.00</b>"]
    one_seed = gain_figure(summary_of({("nilas", "km"): 2.0}, math.nan), {"nilas": "#d55e00"})
    assert "error_x" not in one_seed["data"][0]


def test_what_knows_the_future_stands_below_and_pale() -> None:
    rows = summary_of({("nilas", "oracle"): 4.0, ("nilas", "km"): 2.0, ("nilas", "noise:1"): 3.0})
    figure = gain_figure(rows, {"nilas": "#d55e00"})
    assert [text.split(" <b>")[0] for text in figure["layout"]["yaxis"]["ticktext"]] == [
        "nilas (noise:1)", "nilas (oracle)", "nilas (km)"]  # from below
    assert figure["data"][0]["marker"]["opacity"] == [0.45, 0.45, 1.0]


def test_the_table_begins_with_what_can_be_deployed(tmp_path: Path) -> None:
    rows = summary_of({("nilas", "oracle"): 4.0, ("nilas", "km"): -2.0})
    data = ComparisonData("", "", pd.DataFrame(), rows, {}, {}, [], 0)
    page = write_page(tmp_path / "page.html", data).read_text("utf-8")
    shown = re.findall(r'<tr><td class="text" data-value="[^"]+">[^<]+</td><td class="text" data-value="([^"]*)"', page)
    assert shown[:3] == ["", "km", "oracle"]  # best-fit's gain of 0 is above -2


def test_deployable_lines_are_shown_before_any_that_knows_the_future() -> None:
    gains = {("nilas", f"noise:{k}"): 10.0 + k for k in range(8)} | {("nilas", "km"): 0.1, ("lava", "km"): -5.0}
    summary = summary_of(gains)
    series = {label: pd.DataFrame({"time_s": [0, 60], "empty_hosts_pct": 30.0, "bound_empty_hosts_pct": 40.0})
              for label in summary["label"]}
    data = ComparisonData("", "", summary, summary, series, {}, [], 0)
    lines = empty_hosts_figure(data, {"best-fit": "#000000", "nilas": "#0072b2", "lava": "#d55e00"})["data"]
    shown = [line["meta"] for line in lines if line.get("visible", True)]
    assert shown == ["bound", "best-fit", "nilas (noise:6)", "nilas (noise:7)", "nilas (km)", "lava (km)"]


def test_of_many_lines_best_fit_and_the_best_are_shown() -> None:
    gains = {("nilas", f"noise:{k}"): float(k) for k in range(8)}
    summary = summary_of(gains)
    series = {label: pd.DataFrame({"time_s": [0, 60], "empty_hosts_pct": 30.0, "bound_empty_hosts_pct": 40.0})
              for label in summary["label"]}
    data = ComparisonData("", "", summary, summary, series, {}, [], 0)
    lines = empty_hosts_figure(data, {"best-fit": "#000000", "nilas": "#0072b2"})["data"]
    shown = [line["meta"] for line in lines if line.get("visible", True)]
    assert shown == ["bound", "best-fit", *(f"nilas (noise:{k})" for k in (4, 5, 6, 7))]
    assert len(shown) == N_LINES
    assert lines[1]["x"] == [0, 60]  # seconds


def test_the_distribution_is_of_the_time_after_the_warm_up() -> None:
    summary = summary_of({})
    series = {"best-fit": pd.DataFrame({"time_s": [0, 60, 120, 180, 240], "empty_hosts_pct": [90.0, 30, 10, 20, 30],
                                        "bound_empty_hosts_pct": 40.0})}
    data = ComparisonData("", "", summary, summary, series, {}, [], warmup_s=60)
    bound, line = distribution_figure(data, {"best-fit": "#000000"})["data"]
    at_least = dict(zip(line["y"], line["x"], strict=True))
    # of 4 moments 2 have 30 or more, 3 have 20 or more, all 10 or more
    assert [at_least[share] for share in (0, 50, 51, 75, 76, 100)] == [30, 30, 20, 20, 10, 10]
    assert set(bound["x"]) == {40}


def test_violations_are_drawn_where_every_line_has_them(tmp_path: Path) -> None:
    summary = summary_of({("nilas", "km"): 1.0})
    own = {"time_s": [0, 3600], "empty_hosts_pct": 30.0, "bound_empty_hosts_pct": 40.0}
    series = {label: pd.DataFrame({**own, "violated_hosts_pct": [0.0, pct], "excess_pct": [0.0, pct / 8]})
              for label, pct in (("best-fit", 2.0), ("nilas (km)", 0.0))}
    data = ComparisonData("", "", pd.DataFrame(), summary, series, {}, [], 60)
    page = Page(write_page(tmp_path / "page.html", data))
    assert "Violations over time" in page.headings
    hosts, excess = (page.data["figures"][f"violations-{name}"] for name in ("violated_hosts", "excess"))
    assert [(line["meta"], line["y"]) for line in hosts["data"]] == [("best-fit", [0, 2]), ("nilas (km)", [0, 0])]
    assert [line["y"] for line in excess["data"]] == [[0, 0.25], [0, 0]]
    assert hosts["data"][0]["x"] == [0, 60]  # minutes
    assert hosts["layout"]["shapes"][0]["x1"] == 1  # the warm-up
    assert "Never above capacity: nilas (km)." in page.text
    never = {label: frame.assign(violated_hosts_pct=0.0, excess_pct=0.0) for label, frame in series.items()}
    page = Page(write_page(tmp_path / "never.html", replace(data, series=never)))
    assert "No host was ever above capacity." in page.text
    partly = {**series, "nilas (km)": pd.DataFrame(own)}
    page = Page(write_page(tmp_path / "partly.html", replace(data, series=partly)))
    assert "Violations over time" not in page.headings


def test_host_map_rows_are_sorted_by_use() -> None:
    # Three moments; host 0 is empty twice, host 1 never, host 2 once.
    classes = np.array([[0, 1, 4], [0, 2, 0], [3, 3, 4]], np.int8)
    states = np.array([[0, 1, 2], [0, 1, 0], [1, 1, 2]], np.int8)
    figure = host_map_figure(HostMap(np.array([0, 3600, 10_800]), classes, states), 3600)
    by_class, by_state = figure["layout"]["meta"]
    assert figure["data"][0]["y"] == ["host 1", "host 2", "host 0"]
    assert by_class["rows"] == ["123", "404", "003"]
    assert by_state["rows"] == ["111", "202", "001"]
    assert by_state["names"] == ["empty", "open", "recycling"]
    assert figure["data"][0]["x"] == [0, 1, 3]  # hours
    assert figure["layout"]["shapes"][0]["x0"] == 1


def test_large_host_maps_are_thinned() -> None:
    classes = np.ones((1000, 2000), np.int8)
    figure = host_map_figure(HostMap(np.arange(1000) * 600, classes), 0)
    rows = figure["layout"]["meta"][0]["rows"]
    assert (len(rows), len(rows[0]), len(figure["data"][0]["x"])) == (300, 300, 300)
    assert figure["layout"]["yaxis"]["title"]["text"] == "300 of 2,000 hosts"
    assert figure["data"][0]["y"][0] == "host 0"
    assert figure["data"][0]["y"][-1] == "host 1999"


def test_a_chosen_host_is_shown_however_far_down() -> None:
    hosts = [[f"h{k}", "", float(k)] for k in range(150)] + [["full", "cpu_cores", 0.0]]
    decision = {"policy": "nilas", "predictor": "", "request": {}, "time_s": 0, "chosen": "h149",
                "columns": [{"name": "cost", "meaning": ""}], "hosts": hosts}
    shown = shown_decision(decision)
    assert [host[0] for host in shown["hosts"]] == [*range(1, MAX_HOSTS + 1), 150]
    assert (shown["n_hosts"], shown["excluded"], shown["label"]) == (150, [["cpu_cores", 1]], "nilas")
    with pytest.raises(ValueError, match="hosts must have 1 scores, got 2 for host 'x'"):
        shown_decision({**decision, "hosts": [["x", "", 1.0, 2.0]]})


def test_sweeps_join_the_oracle_to_what_is_flawed() -> None:
    gains = {**GAINS, ("nilas", "one-shot:noise:0.5"): 1.5, ("nilas", "one-shot:oracle"): 3.5, ("la", "oracle"): 1.0}
    recall, noise = sweeps(ComparisonData("", "", pd.DataFrame(), summary_of(gains), {}, {}, [], 0))
    assert recall.lines["nilas"][["x", "gain_pp"]].to_numpy().tolist() == [[80.0, 3.0], [100.0, 4.0]]
    assert noise.lines["nilas"][["x", "gain_pp"]].to_numpy().tolist() == [[0.0, 4.0], [1.0, 2.0]]
    assert noise.lines["nilas (one-shot)"][["x", "gain_pp"]].to_numpy().tolist() == [[0.0, 3.5], [0.5, 1.5]]
    assert set(recall.lines) == {"nilas"}  # one point is no line
    assert noise.policies == ["nilas", "nilas"]


def test_each_workload_has_its_own_sweeps() -> None:
    summary = pd.concat([summary_of({("nilas", "oracle"): gain}, load=load).assign(workload=workload)
                         for workload, by_load in (("cold", (1.0, 2.0)), ("warm", (3.0, 4.0)))
                         for load, gain in zip((0.6, 0.8), by_load, strict=True)], ignore_index=True)
    found = sweeps(ComparisonData("", "", pd.DataFrame(), summary, {}, {}, [], 0))
    assert [(sweep.name, sweep.title) for sweep in found] == [
        ("load", "Gain against load: cold"), ("load-1", "Gain against load: warm")]
    assert found[1].lines["nilas (oracle)"][["x", "gain_pp"]].to_numpy().tolist() == [[60.0, 3.0], [80.0, 4.0]]


def test_static_pictures(tmp_path: Path) -> None:
    data = made_data()
    for path in (write_heat_map_png(data, tmp_path / "maps.png", ["best-fit", "plain"]),
                 write_sensitivity_png(data, tmp_path / "sweeps.png")):
        assert path.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match=r"labels must .*, got \['lava'\]"):
        write_heat_map_png(data, tmp_path / "maps.png", ["lava"])
    with pytest.raises(ValueError, match="summary must vary recall, noise or load"):
        write_sensitivity_png(replace(data, summary=summary_of({})), tmp_path / "sweeps.png")
