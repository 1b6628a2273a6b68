"""How near pulse waves come to real series, beside a constant mean and last week's repeat; and the pictures of docs.

    python -m studies periodicity-errors DATA [--days 7] [--figures docs/usage] [--json FILE]

DATA: the folder of public traces (bitbrains-rnd, planetlab, google-2011-gcd-vms, opendc, aws-cloudwatch-nab,
azure-2019, google-2019); a set that is absent is left out. In-sample: fitted and judged on the same samples, from the
eighth day on where the series are longer than a week. Next-day: for each of the last days, fitted on all that lies
before it. A row of a table is of the requests with a period; the share that has one stands beside.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from sojourn.features.usage import UsageGrid, UsageStore, read_usage, store_usage
from sojourn.flows.reports.figures import plain
from sojourn.flows.usage.report import error_figure, period_figure, request_figure
from sojourn.models.periodicity import (
    PeriodicitySettings,
    WaveErrors,
    WaveFits,
    fit_waves,
    in_sample_errors,
    next_day_errors,
)
from sojourn.serving.usage import DAY_S, DayClock

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STEP_S = 300
LEAST = 1e-3
WAYS: Mapping[str, PeriodicitySettings] = {
    "pulse wave, p95 and p5": PeriodicitySettings(),
    "pulse wave, means": PeriodicitySettings(levels="mean"),
    "two waves, means": PeriodicitySettings(levels="mean", n_periods=2),
    "means, to 25 h, 10 %": PeriodicitySettings(levels="mean", longest_period_s=90_000.0, threshold=0.1),
}


@dataclass(frozen=True)
class Row:
    """One line of the table. NRMSE medians, and shares below 0.3 in %; n: requests, or requests x days, judged.

    ratio: wave over constant, geometric mean over requests, with its 95 % interval (bootstrap over requests).
    """

    data: str
    label: str
    way: str
    n: int
    periodic_pct: float
    wave: float
    constant: float
    last_week: float
    wave_below_pct: float
    constant_below_pct: float
    last_week_below_pct: float
    ratio: float
    ratio_low: float
    ratio_high: float


def store_grid(name: str, path: Path, **options: str) -> UsageGrid:
    with tempfile.TemporaryDirectory() as folder:
        store_usage(read_usage(name, path, **options), Path(folder) / "usage")
        return UsageStore.open(Path(folder) / "usage").grid(step_s=STEP_S)


def plain_grid(ids: list[str], series: list[np.ndarray]) -> UsageGrid:
    n_steps = max(len(one) for one in series)
    values = np.full((len(series), n_steps), np.nan, np.float32)
    for row, one in enumerate(series):
        values[row, :len(one)] = one
    n = len(series)
    return UsageGrid(np.array(ids), values, None, np.ones(n), np.ones(n), 0, STEP_S, DayClock())


def nab_grid(file: Path) -> UsageGrid:
    """The CPU series of NAB on a grid of 5 minutes from each one's first sample."""
    frame = pd.read_parquet(file)
    frame = frame[frame["series"].str.contains("cpu")]
    ids, series = [], []
    for name, part in frame.groupby("series"):
        unix_s = part["timestamp"].astype("datetime64[s]").astype("int64").to_numpy()
        step = (unix_s - unix_s.min()) // STEP_S
        line = np.full(int(step.max()) + 1, np.nan)
        line[step] = part["value"].to_numpy() / 100.0
        ids.append(str(name))
        series.append(line)
    return plain_grid(ids, series)


def data_sets(folder: Path) -> Iterator[tuple[str, UsageGrid]]:
    rnd = folder / "bitbrains-rnd"
    if rnd.is_dir():
        for month, name in (("2013-7", "bitbrains July"), ("2013-8", "bitbrains August")):
            yield name, store_grid("bitbrains", rnd, month=month)
    if (folder / "opendc").is_dir():
        yield "bitbrains-small", store_grid("bitbrains-small", folder / "opendc")
    if (folder / "planetlab").is_dir():
        yield "planetlab, one day", store_grid("planetlab", folder / "planetlab")
    if (folder / "google-2011-gcd-vms").is_dir():
        yield "gcd-vms, one day", store_grid("gcd-vms", folder / "google-2011-gcd-vms")
    nab = folder / "aws-cloudwatch-nab" / "aws_cloudwatch_5min.parquet"
    if nab.is_file():
        yield "NAB, CPU", nab_grid(nab)
    azure = folder / "azure-2019" / "vm_cpu_readings_month_aggregated_cpu_mem.csv.gz"
    if azure.is_file():
        line = pd.read_csv(azure)["cpu_usage"].to_numpy(np.float64)
        yield "azure-2019, sum of all", plain_grid(["sum"], [line / line.max()])
    google = folder / "google-2019" / "instance_usage_grouped_300_seconds_month.csv.gz"
    if google.is_file():
        yield "google-2019, mean of a cell", plain_grid(["mean"], [pd.read_csv(google)["avg_cpu"].to_numpy(np.float64)])


