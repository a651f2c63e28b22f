"""The entry points that a scheduler calls, as it calls them: arguments, exit codes, what is imported."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines import parser, run_layers
from tests.support.paths import ROOT

LAYERS = ("bronze", "silver", "gold")


@pytest.fixture
def configs(tmp_path: Path) -> Path:
    """A configuration whose only source names a lake by `--env`."""
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources/shop.yml").write_text(
        "format: ticdc-open\nrecording: [shop.jsonl]\ntime_zone: UTC\ntables: auto\nlake: "
        "${env:PIPELINES_LAKE}\n"
    )
    return tmp_path


@pytest.fixture(autouse=True)
def same_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `--env` sets is gone after the test."""
    monkeypatch.setenv("PIPELINES_LAKE", "")
    monkeypatch.delenv("PIPELINES_LAKE")


@pytest.mark.parametrize("layer", LAYERS)
def test_each_layer_has_a_module_that_runs_as_a_script(layer: str) -> None:
    done = subprocess.run(
        [sys.executable, f"pipelines/{layer}.py", "--configs", "/nowhere"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "/nowhere:1:1: is no folder; name the folder that holds sources and tables, or let `lakehouse init` "
        "write it\n"
    )


def test_spark_is_not_imported_before_the_configuration_is_valid() -> None:
    code = """
import sys, pipelines.gold
try:
    pipelines.gold.run_layers(("gold",), ["--configs", "/nowhere"])
except SystemExit:
    print("pyspark" in sys.modules)
"""

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)

    assert done.stdout == "False\n"


@pytest.mark.parametrize("layer", LAYERS)
def test_a_module_of_a_layer_is_a_few_lines(layer: str) -> None:
    assert len((ROOT / f"pipelines/{layer}.py").read_text().splitlines()) <= 40


def test_a_run_ends_when_all_is_done_unless_it_is_told_to_go_on() -> None:
    given = [
        parser("lakehouse-gold").parse_args(arguments).once
        for arguments in ([], ["--once"], ["--continuous"])
    ]

    assert given == [True, True, False]


def test_once_and_continuous_together_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run_layers(("gold",), ["--once", "--continuous"])

    assert ended.value.code == 2
    assert "not allowed with argument --once" in capsys.readouterr().err


def test_a_setting_without_a_value_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run_layers(("gold",), ["--env", "LAKE"])

    assert ended.value.code == 2
    assert "argument --env: expected NAME=VALUE" in capsys.readouterr().err


def test_a_source_that_nobody_configured_is_named_as_a_problem(
    configs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--configs", str(configs), "--select", "shpo", "--env", f"PIPELINES_LAKE={configs / 'lake'}"]

    with pytest.raises(SystemExit) as ended:
        run_layers(("gold",), arguments)

    assert ended.value.code == 2
    assert "--select names none that is configured" in capsys.readouterr().err


def test_a_reference_that_no_env_gives_is_named(configs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run_layers(("gold",), ["--configs", str(configs), "--select", ""])

    assert ended.value.code == 2
    assert "the environment variable PIPELINES_LAKE is not set" in capsys.readouterr().err
