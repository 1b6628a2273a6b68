"""Is each column known when a request is created? A warning, and a gate on a column that looks as if it knew the
future.

A column that is written after the end (a score, a status, an end time) makes any model look excellent, and no test
window shows it: it is there in every window of the file. Two things show it.

The share of the model that depends on it.

Whether it separates what still runs at the trace's end from what has ended: nearly all that still runs shares a
value (or has none) that nearly nothing that ended has. Columns that are known at creation do so by chance, too: ids
and columns whose values change with time, at any moment; a kind of request that runs for long, among the old. So a
value counts only if it recurs, the young are compared first, what ended is compared as a whole and as far as it
arrived lately, and the same is done at earlier moments of the window: there, what ran had ended by the time that the
file was written, and a column that is written after the end shows nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from sojourn.features.creation import FeatureRows
from sojourn.features.split import Examples, Split
from sojourn.features.trace import Trace
from sojourn.flows.retrain.gate import Gate
from sojourn.models.lifetime import LifetimeModel
from sojourn.models.measures import Reliance, reliances
from sojourn.serving.curves import KINDS
from sojourn.serving.inputs import Encoder

SUSPECTS = "suspect_columns"
"""Tag of a version: the columns that are asked about."""
_KNOWN_AT_CREATION = ("Is it known before a request begins? If not, keep it from the model (known_at_end); only if so, "
                      "confirm it: --confirm COLUMN")
ESTIMATES = ("requested_s",)
"""Columns that are the user's own estimate of the lifetime: they may carry a model, and are known by what they are."""
GAIN_SHARE = 0.5
LOST_SHARE, RATIO = 0.4, 1.3
"""A column is asked about where it has so large a share of the gain, or where, without it, so much of the model's lead
is lost and the score is so many times as bad. Between what public traces' columns have and what a column of log10
lifetime has, whose noise is as wide as lifetimes are: standard deviation 1 (docs/gates.md)."""
MIN_RUNNING = 5
"""So many running requests, that arrived at different seconds, are asked, and so many have each value that counts."""
YOUNG = 0.75
"""Young: below this share of lifetimes. Of those, when the trace ends decides which still run."""
OF_RUNNING, OF_ENDED = 0.95, 0.05
"""Nearly all, and nearly nothing: as a share of what running ones have."""
MIN_RUNNING_OLD, OF_ENDED_OLD = 20, 0.001
"""Where too few are young, what runs is asked whatever its age: so many, and next to nothing of what ended."""
N_LATE = 50
"""What ended is also compared as far as it arrived with what runs, but of at least so many, the last ones."""
N_MOMENTS = 19
MOMENTS_SHARE = 0.1
"""Earlier moments, and at what share of them a column may tell as much before that is how the column is."""
_COMMON = 0.05
_RUN_ON_MAX = 0.5
"""An earlier moment of which more than this share runs on to the trace's end is no comparison."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A column that looks as if it were not known at creation, and why."""

    column: str
    reason: str

    def __str__(self) -> str:
        return f"{self.column}: {self.reason}"


def check_confirmed(encoder: Encoder, confirmed: tuple[str, ...]) -> None:
    """ValueError where a confirmed column is none that the encoder reads."""
    strangers = [name for name in confirmed if name not in encoder.columns()]
    if strangers:
        raise ValueError(f"confirmed_columns must be columns of the trace ({', '.join(encoder.columns())}), got "
                         f"{strangers[0]!r}")


