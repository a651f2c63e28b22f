"""When a continuous run tries a table again that has failed. Needs no session."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from lakehouse.events import Position
from lakehouse.ops.records.gold import Manifest
from lakehouse.spark.gold import run as gold_run
from lakehouse.spark.gold.settings import GoldSettings
from tests.spark.gold.test_held_shards import at


@pytest.mark.parametrize(
    ("asked", "seconds", "position", "waits"),
    [
        (None, 1, at(9), True),
        (None, gold_run.RETRY + 1, at(9), False),
        (None, 1, at(10), False),
        ("what was asked", 1, at(9), False),
    ],
)
def test_a_table_that_has_failed_waits_a_minute_where_nothing_else_is_new(
    monkeypatch: pytest.MonkeyPatch, asked: str | None, seconds: int, position: Position, waits: bool
) -> None:
    last = Manifest(batch=3, watermark=at(9), consistency="resolved", auto=True, tables=(), asked=asked)
    when = int((time.time() - seconds) * 1000)
    log: Any = SimpleNamespace(records=[SimpleNamespace(kind="manifest", at=when, record=last)], generation=1)
    monkeypatch.setattr(gold_run, "find_watermark", lambda *_: (position, None))

    done: Any = SimpleNamespace(batch=3)
    assert gold_run.waits_for_retry(log, GoldSettings("shop"), done) == waits


def test_nothing_is_waited_for_before_the_first_manifest() -> None:
    log: Any = SimpleNamespace(records=[])
    done: Any = SimpleNamespace(batch=1)

    assert not gold_run.waits_for_retry(log, GoldSettings("shop"), done)
