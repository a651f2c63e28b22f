"""Jars: fetched once, whole or not at all; without network one sentence."""

import re
import socket
import zipfile
from pathlib import Path

import pytest

from lakehouse.errors import EnvironmentError_
from lakehouse.jvm.jars import broker_jars, spark_jars


@pytest.fixture
def nobody_listens(monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a Maven repository that refuses connections."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{probe.getsockname()[1]}/maven2"
    monkeypatch.setenv("LAKEHOUSE_MAVEN", address)
    return address


def test_without_network_the_sentence_says_what_to_do_and_nothing_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nobody_listens: str
) -> None:
    monkeypatch.setenv("LAKEHOUSE_CACHE", str(tmp_path))
    with pytest.raises(EnvironmentError_) as raised:
        broker_jars()
    sentence = str(raised.value)
    assert re.match(rf"jars: expected .+ from {nobody_listens}/, got: .*[Rr]efused", sentence)
    assert "needs the network once (LAKEHOUSE_MAVEN names another Maven repository)" in sentence
    assert "\n" not in sentence
    assert [found for found in tmp_path.glob("jars/*") if not found.name.endswith(".lock")] == []


def test_once_fetched_jars_are_found_without_network(request: pytest.FixtureRequest) -> None:
    first = spark_jars(), broker_jars()
    request.getfixturevalue("nobody_listens")
    assert (spark_jars(), broker_jars()) == first


def test_the_jars_are_whole_and_clash_with_none_of_sparks_own() -> None:
    names = {jar.name for jar in spark_jars()}
    assert {
        "delta-spark_2.13-4.0.1.jar",
        "delta-storage-4.0.1.jar",
        "spark-sql-kafka-0-10_2.13-4.0.0.jar",
    } <= names
    assert not [
        name
        for name in names
        if name.startswith(("scala-library", "hadoop-", "spark-core", "slf4j", "jackson"))
    ]
    for jar in (*spark_jars(), *broker_jars()):
        assert zipfile.is_zipfile(jar), jar
