"""Placement by peaks: each request counts at all times as the most that it is expected to use."""

from __future__ import annotations

import numpy as np

from sojourn.simulator.colocation._colocation_kernels import place_by_peaks
from sojourn.simulator.colocation.colocation import UNITS, Colocation


def borg_peak(colocation: Colocation, order: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Hosts by the greatest expected remaining capacity: capacity less the sum of the peaks of what is there.

    A peak is the maximum of the request's model (period-aware placement, sections III-B and IV: "places the job on a
    server to maximize the expected remaining capacity"); several resources are normalised by capacity and summed.

    >>> three = Colocation(np.array([[3.0, 1.0], [1.0, 2.0], [1.0, 1.0]]), 2, 4.0)
    >>> borg_peak(three, np.arange(3), np.random.default_rng(0)).tolist()
    [0, 1, 1]
    """
    return _placed(_peaks(colocation.modelled, colocation.n_resources), colocation, order, is_packing=False)


def best_fit_peak(colocation: Colocation, order: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Hosts by the least remaining capacity on which the request's peak still fits; where none is, by the greatest.

    >>> three = Colocation(np.array([[3.0, 1.0], [1.0, 2.0], [1.0, 1.0]]), 2, 4.0)
    >>> best_fit_peak(three, np.arange(3), np.random.default_rng(0)).tolist()
    [0, 1, 0]
    """
    return _placed(_peaks(colocation.modelled, colocation.n_resources), colocation, order, is_packing=True)


def oracle_peak(colocation: Colocation, order: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """As `borg_peak`, by the largest real use of each request. It is no bound: peaks say nothing of their time.

    >>> two = Colocation(np.array([[3.0], [1.0]]), 2, 4.0, model=np.array([[1.0], [1.0]]))
    >>> oracle_peak(two, np.arange(2), np.random.default_rng(0)).tolist()
    [0, 1]
    """
    return _placed(_peaks(colocation.used, colocation.n_resources), colocation, order, is_packing=False)


def random_host(colocation: Colocation, order: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Hosts drawn at random, each with the same probability.

    >>> two = Colocation(np.array([[3.0], [1.0]]), 9, 4.0)
    >>> random_host(two, np.arange(2), np.random.default_rng(0)).tolist()
    [7, 5]
    """
    hosts = np.empty(len(colocation), np.int64)
    hosts[order] = rng.integers(0, colocation.n_hosts, len(colocation))
    return hosts


def _peaks(series: np.ndarray, n_resources: int) -> np.ndarray:
    return series.reshape(len(series), n_resources, -1).max(axis=2).astype(np.int64)


def _placed(peaks: np.ndarray, colocation: Colocation, order: np.ndarray, is_packing: bool) -> np.ndarray:
    chosen = np.empty(len(order), np.int64)
    place_by_peaks(peaks[order], UNITS, is_packing, np.zeros((colocation.n_hosts, peaks.shape[1]), np.int64), chosen)
    hosts = np.empty(len(order), np.int64)
    hosts[order] = chosen
    return hosts
