"""An operator's day on a real lake: tables held by DDL, approved and skipped, rebuilt, imported schemas, a new generation."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from canal_feed import CanalFeed
from engine import Memory

from lakehouse.config import load
from lakehouse.errors import ConfigError, LakehouseError
from lakehouse.spark.ddl import decide
from lakehouse.spark.pipeline import run
from lakehouse.spark.show import show_all
from lakehouse.spark.status import status

SOURCE = "format: ticdc-canal-json\ntime_zone: UTC\nrecording: {path}\n"


def quiet(_: str) -> None:
    pass


class Shop:
    """A source in a folder of its own: its YAML files, the recording that grows, and the lake."""

    def __init__(self, folder: Path, **tables: str) -> None:
        self.folder, self.feed = folder, CanalFeed()
        self.recording, self.lake = folder / "shop.jsonl", folder / "lake"
        (folder / "configs/sources").mkdir(parents=True)
        (folder / "configs/tables").mkdir()
        (folder / "configs/sources/shop.yml").write_text(SOURCE.format(path=self.recording))
        for table, text in tables.items():
            self.table(table, text)

    def table(self, name: str, text: str = "") -> None:
        (self.folder / f"configs/tables/d.{name}.yml").write_text(f"source: shop\n{text}")

    def run(self, *layers: str) -> dict[str, Any]:
        """Land what the feed has by now and run; returns the outcome's tables by name."""
        self.feed.resolved()
        lines = [{"topic": m.topic, "partition": m.partition, "offset": m.offset, "value_b64": _b64(m.value)} for m in self.feed.messages]
        self.recording.write_text("".join(json.dumps(line) + "\n" for line in lines))
        config = load(self.folder / "configs")
        (outcome,) = run(config, layers or ("bronze", "silver", "gold"), True, (), str(self.lake), quiet)
        return {entry["table"]: entry for entry in outcome["tables"]} | {"": outcome}

    def shown(self, at: int | None = None) -> dict[str, list[dict[str, Any]]]:
        target = self.folder / "shown"
        shutil.rmtree(target, ignore_errors=True)
        show_all(str(self.lake), target, [] if at is None else [str(at)])
        files = sorted(target.glob("*.jsonl"))
        return {path.name.removesuffix(".jsonl"): [json.loads(line) for line in path.read_text().splitlines()] for path in files}

    def silver(self) -> Memory:
        """The same feed in plain Python."""
        return Memory("ticdc-canal-json", {"time_zone": "UTC"}).add(self.feed.messages)


def _b64(data: bytes | None) -> str | None:
    import base64

    return None if data is None else base64.b64encode(data).decode()


@pytest.fixture
def shop(spark: Any, tmp_path: Path) -> Callable[..., Shop]:
    return lambda **tables: Shop(tmp_path, **tables)


def test_a_held_table_waits_and_goes_on_where_an_operator_says_while_the_others_are_exact(shop: Callable[..., Shop]) -> None:
    place = shop(a="on_ddl: {drop_column: hold}\n", b="", c="on_ddl: {truncate_table: reject}\n")
    for name in "abc":
        place.feed.ddl(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)", name).put(name, {"id": 1, "v": 10})
    assert {entry["state"] for name, entry in place.run().items() if name} == {"exact"}

    place.feed.ddl("ALTER TABLE a DROP COLUMN v", "a").put("a", {"id": 2}).ddl("ALTER TABLE b WOBBLE", "b").put("b", {"id": 2, "v": 20})
    held = place.run()
    assert [(held[f"d.{name}"]["state"], held[f"d.{name}"]["why"]) for name in "ac"] == [
        ("behind", "held by a DDL: on_ddl says hold for drop_column"), ("exact", None),
    ]  # fmt: skip
    assert held["d.b"]["state"] == "behind"
    assert place.shown() == {"d.a": [{"id": 1, "v": 10}], "d.b": [{"id": 1, "v": 10}], "d.c": [{"id": 1, "v": 10}]}
    with pytest.raises(LakehouseError, match="c: expected a table that a DDL holds, it is exact"):
        decide(str(place.lake), "d.c", "skip", "no reason")
    with pytest.raises(LakehouseError, match="this DDL can't be applied as it stands: say what it means with --as SQL"):
        decide(str(place.lake), "d.b", "approve", "no reason")
    with pytest.raises(ConfigError, match="--as: expected a statement that can be read"):
        decide(str(place.lake), "d.b", "approve", "no reason", "ALTER TABLE b WOBBLE TWICE")

    assert [decide(str(place.lake), "d.a", "approve", "agreed")["recorded"] for _ in range(2)] == [True, False]
    assert decide(str(place.lake), "d.b", "skip", "an option of the storage engine")["recorded"]
    freed = place.run()

    assert (freed[""]["silver_batches"], freed[""]["gold"]) == (1, "published")
    assert {entry["state"] for name, entry in freed.items() if name} == {"exact"}
    assert place.shown() == {
        "d.a": [{"id": 1}, {"id": 2}], "d.b": [{"id": 1, "v": 10}, {"id": 2, "v": 20}], "d.c": [{"id": 1, "v": 10}],
    }  # fmt: skip
    place.feed.ddl("TRUNCATE TABLE c", "c").put("a", {"id": 3})
    with pytest.raises(LakehouseError, match=r"shop: on_ddl rejects a DDL of d\.c, all else is published: `ddl skip` it"):
        place.run()
    assert place.shown()["d.a"] == [{"id": 1}, {"id": 2}, {"id": 3}]
    with pytest.raises(LakehouseError, match="its on_ddl rejects this DDL: change the YAML, or `lakehouse ddl skip` it"):
        decide(str(place.lake), "d.c", "approve", "no reason")
    decide(str(place.lake), "d.c", "skip", "by mistake upstream")
    assert place.run("gold")["d.c"]["notes"] == ["a DDL was ignored: truncate_table"]
    assert place.run("gold")[""]["gold"] == "nothing new"
    assert status(load(place.folder / "configs"), str(place.lake))[0]["tables"][2]["state"] == "exact"
