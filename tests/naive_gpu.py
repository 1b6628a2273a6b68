"""Slow twin of GPUs one by one, and of FGD: what a placement makes useless to the mix of requests so far."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from naive_replay import Replay
    from naive_scores import Host

WHOLE = 1000
POLICIES = ("fgd", "open-fgd")


def free_gpus(replay: Replay, host: Host) -> list[int]:
    """What is free of each GPU."""
    free = [WHOLE] * (host.capacity[replay.gpu] // WHOLE)
    for r in host.running + host.leaving:
        for gpu in host.gpus.get(r, []):
            free[gpu] -= min(replay.need[r][replay.gpu], WHOLE)
    return free


def fits(free: list[int], milli: int) -> bool:
    """Whether one GPU has room for a share, or enough are free for whole ones."""
    if milli < WHOLE:
        return milli == 0 or max(free, default=0) >= milli
    return free.count(WHOLE) >= milli // WHOLE


def choices(free: list[int], milli: int) -> list[list[int]]:
    """Each set of GPUs that the request may get: any with room for a share, else the first whole ones."""
    if 0 < milli < WHOLE:
        return [[gpu] for gpu, left in enumerate(free) if left >= milli]
    return [[gpu for gpu, left in enumerate(free) if left == WHOLE][: milli // WHOLE]]


def came(replay: Replay, i: int, host: Host) -> None:
    """Hold the GPUs that the policy wants: FGD's, or the fullest with room."""
    host.gpus.pop(i, None)  # of an earlier stay
    milli, free = replay.need[i][replay.gpu], free_gpus(replay, host)
    if replay.policy in POLICIES:
        host.gpus[i] = min(choices(free, milli), key=lambda gpus: added(replay, i, host, gpus, is_there=True))
    else:
        host.gpus[i] = min(choices(free, milli), key=lambda gpus: [free[gpu] for gpu in gpus])


def useless(free: list[int], gpus: list[int] | None, asked: list[int], gpu: int | None) -> int:
    """Free milli-GPU of a host, or else its binding resource, that a request for `asked` could not use."""
    has_room = all(a <= b for a, b in zip(asked, free, strict=True))
    if gpus is None or gpu is None:
        return 0 if has_room else free[0]
    if asked[gpu] == 0 or not has_room or not fits(gpus, asked[gpu]):
        return sum(gpus)
    return sum(left for left in gpus if left < min(asked[gpu], WHOLE))


def mix_of(replay: Replay) -> list[tuple[tuple[int, ...], int]]:
    """The most frequent shapes of all requests placed so far that make 95 % of them; among equals who was so first."""
    counts: dict[tuple[int, ...], int] = {}
    reached: dict[tuple[int, ...], int] = {}
    for k, i in enumerate(replay.placed_in_order):
        shape = tuple(replay.need[i])
        counts[shape], reached[shape] = counts.get(shape, 0) + 1, k
    shapes, n = [], 0
    for shape in sorted(counts, key=lambda shape: (-counts[shape], reached[shape])):
        if n >= 0.95 * len(replay.placed_in_order):
            break
        n += counts[shape]
        shapes.append((shape, counts[shape]))
    return shapes


def added(replay: Replay, i: int, host: Host, gpus: list[int], is_there: bool = False) -> float:
    """What request i on these GPUs adds to the host's fragmentation. is_there: it runs there, but holds no GPU yet."""
    need, mix = replay.need[i], mix_of(replay)
    free = replay.free(host)
    if is_there:
        free = [own + asked for own, asked in zip(free, need, strict=True)]
    left = [own - asked for own, asked in zip(free, need, strict=True)]
    before = after = None
    if replay.gpu is not None:
        before = free_gpus(replay, host)
        after = [own - min(need[replay.gpu], WHOLE) * (gpu in gpus) for gpu, own in enumerate(before)]
    total = sum(count * (useless(left, after, list(shape), replay.gpu) - useless(free, before, list(shape), replay.gpu))
                for shape, count in mix)
    return total / max(sum(count for _, count in mix), 1)


def step(replay: Replay, i: int, host: Host) -> int:
    """The least that the request adds, in steps of 40 milli-GPU, or of a fiftieth of the host."""
    if replay.gpu is None:
        return round(10_000 + added(replay, i, host, []) / (max(host.capacity[0], 1) / 50))
    found = [added(replay, i, host, gpus) for gpus in choices(free_gpus(replay, host), replay.need[i][replay.gpu])]
    return round(10_000 + min(found) / 40)


def left(replay: Replay, i: int, host: Host) -> int:
    """Free milli-GPU after the placement."""
    return 0 if replay.gpu is None else replay.free(host)[replay.gpu] - replay.need[i][replay.gpu]
