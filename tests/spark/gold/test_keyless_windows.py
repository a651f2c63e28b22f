"""A large table without a key: a window's rows are added to it, and those that deletes take are found among
gold's own. It is not folded again, and has the rows that a fold of everything gives. A log of one takes what
is inserted so.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from lakehouse.config.load import load
from lakehouse.spark import limits
from lakehouse.spark.pipeline.run import run
from tests.support.feeds import TiCDC, Values
from tests.support.lakes import Tables, quiet, shown, write_recording

TYPES = {"n": "int", "f": "double", "d": "datetime", "s": "varchar", "g": "double"}
TABLES = {"rows": "{}", "log": "{mode: append}"}
ZERO_DATE = "0000-00-00 00:00:00"


class Log:
    """A feed of two tables without a key that are alike, and where its parts end."""

    def __init__(self, columns: str) -> None:
        self.feed, self.now, self.parts = TiCDC(), 0, list[int]()
        self.ddl(f"CREATE TABLE {{}} ({columns})")

    def at(self) -> int:
        self.now += 1
        return self.now << 18

    def ddl(self, sql: str) -> None:
        for table in TABLES:
            self.feed.ddl(self.at(), sql.format(table), table)

    def change(self, kind: str, new: Values, old: Values | None = None) -> None:
        types = {name: TYPES[name] for name in new}
        for table in TABLES:
            self.feed.row(self.at(), kind, new, old, types=types, key=(), table=table)

    def end_part(self) -> None:
        mark = self.at()
        self.feed.put(mark, {"type": "TIDB_WATERMARK", "isDdl": False, "_tidb": {"watermarkTs": mark}})
        self.parts.append(len(self.feed.messages))


def row(n: int | None, f: str | None = "1.5", d: str | None = "2026-11-26 10:00:00", s: str = "é") -> Values:
    return {"n": n, "f": f, "d": d, "s": s}


def log_of_all() -> Log:
    """Equal rows, rows that differ by what Spark calls equal, rows with a value that gold can't hold; and
    windows that add some, take some, and follow a new column.
    """
    log = Log("n INT, f DOUBLE, d DATETIME, s VARCHAR(20)")
    odd = [row(2, "0"), row(2, "-0"), row(3, d=None), row(3, d=ZERO_DATE), row(None)]
    for one in [row(1), row(1), row(1), *odd]:
        log.change("INSERT", one)
    log.end_part()
    log.change("INSERT", row(1))
    log.change("INSERT", row(4, d=ZERO_DATE))
    log.end_part()
    log.change("DELETE", row(1))
    log.change("DELETE", row(2, "-0"))
    log.change("UPDATE", row(30), {"n": 3, "d": ZERO_DATE})
    log.change("DELETE", row(None))
    log.change("INSERT", row(5))
    log.change("DELETE", row(5))
    log.end_part()
    log.ddl("ALTER TABLE {} ADD COLUMN g DOUBLE DEFAULT 7")
    log.end_part()
    log.change("DELETE", {**row(1), "g": "7"})
    log.change("INSERT", {**row(1), "g": None})
    log.end_part()
    return log


def made(folder: Path, log: Log, parts: list[int]) -> tuple[Tables, dict[str, list[str]]]:
    """The tables once all of these parts have been run one after another; and what Delta did to each after
    its first commit.
    """
    for name in ("sources", "tables"):
        (folder / "configs" / name).mkdir(parents=True)
    path, lake = folder / "feed.jsonl", folder / "lake"
    source = f"format: ticdc-canal-json\nrecording: {path}\nlake: {lake}\ntables: auto\ntime_zone: UTC\n"
    (folder / "configs/sources/s.yml").write_text(source)
    for table, mode in TABLES.items():
        (folder / f"configs/tables/d.{table}.yml").write_text(f"source: s\ngold: {mode}\n")
    for part in parts:
        write_recording(path, log.feed.messages[:part])
        came = run(load(folder / "configs"), ("bronze", "silver", "gold"), True, (), None, quiet)[0]
        assert {entry["state"] for entry in came["tables"]} == {"exact"}
    return shown(lake, folder / "shown"), {name: operations(lake / f"gold/d__{name}") for name in TABLES}


def operations(table: Path) -> list[str]:
    """What Delta says of a table's commits behind the first: the operation, its mode, and whether it was of a
    part of the rows.
    """
    found = []
    for commit in sorted((table / "_delta_log").glob("*.json"))[1:]:
        told = [json.loads(line) for line in commit.read_text().splitlines()]
        [info] = [one["commitInfo"] for one in told if "commitInfo" in one]
        said = info["operationParameters"]
        part = "part" if info["operation"] == "WRITE" and "predicate" in said else None
        found.append(" ".join(filter(None, (info["operation"], said.get("mode"), part))))
    return [what for what in found if what != "SET TBLPROPERTIES"]


@pytest.mark.parametrize("here", [True, False])
def test_windows_add_and_take_rows_of_their_own_image(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: bool
) -> None:
    log = log_of_all()
    if not here:
        monkeypatch.setattr(limits, "GOLD_MERGE_BYTES", 0)
    at_once, _ = made(tmp_path / "once", log, log.parts[-1:])
    monkeypatch.setattr(limits, "GOLD_TABLE_CHANGES", 5)

    tables, done = made(tmp_path / "parts", log, log.parts)

    assert tables == at_once
    rows = tables["d.rows"]
    assert [one["f"] for one in rows if one["n"] == 2] == [0.0]
    assert len(rows) == 7
    assert done["rows"] == ["MERGE" if here else "WRITE Append", "MERGE", "WRITE Overwrite", "MERGE"]
    assert done["log"] == ["WRITE Overwrite part", *["WRITE Overwrite"] * 3]