def suspects(trace: Trace, encoder: Encoder, rows: FeatureRows, model: LifetimeModel, split: Split,
             confirmed: tuple[str, ...], seed: int) -> tuple[Suspect, ...]:
    """The declared numbers, categories and resources that look as if they knew the future, unless confirmed.

    Owners are not asked about: they reach the model by their history alone, which is of requests that had ended.
    """
    taken = {name: positions for name, positions in feature_positions(encoder).items()
             if name not in (*ESTIMATES, *confirmed)}
    shares = gain_shares(encoder, model)
    keys = {name: [idx for idx, key in enumerate(encoder.history.keys) if name in key.columns] for name in taken}
    columns = [(name, positions, keys[name], shares.get(name, 0.0)) for name, positions in taken.items()]
    every = [position for positions in taken.values() for position in positions]
    every_key = sorted({idx for own in keys.values() for idx in own})
    columns.append(("", every, every_key, 0.0))
    *each, together = reliances(model.curve_table, split.past, split.test, columns, seed)
    found = []
    for reliance in each:
        test_requests = trace.requests[reliance.column].iloc[rows.idx_request[split.test.idx_row]]
        reason = _carries(reliance) or tells_running(test_requests, split.test)
        if reason:
            found.append(Suspect(reliance.column, reason))
    if not found and _carries(together):  # columns that know the same hide each other
        largest = sorted(each, key=lambda reliance: -reliance.gain_share)[:2]
        names = ", ".join(reliance.column for reliance in largest)
        gain_share = sum(reliance.gain_share for reliance in largest)
        found.append(Suspect(names, _carries(replace(together, gain_share=gain_share))))
    return tuple(found)


def question(found: Sequence[Suspect]) -> str:
    """The question about suspect columns, and how to answer it."""
    return f"{'; '.join(map(str, found))}. {_KNOWN_AT_CREATION}"


def known_gate(found: tuple[Suspect, ...], confirmed: tuple[str, ...]) -> Gate:
    """Passed where no column is asked about, but those that the configuration confirms."""
    name = "columns known at creation"
    if not found:
        return Gate(name, True, f"confirmed: {', '.join(confirmed)}" if confirmed else "no suspect column")
    return Gate(name, False, question(found))


def feature_positions(encoder: Encoder) -> dict[str, list[int]]:
    """Where each declared number and category stands among the encoder's features."""
    categories = {key.name for key in encoder.history.keys if key.kind == "category"}
    found: dict[str, list[int]] = {}
    for idx, name in enumerate(encoder.feature_names()):
        column = name.partition(":")[0]
        if name in encoder.numbers or column in categories:
            found.setdefault(column, []).append(idx)
    return found


def gain_shares(encoder: Encoder, model: LifetimeModel) -> dict[str, float]:
    """Of each column, the share of the gain of all splits but those on the age; empty for a model without trees."""
    gains, exported = model.gains(), model.export()
    if gains is None or exported is None:
        return {}
    fixed = encoder.feature_names()
    names = (*fixed, *KINDS[exported.kind].varying_names(fixed, exported.age_features))
    gains = gains.copy()
    gains[len(fixed) + len(exported.age_features):] = 0.0
    total = float(gains.sum())
    found: dict[str, float] = {}
    for name, gain in zip(names, gains.tolist(), strict=True):
        column = name.removesuffix("/age").partition(":")[0]
        found[column] = found.get(column, 0.0) + (gain / total if total > 0.0 else 0.0)
    return found


def _carries(found: Reliance) -> str:
    if found.gain_share < GAIN_SHARE and (found.lost_share < LOST_SHARE or found.ratio < RATIO):
        return ""
    return (f"{found.gain_share:.0%} of the gain; Brier over ages {found.score:.4f}, and {found.shuffled:.4f} with its "
            f"values shuffled ({found.pooled:.4f} = one curve for all)")


@dataclass(frozen=True, slots=True)
class _Telling:
    """codes: the values that tell, most frequent first. n_own of n_asked running, n_other of n_ended have them."""

    word: str
    codes: np.ndarray
    n_own: int
    n_asked: int
    n_other: int
    n_ended: int


