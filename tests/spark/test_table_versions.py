"""The way back to a published version, where Delta has lost it. Needs Spark's package, but no session."""

from types import SimpleNamespace
from typing import Any

from lakehouse.spark.lake import Lake
from lakehouse.spark.table_versions import returned_to


class Rows:
    """The commits of a table, as DESCRIBE HISTORY has them."""

    def __init__(self, *rows: Any) -> None:
        self.rows = rows

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
            *(SimpleNamespace(version=n, timestamp=None, operation=name) for n, name in versions)
        )
        self.asked: list[str] = []

    def sql(self, text: str) -> Rows:
        self.asked.append(text.split()[0])
        if text.startswith("RESTORE"):
            raise FileNotFoundError("a file of that version")
        return self.history


def test_a_version_that_delta_can_no_longer_restore_closes_the_way_back() -> None:
    session: Any = Session("WRITE", "MERGE")

    assert returned_to(session, Lake("lake"), "t", 0) is False
    assert session.asked[-1] == "RESTORE"


def test_a_version_with_the_same_rows_needs_no_way_back() -> None:
    session: Any = Session("WRITE", "MERGE", "OPTIMIZE")

    assert returned_to(session, Lake("lake"), "t", 2) is True
    assert returned_to(session, Lake("lake"), "t", 1) is True
    assert "RESTORE" not in session.asked
