"""From a pod to the request columns that a bundle reads; resource quantities as Kubernetes writes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sojourn.serving.extender.pods import field, mapping, sequence, short_text, shown_field
from sojourn.serving.inputs import Encoder

DEFAULT_SOURCES: Mapping[str, str] = {
    "cpu_cores": "requests.cpu",
    "mem_gib": "requests.memory",
    "disk_gib": "requests.ephemeral-storage",
    "gpu": "requests.nvidia.com/gpu",
    "user": "metadata.namespace",
    "subscription": "metadata.namespace",
    "tenant": "metadata.namespace",
    "deployment": "label:app.kubernetes.io/name",
    "app_name": "label:app.kubernetes.io/name",
    "priority": "spec.priority",
}
"""Where a trace's columns are looked for in a pod, unless a mapping is given."""
_QUANTITY = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,4})?")
_QUANTITY_LENGTH = 64
_LARGEST = 1e24
_SCALES = {"": Decimal(1), **{letter: Decimal(10) ** power for letter, power in zip(
               "numkMGTPE", (-9, -6, -3, 3, 6, 9, 12, 15, 18), strict=True)},
           **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", 1)}}  # fmt: skip
_UNITS = {"_gib": 2.0**30, "_mib": 2.0**20}
_LOCAL = "metadata.", "spec."


def quantity(value: Any) -> float:
    """A resource quantity (apimachinery's `resource.Quantity`) as a number: cores, bytes or pieces.

    Signed decimals with a suffix n u m k M G T P E, Ki Mi Gi Ti Pi Ei or an exponent; numbers are taken as they are.
    Not rounded to nanos, which Kubernetes does. ValueError for anything else, and from 1e24 on.

    >>> quantity("500m"), quantity("2Gi"), quantity("1e3"), quantity(".5k"), quantity(2)
    (0.5, 2147483648.0, 1000.0, 500.0, 2.0)
    """
    text = repr(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
    match = _QUANTITY.fullmatch(text) if isinstance(text, str) and len(text) <= _QUANTITY_LENGTH else None
    if match is not None:
        digits, suffix = match.groups(default="")
        number = float(Decimal(digits) * (_SCALES[suffix] if suffix in _SCALES else Decimal("1" + suffix)))
        if abs(number) < _LARGEST:
            return number
    raise ValueError(f"quantity must be one such as 500m, 2Gi or 1e3, below {_LARGEST:g}, got {shown_field(value)}")


@dataclass(frozen=True, slots=True)
class PodColumns:
    """Which request column comes from where in a pod.

    sources: column -> `requests.RESOURCE` or `limits.RESOURCE` (of the whole pod; in the unit that the column's
    name ends in, `_gib` or `_mib`, else cores, bytes or pieces), `label:KEY`, `annotation:KEY`, or a dotted path from
    `metadata` or `spec`. numbers: the columns that the model reads as numbers; text there is read as a quantity.

    >>> columns = PodColumns({"mem_gib": "requests.memory", "user": "label:app"}, frozenset({"mem_gib"}))
    >>> pod = {"metadata": {"labels": {"app": "web"}},
    ...        "spec": {"containers": [{"resources": {"requests": {"memory": "512Mi"}}}]}}
    >>> columns.request(pod)
    {'mem_gib': 0.5, 'user': 'web'}
    """

    sources: Mapping[str, str]
    numbers: frozenset[str]

    @classmethod
    def of(cls, encoder: Encoder, sources: Any = None) -> PodColumns:
        """The mapping for a bundle's encoder; without `sources`, the DEFAULT_SOURCES that it has columns for.

        ValueError for an unknown column or a source of no known form.
        """
        known = encoder.columns()
        if sources is None:
            sources = {column: source for column, source in DEFAULT_SOURCES.items() if column in known}
        if not isinstance(sources, Mapping):
            raise ValueError(f"columns must be a JSON object from column to source, got {shown_field(sources)}")
        for column, source in sources.items():
            if column not in known:
                raise ValueError(f"columns must be of {', '.join(known)}, got {column!r}")
            if not isinstance(source, str) or not source.startswith(
                    ("requests.", "limits.", "label:", "annotation:", *_LOCAL)):
                raise ValueError(f"{column} must come from requests.R, limits.R, label:KEY, annotation:KEY, "
                                 f"metadata.PATH or spec.PATH, got {shown_field(source)}")
        return cls(dict(sources), frozenset(encoder.numbers))

    def request(self, pod: Mapping[str, Any]) -> dict[str, Any]:
        """The pod's request: column -> number or text; what the pod does not say is left out.

        ValueError naming the column where the pod's value is of a wrong type.
        """
        request: dict[str, Any] = {}
        for column, source in self.sources.items():
            try:
                value = _value(pod, column, source)
                if column in self.numbers and isinstance(value, str):
                    value = quantity(value)
                if value is not None:
                    request[column] = value if isinstance(value, bool | int | float) else short_text(value)
            except ValueError as error:
                raise ValueError(f"{column} (from {source}): {error}") from error
        return request


def _value(pod: Mapping[str, Any], column: str, source: str) -> Any:
    kind, _, name = source.partition(":")
    if kind in ("label", "annotation"):
        return mapping(pod, "metadata", f"{kind}s").get(name)
    where, _, name = source.partition(".")
    if where not in ("requests", "limits"):
        return field(pod, *source.split("."))
    total = pod_resource(pod, where, name)
    unit = next((size for ending, size in _UNITS.items() if column.endswith(ending)), 1.0)
    return None if total is None else total / unit


def pod_resource(pod: Mapping[str, Any], where: str, resource: str) -> float | None:
    """What the whole pod asks for, as the scheduler counts it; None where no container names the resource.

    The sum over containers and sidecars, or what an init container needs beside the sidecars begun before it, if that
    is more; then the overhead. where: `requests` or `limits`.
    """
    is_named = False

    def amount(container: Any) -> float:
        nonlocal is_named
        stated = mapping(container, "resources", where).get(resource)
        is_named |= stated is not None
        return 0.0 if stated is None else quantity(stated)

    sidecars = peak = 0.0
    for container in sequence(pod, "spec", "initContainers"):
        own = amount(container)
        peak = max(peak, sidecars + own)
        if field(container, "restartPolicy") == "Always":
            sidecars += own
    total = max(sidecars + sum(map(amount, sequence(pod, "spec", "containers"))), peak)
    return total + quantity(mapping(pod, "spec", "overhead").get(resource, 0)) if is_named else None
