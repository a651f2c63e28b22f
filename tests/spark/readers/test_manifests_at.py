"""The manifest of a moment. Needs Spark's package, but no session."""

import time
from collections.abc import Iterator

import pytest

from lakehouse.errors import LakehouseError
from lakehouse.reporting.text.values import place
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.readers.positions import parse_position
from lakehouse.spark.readers.views import manifest_of
from tests.support.records import log_of, manifest


def at(tso: int) -> tuple[int, int, int, int, int, int]:
    return (0, tso, 2, 0, 0, 0)


@pytest.fixture
def log() -> OpsLog:
    """Manifests that were published 1, 2 and 3 milliseconds after 1970 began."""
    return log_of(*(manifest(batch=batch, watermark=at(100 * batch)) for batch in (1, 2, 3)))


@pytest.fixture
def in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("moment", "batch"),
    [
        ("100", 1),
        ("199", 1),
        ("200", 2),
        ("[0,299]", 2),
        ("[0,300,2]", 3),
        ("1970-01-01T00:00:00.002Z", 2),
        ("1970-01-01T00:00:00.002", 2),
        ("1970-01-01 09:00:00.001+09:00", 1),
        ("2026-11-21", 3),
    ],
)
def test_the_manifest_of_a_moment_is_the_last_one_that_is_not_behind_it(
    log: OpsLog, in_tokyo: None, moment: str, batch: int
) -> None:
    found = manifest_of(log, moment)

    assert found is not None
    assert found.batch == batch


@pytest.mark.parametrize(
    ("moment", "words"),
    [
        ("99", "expected a manifest at or before 99, the first one is later"),
        ("1970-01-01T00:00:00", "expected a manifest at or before 1970-01-01T00:00:00, the first"),
        ("301", "expected a moment up to the watermark"),
        ("now", "expected a TSO or a position"),
        ("-1-", "expected a TSO, a position, or an instant"),
    ],
)
def test_a_moment_without_a_manifest_is_refused(log: OpsLog, moment: str, words: str) -> None:
    with pytest.raises(LakehouseError, match=words):
        manifest_of(log, moment)


def test_a_position_that_is_none_is_refused_with_the_watermark_as_it_is_written(log: OpsLog) -> None:
    with pytest.raises(LakehouseError, match=r"such as the watermark's, '\[0, 1, 433849, 0, 0, 0\]'$"):
        parse_position(log, "mdb-bin.000001", (0, 1, 433849, 0, 0, 0))


@pytest.mark.parametrize(
    ("text", "position"),
    [
        (place((1, 3, 433849, 0, 0, 0), "binlog"), (1, 3, 433849, 7, 0, 0)),
        (place((1, 3, 433849, 0, 0, 0)), (1, 3, 433849, 7, 0, 0)),
        ("mdb-bin.000003:433848", (1, 3, 433848, 0, 0, 0)),
        ("binlog 2:9, epoch 0", (0, 2, 9, 0, 0, 0)),
        ("[1, 3, 4, 0, 0, 0]", (1, 3, 4, 0, 0, 0)),
    ],
)
def test_a_place_in_a_binlog_is_taken_as_status_and_the_server_write_it(
    log: OpsLog, text: str, position: tuple[int, ...]
) -> None:
    assert parse_position(log, text, (1, 3, 433849, 7, 0, 0)) == position
