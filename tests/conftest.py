"""Real services for the tests, one of each per test process, started by the first test that asks and ended
with the last.

Nothing is skipped: where a service can't start, its tests fail with the sentence that says what to do. The
fixtures import what they start, so that tests without services start in no time.
"""

import os
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

# A slow machine is no failure. In CI the examples are the same every time: what a new one finds belongs to
# whoever looks for it.
settings.register_profile(
    "patient", deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.register_profile("ci", settings.get_profile("patient"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "patient")

if TYPE_CHECKING:
    from lakehouse.demo.kafka_broker import Broker


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Broker"]:
    """A Kafka broker. Tests take topic names of their own (see `topic`)."""
    from lakehouse.demo.kafka_broker import start_broker

    with start_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name that no other test uses; the topic does not exist yet."""
    return f"{request.node.originalname}-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """The session that `get_session` gives a laptop."""
    from lakehouse.spark.session import get_session

    with pytest.MonkeyPatch.context() as patch:
        # it lives for a quarter of an hour: long enough for the compiler's second stage to pay
        patch.setenv("LAKEHOUSE_JAVA_OPTIONS", "-XX:TieredStopAtLevel=4")
        # Delta keeps what it knows of a table for an hour, plans included: of the lakes of all tests that
        # fills 2 GB, and collecting it took a quarter of the time
        patch.setenv("LAKEHOUSE_DRIVER_MEMORY", "5g")
        session = get_session(app="tests")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The project's wheel, built."""
    from tests.servers.spark import build_wheel

    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def installed(wheel: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A folder that holds what the wheel installs."""
    from tests.servers.spark import unpack

    return unpack(wheel, tmp_path_factory.mktemp("installed"))


@pytest.fixture(scope="session")
def connect(installed: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Spark Connect server, which knows the project by its wheel alone."""
    from tests.servers.spark import connect_server

    with connect_server(tmp_path_factory.mktemp("connect"), installed) as address:
        yield address
