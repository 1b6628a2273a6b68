"""The measures of a study, by the name in its log, in the order of its tables."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from operator import lt
from types import MappingProxyType
from typing import Literal

from sojourn.models.measures.brier import group_exits
from sojourn.models.measures.calibration import QUANTILES, age_prefix
from sojourn.models.measures.measure import AGES_S, CLASS_THRESHOLDS_S, Measure, time_label

_CLASS_WORDS = (
    "Classes between thresholds, read off each family's curve: DVLA's at 1 h, 1 d, 7 d, 30 d; LAVA's at 1 h, 10 h, "
    "100 h; those that the trace shows. At creation, and with 1h of what remains among the requests alive at 1 h. "
    "Acc.: share of requests in the right class. Recall: mean of each class's recall. Hours: the share by core-hours. "
    "Weighted for censoring (higher = better).")
_accuracy = partial(Measure, table="accuracy", is_paired=True)
_by_age = partial(Measure, table="calibration by age")
_NEAREST: Mapping[float, Literal["10 %", "50 %", "90 %"]] = MappingProxyType({0.1: "10 %", 0.5: "50 %", 0.9: "90 %"})
_AT: Mapping[int, str] = MappingProxyType({age_s: f"at {time_label(age_s)}" if age_s else "at creation"
                                           for age_s in (0, *AGES_S)})

MEASURES: Mapping[str, Measure] = MappingProxyType({
    "ages.ibs": _accuracy(
        "Brier\nages", "lower", 4,
        words="Brier ages: Brier score over log time, at creation and at each age, weighted for censoring (lower = "
              "better). The family is chosen by it."),
    "creation.ap_1h": _accuracy(
        "AP\n> 1h", words="AP: average precision of “outlives”, at creation, or at an age among the requests alive "
                          "then (higher = better)."),
    "creation.ap_long": _accuracy("AP\n> {long}", is_shown=lambda threshold_s: threshold_s != 3_600),
    "creation.mae_log10_lifetime": _accuracy(
        "MAE\nlifetime", "lower",
        words="MAE: mean absolute error of log10 seconds of the median prediction: of the lifetime, or at an age of "
              "the remaining time (lower = better). It counts observed ends only: with many censored requests it "
              "favours short answers."),
    **{f"age_{time_label(age_s)}.ap_long": _accuracy(f"AP > {{long}}\nat {time_label(age_s)}",
                                                     is_shown=partial(lt, age_s))
       for age_s in AGES_S},
    **{f"age_{time_label(age_s)}.mae_log10_remaining": _accuracy(f"MAE\nat {time_label(age_s)}", "lower")
       for age_s in AGES_S},
    "exits.ibs": _accuracy(
        "Exits\nof four", "lower", 4, of=group_exits,
        words="Exits of four: Brier score over log time of when the last of four requests ends that run together, as "
              "on a host (lower = better)."),
    "creation.c_harrell": Measure(
        "C\nHarrell", is_paired=True,
        words="C: concordance (higher = better). IBS: integrated Brier score over log time, weighted for censoring "
              "(lower = better)."),
    "creation.c_uno": Measure("C\nUno", is_paired=True),
    "creation.ibs": Measure("IBS\n", "lower", is_paired=True),
    "creation.pit_deviation": Measure(
        "PIT\ndev.", "lower", is_paired=True,
        words="PIT dev.: largest gap to a uniform distribution at the deciles (lower = better). In 10-90 %: share of "
              "ends inside the predicted interval; 0.8 is right."),
    "creation.coverage_80": Measure("in\n10-90 %", "80 %"),
    "creation.d_calibration_chi2": Measure(
        "D-cal.\nchi2", "lower", 0,
        words="D-cal.: chi2 of D-calibration, 10 bins, 9 degrees of freedom (lower = better). MAE IPCW: observed ends "
              "also stand for the censored (lower = better)."),
    "creation.mae_log10_lifetime_ipcw": Measure("MAE\nIPCW", "lower"),
    "creation.recall_at_p99_long": Measure(
        "R@P99\n> {long}", words="R@P99: recall at 99 % precision (higher = better). Seen, new: requests of owners "
                                 "that training had, had not."),
    "seen.ap_long": Measure("AP seen\n> {long}"),
    "unseen.ap_long": Measure("AP new\n> {long}"),
    "seen.mae_log10_lifetime": Measure("MAE\nseen", "lower"),
    "unseen.mae_log10_lifetime": Measure("MAE\nnew", "lower"),
    **{f"{age_prefix(age_s)}.pit_deviation": _by_age(f"PIT dev.\n{_AT[age_s]}", "lower", is_paired=True)
       for age_s in AGES_S},
    **{f"{age_prefix(age_s)}.coverage_{round(100 * q)}": _by_age(f"by {round(100 * q)} %\n{at}", _NEAREST[q])
       for age_s, at in _AT.items() for q in QUANTILES},
    **{f"{name}{age}.{key}": Measure(
        f"{name.upper()}\n{title}{' 1h' if age else ''}", table="classes",
        words=_CLASS_WORDS if (name, age, key) == ("dvla", "", "accuracy") else "")
       for name in CLASS_THRESHOLDS_S for age in ("", ".age_1h")
       for key, title in (("accuracy", "acc."), ("macro_recall", "recall"), ("core_hours", "hours"))},
})
