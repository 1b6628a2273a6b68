"""The kinds of score that a bundle may have."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sojourn.serving.curves.curve_kind import CurveKind
from sojourn.serving.curves.hazard_kind import HazardKind, LimitKind
from sojourn.serving.curves.uptime_kind import OnceKind, UptimeKind

KINDS: Mapping[str, CurveKind] = MappingProxyType({
    "hazard": HazardKind(),
    "hazard-limit": LimitKind(),
    "uptime": UptimeKind(),
    "once": OnceKind(),
})
"""Name in schema.json -> kind."""
KIND_OF_CODE: Mapping[int, CurveKind] = MappingProxyType({kind.code: kind for kind in KINDS.values()})
_KIND_OF_CURVE = {kind.curve_type: kind for kind in KINDS.values()}


def kind_of(curve: object) -> CurveKind:
    """The kind of a curve; TypeError for a curve of no kind.

    >>> kind_of(1.0)
    Traceback (most recent call last):
    TypeError: curve must be a HazardCurve, LimitCurve, PointCurve or OnceCurve, got float
    """
    kind = _KIND_OF_CURVE.get(type(curve))
    if kind is None:
        *others, last = (curve_class.__name__ for curve_class in _KIND_OF_CURVE)
        raise TypeError(f"curve must be a {', '.join(others)} or {last}, got {type(curve).__name__}")
    return kind
