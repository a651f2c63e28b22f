"""Two lakes for the tests of the API and the notebooks: the demo's, and an hour of a shop."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from lakehouse.config.load import load
from lakehouse.spark.pipeline.run import run
from tests.support.lakes import quiet
from tests.support.paths import ROOT
from tests.support.shop_lake import LAYERS, shop_lake

RECORDING = ROOT / "lakehouse/demo/demo.jsonl"


@pytest.fixture(scope="session")
def demo(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `lakehouse demo` leaves, in the folder `lake`, without its broker."""
    folder = tmp_path_factory.mktemp("demo")
    (folder / "configs/sources").mkdir(parents=True)
    (folder / "configs/sources/demo.yml").write_text(
        f"format: ticdc-open\nrecording: [{RECORDING}]\ntime_zone: UTC\ntables: auto\n"
    )
    run(load(folder / "configs"), LAYERS, True, (), str(folder / "lake"), quiet)
    return folder


@pytest.fixture(scope="session")
def made_shop(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shop_lake(tmp_path_factory.mktemp("shop"))


@pytest.fixture
def shop(made_shop: Path, tmp_path: Path) -> Path:
    """A copy of the shop's lake, which a test may change."""
    return Path(shutil.copytree(made_shop, tmp_path / "lake"))
