"""What is started once for all tests that need it: Spark, and a real Kafka broker."""

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def spark() -> Any:
    """The session that lakehouse itself would start. Imported here, so that tests without Spark start in no time."""
    from lakehouse.spark.session import get_session

    return get_session(app="lakehouse tests")


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A broker for the whole session: a test takes topics of its own."""
    from lakehouse.local.broker import start_broker

    with start_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running
