"""Checks that columns are known at creation: a warning and a gate on columns from the future.

A column that is written after the end (a score, a status, an end time) makes any model look
excellent. No test window shows it, as it is in every window of the file. There are two signs.

The first is the share of the model that depends on the column.

The second is that it separates requests that still run at the trace's end from those that ended: nearly all that still
run share a value (or a missing one) that hardly any ended request has. Columns that are known at creation do so by
chance, too: ids and columns whose values change with time, at any time; a kind of long requests, among the old. So a
value counts only if it recurs; young requests are compared first; and the ended ones are compared all together and only
the late arrivals. The same is done at earlier times of the window. Requests that ran then had ended when the
file was written, so a column that is written after the end shows nothing there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from sojourn.features.creation import FeatureRows
from sojourn.features.split import Examples, Split
from sojourn.features.trace import Trace
from sojourn.flows.retrain.verdict import Gate
from sojourn.models.lifetime import LifetimeModel
from sojourn.models.measures import Reliance, reliances
from sojourn.serving.curves import KINDS
from sojourn.serving.inputs import Encoder

SUSPECTS = "suspect_columns"
"""Tag of a version: its suspect columns."""
_KNOWN_AT_CREATION = ("Is it known before a request begins? If not, keep it from the model (known_at_end); only if so, "
                      "confirm it: --confirmed-column COLUMN")
ESTIMATES = ("requested_s",)
"""Columns with the user's estimate of the lifetime, known at creation: models may depend on it."""
GAIN_SHARE = 0.5
LOST_SHARE, RATIO = 0.4, 1.3
"""A column is suspect if it has this share of the gain; or if, without it, the model loses this
share of its lead and the score is so many times as bad. The bounds are between columns of public
traces and a column of log10 lifetime with noise as wide as lifetimes, standard deviation 1
(docs/gates.md)."""
MIN_RUNNING = 5
"""The least number of running requests with different arrivals, in all and with each such value."""
YOUNG = 0.75
"""Young requests are below this quantile of lifetimes; the trace's end decides which still run."""
OF_RUNNING, OF_ENDED = 0.95, 0.05
"""Nearly all running requests; and hardly any ended ones, as a share of the running ones' share."""
MIN_RUNNING_OLD, OF_ENDED_OLD = 20, 0.001
"""The same bounds for running requests of any age, if too few are young."""
N_LATE = 50
"""The least number of late arrivals: ended requests that arrived with the running or last ones."""
N_MOMENTS = 19
MOMENTS_SHARE = 0.1
"""Earlier times; a column that separates at more than this share of them does so normally."""
_COMMON = 0.05
_RUN_ON_MAX = 0.5
"""An earlier time with more than this share of requests that run to the trace's end is left out."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A column that seems not to be known at creation, and why."""

    column: str
    reason: str

    def __str__(self) -> str:
        return f"{self.column}: {self.reason}"


def check_confirmed(encoder: Encoder, confirmed: tuple[str, ...]) -> None:
    """ValueError if the encoder does not read a confirmed column."""
    strangers = [name for name in confirmed if name not in encoder.columns()]
    if strangers:
        raise ValueError(f"confirmed_columns must be columns of the trace ({', '.join(encoder.columns())}), got "
                         f"{strangers[0]!r}")


