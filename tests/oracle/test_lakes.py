"""The oracle over the pipeline in its short size: a lake for each setting of the sizes at which steps change
their way. The long run is `python -m tests.oracle --engine spark`: docs/oracle.md.
"""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lakehouse.ops.records.gold import Manifest
from lakehouse.spark.ops.log import OpsLog
from tests.oracle.database import Database
from tests.oracle.dialects import MARIADB
from tests.oracle.formats import FORMATS
from tests.oracle.generate import generate
from tests.oracle.pipeline.compare import (
    Difference,
    against_truth,
    arrived_at,
    model_of,
    table_differences,
    truth_at,
)
from tests.oracle.pipeline.deliver import delivery
from tests.oracle.pipeline.delta_files import read_delta
from tests.oracle.pipeline.lakes import Asked, lake, lakes
from tests.oracle.pipeline.plan import sources_of
from tests.oracle.pipeline.play import Play, server_is

# the first program of a lake, its formats, and whether its runs die
LAKES = {
    "smallest": (3, ("ticdc-open", "tencent-dts"), True),
    "default": (29, ("ticdc-canal-json", "debezium"), False),
    "infinite": (35, ("ticdc-storage-csv", "canal"), False),
    "few": (51, ("canal-protobuf", "ticdc-debezium"), False),
}
TABLES = 8


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    from tests.servers.mariadb import start_mariadb

    with start_mariadb(tmp_path_factory.mktemp("mariadb")) as server:
        yield Database(server.port)


@pytest.mark.parametrize("limits", LAKES)
def test_a_lake_of_random_programs_is_the_database_at_every_manifest(
    spark: Any, database: Database, tmp_path: Path, limits: str
) -> None:
    seed, formats, crashes = LAKES[limits]

    line = lake(database, Asked(seed, 100, TABLES, limits, formats, crashes), tmp_path, print)

    assert line["wrong"] == []
    assert line["live_tables"] >= TABLES
    assert line["manifests"] >= 2 * len(formats)


def test_the_comparison_sees_a_lost_row_another_type_and_another_state(
    spark: Any, database: Database, tmp_path: Path
) -> None:
    plans = sources_of([generate(database, 3, name="p3")], ["ticdc-open"], random.Random(3))
    only = delivery(plans[0], tmp_path, 1, random.Random(3))
    with server_is(MARIADB.rules):
        played = Play(tmp_path, [only], 3, print)
        assert played.all(1, crashes=False).wrong == []
        manifest = OpsLog(spark, played.lake, only.plan.name).load().last(Manifest)
        assert manifest is not None
        model, at = played.models[only.plan.name], manifest.watermark
        found = {
            entry.name: (entry, read_delta(tmp_path / "lake/gold" / entry.gold, entry.version))
            for entry in manifest.tables
            if entry.state == "exact"
        }
        entry, snapshot = next((entry, held) for entry, held in found.values() if held.rows)
        lineage = model.lineages().live(at)[entry.database, entry.table]
        tampered = {
            "rows": (entry, snapshot._replace(rows=snapshot.rows[1:])),
            "columns": (entry, snapshot._replace(fields=[snapshot.fields[0]._replace(type="VOID")])),
            "state": (msgspec.structs.replace(entry, state="incomplete"), snapshot),
        }

        told = {
            what: [text.partition(":")[0] for text in table_differences(model, lineage, at, *held)]
            for what, held in tampered.items()
        }

    assert list(table_differences(model, lineage, at, entry, found=snapshot)) == []
    assert told == {"rows": ["rows"], "columns": ["columns"], "state": ["state"]}


def test_what_has_arrived_by_each_run_is_the_database_in_the_model_too(
    database: Database, tmp_path: Path
) -> None:
    """The lake's histories and deliveries themselves, without Spark: a difference there is no finding."""
    programs = [generate(database, seed, name=f"p{seed}") for seed in range(1, 19)]
    chance, runs = random.Random(1), 3
    deliveries = [delivery(plan, tmp_path, runs, chance) for plan in sources_of(programs, FORMATS, chance)]
    known = 0
    wrong: list[Difference] = []

    with server_is(MARIADB.rules):
        sources = Play(tmp_path, deliveries, 1, print).sources
        for run in range(runs):
            for one in deliveries:
                one.write(run)
                source = sources[one.plan.name]
                model = model_of(one, run, source)
                at = arrived_at(model)
                truth = truth_at(one, run, at)
                known += truth is not None
                wrong += against_truth(("", one.plan.format), model, at, truth) if truth is not None else []

    assert wrong == []
    assert known > len(deliveries) * runs / 2


def test_lakes_that_are_done_are_left_out(database: Database, tmp_path: Path) -> None:
    done = [{"seed": 1, "programs": 8}, {"seed": 9, "programs": 3}]

    assert list(lakes(database, Asked(1, 11, 20, "turn", FORMATS, True), done, tmp_path, print)) == []


def test_a_lake_says_the_command_that_plays_it_again() -> None:
    asked = Asked(9, 3, 20, "smallest", ["canal", "debezium"], True)

    assert asked.command == (
        "python -m tests.oracle --engine spark --seed 9 --programs 3 --tables 20 --limits smallest --formats "
        "canal debezium --crashes"
    )
