"""Jobs with deadlines, as arrays, and the deadlines that slacks give."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sojourn.simulator.whole_numbers import is_whole

MAX_TIME_S = 2**40
"""Times stay below this, so that sums of them, and products with a number of cores, are exact in 64 bits."""


@dataclass(frozen=True, slots=True)
class AdmissionJobs:
    """Jobs in any order; arrays of int64, shape (n,). Where submissions are equal, the job with the lower index comes
    first.

    submission_s, deadline_s: seconds on one clock, 0 or above. processing_s: how long a job runs on all its cores at
    once, above 0. cores: 1 or more. names: of the jobs, for errors; default: their indices.

    A deadline may lie too near to be met: such a job is rejected. Refused with ValueError, which names the first bad
    job: times that are negative or 2**40 and above, a processing time or a number of cores below 1, values that are
    not whole, arrays of different lengths.

    >>> jobs = AdmissionJobs(np.array([0, 5]), np.array([10, 10]), np.array([1, 2]), np.array([12, 40]))
    >>> jobs.load_s, jobs.frame_s
    (30, 40)
    """

    submission_s: np.ndarray
    processing_s: np.ndarray
    cores: np.ndarray
    deadline_s: np.ndarray
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        n = len(np.atleast_1d(np.asarray(self.submission_s)))
        if self.names and len(self.names) != n:
            raise ValueError(f"names must be one a job, got {len(self.names)} for {n} jobs")
        for name, least in (("submission_s", 0), ("processing_s", 1), ("cores", 1), ("deadline_s", 0)):
            object.__setattr__(self, name, self._checked(name, least, n))

    def _checked(self, name: str, least: int, n: int) -> np.ndarray:
        values = np.asarray(getattr(self, name))
        if values.shape != (n,):
            raise ValueError(f"{name} must be one number a job, got shape {values.shape} for {n} jobs")
        if values.dtype.kind not in "iuf":
            raise ValueError(f"{name} must be numbers, got {values.dtype}")
        is_bad = ~((values >= least) & (values < MAX_TIME_S))
        if values.dtype.kind == "f":
            is_bad |= ~is_bad & (values != np.floor(np.where(np.isfinite(values), values, 0.0)))
        if is_bad.any():
            row = int(np.flatnonzero(is_bad)[0])
            raise ValueError(f"{name} must be a whole number of at least {least} and below 2**40, got "
                             f"{values[row].item()!r} (job {self.name_of(row)})")
        return values.astype(np.int64)

    def __len__(self) -> int:
        return len(self.submission_s)

    def name_of(self, row: int) -> str:
        """How a job is called in an error."""
        return self.names[row] if self.names else str(row)

    def take(self, rows: np.ndarray) -> AdmissionJobs:
        """The jobs of these indices or of this mask."""
        chosen = np.arange(len(self))[rows]
        names = tuple(self.names[row] for row in chosen.tolist()) if self.names else ()
        return AdmissionJobs(self.submission_s[rows], self.processing_s[rows], self.cores[rows],
                             self.deadline_s[rows], names)

    def order(self) -> np.ndarray:
        """Indices in the order in which the jobs are offered: by submission, then by index; int64 (n,)."""
        return np.argsort(self.submission_s, kind="stable")

    @property
    def load_s(self) -> int:
        """Core-seconds of all jobs."""
        return int((self.processing_s * self.cores).sum())

    @property
    def frame_s(self) -> int:
        """Seconds from the first submission to the last deadline; 0 without jobs."""
        return int(self.deadline_s.max() - self.submission_s.min()) if len(self) else 0


def deadlines_of(submission_s: np.ndarray, processing_s: np.ndarray, slacks: np.ndarray) -> np.ndarray:
    """Deadlines, int64 (n,): ceil(submission + (1 + slack) x processing) (section 1.1). Slacks must be 0 or above.

    >>> deadlines_of(np.array([0, 10]), np.array([60, 3]), np.array([0.5, 0.1])).tolist()
    [90, 14]
    """
    slack = np.asarray(slacks, np.float64)
    is_bad = ~(np.isfinite(slack) & (slack >= 0))
    if is_bad.any():
        row = int(np.flatnonzero(is_bad)[0])
        raise ValueError(f"slack must be finite and at least 0, got {slack[row].item()!r} (job {row})")
    processing = np.asarray(processing_s, np.int64)
    # only the slack's part is rounded, so that a slack of 0 gives the earliest deadline exactly
    return np.asarray(submission_s, np.int64) + processing + np.ceil(slack * processing).astype(np.int64)


def drawn_slacks(n: int, target: float, sigma: float, rng: np.random.Generator, *,
                 mean: str = "geometric") -> np.ndarray:
    """Lognormal slacks, float64 (n,). Higher = more flexible jobs.

    target: their geometric mean, which is also their median, as the paper states it (section 1.1); with mean =
    "arithmetic" their expected value. sigma: the deviation of the logarithm. The paper calls it "geometric standard
    deviation" and takes target / 3 to target / 2 (table 1). exp(sigma) is the geometric standard deviation; read as
    such itself, the paper's values would lie below 1, which is none. A target of 0 gives slacks of 0.

    >>> drawn = drawn_slacks(100_000, 0.5, 0.2, np.random.default_rng(0))
    >>> round(float(np.median(drawn)), 2), round(float(np.log(drawn).std()), 2)
    (0.5, 0.2)
    """
    if not (np.isfinite(target) and target >= 0):
        raise ValueError(f"slack must be finite and at least 0, got {target!r}")
    if not (np.isfinite(sigma) and sigma >= 0):
        raise ValueError(f"sigma must be finite and at least 0, got {sigma!r}")
    if mean not in ("geometric", "arithmetic"):
        raise ValueError(f"mean must be geometric or arithmetic, got {mean!r}")
    centre = 1.0 if mean == "geometric" else float(np.exp(-sigma * sigma / 2))
    return np.asarray(target * centre * np.exp(sigma * rng.standard_normal(n)))


def check_cores(n_cores: int) -> None:
    """ValueError where a machine's cores are no whole number that sums of times allow.

    >>> check_cores(0)
    Traceback (most recent call last):
    ValueError: n_cores must be a whole number of at least 1 and below 2**22, got 0
    """
    if not is_whole(n_cores, 1, 2**22):
        raise ValueError(f"n_cores must be a whole number of at least 1 and below 2**22, got {n_cores!r}")
