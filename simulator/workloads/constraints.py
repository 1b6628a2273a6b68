"""Rules besides room: which hosts a request may use, what it may not share one with, and whether it may migrate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd


class Rules(NamedTuple):
    """Constraints as whole numbers; int64, None where there is no such rule.

    host_kind (n_hosts,) and kind (n,): a request of kind k >= 0 needs a host of that kind. group (n,): no two requests
    of a group >= 0 on one host. is_pinned (n,): 1 for a request that can't migrate.
    """

    host_kind: np.ndarray | None
    kind: np.ndarray | None
    group: np.ndarray | None
    is_pinned: np.ndarray | None


@dataclass(frozen=True, slots=True)
class Constraints:
    """Columns of a workload that bind its placements; None = no such rule.

    host_type: a column of requests and of hosts; a request with a value needs a host with the same one.
    apart_by: a column of requests; two with the same value are never on one host.
    pinned_by: a boolean column of requests; where True, the request can't migrate.
    A missing value is no rule.

    >>> hosts = pd.DataFrame({"host_id": [0, 1], "machine": ["n1", "n2"]})
    >>> requests = pd.DataFrame({"request_id": [7, 8], "machine": ["n2", None]})
    >>> rules = Constraints(host_type="machine").rules(requests, hosts)
    >>> rules.host_kind.tolist(), rules.kind.tolist()
    ([0, 1], [1, -1])
    """

    host_type: str | None = None
    apart_by: str | None = None
    pinned_by: str | None = None

    def rules(self, requests: pd.DataFrame, hosts: pd.DataFrame) -> Rules:
        """The rules as whole numbers; ValueError names a column that is not there."""
        for name, table, owner in ((self.host_type, requests, "requests"), (self.host_type, hosts, "hosts"),
                                   (self.apart_by, requests, "requests"), (self.pinned_by, requests, "requests")):
            if name is not None and name not in table:
                raise ValueError(f"{owner} must have the column {name!r} that constraints name, got "
                                 f"{', '.join(map(str, table.columns))}")
        host_kind = kind = group = is_pinned = None
        if self.host_type is not None:
            host_kind, known = pd.factorize(hosts[self.host_type].astype("string"))
            wanted = requests[self.host_type].astype("string")
            kind = pd.Index(known).get_indexer(pd.Index(wanted))
            kind = np.where(wanted.isna(), -1, np.where(kind < 0, len(known), kind))
        if self.apart_by is not None:
            group = pd.factorize(requests[self.apart_by].astype("string"))[0]
        if self.pinned_by is not None:
            is_pinned = requests[self.pinned_by].fillna(False).to_numpy(bool)
        return Rules(host_kind, kind, group, is_pinned)


NO_CONSTRAINTS = Constraints()
