"""The coverage of bounds as lines that a person reads."""

from __future__ import annotations

import numpy as np

from sojourn.flows.annotation.held_out import CoverageReport
from sojourn.flows.reports.curve_figure import duration
from sojourn.models.measures import Coverage


def coverage_lines(report: CoverageReport) -> list[str]:
    """What held-out requests say of the bounds: overall with its interval, by tenth, and by age."""
    overall = report.overall
    lines = []
    if report.used != report.level:
        lines.append(f"level     {report.used:g} is asked for, since earlier held-out requests stayed within it to "
                     f"{100 * report.level:g} %; judged on the later ones")
    if np.isnan(overall.share):
        return [*lines, f"coverage  not known: {overall.n_rows:,} held-out requests, none with an end"]
    lines.append(f"coverage  {100 * overall.share:.1f} % of {overall.n_rows:,} held-out requests end within their "
                 f"{100 * report.level:g} % bound (95 % over owners: {100 * overall.low:.1f} to "
                 f"{100 * overall.high:.1f} %){_unfollowed(overall)}")
    if report.by_decile:
        lines.append("by tenth of the predicted median lifetime:")
        lines += [f"  up to {duration(edge):>8}  {_share(each)}  of {each.n_rows:,}{_unfollowed(each)}"
                  for edge, each in report.by_decile]
    aged = [(age_s, each) for age_s, each in report.by_age if age_s > 0.0]
    if aged:
        lines.append("of those that had run so long, their bound given then:")
        lines += [f"  {duration(age_s):>14}  {_share(each)}  of {each.n_rows:,}{_unfollowed(each)}"
                  for age_s, each in aged]
    return lines


def _share(found: Coverage) -> str:
    return "  ----" if np.isnan(found.share) else f"{100 * found.share:5.1f} %"


def _unfollowed(found: Coverage) -> str:
    return f"; {100 * found.unfollowed:.1f} % still ran before it" if found.unfollowed > 0.0 else ""
