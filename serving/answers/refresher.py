"""A running request predicted anew: the second model of a bundle, ready to answer."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass

from sojourn.serving.answers.curve_builder import CurveBuilder
from sojourn.serving.answers.first_answer import FirstAnswer
from sojourn.serving.bundle import RefreshModel
from sojourn.serving.inputs import Encoder


@dataclass(frozen=True, slots=True)
class Refresher:
    """encoder: of the bundle, but without the row of a lookup table. first: the compiled way, where there is one; not
    for several threads at once. ages_s: at which a request is worth asking again, rising."""

    encoder: Encoder
    builder: CurveBuilder
    first: FirstAnswer | None
    ages_s: tuple[int, ...]

    @classmethod
    def of(cls, model: RefreshModel) -> Refresher:
        """The model, its compiled code loaded; BundleError where it is not what its schema says."""
        builder = CurveBuilder(model.schema, model.model)
        return cls(model.schema.encoder, builder, builder.first_answer(), model.ages_s)

    def next_s(self, uptime_s: float) -> float:
        """The first of the ages after an uptime, s; infinity after the last."""
        position = bisect_right(self.ages_s, uptime_s)
        return float(self.ages_s[position]) if position < len(self.ages_s) else math.inf
