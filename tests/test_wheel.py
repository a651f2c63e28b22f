"""The wheel in an environment that has nothing else, used in a folder that is no checkout."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehouse import DISTRIBUTION, __version__
from lakehouse.demo.kafka_broker import free_port
from tests.servers.spark import build_wheel, spark_class
from tests.support.paths import ROOT

NO_INDEX = "no package index: the wheel's dependencies could not be fetched"
_UNREACHABLE = re.compile(
    r"ConnectionError|NewConnection|name resolution|timed out|Max retries|unreachable", re.I
)


def call(*words: str | Path, cwd: Path) -> "subprocess.CompletedProcess[str]":
    """A process that knows nothing of the checkout."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LAKEHOUSE_"))
    }
    return subprocess.run(words, cwd=cwd, env=kept, capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The bin folder of an environment into which pip has put the wheel and what the wheel asks for."""
    folder = tmp_path_factory.mktemp("installed_wheel")
    wheel = build_wheel(folder / "built")
    # where there is uv, Python may lack what its own venv needs
    own = ["uv", "venv", "--seed", "--python", sys.executable]
    made = call(*(own if shutil.which("uv") else [sys.executable, "-m", "venv"]), "venv", cwd=folder)
    assert made.returncode == 0, made.stdout + made.stderr
    found = folder / "venv/bin"
    done = call(found / "python", "-m", "pip", "install", "--no-input", wheel, cwd=folder)
    if done.returncode != 0 and _UNREACHABLE.search(done.stdout + done.stderr):
        pytest.skip(NO_INDEX)
    assert done.returncode == 0, done.stderr
    yield found


def test_the_distribution_has_a_name_of_its_own(programs: Path, tmp_path: Path) -> None:
    shown = call(programs / "python", "-m", "pip", "show", "--files", DISTRIBUTION, cwd=tmp_path).stdout

    assert f"Name: {DISTRIBUTION}\nVersion: {__version__}\n" in shown
    tops = {line.strip().partition("/")[0] for line in shown.partition("Files:\n")[2].splitlines()}
    assert tops == {"..", "lakehouse", "pipelines", f"lakehouse_cdc-{__version__}.dist-info"}


def test_the_command_and_the_schedulers_entry_points_start(programs: Path, tmp_path: Path) -> None:
    assert call(programs / "lakehouse", "version", cwd=tmp_path).stdout == f"lakehouse {__version__}\n"
    assert "Start an embedded Kafka broker" in call(programs / "lakehouse", "--help", cwd=tmp_path).stdout
    for layer in ("layers", "bronze", "silver", "gold", "quality", "maintain"):
        done = call(programs / f"lakehouse-{layer}", "--help", cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert "--configs" in done.stdout


def test_a_recording_is_looked_at_and_configured(programs: Path, tmp_path: Path) -> None:
    recording = next(programs.parent.glob("lib/*/site-packages/lakehouse/demo/demo.jsonl"))

    inspected = call(programs / "lakehouse", "inspect", recording, "--format", "ticdc-open", cwd=tmp_path)
    written = call(programs / "lakehouse", "init", "--recording", recording, "--name", "shop", cwd=tmp_path)
    checked = call(programs / "lakehouse", "validate", "configs", cwd=tmp_path)

    assert (inspected.returncode, written.returncode, checked.returncode) == (0, 0, 0), written.stderr
    assert "shop.orders" in inspected.stdout
    assert (tmp_path / "configs/sources/shop.yml").is_file()


def test_what_needs_spark_says_which_extra_brings_it(programs: Path, tmp_path: Path) -> None:
    checked = call(programs / "lakehouse", "doctor", cwd=tmp_path)
    shown = call(programs / "lakehouse", "demo", cwd=tmp_path)

    assert (checked.returncode, shown.returncode) == (1, 1)
    assert "pip install 'lakehouse-cdc[spark]'" in checked.stdout
    assert "pip install 'lakehouse-cdc[spark]'" in shown.stderr


def test_the_wheel_in_the_bundle_that_it_writes_is_itself(programs: Path, tmp_path: Path) -> None:
    written = call(programs / "lakehouse", "init", "--bundle", "my-lake", cwd=tmp_path)
    assert written.returncode == 0, written.stderr
    wheel = tmp_path / f"my-lake/wheels/lakehouse_cdc-{__version__}-py3-none-any.whl"

    done = call(
        programs / "python",
        *["-m", "pip", "install", "--force-reinstall", "--no-deps", "--no-index"],
        wheel,
        cwd=tmp_path,
    )

    assert done.returncode == 0, done.stderr
    assert call(programs / "lakehouse", "version", cwd=tmp_path).stdout == f"lakehouse {__version__}\n"
    second = call(programs / "lakehouse", "init", "--bundle", "again", cwd=tmp_path)
    assert second.returncode == 0, second.stderr
    assert (tmp_path / "again/wheels" / wheel.name).read_bytes() == wheel.read_bytes()


def test_the_demo_runs_outside_of_a_checkout(programs: Path, tmp_path: Path) -> None:
    """Spark is the one of the tests' own environment: half a gigabyte is not fetched again."""
    packages = next(programs.parent.glob("lib/*/site-packages"))
    borrowed = packages / "borrowed.pth"
    borrowed.write_text(f"{Path(spark_class()).parents[2]}\n")
    try:
        shown = call(
            programs / "lakehouse",
            "demo",
            "--json",
            "--lake",
            "lake",
            "--port",
            str(free_port()),
            cwd=tmp_path,
        )
    finally:
        borrowed.unlink()

    assert shown.returncode == 0, shown.stderr[-3000:]
    found = json.loads(shown.stdout)
    assert {table["table"]: table["state"] for table in found["tables"]} == {
        "shop.clients": "exact",
        "shop.orders": "exact",
    }


def test_one_name_and_version_are_written_in_the_package_and_its_project_file() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    locked = [package["name"] for package in tomllib.loads((ROOT / "uv.lock").read_text())["package"]]

    assert (project["name"], project["version"]) == (DISTRIBUTION, __version__)
    assert DISTRIBUTION in locked
