"""What the paper found about admission, judged on the days of one trace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from sojourn.flows.placement.workloads import t_half_width
from sojourn.flows.reports.section import Section

_Days = Callable[[pd.DataFrame], "pd.Series[float] | None"]
BF, BAL, IDLE, THRESHOLD = "greedy best-fit", "greedy balanced", "greedy min-idle", "threshold best-fit"
BF_HOLES, BAL_HOLES = "greedy best-fit backfill", "greedy balanced backfill"


@dataclass(frozen=True, slots=True)
class Claim:
    """A finding: `of` a table of runs gives a number a day that the finding says is above 0; None = not testable."""

    words: str
    of: _Days


def _difference(limit: int, slack: float, worse: str, better: str) -> _Days:
    """Ratio of the one minus that of the other, by day, means over draws and cores."""

    def by_day(runs: pd.DataFrame) -> pd.Series[float] | None:
        if not len(runs):
            return None
        own = runs[(runs["limit"] == limit) & (runs["slack"] == slack) & np.isfinite(runs["ratio"])]
        means = own.groupby(["label", "day"])["ratio"].mean()
        if worse not in means or better not in means:
            return None
        return (means[worse] - means[better]).dropna()

    return by_day


def _more(one: _Days, other: _Days) -> _Days:
    """The one minus the other, by day."""

    def by_day(runs: pd.DataFrame) -> pd.Series[float] | None:
        pair = one(runs), other(runs)
        return None if pair[0] is None or pair[1] is None else (pair[0] - pair[1]).dropna()

    return by_day


CLAIMS = (
    Claim("greedy beats threshold, slack 0.01, sequential", _difference(1, 0.01, THRESHOLD, BF)),
    Claim("greedy beats threshold, slack 0.1, sequential", _difference(1, 0.1, THRESHOLD, BF)),
    Claim("greedy beats threshold by less at slack 0.9 than at 0.1",
          _more(_difference(1, 0.1, THRESHOLD, BF), _difference(1, 0.9, THRESHOLD, BF))),
    Claim("slack 0.1: acceptance matters more than allocation",
          _more(_difference(1, 0.1, THRESHOLD, BF), _difference(1, 0.1, BAL, BF))),
    Claim("allocation matters more at slack 0.9 than at 0.1",
          _more(_difference(1, 0.9, BAL, BF), _difference(1, 0.1, BAL, BF))),
    Claim("best-fit beats balanced, slack 0.5, sequential", _difference(1, 0.5, BAL, BF)),
    Claim("best-fit beats balanced, slack 0.5, up to 30 cores", _difference(30, 0.5, BAL, BF)),
    Claim("best-fit beats balanced, slack 0.5, up to 120 cores", _difference(120, 0.5, BAL, BF)),
    Claim("best-fit gains less up to 120 cores than sequential",
          _more(_difference(1, 0.5, BAL, BF), _difference(120, 0.5, BAL, BF))),
    Claim("balanced beats best-fit, slack 0.5, up to 5,000 cores", _difference(5_000, 0.5, BF, BAL)),
    Claim("min-idle beats best-fit, slack 0.5, up to 30 cores", _difference(30, 0.5, BF, IDLE)),
    Claim("min-idle beats best-fit, slack 0.5, up to 120 cores", _difference(120, 0.5, BF, IDLE)),
    Claim("backfilling helps best-fit, slack 0.5, up to 30 cores", _difference(30, 0.5, BF, BF_HOLES)),
    Claim("backfilling helps best-fit, slack 0.5, up to 120 cores", _difference(120, 0.5, BF, BF_HOLES)),
    Claim("backfilling helps more up to 120 cores than up to 30",
          _more(_difference(120, 0.5, BF, BF_HOLES), _difference(30, 0.5, BF, BF_HOLES))),
    Claim("best-fit backfill beats min-idle, up to 120 cores", _difference(120, 0.5, IDLE, BF_HOLES)),
)
LEGEND = ("Difference of ratios as the finding has it, above 0 = as found: mean over days, draws and three numbers of "
          "cores (0.5, 1 and 1.6 times what the day's load fills), with the 95 % t-interval over days. Reproduced: the "
          "interval is above 0; refuted: below 0; level: it holds 0; not testable: no such jobs, or one day only.")


def judged_claims(runs: pd.DataFrame) -> pd.DataFrame:
    """A row per claim: `claim`, `n_days`, `difference`, `low`, `high`, `verdict`."""
    rows = []
    for claim in CLAIMS:
        days = claim.of(runs)
        values = np.empty(0) if days is None else days.to_numpy(np.float64)
        mean = float(values.mean()) if len(values) else float("nan")
        half = float(t_half_width(values[:, None])[0]) if len(values) else float("nan")
        rows.append({"claim": claim.words, "n_days": len(values), "difference": mean, "low": mean - half,
                     "high": mean + half, "verdict": claim_verdict(mean - half, mean + half)})
    return pd.DataFrame(rows)


def claim_verdict(low: float, high: float) -> str:
    """Of a difference that a finding says is above 0.

    >>> claim_verdict(0.1, 0.2), claim_verdict(-0.2, -0.1), claim_verdict(-0.1, 0.1), claim_verdict(np.nan, np.nan)
    ('reproduced', 'refuted', 'level', 'not testable')
    """
    return "not testable" if np.isnan(low) else "reproduced" if low > 0 else "refuted" if high < 0 else "level"


def claims_section(judged: pd.DataFrame, title: str, caption: str) -> Section:
    """The claims as a table."""
    rows = tuple((row["claim"], str(row["n_days"]), "-" if np.isnan(row["difference"]) else f"{row['difference']:+.3f}",
                  "-" if np.isnan(row["low"]) else f"{row['low']:+.3f} {row['high']:+.3f}", row["verdict"])
                 for row in judged.to_dict("records"))
    return Section(title, caption, ("finding", "days", "difference", "interval", "verdict"), rows, 1, LEGEND)


RATIO_LEGEND = ("Performance ratio, 1 = the best (lower = better): mean over days and draws. Time: median of all "
                "decisions of a day, as a multiple of greedy best-fit's.")


def ratios_section(runs: pd.DataFrame, title: str, caption: str) -> Section:
    """Ratios by limit, share of cores and rule; a column a slack."""
    slacks = sorted(set(runs["slack"]))
    finite = runs[np.isfinite(runs["ratio"])]
    means = finite.groupby(["limit", "share", "label", "slack"])["ratio"].mean().to_dict()
    took = finite.groupby(["limit", "share", "label"])["took_s"].median().to_dict()
    cores = finite.groupby(["limit", "share"])["n_cores"].mean().to_dict()
    keys = dict.fromkeys(zip(runs["limit"], runs["share"], runs["label"], strict=True))
    rows = tuple((f"{limit:,.0f}", f"{share:g} ({cores[limit, share]:,.0f})", label,
                  *(f"{means[limit, share, label, slack]:.3f}" if (limit, share, label, slack) in means else "-"
                    for slack in slacks),
                  f"{took[limit, share, label] / took[limit, share, BF]:.1f}")
                 for limit, share, label in keys if (limit, share, label) in took and (limit, share, BF) in took)
    return Section(title, caption, ("limit", "cores", "rule", *(f"slack {slack:g}" for slack in slacks), "time"), rows,
                   3, RATIO_LEGEND)
