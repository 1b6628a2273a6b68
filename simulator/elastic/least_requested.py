"""Least Requested Priority: the host for a service or a batch request, by what is available to each kind."""

from __future__ import annotations

import numpy as np

from sojourn.simulator.elastic.autoscaler import WEIGHTS
from sojourn.simulator.elastic.least_requested_kernels import least_requested


def available(capacity: np.ndarray, allocated: np.ndarray) -> np.ndarray:
    """What is available to a service: capacity less all that is allocated (CTCL, equation 2); may be negative.

    capacity, allocated: (n_hosts, n_resources); allocated to services and batch requests together.

    >>> available(np.array([[96, 384]]), np.array([[90, 100]])).tolist()
    [[6, 284]]
    """
    return np.asarray(capacity - allocated)


def idle(reserved: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """What services leave idle over an interval: reserved less the predicted maximum, 0 or more (CTCL, equation 3).

    reserved: (n, n_resources). predicted: (n, n_intervals, n_resources), the intervals that matter; NaN = the service
    is not identified yet, so that nothing of it is idle.

    >>> idle(np.array([[8.0], [8.0]]), np.array([[[2.0], [3.0]], [[np.nan], [1.0]]])).tolist()
    [[5.0], [0.0]]
    """
    most = predicted.max(axis=1)  # NaN where one is
    return np.asarray(np.where(np.isnan(most), 0.0, np.maximum(reserved - most, 0.0)))


def least_requested_host(available_to_it: np.ndarray, capacity: np.ndarray, need: np.ndarray,
                         weights: tuple[float, ...] = WEIGHTS, is_open: np.ndarray | None = None) -> int:
    """The host for a request by Algorithm 1 of the CTCL paper, or -1 where none fits.

    First the hosts are left that have what it asks for in each resource. Of these the one with the lowest utilisation
    is taken, the first of equal ones. Utilisation is the weighted share that is not available to it: of a batch
    request the idle room of services counts as free (equation 4).

    available_to_it: (n_hosts, n_resources). capacity: the same. need: (n_resources,). is_open: bool (n_hosts,).

    >>> capacity = np.array([[96, 384], [96, 192], [96, 768]])
    >>> least_requested_host(np.array([[10, 60], [50, 90], [40, 100]]), capacity, np.array([8, 80]))
    1
    """
    if available_to_it.shape != capacity.shape or capacity.shape[1:] != need.shape:
        raise ValueError(f"available_to_it, capacity and need must agree in shape, got {available_to_it.shape}, "
                         f"{capacity.shape} and {need.shape}")
    is_allowed = np.ones(len(capacity), bool) if is_open is None else is_open
    return int(least_requested(available_to_it, capacity, is_allowed, need, np.array(weights, np.float64)))
