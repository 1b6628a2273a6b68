"""Explained placements as the page's explorer shows them: best host first, the excluded ones counted by reason."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

MAX_HOSTS = 100
"""Hosts shown of one placement; the others are counted."""


def shown_decision(decision: Mapping[str, Any]) -> dict[str, Any]:
    """A decision of ComparisonData, its hosts in the order in which the policy prefers them.

    hosts: of those not excluded the first 100, and the chosen one in any case, as (rank from 1, host id, scores); a
        score that is not finite is None and comes last. n_hosts: all that were not excluded. excluded: (reason,
        number of hosts), the most frequent first.

    >>> shown = shown_decision({
    ...     "policy": "nilas", "predictor": "oracle", "request": {"cpu_cores": 4.0}, "time_s": 90_061, "chosen": "b",
    ...     "columns": [{"name": "overhang", "meaning": "bucket"}],
    ...     "hosts": [["a", "", 3.0], ["b", "", 0.0], ["c", "cpu_cores", float("nan")]]})
    >>> shown["hosts"], shown["excluded"], shown["n_hosts"], shown["time"]
    ([[1, 'b', [0.0]], [2, 'a', [3.0]]], [['cpu_cores', 1]], 2, '1 d 01:01:01')
    """
    columns = [[str(column["name"]), str(column["meaning"])] for column in decision["columns"]]
    left: list[tuple[str, list[float]]] = []
    excluded: Counter[str] = Counter()
    for host_id, reason, *scores in decision["hosts"]:
        if reason:
            excluded[str(reason)] += 1
        elif len(scores) != len(columns):
            raise ValueError(f"hosts must have {len(columns)} scores, got {len(scores)} for host {host_id!r}")
        else:
            left.append((str(host_id), [float(score) for score in scores]))
    # Equal scores keep the hosts' own order: the lowest index wins.
    left.sort(key=lambda host: [score if math.isfinite(score) else math.inf for score in host[1]])
    chosen = None if decision["chosen"] is None else str(decision["chosen"])
    policy, predictor = str(decision["policy"]), str(decision["predictor"])
    return {
        "label": f"{policy} ({predictor})" if predictor else policy,
        "time": clock(int(decision["time_s"])),
        "request": [[str(name), str(value)] for name, value in decision["request"].items()],
        "chosen": chosen,
        "columns": columns,
        "excluded": [[reason, n] for reason, n in sorted(excluded.items(), key=lambda item: (-item[1], item[0]))],
        "n_hosts": len(left),
        "hosts": [[rank, host_id, [score if math.isfinite(score) else None for score in scores]]
                  for rank, (host_id, scores) in enumerate(left, 1) if rank <= MAX_HOSTS or host_id == chosen],
    }


def clock(time_s: int) -> str:
    """Days and the time of day since the start.

    >>> clock(59), clock(172_800)
    ('0 d 00:00:59', '2 d 00:00:00')
    """
    days, second = divmod(time_s, 86_400)
    return f"{days} d {second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
