"""Random programs of the oracle through Spark: gold must be what the engine in plain Python tells, which the
oracle holds to a real database. A feed grows in three parts, so that tables are created, merged into and
folded again.
"""

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakehouse.events import MIN_POSITION, Message
from lakehouse.spark import limits
from lakehouse.spark.gold import merge as write_gold
from lakehouse.spark.pipeline.try_recording import try_recording
from tests.oracle.check import delivered, has_keyless
from tests.oracle.database import Database
from tests.oracle.generate import generate
from tests.support.engine import Memory
from tests.support.lakes import engine, shown, write_recording

# by the driver, out of a large window in lots of one table, and in Spark jobs
# LAKEHOUSE_PROGRAMS=50 ./run test -m '' tests/spark/pipeline/test_programs.py is the long run
PROGRAMS = int(os.environ.get("LAKEHOUSE_PROGRAMS", "1"))


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    from tests.servers.mariadb import start_mariadb

    with start_mariadb(tmp_path_factory.mktemp("mariadb")) as server:
        yield Database(server.port)


ZEROS = {
    "driver": (),
    "lots": ("GOLD_WINDOW_CHANGES", "GOLD_GROUP_CHANGES"),
    "jobs": ("SILVER_BATCH_RECORDS", "GOLD_TABLE_CHANGES", "GOLD_WINDOW_CHANGES"),
}


@pytest.mark.parametrize(
    "way",
    ["lots", pytest.param("driver", marks=pytest.mark.long), pytest.param("jobs", marks=pytest.mark.long)],
)
def test_gold_of_random_programs_is_what_the_engine_tells(
    spark: Any, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(write_gold, "ORDERED_ROWS", 0)
    monkeypatch.setattr(write_gold, "ROWS_PER_FILE", 20)
    for name in ZEROS[way]:
        monkeypatch.setattr(limits, name, 0)
    for seed in range(5000, 5000 + PROGRAMS):
        runner, chance = generate(database, seed), random.Random(seed)
        told, _ = delivered(runner.events, chance, keyless=has_keyless(runner), raw=runner.raw)
        for part in (0.4, 0.8, 1.0):
            landed = told[: max(1, int(len(told) * part))]
            path = write_recording(tmp_path / f"program{seed}.jsonl", landed)
            lake = tmp_path / f"lake{seed}"
            result = try_recording(path, "ticdc-open", {}, str(lake), "resolved", lambda _: None)
            at, watermark = tuple(result["watermark"]), Memory("ticdc-open").add(landed).watermark
            # where no partition has sent a watermark yet, `try` shows what has arrived, and says so
            assert at == watermark or no_watermark(landed)
            assert shown(lake, tmp_path / "shown") == engine(landed, at), (
                f"seed {seed}, {part:.0%} of its messages"
            )


def no_watermark(landed: list[Message]) -> bool:
    return all(mark == MIN_POSITION for mark in Memory("ticdc-open").add(landed).marks.values())
