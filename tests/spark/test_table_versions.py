"""Which gold tables a run writes, and the way back to the version that was published, where Delta has lost
it. Needs Spark's package, but no session.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import UNSET

from lakehouse.errors import LakehouseError
from lakehouse.spark.gold.plan import TablePlan
from lakehouse.spark.gold.tables import from_published, is_written
from lakehouse.spark.lake import Lake
from lakehouse.spark.table_versions import newest_alike, read_version, returned_to
from tests.support.feeds import TiCDC
from tests.support.records import table_entry


class Rows:
    """The commits of a table, as DESCRIBE HISTORY has them."""

    def __init__(self, *rows: Any) -> None:
        self.rows = list(rows)

    def select(self, *names: str) -> "Rows":
        if len(names) > 1:
            return self
        return Rows(*((getattr(row, names[0]),) for row in self.rows))

    def first(self) -> Any:
        return self.rows[0]

    def collect(self) -> list[Any]:
        return list(self.rows)


class Session:
    """A session for one Delta table; files of its older versions are gone."""

    def __init__(self, *operations: str) -> None:
        versions = list(enumerate(operations))[::-1]
        self.history = Rows(
            *(
                SimpleNamespace(
                    version=n,
                    timestamp=datetime(2024, 1, 1, tzinfo=UTC),
                    operation=name,
                    operationParameters={},
                    operationMetrics={},
                )
                for n, name in versions
            )
        )
        self.asked: list[str] = []
        self.limits: list[int] = []

    def sql(self, text: str) -> Rows:
        self.asked.append(text.split()[0])
        self.limits += [int(text.rpartition(" ")[2])] if " LIMIT " in text else []
        if text.startswith("RESTORE"):
            raise FileNotFoundError("a file of that version")
        return Rows(*self.history.rows[: self.limits[-1]])


def test_a_version_that_delta_can_no_longer_restore_closes_the_way_back() -> None:
    session: Any = Session("WRITE", "MERGE")

    assert returned_to(session, Lake("lake"), "t", 0) is None
    assert session.asked[-1] == "RESTORE"


def test_a_version_with_the_same_rows_needs_no_way_back_and_the_newest_one_counts() -> None:
    """A VACUUM by others leaves the files of the newest version alone."""
    session: Any = Session("WRITE", "MERGE", "OPTIMIZE")

    assert returned_to(session, Lake("lake"), "t", 2) == 2
    assert returned_to(session, Lake("lake"), "t", 1) == 2
    assert "RESTORE" not in session.asked


@pytest.mark.parametrize(
    "operation",
    ["VACUUM END", "COMPUTE STATS", "ROW TRACKING BACKFILL", "UPGRADE PROTOCOL", "DROP FEATURE"],
)
def test_what_a_platform_or_its_admin_does_to_a_table_without_touching_rows_is_not_undone(
    operation: str,
) -> None:
    session: Any = Session("WRITE", "MERGE", operation)

    assert returned_to(session, Lake("lake"), "t", 1) == 2
    assert "RESTORE" not in session.asked


def test_of_the_log_of_a_table_that_is_as_it_was_published_the_newest_commit_alone_is_read() -> None:
    """Delta reads as many commits as are asked for, for each of the hundreds of tables that views open."""
    session: Any = Session("WRITE", *["MERGE"] * 30)

    assert newest_alike(session, Lake("lake"), "t", 30) == 30
    assert session.limits == [1]
    assert newest_alike(session, Lake("lake"), "t", 2) is None
    assert session.limits == [1, 1, 16, 100_000]


@pytest.mark.parametrize("version", [1, 9])
def test_a_table_of_which_delta_does_not_know_every_newer_commit_is_not_taken_as_it_is(version: int) -> None:
    """Its log was cleaned up, or the table was put back from an older copy."""
    session: Any = Session("WRITE", "MERGE", "MERGE", "OPTIMIZE")
    del session.history.rows[1]

    assert returned_to(session, Lake("lake"), "t", version) is None
    assert session.asked[-1] == "RESTORE"


@pytest.mark.parametrize(("known", "is_same"), [("3f2a91c0", True), ("77aa00b1", False), (UNSET, True)])
def test_a_version_of_another_delta_table_is_not_the_one_that_was_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: Any, is_same: bool
) -> None:
    """One that was dropped and made again has versions of the same numbers, and other rows."""
    (tmp_path / "_delta_log").mkdir()
    told = json.dumps({"metadata": {"id": "3f2a91c0-5d0c-4b6e-9d9e-000000000000"}})
    (tmp_path / f"_delta_log/{3:020d}.crc").write_text(told)
    monkeypatch.setattr(Lake, "folder", lambda *_: tmp_path)
    monkeypatch.setattr(Lake, "read", lambda *asked: asked[-1])
    session: Any = None
    entry = table_entry(version=2, table_id=known)

    if is_same:
        assert read_version(session, Lake("lake"), entry) == 2
    else:
        with pytest.raises(LakehouseError, match=r"^gold\.d__t: expected the Delta table that was published"):
            read_version(session, Lake("lake"), entry)


AT = (0, 9, 2, 0, 0, 0)
NO_CHANGES: Any = SimpleNamespace(any_of=lambda lineage: False)
SOME_CHANGES: Any = SimpleNamespace(any_of=lambda lineage: True)


def plan(**more: Any) -> TablePlan:
    """The plan of a table that was published as version 0."""
    lineage = TiCDC().ddl(1, "CREATE TABLE t (id INT PRIMARY KEY)").lineage()
    entry = table_entry(lineage=lineage.id)
    plain = {"at": AT, "gold": "d__t", "made_for": ("d", "t"), "wanted": "d__t", "shape": "", "held": None}
    known = {"known": entry, "before": entry, "retired": False, "whole": False}
    return TablePlan(lineage=lineage, **{**plain, **known, **more})


def run(
    *operations: str, unpublished: frozenset[str] = frozenset(), returned: frozenset[str] = frozenset()
) -> Any:
    session = Session(*operations)
    return SimpleNamespace(spark=session, lake=Lake("lake"), unpublished=unpublished, returned=returned)


def test_a_table_without_changes_in_the_window_is_not_written() -> None:
    assert not is_written(run(), plan(), NO_CHANGES)
    assert is_written(run(), plan(), SOME_CHANGES)
    assert is_written(run(), plan(whole=True), NO_CHANGES)
    assert is_written(run(unpublished=frozenset({"d__t"})), plan(), NO_CHANGES)
    assert is_written(run(returned=frozenset({plan().lineage.id})), plan(), NO_CHANGES)
    assert not is_written(run(), plan(retired=True), SOME_CHANGES)


def test_a_table_whose_published_version_is_gone_is_folded_whole() -> None:
    assert from_published(run("WRITE", "MERGE"), plan(), SOME_CHANGES).whole
    assert not from_published(run("WRITE", "OPTIMIZE"), plan(), SOME_CHANGES).whole
    untouched = run("WRITE", "MERGE")
    assert not from_published(untouched, plan(), NO_CHANGES).whole
    assert untouched.spark.asked == []


def test_a_published_table_whose_folder_is_gone_is_folded_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Lake, "folder", lambda *_: tmp_path / "gold/d__t")
    assert from_published(run("WRITE"), plan(), SOME_CHANGES).whole
    (tmp_path / "gold/d__t/_delta_log").mkdir(parents=True)
    assert not from_published(run("WRITE"), plan(), SOME_CHANGES).whole