def suspects(trace: Trace, encoder: Encoder, rows: FeatureRows, model: LifetimeModel, split: Split,
             confirmed: tuple[str, ...], seed: int, n_threads: int = 1) -> tuple[Suspect, ...]:
    """The declared inputs that seem to know the future, unless confirmed.

    Owners are not checked: they reach the model only by their history, which is of ended requests.
    """
    columns_of = {name: positions for name, positions in feature_positions(encoder).items()
                  if name not in (*ESTIMATES, *confirmed)}
    shares = gain_shares(encoder, model)
    keys = {name: [idx for idx, key in enumerate(encoder.history.keys) if name in key.columns] for name in columns_of}
    columns = [(name, positions, keys[name], shares.get(name, 0.0)) for name, positions in columns_of.items()]
    every = [position for positions in columns_of.values() for position in positions]
    every_key = sorted({idx for idxs in keys.values() for idx in idxs})
    columns.append(("", every, every_key, 0.0))
    *each, together = reliances(model.curve_table, split.past, split.test, columns, seed, n_threads)
    suspicious = []
    for reliance in each:
        test_requests = trace.requests[reliance.column].iloc[rows.idx_request[split.test.idx_row]]
        reason = _carries(reliance) or tells_running(test_requests, split.test)
        if reason:
            suspicious.append(Suspect(reliance.column, reason))
    if not suspicious and _carries(together):  # columns with the same information hide each other
        largest = sorted(each, key=lambda reliance: -reliance.gain_share)[:2]
        names = ", ".join(reliance.column for reliance in largest)
        gain_share = sum(reliance.gain_share for reliance in largest)
        suspicious.append(Suspect(names, _carries(replace(together, gain_share=gain_share))))
    return tuple(suspicious)


def question(suspicious: Sequence[Suspect]) -> str:
    """The question about suspect columns, and how to answer it."""
    return f"{'; '.join(map(str, suspicious))}. {_KNOWN_AT_CREATION}"


def known_gate(suspicious: tuple[Suspect, ...], confirmed: tuple[str, ...]) -> Gate:
    """Passed if no column is suspect, except those that the configuration confirms."""
    name = "columns known at creation"
    if not suspicious:
        return Gate(name, True, f"confirmed: {', '.join(confirmed)}" if confirmed else "no suspect column")
    return Gate(name, False, question(suspicious))


def feature_positions(encoder: Encoder) -> dict[str, list[int]]:
    """The indices of each declared number and category among the encoder's features."""
    categories = {key.name for key in encoder.history.keys if key.kind == "category"}
    positions: dict[str, list[int]] = {}
    for idx, name in enumerate(encoder.feature_names()):
        column = name.partition(":")[0]
        if name in encoder.numbers or column in categories:
            positions.setdefault(column, []).append(idx)
    return positions


def gain_shares(encoder: Encoder, model: LifetimeModel) -> dict[str, float]:
    """Each column's share of the gain of all splits but those on the age; {} without trees."""
    gains, exported = model.gains(), model.export()
    if gains is None or exported is None:
        return {}
    fixed = encoder.feature_names()
    names = (*fixed, *KINDS[exported.kind].varying_names(fixed, exported.age_features))
    gains = gains.copy()
    gains[len(fixed) + len(exported.age_features):] = 0.0
    total = float(gains.sum())
    shares: dict[str, float] = {}
    for name, gain in zip(names, gains.tolist(), strict=True):
        column = name.removesuffix("/age").partition(":")[0]
        shares[column] = shares.get(column, 0.0) + (gain / total if total > 0.0 else 0.0)
    return shares


def _carries(reliance: Reliance) -> str:
    if reliance.gain_share < GAIN_SHARE and (reliance.lost_share < LOST_SHARE or reliance.ratio < RATIO):
        return ""
    return (f"{reliance.gain_share:.0%} of the gain; Brier over ages {reliance.score:.4f}, and "
            f"{reliance.shuffled:.4f} with its values shuffled ({reliance.pooled:.4f} = one curve for all)")


@dataclass(frozen=True, slots=True)
class _Separation:
    """codes: the values that separate, most frequent first. n_running of n_all_running, n_ended of
    n_all_ended have them."""

    word: str
    codes: np.ndarray
    n_running: int
    n_all_running: int
    n_ended: int
    n_all_ended: int