def median(values: np.ndarray) -> float:
    return float(np.median(values)) if len(values) else float("nan")


def below_pct(values: np.ndarray) -> float:
    return 100 * float(np.mean(values < 0.3)) if len(values) else float("nan")


def row_of(data: str, way: str, found: list[WaveErrors]) -> Row:
    """The requests (of next-day: requests x days) that have a period and can be judged."""
    is_periodic = np.concatenate([errors.is_periodic for errors in found])
    errors = np.concatenate([np.stack([one.wave, one.constant, one.last_week]) for one in found], axis=1)
    kept = errors[:, is_periodic & np.isfinite(errors[0])]
    week = kept[2][np.isfinite(kept[2])]
    requests = np.concatenate([np.arange(len(one.wave)) for one in found])[is_periodic & np.isfinite(errors[0])]
    return Row(data, found[0].label, way, kept.shape[1], 100 * float(is_periodic.mean()), median(kept[0]),
               median(kept[1]), median(week), below_pct(kept[0]), below_pct(kept[1]), below_pct(week),
               *ratio_of(kept[0], kept[1], requests))


def ratio_of(wave: np.ndarray, constant: np.ndarray, requests: np.ndarray) -> tuple[float, float, float]:
    """Geometric mean of wave over constant over requests, and its 95 % interval; NaN bounds below ten requests.

    Errors below 0.1 % of the range count as that: an idle day that is met exactly would else decide the mean.
    """
    logs = pd.Series(np.log(np.maximum(wave, LEAST) / np.maximum(constant, LEAST))).groupby(requests).mean().to_numpy()
    if len(logs) < 10:
        return (float(np.exp(logs.mean())) if len(logs) else float("nan")), float("nan"), float("nan")
    rng = np.random.default_rng(0)
    low, high = np.quantile([rng.choice(logs, len(logs)).mean() for _ in range(2000)], (0.025, 0.975))
    return float(np.exp(logs.mean())), float(np.exp(low)), float(np.exp(high))


def joined(found: list[WaveErrors]) -> WaveErrors:
    parts = [np.concatenate([getattr(errors, name) for errors in found])
             for name in ("is_periodic", "wave", "constant", "last_week")]
    return WaveErrors(found[0].label, *parts)


def errors_of(grid: UsageGrid, settings: PeriodicitySettings, n_days: int) -> list[list[WaveErrors]]:
    """In-sample, and the next-day ones where there is more than a week before the first judged day."""
    found = [[in_sample_errors(grid, fit_waves(grid, settings, n_threads=2))]]
    whole_days = grid.cpu.shape[1] * grid.step_s // DAY_S
    first = max(8, whole_days - n_days)
    if whole_days > first:
        found.append([next_day_errors(grid, grid.start_s + day * DAY_S, settings, n_threads=2)
                      for day in range(first, whole_days)])
    return found


def line(row: Row) -> str:
    shown = [f"{value:.3f}" if np.isfinite(value) else "-" for value in (row.wave, row.constant, row.last_week)]
    below = [f"{value:.0f}" if np.isfinite(value) else "-"
             for value in (row.wave_below_pct, row.constant_below_pct, row.last_week_below_pct)]
    interval = f" ({row.ratio_low:.2f} to {row.ratio_high:.2f})" if np.isfinite(row.ratio_low) else ""
    ratio = f"{row.ratio:.2f}{interval}" if np.isfinite(row.ratio) else "-"
    return (f"| {row.data} | {row.label} | {row.way} | {row.n:,} | {row.periodic_pct:.0f} | {' | '.join(shown)} | "
            f"{' / '.join(below)} | {ratio} |")


def chosen(fits: WaveFits, hours: tuple[float, float], skip: tuple[int, ...] = ()) -> int:
    """The strongest request by share of variance x magnitude whose period lies between, in hours."""
    is_in = fits.is_periodic & (fits.period_s >= hours[0] * 3600) & (fits.period_s <= hours[1] * 3600)
    is_in[list(skip)] = False
    return int(np.argmax(np.where(is_in, fits.strength * np.sqrt(fits.magnitude), -1.0)))


