"""What a version's description says, in which order, and that MLflow's database has room for it."""

from typing import cast

import numpy as np
import pandas as pd

from sojourn.flows.placement.workloads import Replicated
from sojourn.flows.retrain.gates import Difference
from sojourn.flows.retrain.promote import MAX_DESCRIPTION, described
from sojourn.flows.retrain.report import CardFacts, in_words, version_card
from sojourn.flows.retrain.verdict import Gate
from sojourn.simulator.experiments import Comparison

NAME = "sojourn-lifetime"
FACTS = CardFacts(NAME, "hazard", "hazard: best, on 200 ends.", (3_600,), "trace.swf",
                  "decided before 9 s, judged on the rest",
                  1_200, 300, [f"feature_{k}" for k in range(70)], "0123456789abcdef", "1.2.3")
GATES = (Gate("size of the forest", True, "1 MB of at most 5"), Gate("accuracy against km", False, "worse"))


def _card(n_scores: int = 3) -> str:
    scores = {"ages.ibs": 0.07, **{f"creation.made_{k}": float(k) for k in range(n_scores)}}
    measures = {"creation.ap_long": (0.5, 0.4, 0.6), "creation.coverage_80": (0.79, float("nan"), float("nan"))}
    return version_card(FACTS, scores, measures, Difference(-14.8, -23.4, -6.7, 4.0), None)


def test_the_card_has_figures_with_intervals_then_how_to_load() -> None:
    card = _card()
    assert "| Brier score over ages against `km`, % (below 0 = better) | -14.8 | -23.4 to -6.7 | owners |" in card
    assert "at creation (higher = better) | 0.500 | 0.400 to 0.600 | owners |" in card
    assert "(0.8 = calibrated) | 0.790 | - | owners |" in card  # too few owners for an interval
    assert 'Predictor.load(".sojourn/bundles/sojourn-lifetime")' in card
    assert "models:/sojourn-lifetime@champion" in card
    assert "\n\nhazard: best, on 200 ends.\n\n" in card
    assert "- running requests: predicted anew at 1h\n" in card
    assert "- requests: 1,200 trained it, 300 later ones judged it" in card
    assert "- data 0123456789ab, Sojourn 1.2.3" in card
    assert "- features (70): `feature_0`, " in card
    assert "`feature_29`, 40 more\n" in card
    assert card.index("Predictor.load") < card.index("| creation.made_0 | 0 |")


def test_the_verdict_stands_first() -> None:
    text = described(NAME, GATES, _card())
    assert text.startswith("**Challenger, not to be deployed**: 1 of 2 gates failed (accuracy against km).\n\n"
                           "Its predictions are 15 % better than a table of past lifetimes (`km`).\n\n"
                           "- **failed** accuracy against km: worse\n- passed size of the forest: 1 MB of at most 5"
                           "\n\n**Next**: See the failed gates: docs/gates.md says what each one asks.\n\n"
                           "**hazard** of `trace.swf`")
    assert described(NAME, GATES[:1], "").startswith("**Champion when it was made**: it passed all 1 gates.")


def test_a_long_card_is_cut_at_a_line_of_its_measures() -> None:
    text = described(NAME, GATES, _card(500))
    assert len(text) <= MAX_DESCRIPTION
    body, _, end = text.rpartition("\n\n")
    assert end == "The rest is among the run's metrics.\n"
    assert body.endswith(" |")
    assert described(NAME, GATES, _card()) == described(NAME, GATES, _card())
    assert "The rest" not in described(NAME, GATES, _card())


def test_a_figure_in_plain_words() -> None:
    assert in_words(Difference(-14.8, -23.4, -6.7, 4.0), None, "hazard") == (
        "Its predictions are 15 % better than a table of past lifetimes (`km`).")
    assert in_words(Difference(3.2, -5.0, 10.6, 4.0), None, "hazard") == (
        "Its predictions are 3 % worse than a table of past lifetimes (`km`), which may be chance.")
    assert in_words(None, None, "hazard") == ""


def _simulated(gains: dict[str, tuple[float, float, float]], rejected_pct: dict[str, float]) -> Replicated:
    """gains: of three replicas, by label."""
    table = pd.DataFrame({"gain_pp": {label: float(np.mean(each)) for label, each in gains.items()}})
    table["rejected_pct"] = [rejected_pct.get(label, 0.0) for label in gains]
    return Replicated(table, np.array(list(gains.values())).T, cast("Comparison", None))


def test_hosts_are_counted_over_the_best_policy_without_predictions() -> None:
    gains = {"best-fit": (0.0, 0.0, 0.0), "first-fit": (1.0, 2.0, 3.0), "first-in-use": (0.9, 2.0, 3.0),
             "nilas (km)": (9.0, 9.0, 9.0), "nilas (hazard)": (1.0, 1.0, 1.0),
             "nilas-expected (hazard)": (0.0, 1.0, 2.0), "joint-fit (hazard)": (2.5, 3.5, 4.4)}
    # over first-fit 1.5, 1.5, 1.4
    assert in_words(None, _simulated(gains, {}), "hazard") == (
        "With it `joint-fit` leaves 1.47 % of the hosts more empty than first-fit, the best policy without "
        "predictions.")
    # over first-in-use 1.6, 1.5, 1.4, since first-fit rejects more than best-fit
    assert in_words(None, _simulated(gains, {"first-fit": 0.1}), "hazard").startswith(
        "With it `joint-fit` leaves 1.50 % of the hosts more empty than first-in-use,")
    level = {label: each for label, each in gains.items() if label not in ("first-fit", "first-in-use")}
    assert in_words(None, _simulated(level, {}), "hazard") == (
        "With it `joint-fit` leaves 3.47 % of the hosts more empty than best-fit.")
    worse = gains | {"joint-fit (hazard)": (0.0, 2.0, 3.0)}
    assert in_words(None, _simulated(worse, {}), "hazard") == (
        "With it `joint-fit` leaves 0.33 % of the hosts fewer empty than first-fit, the best policy without "
        "predictions, which may be chance.")


def test_figures_and_links_stand_before_the_gates_since_a_runs_page_shows_the_first_lines() -> None:
    text = described(NAME, GATES, "In words.\n\ncard", None, ("", "[bundle](#/x)"))
    assert text.split("\n\n")[:3] == [
        "**Challenger, not to be deployed**: 1 of 2 gates failed (accuracy against km).", "In words.", "[bundle](#/x)"]
    assert text.split("\n\n")[3].startswith("- **failed** accuracy against km: worse\n- passed size")
    assert text.endswith("\n\ncard")
