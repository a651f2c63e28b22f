"""Cells that a DDL converts by an expression of Spark SQL are those that the rule makes of them."""

import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from lakehouse.fold.upcast import Upstream
from lakehouse.gold.columns import gold_columns
from lakehouse.gold.converted_cells import Conversion
from lakehouse.schema import parse_type
from lakehouse.spark.column_types import data_type
from tests.gold.test_ddl_in_place import retyped
from tests.support.value_strategies import SERVERS

NUMBERS = (
    *("tinyint", "smallint unsigned", "mediumint", "int", "int unsigned", "bigint", "bigint unsigned"),
    *("decimal(5,2)", "decimal(4,3)", "decimal(12,2) unsigned", "decimal(20,0)", "decimal(38,30)"),
    *("decimal(30,4)", "int zerofill", "decimal(30,25)", "decimal(36,30)"),
)
TEXTS = ("char(3)", "varchar(5)", "varchar(200)", "text", "varchar(2) charset latin1", "uuid")
LETTERS = "aé漢😀 .1"
ROWS = 60


def conversion(old: str, new: str, server: str, *, not_null: bool) -> Conversion:
    lineage = retyped(parse_type(old), parse_type(new), not_null=not_null)
    before, after = (gold_columns(step.schema, virtual=False)[1] for step in lineage.steps)
    told = (before.column, before.spark), (after.column, after.spark)
    return Conversion(lineage, (0, 1), Upstream(server=server), *told)


def values(chance: random.Random, old: Conversion) -> list[Any]:
    """Cells of the old type as gold holds them: its bounds, halves, and any others."""
    held = old.old[1]
    if held == "STRING":
        found: list[Any] = ["".join(chance.choices(LETTERS, k=chance.randrange(8))) for _ in range(ROWS - 2)]
        return [None, "", *found]
    if not held.startswith("DECIMAL"):
        top = {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "BIGINT": 63}[held]
        bounds = [-1 << top, (1 << top) - 1, 0, -1]
        return [
            None,
            *bounds,
            *(chance.randrange(-1 << top, 1 << top) >> chance.randrange(top) for _ in range(ROWS - 5)),
        ]
    precision, scale = (int(part) for part in held[8:-1].split(","))
    digits = [0, 10**precision - 1, 5, 15, 45, 55]
    digits += [chance.randrange(10 ** chance.randint(1, precision)) for _ in range(ROWS - 1 - len(digits))]
    digits = [min(each, 10**precision - 1) * chance.choice((1, -1)) for each in digits]
    return [None, *(Decimal((each < 0, tuple(map(int, str(abs(each)))), -scale)) for each in digits)]


def test_what_sql_makes_of_a_cell_is_what_the_rule_makes_of_it(spark: Any) -> None:
    chance = random.Random(5)
    pairs = [(old, new) for kind in (NUMBERS, TEXTS) for old in kind for new in kind]
    made = [
        conversion(old, new, chance.choice(SERVERS), not_null=old == new or chance.random() < 0.3)
        for old, new in pairs
    ]
    told = {f"c{at}": one for at, one in enumerate(made) if one.sql("x") is not None}
    cells = {name: values(chance, one) for name, one in told.items()}
    schema = StructType([StructField(name, data_type(one.old[1])) for name, one in told.items()])
    rows = spark.createDataFrame(pa.table(cells, schema=to_arrow_schema(schema)), schema)

    found = rows.select(*[F.expr(one.sql(name) or "").alias(name) for name, one in told.items()]).toArrow()

    assert len(told) > len(made) / 2
    assert not any("uuid" in {one.old[0].type.base, one.new[0].type.base} for one in told.values())
    for name, one in told.items():
        rule = one.rule()
        expected = [rule(value) for value in cells[name]]
        assert found[name].to_pylist() == expected, (
            str(one.old[0].type),
            str(one.new[0].type),
            one.sql(name),
        )
    assert (
        found.schema.types
        == to_arrow_schema(
            StructType([StructField(name, data_type(one.new[1])) for name, one in told.items()])
        ).types
    )
