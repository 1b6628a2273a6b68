"""The tables of the docs that list what a registry holds; run as a program (`make tables`) it writes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

from settings_text import example, rows
from sojourn.features.readers import READERS
from sojourn.features.usage import USAGE_READERS
from sojourn.flows.admission.settings import AdmitConfig
from sojourn.flows.compare.settings import PRESETS, CompareConfig, Preset
from sojourn.flows.settings.other_jobs import MonitorConfig, TrainUsageConfig
from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.flows.settings.trace import SharedSettings, TraceSettings
from sojourn.models import LIFETIME_MODELS
from sojourn.models.measures import MEASURES
from sojourn.simulator import POLICIES
from sojourn.simulator.measures import COLUMNS
from studies.compare import COMPARISONS
from studies.policies import MIN_USAGE, VARIANTS

DOCS = Path(__file__).resolve().parents[1] / "docs"
EXAMPLES = DOCS.parent / "examples"
_PREDICTIONS = {"none": "none", "initial": "the first of each request", "current": "current"}


def table(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table.

    >>> print(table(("a", "b"), [("1", "2")]))
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    lines = [list(titles), *map(list, rows)]
    text = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([text[0], "|" + "---|" * len(lines[0]), *text[1:]])


def names(values: Iterable[str]) -> str:
    """Each as code, in one cell."""
    return ", ".join(f"`{value}`" for value in values)


def readers() -> str:
    return table(
        ("reader", "path", "arrival", "departure", "owners", "categories", "numbers", "no role", "options", "recipe"),
        [(f"`{name}`", each.path, each.arrival, each.departure, each.owners, each.categories, each.numbers,
          each.no_role, names(each.options), f"`{each.recipe}`") for name, each in READERS.items()])


def usage_readers() -> str:
    return table(("reader", "path", "cpu is a share of", "a stamp is the", "usual interval, s", "options"), [
        (f"`{name}`", each.path, each.cpu, each.stamp, str(each.step_s), names(each.options))
        for name, each in USAGE_READERS.items()])


def families() -> str:
    return table(("family", "what it is", "answers", "trained by `retrain`", "place among level ones"), [
        (f"`{name}`", each.about, each.answers, each.trained, str(each.place))
        for name, each in LIFETIME_MODELS.items()])


def policies() -> str:
    return table(("policy", "takes", "predictions"), [
        (f"`{name}`", each.about, _PREDICTIONS[each.predictions]) for name, each in POLICIES.items()])


def min_usage() -> str:
    return table(("policy", "takes", "predictions"), [
        (f"`{name}`", each.about, _PREDICTIONS[each.predictions]) for name, each in MIN_USAGE.items()])


def variants() -> str:
    return table(("policy", "what differs"), [(f"`{name}`", each.about) for name, each in VARIANTS.items()])


def presets(of: Mapping[str, Preset], title: str) -> str:
    return table((title, "what it compares", "policies", "predictors", "seeds"), [
        (f"`{name}`", each.about, names(each.policies), names(each.predictors), str(len(each.seeds)))
        for name, each in of.items()])


def metrics() -> str:
    return table(("figure", "name", "unit", "better"), [
        (each.title, f"`{name}`", each.unit, each.better) for name, each in COLUMNS.items()])


def measures() -> str:
    return table(("column", "name", "better", "table"), [
        (" ".join(each.title.format(long="T").split()), f"`{name}`", each.better, each.table)
        for name, each in MEASURES.items()])


def settings(kind: type[TraceSettings], besides: type[TraceSettings] | None = None) -> str:
    return table(("setting", "default", "what it says"), rows(kind, besides))


TABLES: Mapping[str, tuple[str, Callable[[], str]]] = {
    "readers": ("traces/readers.md", readers),
    "usage-readers": ("usage/readers.md", usage_readers),
    "families": ("lifetime.md", families),
    "policies": ("simulator/policies.md", policies),
    "min-usage": ("simulator/policies.md", min_usage),
    "variants": ("simulator/policies.md", variants),
    "presets": ("simulator.md", partial(presets, PRESETS, "preset")),
    "comparisons": ("simulator.md", partial(presets, COMPARISONS, "study")),
    "metrics": ("simulator/metrics.md", metrics),
    "measures": ("lifetime/measures.md", measures),
    "settings-all": ("reference/settings.md", partial(settings, TraceSettings)),
    "settings-shared": ("reference/settings.md", partial(settings, SharedSettings, TraceSettings)),
    "settings-retrain": ("reference/settings.md", partial(settings, RetrainConfig, SharedSettings)),
    "settings-compare": ("reference/settings.md", partial(settings, CompareConfig, SharedSettings)),
    "settings-train-usage": ("reference/settings.md", partial(settings, TrainUsageConfig, SharedSettings)),
    "settings-monitor": ("reference/settings.md", partial(settings, MonitorConfig, TraceSettings)),
    "settings-admit": ("reference/settings.md", partial(settings, AdmitConfig, TraceSettings)),
}
"""By the name in the marker: the page, and what makes the table."""

FILES: Mapping[str, Callable[[], str]] = {
    "retrain.toml": partial(example, RetrainConfig, "retrain"),
    "compare.toml": partial(example, CompareConfig, "compare"),
}
"""Files of `examples` that are made whole."""


def with_table(text: str, name: str, made: str) -> str:
    """The text of a page with this table between its markers; ValueError where they are not there once."""
    marked = re.compile(rf"(<!-- {name}: generated by `make tables` -->\n).*?(\n<!-- end -->)", re.DOTALL)
    if len(marked.findall(text)) != 1:
        raise ValueError(f"the markers of {name} must stand once in its page, got {len(marked.findall(text))}")
    return marked.sub(lambda found: f"{found[1]}{made}{found[2]}", text)


def main() -> None:
    for name, (page, made) in TABLES.items():
        file = DOCS / page
        file.write_text(with_table(file.read_text(), name, made()))
    for name, made in FILES.items():
        (EXAMPLES / name).write_text(made())


if __name__ == "__main__":
    main()
