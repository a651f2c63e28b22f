"""Great Expectations over published tables, and the pages that it builds."""

import json
from pathlib import Path
from typing import Any

import pytest

from lakehouse.config.load import load
from lakehouse.spark.operations.data_docs import check_lake
from lakehouse.spark.pipeline.run import run
from tests.support.orders_feed import OrdersFeed

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
