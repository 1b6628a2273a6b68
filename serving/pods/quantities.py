"""What a pod asks for, as the scheduler counts it; resource quantities as Kubernetes writes them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

from sojourn.serving.pods.pod_fields import field, mapping, sequence, shown_field

_QUANTITY = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,4})?")
_QUANTITY_LENGTH = 64
_LARGEST = 1e24
_SCALES = {"": Decimal(1), **{letter: Decimal(10) ** power for letter, power in zip(
               "numkMGTPE", (-9, -6, -3, 3, 6, 9, 12, 15, 18), strict=True)},
           **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", 1)}}  # fmt: skip
_GPU = re.compile(r"[^/]+/(?:gpu(?:\.shared)?|i915|xe)")
_MIG = re.compile(r"nvidia\.com/mig-([1-7])g\..*")
_SLICES = 7
"""Compute slices of a GPU that NVIDIA's MIG divides."""


def quantity(value: Any) -> float:
    """A resource quantity (apimachinery's `resource.Quantity`) as a number: cores, bytes or pieces.

    Signed decimals with a suffix n u m k M G T P E, Ki Mi Gi Ti Pi Ei or an exponent; numbers are taken as they are.
    Not rounded to nanos, which Kubernetes does. ValueError for anything else, and from 1e24 on.

    >>> quantity("500m"), quantity("2Gi"), quantity("1e3"), quantity(".5k"), quantity(2)
    (0.5, 2147483648.0, 1000.0, 500.0, 2.0)
    """
    text = repr(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
    number = _number(text) if isinstance(text, str) and len(text) <= _QUANTITY_LENGTH else None
    if number is None:
        raise ValueError(f"quantity must be one such as 500m, 2Gi or 1e3, below {_LARGEST:g}, got {shown_field(value)}")
    return number


def _amount(value: Any) -> float:
    number = quantity(value)
    if number < 0.0:
        raise ValueError(f"quantity must be from 0 on, got {shown_field(value)}")
    return number


@lru_cache(maxsize=4_096)
def _number(text: str) -> float | None:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        return None
    digits, suffix = match.groups(default="")
    number = float(Decimal(digits) * (_SCALES[suffix] if suffix in _SCALES else Decimal("1" + suffix)))
    return number if abs(number) < _LARGEST else None


def pod_resource(pod: Mapping[str, Any], where: str, resource: str) -> float | None:
    """What the whole pod asks for, as the scheduler counts it; None where nothing of it names the resource.

    What the pod itself states for all its containers (`spec.resources`), else the sum over containers and sidecars, or
    what an init container needs beside the sidecars begun before it, if that is more; then the overhead. where:
    `requests` or `limits`. ValueError for a wrong type, and for less than 0.

    >>> pod_resource({"spec": {"containers": [{"resources": {"requests": {"cpu": "500m"}}}]}}, "requests", "cpu")
    0.5
    """
    is_named = False

    def amount(container: Any) -> float:
        nonlocal is_named
        stated = mapping(container, "resources", where).get(resource)
        is_named |= stated is not None
        return 0.0 if stated is None else _amount(stated)

    sidecars = peak = 0.0
    for container in sequence(pod, "spec", "initContainers"):
        own = amount(container)
        peak = max(peak, sidecars + own)
        if field(container, "restartPolicy") == "Always":
            sidecars += own
    total = max(sidecars + sum(map(amount, sequence(pod, "spec", "containers"))), peak)
    of_pod = mapping(pod, "spec", "resources", where).get(resource)
    if of_pod is not None:
        is_named, total = True, _amount(of_pod)
    return total + _amount(mapping(pod, "spec", "overhead").get(resource, 0)) if is_named else None


def pod_gpus(pod: Mapping[str, Any]) -> float:
    """GPUs of the whole pod, whatever their maker: `VENDOR/gpu`, `gpu.intel.com/i915`; a MIG slice is a seventh.

    >>> pod_gpus({"spec": {"containers": [{"resources": {"requests": {"nvidia.com/gpu": "2", "cpu": "1"}}}]}})
    2.0
    >>> pod_gpus({"spec": {"containers": [{"resources": {"requests": {"nvidia.com/mig-3g.20gb": 1}}}]}}) * 7
    3.0
    """
    return sum((pod_resource(pod, "requests", name) or 0.0) * gpu_share(name) for name in sorted(set(_named(pod))))


def gpu_share(resource: str) -> float:
    """Of how much of a GPU a resource's unit is; 0 where it is no GPU.

    >>> gpu_share("amd.com/gpu"), gpu_share("cpu")
    (1.0, 0.0)
    """
    slices = _MIG.fullmatch(resource)
    if slices is not None:
        return int(slices[1]) / _SLICES
    return 1.0 if _GPU.fullmatch(resource) else 0.0


def _named(pod: Mapping[str, Any]) -> Iterator[str]:
    """Names of GPUs that the pod's containers ask for."""
    for where in ("containers", "initContainers"):
        for container in sequence(pod, "spec", where):
            yield from (name for name in mapping(container, "resources", "requests") if gpu_share(name))