def host_figure(grid: UsageGrid, fits: WaveFits, rows: tuple[int, int], title: str) -> Figure:
    """Figure 4: two requests with their waves, and both on one host, in cores, with the sum of the waves."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 7.5), layout="constrained")
    *upper, host = figure.subplots(3, 1, sharex=True)
    days, middles_s = np.arange(grid.cpu.shape[1]) * grid.step_s / DAY_S, grid.time_s() + grid.step_s / 2
    for axes, row, letter in zip(upper, rows, "ab", strict=True):
        axes.plot(days, 100 * grid.cpu[row], color="#b8b8b8", linewidth=0.6, label="raw")
        name = "pulse wave" if fits.is_periodic[row] else "aperiodic: its peak"
        axes.plot(days, 100 * fits.waves(row).at(middles_s), color="#b5483a", linewidth=1.0, label=name)
        axes.set_ylabel("use, % of cores")
        axes.set_title(f"({letter}) request {grid.request_ids[row]} of {title}", loc="left")
    used = np.sum([grid.cpu[row].astype(np.float64) * grid.cpu_cores[row] for row in rows], axis=0)
    waves = np.sum([fits.waves(row).at(middles_s) * grid.cpu_cores[row] for row in rows], axis=0)
    host.plot(days, used, color="#b8b8b8", linewidth=0.6, label="both, raw")
    host.plot(days, waves, color="#1b7f79", linewidth=1.0, label="sum of the waves")
    above = 100 * float(np.mean((used > waves)[np.isfinite(used)]))
    host.set_title(f"(c) both on one host: use is above the sum of the waves {above:.1f} % of the time", loc="left")
    host.set_xlabel("day")
    host.set_ylabel("cores used")
    for axes in (*upper, host):
        axes.legend(frameon=False, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, borderpad=0.0)
        plain(axes)
    return figure


def error_lines(wave: WaveErrors, name: str) -> dict[str, np.ndarray]:
    """The lines of one panel of `error_figure`: of the requests with a period, as in the paper.

    >>> ones = np.ones(2)
    >>> lines = error_lines(WaveErrors("next-day", np.array([True, False]), ones, ones, ones), "pulse wave")
    >>> [(line, len(errors)) for line, errors in lines.items()]
    [('pulse wave', 1), ('constant mean', 1), ("last week's repeat", 1)]
    """
    rows = wave.is_periodic
    return {name: wave.wave[rows], "constant mean": wave.constant[rows], "last week's repeat": wave.last_week[rows]}


def draw(grid: UsageGrid, panels: Mapping[str, Mapping[str, np.ndarray]], folder: Path, name: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    settings = PeriodicitySettings()
    fits = fit_waves(grid, settings, n_threads=2)
    day = chosen(fits, (23.0, 25.0))
    short = chosen(fits, (1.0, 13.0), (day,))
    request_figure(grid, fits, day, settings, f"request {grid.request_ids[day]} of {name}").savefig(
        folder / "periodicity_request.png", dpi=80)
    period_figure(fits, name).savefig(folder / "periodicity_periods.png", dpi=80)
    host_figure(grid, fits, (day, short), name).savefig(folder / "periodicity_host.png", dpi=80)
    errors = error_figure(panels, f"{name}: error of the requests with a period")
    errors.savefig(folder / "periodicity_errors.png", dpi=80)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--days", type=int, default=7)
    parser.add_argument("--figures", type=Path)
    parser.add_argument("--json", type=Path, default=Path(".sojourn/studies/periodicity_errors.json"))
    asked = parser.parse_args()
    print("| series | judged | model | n | periodic, % | its NRMSE | constant | last week | below 0.3, % | wave / "
          "constant (95 %) |\n|---|---|---|---|---|---|---|---|---|---|", flush=True)
    rows: list[Row] = []
    for name, grid in data_sets(asked.data):
        panels: dict[str, dict[str, np.ndarray]] = {}
        for way, settings in WAYS.items():
            for found in errors_of(grid, settings, asked.days):
                rows.append(row_of(name, way, found))
                print(line(rows[-1]), flush=True)
                whole = joined(found)
                panel = panels.setdefault(whole.label, error_lines(whole, way))
                panel[way] = whole.wave[whole.is_periodic]
        if asked.figures and name == "bitbrains August":
            draw(grid, panels, asked.figures, name)
    asked.json.parent.mkdir(parents=True, exist_ok=True)
    asked.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
