"""The command line on good and on bad input: one clear line and exit code 2."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from made_bundles import make
from sojourn.features import Trace
from sojourn.features.synthetic import synthesize
from sojourn.flows.cli import app
from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.simulator import POLICIES
from sojourn.simulator.experiments import RIVALS

SWF = "; UnixStartTime: 0\n" + "".join(
    f"{job} {job * 10} 5 60 4 -1 -1 4 600 -1 1 {job % 3} 1 -1 1 1 -1 -1\n" for job in range(1, 40))


def _run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def test_describe_and_convert(tmp_path: Path) -> None:
    file = tmp_path / "small.swf"
    file.write_text(SWF)
    code, out, _ = _run("trace", "describe", file, "--reader", "swf", "--picture", tmp_path / "p.png")
    assert code == 0
    assert "39" in out
    assert (tmp_path / "p.png").stat().st_size > 5_000
    code, out, _ = _run("trace", "convert", file, tmp_path / "own", "--reader", "swf")
    assert code == 0
    code, out, _ = _run("trace", "describe", tmp_path / "own")
    assert code == 0
    assert "39" in out


@pytest.mark.slow
def test_gain_of_two_policies(tmp_path: Path) -> None:
    synthesize(1_200, seed=0).save(tmp_path / "trace")
    code, out, _ = _run("gain", tmp_path / "trace", "--policy", "nilas-expected", "--policy", "best-fit", "--n-seeds",
                        1, "--predictor", "oracle", "--predictor", "noise:2", "--store", tmp_path / "store")
    assert code == 0
    rows = "".join(line for line in out.splitlines() if line.startswith("│"))
    assert [rows.count(word) for word in ("nilas-expected", "oracle", "noise:2", "lava")] == [2, 1, 1, 0]
    asked = ("gain", tmp_path / "trace", "--policy", "nilas-expected", "--n-seeds", 1, "--store", tmp_path / "store")
    code, out, err = _run(*asked, "--json")
    found = json.loads(out)
    assert (code, [row["policy"] for row in found["rows"]]) == (0, [*RIVALS, "nilas-expected"])
    assert len(found["answers"]) == 1 and "replay" in err
    code, _, err = _run("gain", "--policy", "nilass")
    assert code == 2
    assert err.startswith("error: policy must be one of aligned-fit, best-fit, ")


@pytest.mark.slow
def test_gain_of_all_policies(tmp_path: Path) -> None:
    synthesize(1_200, seed=0).save(tmp_path / "trace")
    predictors = ("oracle", "noise:1", "noise:2", "recall:0.8")
    code, out, _ = _run("gain", tmp_path / "trace", "--picture", tmp_path / "p.png", "--n-seeds", 1, "--store",
                        tmp_path / "store", *(word for name in POLICIES for word in ("--policy", name)),
                        *(word for name in predictors for word in ("--predictor", name)))
    assert code == 0
    for word in POLICIES:
        assert word in out
    n_asking = sum(policy.predictions != "none" for policy in POLICIES.values())
    rows = [row for row in out.splitlines() if row.startswith("│")]  # a note below names those that reject more
    assert [sum(word in row for row in rows) for word in predictors] == [n_asking] * 4
    assert (tmp_path / "p.png").stat().st_size > 10_000


def _truncated(tmp_path: Path) -> Path:
    file = tmp_path / "cut.swf.gz"
    content = gzip.compress(SWF.encode() * 200)
    file.write_bytes(content[:len(content) // 2])
    return file


def _wrong_columns(tmp_path: Path) -> Path:
    file = tmp_path / "wrong.swf"
    file.write_text("name,cpu\n" * 30)
    return file


@pytest.mark.parametrize(("make", "words"), [
    (_truncated, ("cut.swf.gz", "gzip")),
    (_wrong_columns, ("wrong.swf", "18")),
    (lambda folder: folder / "none.swf", ("none.swf",)),
    (lambda folder: folder, ("directory",)),
])  # fmt: skip
def test_bad_files_end_with_one_line(tmp_path: Path, make: object, words: tuple[str, ...]) -> None:
    code, _, err = _run("trace", "describe", make(tmp_path), "--reader", "swf")  # type: ignore[operator]
    assert code == 2
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    for word in words:
        assert word in err


def test_unknown_names_list_the_known_ones(tmp_path: Path) -> None:
    code, _, err = _run("trace", "describe", tmp_path, "--reader", "borg")
    assert (code, "openb" in err, "swf" in err) == (2, True, True)
    code, _, err = _run("train", "--reader", "borg")
    assert code == 2
    assert "synthetic" in err
    (tmp_path / "there.swf").write_text(SWF)
    code, _, err = _run("train", tmp_path / "there.swf", "--reader", "swf", "--load", "7")
    assert code == 2
    assert "load" in err
    assert err.count("got ") == 1


MOST = "must be valid: Input should be less than or equal to 1000000000"


@pytest.mark.parametrize(("option", "value", "words"), [
    ("--load", "nan", "load must be above 0 and at most 1, got nan"),
    ("--load", "-1", "load must be above 0 and at most 1, got -1.0"),
    ("--host-mem-gib=8 --host-cpu-cores", "inf", f"host_cpu_cores {MOST}, got inf"),
    ("--host-cpu-cores=8 --host-mem-gib", "nan", f"host_mem_gib {MOST}, got nan"),
    ("--host-cpu-cores", "8", "host_cpu_cores and host_mem_gib must be given together, got 8.0 and None"),
    ("--predictor", "noise:-1", "predictor noise must have a number in 0..10, got 'noise:-1'"),
    ("--predictor", "recall:1.5", "predictor recall must have a number in 0..1, got 'recall:1.5'"),
])
def test_gain_names_the_bad_setting(tmp_path: Path, option: str, value: str, words: str) -> None:
    synthesize(1_200, seed=0).save(tmp_path / "trace")
    code, _, err = _run("gain", tmp_path / "trace", *option.split(), value, "--store", tmp_path / "store")
    assert (code, err) == (2, f"error: {words}\n")


def test_a_missing_model_and_a_missing_store_are_named(tmp_path: Path) -> None:
    code, _, err = _run("model", "predict", tmp_path / "none", "{}")
    assert code == 2
    assert "MANIFEST.json" in err
    code, _, err = _run("store", "ui", "--store", tmp_path)
    assert code == 2
    assert "sojourn train" in err


def test_predict_warns_of_what_the_model_has_not_seen(tmp_path: Path) -> None:
    bundle = make(tmp_path).folders["hazard"]
    request = json.dumps({})
    code, out, err = _run("model", "predict", bundle, request, "--uptime-s", 0, "--uptime-s", 3_600)
    assert code == 0
    answers = [json.loads(line) for line in out.splitlines()]
    assert [answer["uptime_s"] for answer in answers] == [0.0, 3_600.0]
    assert all(answer["p10_s"] <= answer["p50_s"] <= answer["p90_s"] for answer in answers)
    assert err.startswith("warning: of {} the model does not know all; not given: ")
    # asked for the trace's end unless told otherwise
    schema = json.loads((bundle / "schema.json").read_text())
    code, at_end, _ = _run("model", "predict", bundle, request, "--now-s", schema["training"]["history_to_s"],
                           "--uptime-s", 0)
    assert at_end.splitlines() == out.splitlines()[:1]
    code, _, err = _run("model", "predict", bundle, '{"colour": "red"}')
    assert code == 2
    assert "column must be one of" in err
    assert "'colour'" in err
    code, _, err = _run("model", "predict", bundle, '{"mem_gib": -16}')
    assert (code, err) == (2, "error: mem_gib must be finite and at least 0, got -16\n")
    code, _, err = _run("model", "predict", bundle, "{broken")
    assert code == 2
    assert "request 1 must be a JSON object" in err
    for request, reason in (("x", "No such file or directory"), (str(tmp_path), "Is a directory"),
                            ("[" * 5_000, "File name too long")):
        code, _, err = _run("model", "predict", bundle, request)
        assert (code, err) == (2, "error: request must be a JSON object or the path of a file of them, got "
                                  f"{request[:80]!r} ({reason})\n")


@pytest.mark.slow
def test_a_horizon_is_declared_and_doubted_ones_are_told(tmp_path: Path) -> None:
    rows = [f"v{idx},s,d,{10 + idx},{1_000 + 100 * idx if idx < 200 else 60_000},9,1,5,Interactive,2,4"
            for idx in range(300)]
    table = tmp_path / "vmtable.csv"
    table.write_text("\n".join(rows) + "\n")
    code, out, _ = _run("trace", "describe", table, "--reader", "azure-vm")
    assert (code, "running at the horizon  100 " in out, "--horizon-s" in out) == (0, True, False)
    table.write_text("\n".join([*rows[:-1], rows[-1].replace("60000", "60600")]) + "\n")
    code, out, _ = _run("trace", "describe", table, "--reader", "azure-vm")
    assert (code, "running at the horizon  100 " in out) == (0, True)
    assert "1 row beyond the horizon, up to 60,600 s" in out
    code, out, _ = _run("trace", "describe", table, "--reader", "azure-vm", "--horizon-s", 5_000)
    assert (code, "horizon 5,000 s, as declared" in out, "span                    0.1 days" in out) == (0, True, True)
    code, out, _ = _run("gain", table, "--reader", "azure-vm", "--policy", "best-fit", "--n-seeds", 1, "--store",
                        tmp_path / "store")
    assert (code, "1 row beyond the horizon" in out) == (0, True)
    code, _, err = _run("train", "--horizon-s", 5_000, "--store", tmp_path / "store")
    assert (code, err) == (2, "error: horizon_s must be given with a trace file, got 5000 for the synthetic trace\n")


@pytest.mark.slow
def test_a_trace_with_further_resources_is_described_and_replayed(tmp_path: Path) -> None:
    made = synthesize(300, seed=1, days=7)
    roles = replace(made.roles, numbers=(), resources=("disk_gib",))
    assert made.hosts is not None
    Trace(made.requests, made.horizon_s, roles, made.hosts.assign(disk_gib=1e6), meta=made.meta).save(tmp_path / "own")
    code, out, _ = _run("trace", "describe", tmp_path / "own", "--picture", tmp_path / "p.png")
    assert (code, "utilisation disk_gib" in out, (tmp_path / "p.png").stat().st_size > 5_000) == (0, True, True)
    code, out, _ = _run("gain", tmp_path / "own", "--policy", "best-fit", "--n-seeds", 1, "--store", tmp_path / "store")
    assert (code, "disk_gib not replayed" in " ".join(out.split())) == (0, True)


def test_search_takes_a_horizon_for_each_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "small.swf").write_text(SWF)
    asked = ("lab", "search", "--on", "synthetic", "--on", f"swf={tmp_path / 'small.swf'}", "--store",
             tmp_path / "store")
    found: list[RetrainConfig] = []
    monkeypatch.setattr("sojourn.flows.study.search.search", lambda configs, *_: found.extend(configs))
    assert _run(*asked, "--horizon-s", 500)[0] == 0
    assert [config.horizon_s for config in found] == [None, 500]
    code, _, err = _run(*asked, "--horizon-s", 5, "--horizon-s", 6)
    assert (code, err) == (2, "error: --horizon-s must be given once for each of the 1 files of --on, or not at all, "
                              "got 2\n")