def tells_running(values: pd.Series, test: Examples) -> str:
    """Why a column's values (n,) separate running from ended requests; "" = they do not."""
    codes, known = pd.factorize(values.to_numpy(object), use_na_sentinel=False)
    end_s = test.arrival_s + test.lifetime_s
    young_s = float(np.quantile(test.lifetime_s, YOUNG))
    separation = _separation(codes, test.arrival_s, test.lifetime_s, ~test.is_event, young_s)
    if separation is None:
        return ""
    n_moments = n_separating = 0
    for moment_s in np.unique(np.quantile(test.arrival_s, np.arange(1, N_MOMENTS + 1) / (N_MOMENTS + 1))):
        is_before = test.arrival_s < moment_s
        is_running = ~test.is_event | (end_s > moment_s)
        if (is_before & ~test.is_event).sum() > _RUN_ON_MAX * max((is_before & is_running).sum(), 1):
            continue
        n_moments += 1
        age_s = np.minimum(end_s, moment_s) - test.arrival_s
        n_separating += _separation(codes[is_before], test.arrival_s[is_before], age_s[is_before],
                                    is_running[is_before], young_s) is not None
    if n_separating > MOMENTS_SHARE * n_moments:
        return ""
    first = known[separation.codes[0]]
    more = f" (or one of {len(separation.codes) - 1} more values)" if len(separation.codes) > 1 else ""
    return (f"{separation.n_running:,} of {separation.n_all_running:,} {separation.word}requests that still run at the "
            f"trace's end have {_shown(first)}{more}, {separation.n_ended:,} of {separation.n_all_ended:,} that ended")


def _separation(codes: np.ndarray, arrival_s: np.ndarray, age_s: np.ndarray, is_running: np.ndarray,
                young_s: float) -> _Separation | None:
    """The values that separate at one time; None if there are none, or too few requests run."""
    if is_running.all():
        return None
    is_young = is_running & (age_s <= young_s)
    few_young = len(np.unique(arrival_s[is_young])) < MIN_RUNNING
    if not few_young:
        return _separating("young ", codes, arrival_s, is_young, ~is_running, MIN_RUNNING, OF_ENDED)
    separation = _separating("", codes, arrival_s, is_running, ~is_running, MIN_RUNNING_OLD, OF_ENDED_OLD)
    return separation if separation is not None and np.isin(codes[is_young], separation.codes).all() else None


def _separating(word: str, codes: np.ndarray, arrival_s: np.ndarray, is_running: np.ndarray, has_ended: np.ndarray,
                n_least: int, of_ended: float) -> _Separation | None:
    if len(np.unique(arrival_s[is_running])) < n_least:
        return None
    n_values = int(codes.max()) + 1
    running = np.bincount(codes[is_running], minlength=n_values)
    seconds = pd.Series(arrival_s[is_running]).groupby(codes[is_running]).nunique()
    n_seconds = np.zeros(n_values, np.int64)
    n_seconds[seconds.index.to_numpy()] = seconds.to_numpy()
    share = running / running.sum()
    ended = np.bincount(codes[has_ended], minlength=n_values)
    idx_ended = np.flatnonzero(has_ended)
    idx_ended = idx_ended[np.argsort(arrival_s[idx_ended], kind="stable")]
    n_with = int((arrival_s[idx_ended] >= arrival_s[is_running].min()).sum())
    late = np.bincount(codes[idx_ended[-max(n_with, N_LATE):]], minlength=n_values)
    others = np.maximum(ended / ended.sum(), late / late.sum())
    separates = (n_seconds >= MIN_RUNNING) & (share >= _COMMON) & (others <= of_ended * share)
    if share[separates].sum() < OF_RUNNING:
        return None
    values = np.flatnonzero(separates)
    return _Separation(word, values[np.argsort(-running[values], kind="stable")], int(running[separates].sum()),
                       int(running.sum()), int(ended[separates].sum()), int(ended.sum()))


def _shown(value: object) -> str:
    if pd.isna(value):  # type: ignore[call-overload]
        return "no value"
    return f"{value:.4g}" if isinstance(value, int | float) and not isinstance(value, bool) else repr(str(value))
