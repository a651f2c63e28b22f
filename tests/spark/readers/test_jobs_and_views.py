"""What a scheduler and a reader do after it: the three entry points in their order, and the views."""

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from lakehouse.spark.lake import Lake
from lakehouse.spark.readers.views import open_views
from pipelines import bronze, gold, silver
from tests.support.paths import ROOT

RECORDING = ROOT / "lakehouse/demo/demo.jsonl"


@pytest.fixture(scope="module")
def configs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("jobs")
    (folder / "sources").mkdir()
    text = (
        f"format: ticdc-open\nrecording: [{RECORDING}]\ntime_zone: UTC\ntables: auto\nlake: "
        f"${{env:JOBS_LAKE}}\n"
    )
    (folder / "sources/shop.yml").write_text(text)
    return folder


def run_tasks(configs: Path) -> None:
    """The tasks of the job, as the scheduler calls them."""
    with pytest.MonkeyPatch.context() as patch:
        arguments = [
            "--once",
            "--configs",
            str(configs),
            "--select",
            "",
            "--env",
            f"JOBS_LAKE={configs / 'lake'}",
        ]
        patch.setenv("JOBS_LAKE", "")
        patch.setattr("sys.argv", ["lakehouse", *arguments])
        for task in (bronze, silver, gold):
            task.main()


@pytest.fixture(scope="module")
def lake(spark: Any, configs: Path) -> Iterator[Path]:
    run_tasks(configs)
    yield configs / "lake"


@pytest.fixture(scope="module")
def frames(spark: Any, lake: Path) -> dict[str, Any]:
    return open_views(spark, Lake(str(lake)))


def test_a_second_run_of_the_tasks_adds_nothing_and_says_so(
    lake: Path, configs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_tasks(configs)

    outcomes = [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    assert [(one["new_messages"], one["silver_batches"], one["gold"]) for one in outcomes] == [
        (0, 0, "nothing new")
    ] * 3
    assert {table["table"]: table["state"] for table in outcomes[2]["tables"]} == {
        "shop.clients": "exact",
        "shop.orders": "exact",
    }


def test_a_renamed_table_has_all_its_changes_under_its_newest_name_and_columns(
    frames: dict[str, Any],
) -> None:
    view = frames["silver_shop__clients"]

    dan = view.where("key = '[4]'").orderBy("position").select("op", "before.vip", "after.*").collect()

    assert view.schema["after"].dataType.names == ["id", "name", "email", "balance", "vip", "created_at"]
    assert [(row.op, row[1], row.name, row.balance, row[6]) for row in dan] == [
        ("insert", None, "Dan", Decimal("1.00"), 0),
        ("update", 0, "Dan", Decimal("1.00"), 1),
    ]


def test_values_are_resolved_as_gold_resolves_them_and_older_rows_lack_a_newer_column(
    frames: dict[str, Any],
) -> None:
    rows = (
        frames["silver_shop__orders"]
        .where("key = '[1001]'")
        .orderBy("position")
        .select("after.status", "after.comment")
        .collect()
    )

    assert [tuple(row) for row in rows] == [
        ("new", None),
        ("paid", None),
        ("shipped", None),
        ("shipped", "none"),
    ]


def test_the_views_are_there_for_sql_with_gold_beside_them(spark: Any, frames: dict[str, Any]) -> None:
    count = spark.sql(
        "SELECT count(*) FROM silver_shop__orders s JOIN gold_shop__orders g ON s.after.id = g.id"
    ).first()[0]

    assert count == 1
    assert frames["dead_letters"].count() == 0
    assert frames["manifests"].count() == 1
