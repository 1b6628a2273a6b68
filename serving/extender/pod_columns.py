"""From a pod to the request columns that a bundle reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sojourn.serving.inputs import Encoder
from sojourn.serving.pods import POD_NAMES, POD_SIZES, field, mapping, pod_resource, quantity, short_text, shown_field

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
READER_SOURCES: Mapping[str, str] = {
    **{column: f"pod.{column}" for column in (*POD_SIZES, *POD_NAMES)},
    "requested_s": "spec.activeDeadlineSeconds",
}
"""The same for a bundle that was trained on pods (`--reader kubernetes`): what its columns were made from."""
_READER_COLUMN = "controller"
"""Such a bundle is known by this column."""
_UNITS = {"_gib": 2.0**30, "_mib": 2.0**20}
_LOCAL = "metadata.", "spec."


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
        """The mapping for a bundle's encoder; without `sources`, what it has columns for of READER_SOURCES, where it
        was trained on pods, or of DEFAULT_SOURCES.

        ValueError for an unknown column or a source of no known form.
        """
        known = encoder.columns()
        if sources is None:
            default = READER_SOURCES if _READER_COLUMN in known else DEFAULT_SOURCES
            sources = {column: source for column, source in default.items() if column in known}
        if not isinstance(sources, Mapping):
            raise ValueError(f"columns must be a JSON object from column to source, got {shown_field(sources)}")
        for column, source in sources.items():
            if column not in known:
                raise ValueError(f"columns must be of {', '.join(known)}, got {column!r}")
            if not isinstance(source, str) or not (source in READER_SOURCES.values() or source.startswith(
                    ("requests.", "limits.", "label:", "annotation:", *_LOCAL))):
                raise ValueError(f"{column} must come from requests.R, limits.R, label:KEY, annotation:KEY, "
                                 f"metadata.PATH, spec.PATH or pod.COLUMN, got {shown_field(source)}")
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
    if where == "pod":
        return POD_SIZES[name](pod) if name in POD_SIZES else POD_NAMES[name](pod)
    if where not in ("requests", "limits"):
        return field(pod, *source.split("."))
    total = pod_resource(pod, where, name)
    unit = next((size for ending, size in _UNITS.items() if column.endswith(ending)), 1.0)
    return None if total is None else total / unit
