"""Settings: defaults, sources and refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sojourn.features.readers import READERS
from sojourn.flows.compare.settings import CompareConfig
from sojourn.flows.settings.retrain import RetrainConfig, load_config
from sojourn.flows.settings.store import Group, load_settings
from sojourn.models import LIFETIME_MODELS
from sojourn.models.lifetime import TRAINED


def test_flags_win_over_environment_and_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "run.toml"
    file.write_text("seed = 1\nload = 0.5\nn_threads = 3\n")
    monkeypatch.setenv("SOJOURN_LOAD", "0.6")
    monkeypatch.setenv("SOJOURN_SEED", "2")
    config = load_config(file, seed=3)
    assert (config.seed, config.load, config.n_threads) == (3, 0.6, 3)


def test_baselines_are_always_trained() -> None:
    assert RetrainConfig(families=("hazard",)).families == ("km", "gbdt-once", "hazard")


def test_the_default_families_are_those_trained_by_default_and_any_of_the_registry_may_be_asked_for() -> None:
    assert RetrainConfig().families == TRAINED == ("km", "gbdt-once", "gbdt-uptime", "hazard", "mixture",
                                                    "online", "blend")
    assert RetrainConfig(families=tuple(LIFETIME_MODELS)).families == tuple(LIFETIME_MODELS)


@pytest.mark.parametrize(("given", "message"), [
    ({"unknown": 1}, "unknown"),
    ({"families": ("forest",)}, f"families must be among {', '.join(LIFETIME_MODELS)}, got 'forest'"),
    ({"reader": "xlsx"}, f"reader must be one of synthetic, {', '.join(READERS)}, got 'xlsx'"),
    ({"column_map": ("arrival=start",)}, "column_map must be given with a reader that maps columns, such as csv, got "
                                         "reader 'synthetic'"),
    ({"trace": Path("x.swf"), "reader": "swf", "timezone": "UTC"}, "got reader 'swf'"),
    ({"trace": Path("x.csv"), "reader": "csv", "column_map": ("begin=start",)}, "must be mapped as OURS=THEIRS"),
    ({"trace": Path("x.csv"), "reader": "csv", "map_file": Path("none.toml")}, "map_file must be a TOML file, got"),
    ({"trace": Path("x.csv"), "reader": "csv", "timezone": "CEST"}, "timezone must be an IANA name"),
    ({"trace": Path("x.txt"), "reader": "slurm", "timezone": "CEST"}, "timezone must be an IANA name"),
    ({"trace": Path("x.txt"), "reader": "slurm", "column_map": ("arrival=Start",)}, "got reader 'slurm'"),
    ({"trace": Path("x.txt")}, "reader must be given with --reader NAME"),
    ({"reader": "swf"}, "trace must be given with a reader: give the FILE, got reader 'swf' without one"),
    ({"load": 0.0}, "load"),
    ({"store": Path("/data/a?b")}, r"store must be a path without a question mark, got '/data/a\?b'"),
    *(({"tracking_uri": uri}, rf"must be sqlite:///PATH without a user or a query, got {shown} \[") for uri, shown in (
        ("sqlite:////data/a.db?password=pass-word", r"sqlite:////data/a\.db\?password=\*\*\*"),
        ("sqlite+pysqlite:////data/a.db?timeout=9", r"sqlite\+pysqlite:////data/a\.db\?timeout=\*\*\*"),
        ("sqlite://me:pass-word@/data/a.db", r"sqlite:///data/a\.db"), ("SQLite:////data/a.db", r"SQLite:////data/a\.db"),
        ("sqlite://", "sqlite://"))),
])  # fmt: skip
def test_refusals_name_the_setting(given: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RetrainConfig(**given)  # type: ignore[arg-type]


def test_an_unknown_key_in_the_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text("sede = 1\n")
    with pytest.raises(ValueError, match="sede"):
        load_config(file)
    with pytest.raises(ValueError, match="configuration must be a TOML file"):
        load_config(tmp_path / "none.toml")
    file.write_text("lode = 0.5\n")
    with pytest.raises(ValueError, match=r"lode must .*, got 0.5"):
        load_config(file)
    file.write_text("seed = 1\nx = [\n")
    with pytest.raises(ValueError, match=r"run\.toml must be TOML, got Invalid value \(at end of document\)"):
        load_config(file)


def test_registered_name_of_a_file() -> None:
    assert RetrainConfig().registered_name == "sojourn-lifetime"
    named = RetrainConfig(trace=Path("a/CEA-Curie.swf.gz"), reader="swf")
    assert named.registered_name == "sojourn-lifetime-cea-curie-swf-gz"


@pytest.mark.parametrize(("kind", "name", "value", "words"), [
    (RetrainConfig, "recipe", "none-such", "recipe must be one of azure-flavors, "),
    (CompareConfig, "recipe", "none-such", "recipe must be one of azure-flavors, "),
    (CompareConfig, "host_mem_gib", 8.0, "host_cpu_cores and host_mem_gib must be given together, got None and 8.0"),
])
def test_a_rule_is_one_for_flag_file_and_variable(
        kind: type[Group], name: str, value: object, words: str, tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(f"{name} = {json.dumps(value)}\n")
    flags: dict[str, Any] = {name: value}
    with pytest.raises(ValueError, match=words):
        load_settings(kind, **flags)
    with pytest.raises(ValueError, match=words):
        load_settings(kind, file)
    monkeypatch.setenv(f"SOJOURN_{name.upper()}", str(value))
    with pytest.raises(ValueError, match=words):
        load_settings(kind)
