"""A gold table's options are those of its YAML, by name."""

import msgspec
import pytest
import yaml

from lakehouse.config.models import ColumnConfig, Gold, TableConfig
from lakehouse.gold.options import ColumnOptions, GoldOptions, from_plain, options_from, to_plain

YAML = """
source: s
table: shop.orders
key: [id, day]
gold: {target: sales, mode: history, cluster_by: [id], change_data_feed: true}
on_ddl: {drop_column: ignore}
columns: {card: {mask: last4}, ID: {rename: id}, whole: {computed: a + b}, old: {exclude: true}}
"""
OPTIONS = GoldOptions(
    target="sales",
    key=("id", "day"),
    mode="history",
    cluster_by=("id",),
    on_ddl={"drop_column": "ignore"},
    change_data_feed=True,
    columns={
        "card": ColumnOptions(mask="last4"),
        "ID": ColumnOptions(rename="id"),
        "whole": ColumnOptions(computed="a + b"),
        "old": ColumnOptions(exclude=True),
    },
)


def options_of(text: str) -> GoldOptions:
    table = TableConfig.model_validate(yaml.safe_load(text))
    return options_from({**table.model_dump(), **table.gold.model_dump()})


def test_a_tables_yaml_gives_its_options() -> None:
    assert options_of(YAML) == OPTIONS
    assert options_of("source: s") == GoldOptions()


def test_what_the_lake_records_of_options_is_what_their_yaml_says() -> None:
    assert from_plain(to_plain(OPTIONS)) == OPTIONS
    assert to_plain(options_of("source: s")) == {}


def test_several_tables_have_the_name_that_they_become() -> None:
    assert options_from({}, "shop.orders").merged == "shop.orders"


@pytest.mark.parametrize(
    ("options", "models"),
    [(GoldOptions, (Gold, TableConfig)), (ColumnOptions, (ColumnConfig,))],
    ids=["table", "column"],
)
def test_every_option_of_gold_is_one_of_the_yaml_and_the_other_way_round(
    options: type[msgspec.Struct], models: tuple[type[Gold | TableConfig | ColumnConfig], ...]
) -> None:
    names = set(options.__struct_fields__) - {"merged"}

    assert names <= {name for model in models for name in model.model_fields}
    assert set(models[0].model_fields) <= names
