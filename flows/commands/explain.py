"""The answer to "why 3 days?": one request's prediction as a table of what each of its inputs adds."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from sojourn.flows.console import console, duration
from sojourn.serving import Bundle, Predictor
from sojourn.serving.answers import ARRIVAL, Attribution, background_of
from sojourn.serving.inputs import HistoryDefinition, HistoryKey, Parsed

N_ROWS_MAX = 12
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def write_curve(predictor: Predictor, requests: Sequence[Mapping[str, Any]], now_s: int, file: Path) -> None:
    """Draw the curve of the one request; ValueError where there are several."""
    from sojourn.flows.reports.figures import curve_figure

    if len(requests) != 1:
        raise ValueError(f"a picture must be of one request, got {len(requests)}")
    title = f"Request {_text(requests[0])}\nModel {predictor.info()['family']}, version {predictor.version}"
    curve_figure(predictor.predict(requests[0], now_s).curve, title).savefig(file, dpi=110)


def print_explanations(bundle: Bundle, requests: Sequence[Mapping[str, Any]], now_s: int,
                       uptimes_s: Sequence[float]) -> None:
    """Print one table for each request and uptime."""
    explainer = RequestExplainer(bundle)
    for request in requests:
        for uptime_s in uptimes_s:
            console.print(explainer.table(request, now_s, uptime_s))


class RequestExplainer:
    """Explains requests by a bundle's model, against the earlier requests that the bundle carries.

    A bundle that carries none is explained against a request of which nothing but the arrival time is known.
    """

    def __init__(self, bundle: Bundle) -> None:
        self._encoder = bundle.schema.encoder
        self._background = background_of(bundle.schema)
        self._predictor = Predictor(bundle)

    def table(self, request: Mapping[str, Any], now_s: int, uptime_s: float = 0.0) -> Table:
        """Inputs, their values and what each adds to the median remaining time, largest effect first.

        Raises ValueError as the predictor does: unknown column, wrong type, bad uptime.
        """
        vm = self._predictor.predict(request, now_s)
        found = self._predictor.explain(vm, uptime_s)
        base_name = "a request of which nothing is known"
        if self._background is not None:
            base_name = f"{len(self._background)} earlier requests, typically"
        values = self._values(self._encoder.parse(request), vm.features, found)
        return explanation_table(found, values, base_name, _text(request), uptime_s)

    def _values(self, parsed: Parsed, features: list[float], found: Attribution) -> list[str]:
        """What the model knew of each group of inputs, in words."""
        encoder = self._encoder
        keys = dict(zip((key.history_name for key in encoder.history.keys),
                        zip(encoder.history.keys, parsed.keys, strict=True), strict=True))  # fmt: skip
        words = []
        for group in found.groups:
            values = [features[idx] for idx in group.idx]
            if group.name in keys:
                words.append(history_words(*keys[group.name], values, encoder.history))
            elif group.name == ARRIVAL:
                minutes = int(values[0] * 60.0)
                words.append(f"{_DAYS[int(values[1])]} {minutes // 60:02d}:{minutes % 60:02d}")
            elif math.isnan(values[0]):
                words.append("not given")
            else:
                words.append(duration(values[0]) if group.name.endswith("_s") else f"{values[0]:g}")
        return words


def history_words(key: HistoryKey, names: tuple[str, ...] | None, features: list[float], history: HistoryDefinition,
                  ) -> str:
    """A key's history as a reader says it: "lately" is the geometric mean of the last lifetimes, and their spread.

    Where the history sets instant ends apart, counts and lifetimes are of the others, and their share is said.

    >>> zone = HistoryKey("zone", ("zone",), "category")
    >>> history_words(zone, ("eu-1",), [math.log1p(16.0), 4.0], HistoryDefinition((zone,)))
    'eu-1: 16 or more ended, lately 2.8 h'
    >>> history_words(zone, None, [0.0, 4.0], HistoryDefinition((zone,)))
    'not given'
    """
    if names is None:
        return "not given"
    names_of = [name.removeprefix(f"{key.name}:") for name in key.feature_names(history.instant_s is not None)]
    parts = dict(zip(names_of, features[:len(names_of)], strict=True))  # what stands to the limit follows from these
    n_ended, n_running = (round(math.expm1(parts.get(part, 0.0))) for part in ("ended", "running"))
    counts = [f"{n_running:,} running"] * (n_running > 0)
    if n_ended:
        lately = f"lately {duration(10.0 ** parts['mean'])}"
        counts = [f"{n_ended:,}{' or more' * (n_ended == history.window)} ended", lately, *counts]
        if parts.get("spread", 0.0) >= 0.05:
            counts[1] += f" ×÷ {10.0 ** parts['spread']:.1f}"
    if parts.get("instant", 0.0) > 0.0:
        counts.append(f"{parts['instant']:.0%} of the last at once")
    return f"{' / '.join(name.removesuffix('.0') for name in names)}: {', '.join(counts) or 'never seen'}"


def explanation_table(found: Attribution, values: list[str], base_name: str, request: str, uptime_s: float) -> Table:
    """Base, up to 12 effects and the answer; factors multiply, and log10 seconds add, from base to answer."""
    when = "at creation" if uptime_s == 0.0 else f"after {duration(uptime_s)}"
    method = "Shapley values" if found.is_exact else "Shapley values over drawn orders"
    table = Table(
        title=Text(f"Why {duration(10.0 ** found.answer)}? Median remaining time {when} of {request}"),
        title_justify="left", caption_justify="left", title_style="bold",
        caption=Text(f"{method}: what each input adds, averaged over all orders of making it known. Factors multiply "
                     "and log10 s add up from the first line to the last. Of the model, not of causes."),
    )  # fmt: skip
    table.add_column("input", no_wrap=True)
    table.add_column("value", overflow="fold")
    for heading in ("effect on the median", "log10 s"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_row(Text(base_name), "", duration(10.0**found.base), f"{found.base:.3f}", end_section=True)
    order = sorted(range(len(values)), key=lambda idx: (-abs(found.effects[idx]), idx))
    n_shown = N_ROWS_MAX if len(order) <= N_ROWS_MAX else N_ROWS_MAX - 1
    for idx in order[:n_shown]:
        table.add_row(Text(found.groups[idx].name), Text(values[idx]), *_effect(found.effects[idx]))
    if len(order) > n_shown:
        rest = math.fsum(found.effects[idx] for idx in order[n_shown:])
        table.add_row(f"{len(order) - n_shown} others", "", *_effect(rest))
    table.add_section()
    table.add_row("this request", "", duration(10.0**found.answer), f"{found.answer:.3f}")
    return table


def _text(request: Mapping[str, Any]) -> str:
    return json.dumps(dict(request), ensure_ascii=False)


def _effect(effect: float) -> tuple[str, str]:
    """A factor with its direction, and its log10.

    >>> _effect(0.25), _effect(-0.3), _effect(0.0)
    (('longer ×1.78', '+0.250'), ('shorter ×0.50', '-0.300'), ('×1.00', '+0.000'))
    """
    factor = 10.0**effect
    digits = f"{factor:.3g}" if factor < 0.1 or factor >= 100.0 else f"{factor:.2f}"
    direction = "" if digits == "1.00" else "longer " if effect > 0.0 else "shorter "
    return f"{direction}×{digits}", f"{round(effect, 3) + 0.0:+.3f}"
