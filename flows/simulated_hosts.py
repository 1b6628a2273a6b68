"""The simulated hosts' shape, as settings give it and as the recipe `trace` takes it."""

from __future__ import annotations


def check_shape(cpu_cores: float | None, mem_gib: float | None) -> None:
    """ValueError where one of the two is given without the other.

    >>> check_shape(96.0, None)
    Traceback (most recent call last):
    ValueError: host_cpu_cores and host_mem_gib must be given together, got 96.0 and None
    """
    if (cpu_cores is None) != (mem_gib is None):
        raise ValueError(f"host_cpu_cores and host_mem_gib must be given together, got {cpu_cores!r} and {mem_gib!r}")


def shape_options(cpu_cores: float | None, mem_gib: float | None) -> dict[str, float]:
    """Options of the recipe `trace`: the given shape, or one that fits the trace. ValueError as `check_shape`.

    >>> shape_options(64.0, 256.0), shape_options(None, None)
    ({'cpu_cores': 64.0, 'mem_gib': 256.0}, {'is_fitted': True})
    """
    check_shape(cpu_cores, mem_gib)
    if cpu_cores is None or mem_gib is None:
        return {"is_fitted": True}
    return {"cpu_cores": cpu_cores, "mem_gib": mem_gib}
