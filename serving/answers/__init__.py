"""From a request to its lifetime curve, in one compiled call if possible, and the explanation of a curve.

`Served` holds all that belongs to one version of the model; `Lifetime` is a scheduler's handle of a request.

May import: `bundle` and what lies below it.
"""

from sojourn.serving.answers.attribution import ARRIVAL, LATEST_ENDS, Attribution, attribute, background_of
from sojourn.serving.answers.curve_builder import CurveBuilder, Refresher
from sojourn.serving.answers.served import REACH_S, Current, Lifetime, RefreshedLifetime, Served, clock_span

__all__ = [
    "ARRIVAL", "LATEST_ENDS", "REACH_S", "Attribution", "Current", "CurveBuilder", "Lifetime",
    "RefreshedLifetime", "Refresher", "Served", "attribute", "background_of", "clock_span",
]  # fmt: skip
