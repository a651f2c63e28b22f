"""Readings for tests of pages without a lake: one source, with everything that a page can show. Every name
and value that may come from a message has signs in it that would be tags.
"""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lakehouse.events import Position
from lakehouse.reporting.text.tables import View
from lakehouse.reporting.web.readings import (
    After,
    Bytes,
    ChangesBetween,
    Difference,
    Letter,
    LetterBytes,
    Letters,
    Manifests,
    NotThere,
    Place,
    Published,
    RowChange,
    RowHistory,
    Statement,
    TableChange,
    TableRows,
)
from lakehouse.reporting.web.routes import Site

EVIL = "<script>alert('x')</script>&\"'"
AT: Position = (0, 470606995849740288, 2, 0, 0, 0)
LATER: Position = (0, 470606996849740288, 2, 0, 0, 0)
PLACE = Place("shop", "a-1", 2, 7)


def change(op: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> RowChange:
    return RowChange(
        AT,
        1_795_223_220_252,
        "shop.orders",
        ("id",),
        op=op,
        before=before,
        after=after,
        flags=(EVIL,),
        origin="shop/0@1[0]",
        batch=3,
    )


class FakeReadings:
    """Answers with what a test gave it, and keeps what was asked. `before` runs first, at every reading."""

    def __init__(self, observed: Callable[[], list[dict[str, Any]]]) -> None:
        self._observed = observed
        self.asked: list[tuple[Any, ...]] = []
        self.threads: set[str] = set()
        self.before: Callable[[], None] = lambda: None

    def _note(self, *asked: Any) -> None:
        self.asked.append(asked)
        self.threads.add(threading.current_thread().name)
        self.before()
        if asked[0] != "observed" and asked[1] != "shop":
            raise NotThere(f"{asked[1]}: expected a source of ./lake, found none")

    def observed(self) -> list[dict[str, Any]]:
        self._note("observed")
        return self._observed()

    def table(self, source: str, table: str) -> TableRows:
        self._note("table", source, table)
        rows = (
            {"id": 1, "name": "Alice", EVIL: None},
            {"id": 2, "name": EVIL, EVIL: "x" * 5000},
        )
        return TableRows(
            source,
            "tidb",
            table,
            "shop__orders",
            version=12,
            state="behind",
            since=AT,
            why="held by a DDL: on_ddl says hold for drop_column",
            notes=(EVIL,),
            names=("shop.old", table),
            key=("id",),
            columns=("id", "name", EVIL),
            rows=rows,
            more=True,
            statements=(Statement(AT, table, f"ALTER TABLE t COMMENT '{EVIL}'", ("Drop",)),),
        )

    def row(self, source: str, table: str, key: tuple[str, ...], after: After | None) -> RowHistory:
        self._note("row", source, table, key, after)
        key_of = tuple(("id", value) for value in key)
        return RowHistory(source, "binlog", table, key_of, after, self._changes(), more=True)

    def _changes(self) -> tuple[RowChange, ...]:
        return (
            change("insert", None, {"id": 1, "name": EVIL, "note": None}),
            change("update", {"id": 1, "name": "a", "note": "n"}, {"id": 1, "name": "b", "note": "n"}),
            replace(change("delete", {"id": 1}, None), position=(0, 3, 4, 5, 6, 7)),
        )

    def changes(self, source: str, table: str, ends: tuple[int, int], after: After | None) -> ChangesBetween:
        self._note("changes", source, table, ends, after)
        return ChangesBetween(
            source,
            "tidb",
            table,
            first=ends[0],
            second=ends[1],
            after=after,
            changes=self._changes(),
            more=True,
        )

    def letters(self, source: str, code: str | None, page: int) -> Letters:
        self._note("letters", source, code, page)
        return Letters(source, code, page, (letter(True), letter(False)), more=True)

    def letter(self, source: str, place: Place) -> LetterBytes:
        self._note("letter", source, place)
        if place != PLACE:
            raise NotThere(f"{source}: expected a dead letter of that record, found none")
        value = f"\0{EVIL}".encode()
        headers = ((EVIL, None), ("h", Bytes(b"1", 1)))
        return LetterBytes(
            source, "shop/2@7", (letter(True),), 1_795_223_220_252, None, Bytes(value, 10**6), headers
        )

    def manifests(self, source: str, before: int | None) -> Manifests:
        self._note("manifests", source, before)
        return Manifests(source, "tidb", (published(9), published(5)), more=True)

    def difference(self, source: str, first: int, second: int) -> Difference:
        self._note("difference", source, first, second)
        tables = (
            TableChange("shop.orders", ("exact", "behind"), (11, 12), EVIL, 40),
            TableChange("shop.new", (None, "exact"), (None, 0), "", 3),
            TableChange("shop.gone", ("exact", None), (4, None), "", 0),
        )
        statements = (Statement(AT, "shop.new", f"CREATE TABLE `{EVIL}`"),)
        return Difference(
            source,
            "tidb",
            published(first),
            published(second),
            tables=tables,
            same=5,
            statements=statements,
            more=False,
        )


def letter(is_open: bool) -> Letter:
    return Letter("frame", EVIL, "", "shop/2@7[0]", place=PLACE, is_open=is_open)


def published(number: int) -> Published:
    return Published(
        number, 1_795_223_220_252, number, AT if number < 9 else LATER, {"exact": 2, "behind": 1}
    )


def site_of(readings: FakeReadings) -> Site:
    """The server's pages, made from these readings."""
    return Site(readings, lambda found: {one["source"]: View("tidb") for one in found}, "./lake", "0.1.0")
