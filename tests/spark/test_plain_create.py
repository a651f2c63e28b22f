"""Tables made without Spark, held to those that Delta makes of the same rows."""

import random
from pathlib import Path
from typing import Any

import pytest

from lakehouse.gold.columns import Typed
from lakehouse.spark.gold.merge import create_here, replace_frame, typed_frame
from lakehouse.spark.lake import Lake
from tests.spark.test_plain_merge import batch, columns_of, shown

DETAIL = ("format", "partitionColumns", "properties", "minReaderVersion", "minWriterVersion", "tableFeatures")


@pytest.mark.parametrize("seed", range(3))
def test_a_table_is_as_delta_makes_it(spark: Any, tmp_path: Path, seed: int) -> None:
    lake, chance = Lake(str(tmp_path / "a lake%20'ü")), random.Random(seed)
    columns, keys = columns_of("part, id")
    typed, _ = batch(chance, columns, keys)
    theirs = replace_frame(spark, lake, "theirs", typed_frame(spark, typed, columns), create=True)
    ours = create_here(spark, lake, "ours", typed, columns=columns)
    assert ours == theirs
    assert shown(spark, lake, "ours") == shown(spark, lake, "theirs")
    told = [spark.sql(f"DESCRIBE DETAIL {lake.ref('gold', one)}").first() for one in ("ours", "theirs")]
    for name in DETAIL:
        one, other = (sorted(row[name]) if name == "tableFeatures" else row[name] for row in told)
        assert one == other, name
    made, held = (lake.read(spark, "gold", one).schema for one in ("ours", "theirs"))
    assert made == held
    assert [field.metadata for field in made] == [field.metadata for field in held]
    # Delta goes on with it
    for name in ("ours", "theirs"):
        spark.sql(f"ALTER TABLE {lake.ref('gold', name)} ADD COLUMN more STRING").collect()
        spark.sql(f"ALTER TABLE {lake.ref('gold', name)} RENAME COLUMN x TO y").collect()
        spark.sql(f"ALTER TABLE {lake.ref('gold', name)} ALTER COLUMN small TYPE INT").collect()
        spark.sql(f"UPDATE {lake.ref('gold', name)} SET more = 'x' WHERE id >= 0 OR id IS NULL").collect()
    assert shown(spark, lake, "ours") == shown(spark, lake, "theirs")


def test_a_table_without_rows_is_made(spark: Any, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    columns, _ = columns_of("id")
    made = create_here(spark, lake, "t", Typed({one.name: [] for one in columns}, {}, 0), columns=columns)
    assert made is not None and (made.version, made.written) == (0, 0)
    assert lake.count(spark, "gold", "t") == 0
    assert lake.read(spark, "gold", "t").columns == [one.name for one in columns]


def test_what_is_not_known_here_is_left_to_delta(spark: Any, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    columns, _ = columns_of("id")
    typed = Typed({one.name: [None] for one in columns}, {}, 1)
    default = "spark.databricks.delta.properties.defaults.enableChangeDataFeed"
    spark.conf.set(default, "true")
    try:
        assert create_here(spark, lake, "t", typed, columns=columns) is None
    finally:
        spark.conf.unset(default)
    frame = typed_frame(spark, typed, columns)
    assert not lake.create_rows(
        spark, "t", frame.toArrow(), schema=frame.schema, properties={"delta.enableRowTracking": "true"}
    )
    assert not lake.exists(spark, "gold", "t")
    # one that is there already stays
    assert create_here(spark, lake, "t", typed, columns=columns) is not None
    assert create_here(spark, lake, "t", typed, columns=columns) is None
    assert lake.count(spark, "gold", "t") == 1


def test_what_a_death_left_of_a_table_is_none(spark: Any, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    columns, _ = columns_of("id")
    typed = Typed({one.name: [None] for one in columns}, {}, 1)
    for name in ("ours", "theirs"):
        (tmp_path / "gold" / name / "_delta_log").mkdir(parents=True)
        (tmp_path / "gold" / name / "part-00000-of-the-dead.parquet").write_bytes(b"PAR1")
        assert not lake.exists(spark, "gold", name)
    replace_frame(spark, lake, "theirs", typed_frame(spark, typed, columns), create=True)
    assert create_here(spark, lake, "ours", typed, columns=columns) is not None
    assert shown(spark, lake, "ours") == shown(spark, lake, "theirs")
