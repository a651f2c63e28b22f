"""The notebooks about quality, dead letters and time travel, executed as they are on a lake that has some of
each.
"""

import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakehouse.config.load import load
from lakehouse.spark.operations.data_docs import check_lake
from lakehouse.spark.pipeline.run import run
from tests.support.orders_feed import OrdersFeed
from tests.support.paths import ROOT

NOTEBOOKS = ROOT / "notebooks"
CREATE = "CREATE TABLE `shop`.`orders` (`id` INT PRIMARY KEY, `total` DECIMAL(10,2), `note` VARCHAR(20))"
QUALITY = """\
- {expect: expect_column_values_to_be_between, column: total, args: {min_value: 0}, action: reject}
- {expect: expect_column_values_to_be_in_set, column: note, args: {value_set: [a]}}
- {expect: expect_column_values_to_be_unique, column: total}
"""


@pytest.fixture(scope="module")
def lake(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("notebooks")
    feed = OrdersFeed(folder / "shop.jsonl")
    for name, text in (
        (
            "sources/shop",
            f"format: ticdc-canal-json\nrecording: [{feed.path}]\ntime_zone: UTC\ntables: auto\n",
        ),
        ("tables/shop.orders", f"source: shop\nquality:\n{QUALITY}"),
    ):
        (folder / f"configs/{name}.yml").parent.mkdir(parents=True, exist_ok=True)
        (folder / f"configs/{name}.yml").write_text(text)
    feed.ddl(1, CREATE).insert(2, id="1", total="5.00", note="a").insert(
        2, id="2", total="-1.00", note="b"
    ).resolved(3)
    run(
        load(folder / "configs"), ("bronze", "silver", "gold"), True, (), str(folder / "lake"), lambda _: None
    )
    feed.garbage(b'{"type": "INSERT"').insert(4, id="3", total="1.00", note="c").resolved(5)
    run(
        load(folder / "configs"), ("bronze", "silver", "gold"), True, (), str(folder / "lake"), lambda _: None
    )
    return folder / "lake"


@pytest.fixture
def executed(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    def execute(name: str, **said: str) -> str:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("LAKEHOUSE_LAKE", str(lake))
        for widget, value in said.items():
            monkeypatch.setenv(f"LAKEHOUSE_{widget.upper()}", value)
        runpy.run_path(str(NOTEBOOKS / name))
        return capsys.readouterr().out

    return execute


def test_time_travel_shows_the_tables_of_a_manifest_and_what_is_different_today(
    executed: Callable[..., str], tmp_path: Path
) -> None:
    said = executed("time_travel.py", manifest="0")

    assert "gold_shop__orders: 0 rows are gone or changed, 1 are new or changed" in said
    assert "{'gold_shop__orders': 2}" in said
    assert (tmp_path / "rows_per_manifest.png").stat().st_size > 5000


def test_the_quality_notebook_shows_results_and_rejected_rows_and_runs_the_suite(
    executed: Callable[..., str], tmp_path: Path
) -> None:
    said = executed("quality.py")

    assert "|shop  |shop.orders|expect_column_values_to_be_between(total)|reject|3      |1     |" in said
    assert '{"id":2,"total":"-1.00","note":"b"}' in said.replace(" ", "")
    assert "shop.orders: expect_column_values_to_be_between(total): 0 rows of gold fail it" in said
    assert (tmp_path / "failures_per_run.png").stat().st_size > 5000


def test_the_dead_letters_notebook_shows_bytes_and_decodes_again(
    executed: Callable[..., str], tmp_path: Path
) -> None:
    said = executed("dead_letters.py", redrive="shop")

    assert '{"type": "INSERT"' in said
    assert (
        json.loads(next(line for line in said.splitlines() if "'requeued'" in line).replace("'", '"'))[
            "requeued"
        ]
        == 1
    )
    assert (tmp_path / "dead_letters.png").stat().st_size > 5000


def test_great_expectations_agrees_on_gold_and_its_pages_can_be_opened(
    spark: Any, lake: Path, tmp_path: Path
) -> None:
    page, *told = check_lake(str(lake), tmp_path)
    again = check_lake(str(lake), tmp_path)

    assert [
        (one["expectation"], one["success"], one["unexpected_count"], one["problem"]) for one in told
    ] == [
        ("expect_column_values_to_be_between(total)", True, 0, None),
        ("expect_column_values_to_be_in_set(note)", False, 1, None),
        ("expect_column_values_to_be_unique(total)", True, 0, None),
    ]
    assert again == [page, *told]
    assert "shop.orders" in Path(page["page"]).read_text()
    suite = json.loads((tmp_path / "gx/expectations/shop/orders.json").read_text())
    assert [entry["meta"]["lakehouse"]["action"] for entry in suite["expectations"]] == [
        "reject",
        "warn",
        "warn",
    ]
