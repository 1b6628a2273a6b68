"""Some placements of a comparison's cells, explained, for its page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sojourn.flows.compare.grid import Cell
from sojourn.flows.compare.replay import source_of, workload_of
from sojourn.simulator import Explanation, explain

N_PLACEMENTS = 3
"""Of each cell: the same requests for all."""
MAX_CELLS = 6
"""Cells explained at most: the first with different policies, then the others."""


def explained(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """Placements as the page takes them (see `simulator.page.comparison_data`); the cells are of one workload.

    The requests are spread over the time after the warm-up, drawn by the workload's seed.
    """
    cells = [cell for cell in cells if not cell.rectifier]  # the same decisions in another pool
    if not cells:
        return []
    spec = cells[0].workload
    workload = workload_of(spec)
    rows = np.flatnonzero(workload.placed_s >= workload.warmup_s)
    drawn = np.sort(np.random.default_rng(spec.seed).choice(rows, min(N_PLACEMENTS, len(rows)), replace=False))
    first = list({cell.policy: cell for cell in reversed(cells)}.values())[::-1]
    chosen = [*first, *(cell for cell in cells if cell not in first)][:MAX_CELLS]
    found = []
    for cell in (cell for cell in cells if cell in chosen):
        source = None if cell.predictor is None else source_of(spec, cell.predictor)
        for row in drawn.tolist():
            request_id: Any = workload.request_ids[row]
            found.append(_as_document(cell, explain(workload, cell.policy, source, request_id)))
    return found


def _as_document(cell: Cell, explanation: Explanation) -> dict[str, Any]:
    request = {"request_id": str(explanation.request_id), **explanation.need}
    if explanation.remaining_s is not None:
        request["predicted to remain, s"] = explanation.remaining_s
    table = explanation.table.astype(object).where(explanation.table.notna(), None)
    return {
        "policy": cell.policy, "predictor": cell.predictor.name if cell.predictor else "", "request": request,
        "time_s": explanation.time_s, "chosen": explanation.host_id,
        "columns": [{"name": name, "meaning": meaning} for name, meaning in explanation.meanings.items()],
        "hosts": table.to_numpy().tolist(),
    }  # fmt: skip
