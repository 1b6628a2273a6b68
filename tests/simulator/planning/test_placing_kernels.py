"""Kernels against their slow twins."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_planning
from naive_planning import peak_by_steps, step_usage
from sojourn.simulator.planning import peaks, usage_profile
from sojourn.simulator.planning._placing_kernels import added_excess, collected, lower_excess, put, resulting_peaks
from sojourn.simulator.planning.problem import Problem, drawn_pairs, easiest_windows
from sojourn.simulator.planning.search import descend, energetic_bound, even_out, one_pass
from studies.planners import synthetic_day


@given(st.integers(0, 10_000), st.integers(1, 2), st.integers(1, 3))
def test_costs_of_starts(seed: int, n_resources: int, n_samples: int) -> None:
    rng = np.random.default_rng(seed)
    used = rng.integers(0, 9, (n_samples, n_resources, 30))
    durations, usage = rng.integers(1, 8, (n_samples, 2)), rng.integers(0, 5, (n_samples, 2, n_resources))
    lines, buffer = rng.integers(0, 12, (n_samples, n_resources)), np.zeros(40, np.int64)
    low, n_starts = int(rng.integers(0, 10)), int(rng.integers(1, 12))
    costs = np.zeros(n_starts, np.int64)
    added_excess(used, durations, usage, lines, 1, low, costs, buffer)
    assert costs.tolist() == naive_planning.added_excess(used, durations[:, 1], usage[:, 1], lines, low, n_starts)
    found = np.zeros(n_starts, np.int64)
    resulting_peaks(used, durations, usage, 1, low, 0, found, buffer)
    assert found.tolist() == [max(int(used[k, 0, at:at + durations[k, 1]].max() + usage[k, 1, 0])
                                  for k in range(n_samples)) for at in range(low, low + n_starts)]
    before = used.copy()
    put(used, durations, usage, 1, low, 1)
    assert (used - before).sum() == (durations[:, 1, None] * usage[:, 1]).sum()
    put(used, durations, usage, 1, low, -1)
    assert (used == before).all()


@given(st.integers(0, 10_000))
def test_peaks_and_profiles_by_events_are_those_by_steps(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 7))
    starts, durations, usage = rng.integers(0, 9, n), rng.integers(1, 6, (2, n)), rng.integers(0, 5, (2, n, 1))
    assert peaks(starts, durations, usage)[:, 0].tolist() == [
        peak_by_steps(starts, durations[k], usage[k, :, 0]) for k in range(2)]
    assert usage_profile(starts, durations, usage[:, :, 0], np.arange(20)).tolist() == [
        step_usage(starts, durations[k], usage[k, :, 0], 20).tolist() for k in range(2)]


@given(st.integers(0, 200))
def test_moves_keep_windows_and_the_account_of_usage(seed: int) -> None:
    rng = np.random.default_rng(seed)
    day, _ = synthetic_day(12, rng, makespan=60)
    problem = Problem(day, drawn_pairs(day, 3, rng), 1)
    windows = easiest_windows(problem)
    board = one_pass(problem, windows)
    first = board.starts + problem.origin
    best = descend(board, energetic_bound(problem), seed, 300, np.inf) + problem.origin
    assert problem.cost_of(best) <= problem.cost_of(first)
    for starts in (first, best, board.starts + problem.origin):
        assert ((problem.low <= starts) & (starts <= problem.high)).all()
        assert problem.is_broken(starts).sum() <= 1
    for k in range(3):
        own = step_usage(board.starts, problem.samples.durations[k], problem.samples.usage[k, :, 0], problem.n_times)
        assert board.used[k, 0].tolist() == own.tolist()


def test_a_full_list_of_cells_loses_none() -> None:
    day, _ = synthetic_day(12, np.random.default_rng(0), makespan=20)
    problem = Problem(day, drawn_pairs(day, 3, np.random.default_rng(0)))
    windows = easiest_windows(problem)
    board = one_pass(problem, windows)
    lines = np.tile(board.peak() - 1, (3, 1))
    cells, n_cells = np.zeros(2, np.int64), np.zeros(1, np.int64)
    n_cells[0] = collected(board.used, lines, cells)
    assert n_cells[0] == min(2, int((board.used > lines[:, :, None]).sum()))
    none = np.zeros((12, 2), np.int64)
    costs, sums = np.zeros((2, problem.n_times + 2), np.int64)
    is_done = lower_excess(board.used, board.durations, board.usage, np.zeros((3, 1), np.int64), board.starts,
                           windows.low - problem.origin, windows.high - problem.origin, windows.longest, none, none, 0,
                           50, np.zeros(12, np.int64), costs, sums, cells, n_cells, np.array([1], np.uint64))
    assert not is_done


@given(st.integers(0, 100))
@settings(max_examples=30)
def test_evening_out_lowers_peaks_of_samples_and_raises_none(seed: int) -> None:
    rng = np.random.default_rng(seed)
    day, _ = synthetic_day(12, rng, makespan=100)
    problem = Problem(day, drawn_pairs(day, 4, rng), 1)
    board = one_pass(problem, easiest_windows(problem))
    first = board.starts + problem.origin
    last = even_out(board, seed, 2_000, np.inf) + problem.origin
    before, after = (peaks(starts, problem.samples.durations, problem.samples.usage) for starts in (first, last))
    assert (after <= before).all()
    assert ((problem.low <= last) & (last <= problem.high)).all()
    assert problem.is_broken(last).sum() <= 1
    assert (last == board.starts + problem.origin).all()


def test_evening_out_helps() -> None:
    day, _ = synthetic_day(30, np.random.default_rng(2))
    problem = Problem(day, drawn_pairs(day, 8, np.random.default_rng(2)))
    board = one_pass(problem, easiest_windows(problem))
    first = peaks(board.starts, problem.samples.durations, problem.samples.usage).mean()
    last = even_out(board, 0, 5_000, np.inf)
    assert peaks(last, problem.samples.durations, problem.samples.usage).mean() < 0.95 * first
