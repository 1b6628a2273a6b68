"""Colours of figures, legible to the colour-blind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#332288", "#882255", "#999933", "#661100",
           "#44aa99", "#ee99aa", "#000000")
"""Okabe and Ito's palette, and of Tol's muted one what differs from it; the last is the ink's colour."""
BOUND_COLOUR = "#888888"
CLASS_COLOURS = ("#fde725", "#5ec962", "#21918c", "#3b528b")
"""Lifetime classes LC1..LC4, the longer the darker: viridis at 1, 3/4, 1/2, 1/4."""
CLASS_NAMES = ("LC1, under 1 h", "LC2, 1 to 10 h", "LC3, 10 to 100 h", "LC4, 100 h and more")
"""By the request that stays longest on a host (LAVA, section 4.3)."""
EMPTY_COLOUR = "#ececec"


def colours_of(policies: Iterable[str], baseline: str) -> dict[str, str]:
    """A colour per policy in their order, the ink's for the baseline; more than twelve repeat.

    >>> colours_of(["best-fit", "nilas", "lava"], "best-fit")
    {'best-fit': '#000000', 'nilas': '#0072b2', 'lava': '#d55e00'}
    """
    others = [policy for policy in dict.fromkeys(policies) if policy != baseline]
    hues = COLOURS[:-1]
    return {baseline: COLOURS[-1], **{policy: hues[k % len(hues)] for k, policy in enumerate(others)}}


def line_styles(policies: Iterable[str], colour_of: Mapping[str, str]) -> list[tuple[str, int]]:
    """Colour and dash of each line: the policy's colour, and how many lines of that policy came before, 5 dashes.

    >>> line_styles(["nilas", "lava", "nilas"], {"nilas": "#0072b2", "lava": "#d55e00"})
    [('#0072b2', 0), ('#d55e00', 0), ('#0072b2', 1)]
    """
    n_lines = dict.fromkeys(colour_of, -1)
    styles = []
    for policy in policies:
        n_lines[policy] += 1
        styles.append((colour_of[policy], n_lines[policy] % 5))
    return styles
