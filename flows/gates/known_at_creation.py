"""Is each column known when a request is created? A warning and a gate where one looks as if it knew the future.

A column that is written after the end (a score, a status, an end time) makes any model look excellent, and no test
window shows it: it is there in every window of the file. What shows is the share of the model that depends on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sojourn.features.creation import FeatureRows
from sojourn.features.split import Split
from sojourn.features.trace import Trace
from sojourn.flows.gates.gate import Gate
from sojourn.flows.gates.tells_running import tells_running
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
