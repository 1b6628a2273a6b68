"""The part of the history that depends on all requests: what categories know, and which owners are forgotten."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from dataclasses import replace

import numpy as np

from sojourn.features.creation import parsed_requests
from sojourn.features.partitions.request_chunk import RequestChunk
from sojourn.serving.inputs import Admission, Encoder, HistoryState


class SharedHistory:
    """One pass over all requests in the order of decision, chunk by chunk; what it holds is what runs.

    Beside categories it follows each owner key's table of `n_keys_max` names, without what is known of them.
    """

    def __init__(self, encoder: Encoder) -> None:
        keys = encoder.history.keys
        self._encoder = encoder
        self.definition = encoder.history
        self._idx_categories = [idx for idx, key in enumerate(keys) if key.kind == "category"]
        self._idx_owners = [idx for idx, key in enumerate(keys) if key.kind == "owner"]
        self.state = HistoryState(replace(encoder.history, keys=tuple(keys[idx] for idx in self._idx_categories)))
        self._tables: list[OrderedDict[tuple[str, ...], None]] = [OrderedDict() for _ in self._idx_owners]
        self._running: list[tuple[int, int, int, Admission]] = []
        self._n = 0

    def replay(self, chunk: RequestChunk) -> tuple[np.ndarray, np.ndarray]:
        """The chunk's category features and whether its owners are new to the table of their key.

        float64 (n, n_features of the category keys), in the definition's order; bool (n, n_owner_keys). An owner that
        is new has not come before, or was forgotten meanwhile.
        """
        state, running, n_keys_max = self.state, self._running, self._encoder.history.n_keys_max
        features = np.empty((len(chunk), len(state.definition.feature_names())))
        is_new = np.zeros((len(chunk), len(self._idx_owners)), bool)
        times = zip(chunk.decided_s.tolist(), chunk.arrival_s.tolist(), chunk.end_s.tolist(), chunk.is_event.tolist(),
                    strict=True)
        requests = parsed_requests(chunk.table.to_pandas(), self._encoder)
        for idx, ((now_s, arrival_s, end_s, is_event), parsed) in enumerate(zip(times, requests, strict=True)):
            while running and running[0][0] <= now_s:
                ended_s, _, began_s, admission = heapq.heappop(running)
                state.ended(admission, ended_s, began_s)
            keys = tuple([parsed.keys[each] for each in self._idx_categories])
            features[idx] = state.features(keys, now_s)
            admission = state.admit(keys, now_s)
            if is_event and end_s <= now_s:  # ended within the second of its own decision: seen from the next on
                state.ended(admission, end_s, arrival_s)
            elif is_event:
                heapq.heappush(running, (end_s, self._n, arrival_s, admission))
            self._n += 1
            for place, (table, each) in enumerate(zip(self._tables, self._idx_owners, strict=True)):
                key = parsed.keys[each]
                if key is None:
                    continue
                if key in table:
                    table.move_to_end(key)
                    continue
                is_new[idx, place] = True
                if len(table) >= n_keys_max:
                    table.popitem(last=False)
                table[key] = None
        return features, is_new

    def finish(self) -> None:
        """Record the ends after the last decision."""
        while self._running:
            ended_s, _, began_s, admission = heapq.heappop(self._running)
            self.state.ended(admission, ended_s, began_s)
