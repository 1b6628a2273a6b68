"""`sojourn simulate` and `sojourn compare`: replays under every policy, once or over loads and seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sojourn.flows.commands.exit_codes import CLAIM_FAILED
from sojourn.flows.commands.interruption import keeps
from sojourn.flows.commands.options import (
    ConfigFile,
    Dask,
    Horizon,
    HostCores,
    HostMemory,
    MapFile,
    MapPairs,
    Reader,
    ReaderName,
    StoreFolder,
    Timezone,
    TracePath,
    plain_errors,
)


@plain_errors
def simulate(
    trace: TracePath = None,
    reader: Reader = "parquet",
    horizon_s: Horizon = None,
    column_map: MapPairs = None,
    map_file: MapFile = None,
    timezone: Timezone = None,
    recipe: Annotated[str | None, typer.Option(
        help="Recipe: {recipes}. [default: the reader's own, else trace]")] = None,
    policy: Annotated[list[str], typer.Option(
        help="Policy: {policies}; may be repeated. [default: all]")] = [],  # noqa: B006
    n_requests: Annotated[int, typer.Option(help="Requests of the synthetic trace.")] = 60_000,
    load: Annotated[float, typer.Option(help="Peak load of the hosts, 0 to 1.")] = 0.8,
    noise: Annotated[list[float], typer.Option(
        help="Also with lognormal noise of this sigma on every lifetime; may be repeated. "
             "[default: none]")] = [],  # noqa: B006
    recall: Annotated[list[float], typer.Option(
        help="Also with this share of requests over 2 h known, the others taken for short; may be repeated. "
             "[default: none]")] = [],  # noqa: B006
    host_cpu_cores: HostCores = None,
    host_mem_gib: HostMemory = None,
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.")] = 0,
    stranding: Annotated[int, typer.Option(
        help="Also measure stranded CPU and memory at this many moments, say 8.")] = 0,
    picture: Annotated[Path | None, typer.Option(
        help="Write a picture (PNG) of empty hosts over time. [default: none]")] = None,
) -> None:
    """Replay a trace under each policy with perfect lifetimes (the most that could be gained) or flawed ones.

    Best-fit is always included: gains are differences to it.
    """
    from sojourn.features.readers import read_trace
    from sojourn.features.synthetic import synthesize
    from sojourn.flows.progress import console, stage, tell_doubts
    from sojourn.flows.reports.comparison_report import policies_table
    from sojourn.flows.settings.retrain import shape_options
    from sojourn.flows.settings.trace import ColumnOptions, column_keywords, own_recipe
    from sojourn.simulator import (
        KNOWN_POLICIES,
        POLICIES,
        LongAsShort,
        NoisyOracle,
        Oracle,
        build_workload,
        compare,
    )
    from sojourn.simulator.experiments import BASELINE, Pairing

    unknown = [name for name in policy if name not in KNOWN_POLICIES]
    if unknown:
        raise ValueError(f"policy must be one of {', '.join(KNOWN_POLICIES)}, got {unknown[0]!r}")
    names = dict.fromkeys([BASELINE, *(policy or POLICIES)])
    with stage("read"):
        if trace is None:
            read = synthesize(n_requests, seed=seed)
        else:
            options = column_keywords(ColumnOptions(tuple(column_map or ()), map_file, timezone), reader)
            read, read_report = read_trace(reader, trace, horizon_s=horizon_s, **options)
            tell_doubts(read_report.lines())
    recipe = recipe or own_recipe("synthetic" if trace is None else reader)
    shape = shape_options(host_cpu_cores, host_mem_gib) if recipe == "trace" else {}
    built = build_workload(recipe, read, load=load, seed=seed, **shape)
    tell_doubts(built.doubts())
    with stage("simulate") as report:
        sources: dict[str, Any] = {"oracle": Oracle(built)}
        sources |= {f"noise {sigma:g}": NoisyOracle(built, sigma, seed) for sigma in noise}
        sources |= {f"recall {share:g}": LongAsShort(built, share, seed=seed) for share in recall}
        pairings: list[Pairing] = [(name, "", None) for name in names if KNOWN_POLICIES[name].predictions == "none"]
        pairings += [(name, label, source) for name in names if KNOWN_POLICIES[name].predictions != "none"
                     for label, source in sources.items()]
        comparison = compare(built, pairings, progress=lambda done, total, _: report(done, total),
                             n_stranding_moments=stranding)
    console.print(policies_table(comparison.table, built.description))
    if picture is not None:
        from sojourn.simulator.page import write_png

        write_png(comparison, picture)
        console.print(f"picture  {picture}", soft_wrap=True)


@plain_errors
@keeps("finished cells are in the store, and the same command goes on from there")
def compare(
    trace: TracePath = None,
    reader: ReaderName = None,
    horizon_s: Horizon = None,
    column_map: MapPairs = None,
    map_file: MapFile = None,
    timezone: Timezone = None,
    recipe: Annotated[str | None, typer.Option(
        help="Recipe: {recipes}. [default: the reader's own, else trace]")] = None,
    policy: Annotated[list[str] | None, typer.Option(
        help="Policy: {policies}; may be repeated. [default: all]")] = None,
    predictor: Annotated[list[str] | None, typer.Option(
        help="oracle, noise:SIGMA, recall:SHARE, owner-recall:SHARE, a lifetime family (km, hazard, ...), "
             "bundle:FOLDER, refreshed: of one of the last two, or one-shot: of any; may be repeated. "
             "[default: oracle]")] = None,
    rectify: Annotated[list[str] | None, typer.Option(
        help="Live migrations that free hosts, RECTIFIER:MOVES a day: {rectifiers}; may be repeated. "
             "[default: none]")] = None,
    load: Annotated[list[float] | None, typer.Option(
        help="Peak load of the hosts, above 0 and at most 1; may be repeated. [default: 0.8]")] = None,
    seed: Annotated[list[int] | None, typer.Option(
        help="Seed of a pair of replays; may be repeated. [default: 0 to 4]")] = None,
    n_seeds: Annotated[int | None, typer.Option(
        help="So many seeds, from 0 on, in place of --seed. [default: none]")] = None,
    start: Annotated[list[str] | None, typer.Option(
        help="cold: the whole trace, from an empty pool; warm: its later part, with what was running; may be repeated. "
             "[default: warm where a predictor is learnt, else cold]")] = None,
    n_requests: Annotated[int | None, typer.Option(help="Requests of the synthetic trace. [default: 60000]")] = None,
    host_cpu_cores: HostCores = None,
    host_mem_gib: HostMemory = None,
    preset: Annotated[str | None, typer.Option(
        help="A named comparison: {presets}. Other options replace its settings. These read only some, and refuse the "
             "others: {partial_presets}. [default: none]")] = None,
    config: ConfigFile = None,
    store: StoreFolder = None,
    page: Annotated[Path | None, typer.Option(
        help="HTML page to write, with its tables as CSV beside it. [default: none]")] = None,
    price_per_host_hour: Annotated[float | None, typer.Option(
        help="Price of one host for an hour, in any currency: gains are also said in money. [default: none]")] = None,
    batch_trace: Annotated[Path | None, typer.Option(
        help="Batch tasks (reader alibaba-2018) beside the services of --trace, for preset ctcl-table. "
             "[default: none]")] = None,
    n_workers: Annotated[int | None, typer.Option(help="Processes. [default: cores]")] = None,
    dask: Dask = None,
) -> None:
    """Compare policies x predictors x loads x seeds in pairs; finished cells are not run again."""
    from importlib import import_module

    from sojourn.flows.compare.presets import GRID, PRESETS
    from sojourn.flows.compare.presets.reading import check_reads

    flags = {
        "trace": trace, "reader": reader, "horizon_s": horizon_s,
        "column_map": tuple(column_map) if column_map else None, "map_file": map_file, "trace_timezone": timezone,
        "recipe": recipe, "policies": policy,
        "predictors": predictor, "rectifiers": rectify, "loads": load, "seeds": seed, "n_seeds": n_seeds,
        "starts": start,
        "n_requests": n_requests,
        "host_cpu_cores": host_cpu_cores, "host_mem_gib": host_mem_gib, "preset": preset, "store": store, "page": page,
        "batch_trace": batch_trace, "n_workers": n_workers, "dask": dask,
        "price_per_host_hour": price_per_host_hour}  # fmt: skip
    check_reads({name: value for name, value in flags.items() if value is not None})  # before seconds of imports
    from sojourn.flows.compare.compare_config import CompareConfig
    from sojourn.flows.settings.store import load_settings

    settings = load_settings(CompareConfig, config, **flags)
    from sojourn.flows.jobs.preflight import check_before_work

    check_before_work(settings)
    from sojourn.flows.stages.kept_trace import with_kept_trace

    settings = with_kept_trace(settings)
    module, _, name = (PRESETS[settings.preset].runner if settings.preset else GRID).partition(":")
    if getattr(import_module(module), name)(settings):
        raise typer.Exit(CLAIM_FAILED)
