"""What must stand beside a gain wherever it is shown: whether it can be deployed, what it rejects, what it rests on."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from sojourn.simulator.experiments.comparison import BASELINE, pairing_label

FEW_HOSTS, FEW_SEEDS = 30, 5
"""Below these a figure is said to rest on little: one host is then more than 3 % of the pool, and an interval of fewer
seeds is wide and trusts that they are normally distributed."""
MORE_REJECTED = f"rejects more than {BASELINE}"
_KNOWING = ("oracle", "noise", "recall", "truth")
"""Predictors made from a trace's own future, or from what drew it; nobody can deploy them."""
_ALIKE = ("workload", "load", "seed")


def knows_the_future(predictor: str) -> bool:
    """Whether nobody could have that predictor; "" is a policy without one.

    >>> [knows_the_future(text) for text in ("", "hazard", "one-shot:oracle", "noise:1", "bundle:truth")]
    [False, False, True, True, False]
    """
    return predictor.removeprefix("one-shot:").replace(" ", ":").split(":")[0] in _KNOWING


def is_rejecting_more(rows: pd.DataFrame) -> pd.Series:
    """Whether each row rejects more than best-fit did on the same workload, load and (where it has one) seed, bool.

    >>> rows = pd.DataFrame({"policy": ["best-fit", "a", "b"], "rejected_pct": [0.5, 0.5, 0.6]})
    >>> is_rejecting_more(rows).tolist()
    [False, False, True]
    """
    if "rejected_pct" not in rows:
        return pd.Series(False, rows.index)
    keys = [name for name in _ALIKE if name in rows]
    baseline = rows["rejected_pct"].astype(float).where(rows["policy"] == BASELINE)
    of_baseline = baseline.groupby([rows[name] for name in keys]).transform("first") if keys else baseline.max()
    return rows["rejected_pct"].astype(float) > of_baseline


def rejection_words(labels: Sequence[str]) -> str:
    """The sentence for those that do; "" for none.

    >>> rejection_words(["nilas (km)"])
    'More requests rejected than by best-fit: nilas (km). Part of the empty hosts may be work that was not taken.'
    """
    if not labels:
        return ""
    return (f"More requests rejected than by {BASELINE}: {', '.join(labels)}. Part of the empty hosts may be work that "
            "was not taken.")


def deployable_words(rows: pd.DataFrame) -> str:
    """The sentence where nothing that can be deployed beats best-fit, or nothing significantly; "" elsewhere.

    rows: one workload and load; `gain_low_pp` where there are several seeds.

    >>> rows = pd.DataFrame({"policy": ["best-fit", "a", "b"], "predictor": ["", "km", "oracle"],
    ...                      "gain_pp": [0.0, 0.2, 3.0], "gain_low_pp": [0.0, -0.1, 2.0]})
    >>> deployable_words(rows)
    'Nothing deployable is significantly better than best-fit.'
    """
    own = rows[(rows["policy"] != BASELINE) & ~rows["predictor"].map(knows_the_future).astype(bool)]
    if len(own) == 0:
        return ""
    if (own["gain_pp"] <= 0).all():
        return f"Nothing deployable beats {BASELINE}."
    low_pp = own["gain_low_pp"].astype(float) if "gain_low_pp" in own else pd.Series(dtype=float)
    is_level = low_pp.notna().any() and not (low_pp > 0).any()
    return f"Nothing deployable is significantly better than {BASELINE}." if is_level else ""


def evidence_words(n_hosts: float | None, n_seeds: int) -> str:
    """What figures of so few hosts or seeds are worth; "" where there are enough. None: not known.

    >>> evidence_words(14.0, 3)
    'Only 14 hosts and 3 seeds: differences of a point or two may be chance.'
    >>> evidence_words(871.0, 5)
    ''
    """
    few = [f"{n_hosts:,.0f} host{'s' * (n_hosts != 1)}"] if n_hosts is not None and n_hosts < FEW_HOSTS else []
    few += [f"{n_seeds} seed{'s' * (n_seeds != 1)}"] if n_seeds < FEW_SEEDS else []
    return f"Only {' and '.join(few)}: differences of a point or two may be chance." if few else ""


def evidence_of(rows: pd.DataFrame) -> str:
    """The same, of rows of one workload and load; "" where they do not tell their `n_seeds`."""
    if "n_seeds" not in rows:
        return ""
    n_hosts = float(rows["n_hosts"].min()) if "n_hosts" in rows else math.nan
    return evidence_words(None if math.isnan(n_hosts) else n_hosts, int(rows["n_seeds"].min()))


def caveats(rows: pd.DataFrame) -> list[str]:
    """All sentences that stand below a table: of one workload and load, with policy, predictor and gain."""
    is_more = is_rejecting_more(rows)
    labels = [pairing_label(*pair) for pair in rows.loc[is_more, ["policy", "predictor"]].itertuples(index=False)]
    return [words for words in (deployable_words(rows), rejection_words(labels), evidence_of(rows)) if words]
