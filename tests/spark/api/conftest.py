"""Two lakes for the tests of the API and the notebooks: the demo's, and an hour of a shop."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.shop_lake import demo_lake, shop_lake


@pytest.fixture(scope="session")
def demo(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the demo's lake is `./lake`."""
    return demo_lake(tmp_path_factory.mktemp("demo")).parent


@pytest.fixture(scope="session")
def made_shop(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shop_lake(tmp_path_factory.mktemp("shop"))


@pytest.fixture
def shop(made_shop: Path, tmp_path: Path) -> Path:
    """A copy of the shop's lake, which a test may change."""
    return Path(shutil.copytree(made_shop, tmp_path / "lake"))