def tells_running(values: pd.Series, test: Examples) -> str:
    """Why a column's values (n,) tell what still ran at the trace's end from what had ended; "" where they do not."""
    codes, known = pd.factorize(values.to_numpy(object), use_na_sentinel=False)
    end_s = test.arrival_s + test.lifetime_s
    young_s = float(np.quantile(test.lifetime_s, YOUNG))
    found = _telling(codes, test.arrival_s, test.lifetime_s, ~test.is_event, young_s)
    if found is None:
        return ""
    n_moments = n_telling = 0
    for moment_s in np.unique(np.quantile(test.arrival_s, np.arange(1, N_MOMENTS + 1) / (N_MOMENTS + 1))):
        is_seen = test.arrival_s < moment_s
        is_running = ~test.is_event | (end_s > moment_s)
        if (is_seen & ~test.is_event).sum() > _RUN_ON_MAX * max((is_seen & is_running).sum(), 1):
            continue
        n_moments += 1
        age_s = np.minimum(end_s, moment_s) - test.arrival_s
        n_telling += _telling(codes[is_seen], test.arrival_s[is_seen], age_s[is_seen], is_running[is_seen],
                              young_s) is not None
    if n_telling > MOMENTS_SHARE * n_moments:
        return ""
    first = known[found.codes[0]]
    more = f" (or one of {len(found.codes) - 1} more values)" if len(found.codes) > 1 else ""
    return (f"{found.n_own:,} of {found.n_asked:,} {found.word}requests that still run at the trace's end have "
            f"{_shown(first)}{more}, {found.n_other:,} of {found.n_ended:,} that ended")


def _telling(codes: np.ndarray, arrival_s: np.ndarray, age_s: np.ndarray, is_running: np.ndarray,
             young_s: float) -> _Telling | None:
    """The values that tell at one moment; None where there are none, or too few run to say so."""
    if is_running.all():
        return None
    is_young = is_running & (age_s <= young_s)
    few_young = len(np.unique(arrival_s[is_young])) < MIN_RUNNING
    if not few_young:
        return _told("young ", codes, arrival_s, is_young, ~is_running, MIN_RUNNING, OF_ENDED)
    found = _told("", codes, arrival_s, is_running, ~is_running, MIN_RUNNING_OLD, OF_ENDED_OLD)
    return found if found is not None and np.isin(codes[is_young], found.codes).all() else None


def _told(word: str, codes: np.ndarray, arrival_s: np.ndarray, is_asked: np.ndarray, has_ended: np.ndarray,
          n_least: int, of_ended: float) -> _Telling | None:
    if len(np.unique(arrival_s[is_asked])) < n_least:
        return None
    n_values = int(codes.max()) + 1
    asked = np.bincount(codes[is_asked], minlength=n_values)
    seconds = pd.Series(arrival_s[is_asked]).groupby(codes[is_asked]).nunique()
    n_seconds = np.zeros(n_values, np.int64)
    n_seconds[seconds.index.to_numpy()] = seconds.to_numpy()
    share = asked / asked.sum()
    ended = np.bincount(codes[has_ended], minlength=n_values)
    idx_ended = np.flatnonzero(has_ended)
    idx_ended = idx_ended[np.argsort(arrival_s[idx_ended], kind="stable")]
    n_with = int((arrival_s[idx_ended] >= arrival_s[is_asked].min()).sum())
    late = np.bincount(codes[idx_ended[-max(n_with, N_LATE):]], minlength=n_values)
    others = np.maximum(ended / ended.sum(), late / late.sum())
    tells = (n_seconds >= MIN_RUNNING) & (share >= _COMMON) & (others <= of_ended * share)
    if share[tells].sum() < OF_RUNNING:
        return None
    found = np.flatnonzero(tells)
    return _Telling(word, found[np.argsort(-asked[found], kind="stable")], int(asked[tells].sum()), int(asked.sum()),
                    int(ended[tells].sum()), int(ended.sum()))


def _shown(value: object) -> str:
    if pd.isna(value):  # type: ignore[call-overload]
        return "no value"
    return f"{value:.4g}" if isinstance(value, int | float) and not isinstance(value, bool) else repr(str(value))
