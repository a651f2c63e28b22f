"""When a row that differs is a difference, and how rows differ."""

import pytest

from lakehouse.errors import EnvironmentError_
from lakehouse.sources.database import DatabaseError
from lakehouse.sources.server_sql import at_tso
from lakehouse.verification.rows import Comparison
from lakehouse.verification.server import place_of
from lakehouse.verification.verdict import Found, Looks, kind_of

ROW = Found("k", "changed", columns=("v",))


def test_a_row_counts_once_it_has_differed_in_two_looks_without_being_changed() -> None:
    looks = Looks()

    looks.take([ROW])
    first = (list(looks.different), looks.undecided)
    looks.take([ROW])

    assert first == ([], [ROW])
    assert (list(looks.different), looks.undecided) == (["k"], [])


def test_a_row_that_is_equal_again_was_no_difference() -> None:
    looks = Looks()

    looks.take([ROW])
    looks.take([])

    assert (looks.different, looks.undecided) == ({}, [])


def test_a_row_that_the_feed_changes_all_the_time_is_undecided() -> None:
    looks, changed = Looks(), ROW._replace(changed=True)

    for one in (ROW, changed, ROW, changed):
        looks.take([one])

    assert (looks.different, looks.undecided) == ({}, [changed])


def test_at_a_tso_the_first_look_decides() -> None:
    looks = Looks(needed=1)

    looks.take([ROW])

    assert list(looks.different.values()) == [ROW]


def test_the_rows_of_a_key_differ_by_a_cell_or_by_their_number() -> None:
    one, other = ["1", "a"], ["1", None]
    cases = {
        "changed": kind_of(["id", "v"], [one], [other]),
        "missing": kind_of(["id", "v"], [], [other]),
        "extra": kind_of(["id", "v"], [one], []),
        "repeated": kind_of(["id", "v"], [one, one], [one]),
    }

    assert {kind: found.kind for kind, found in cases.items()} == {kind: kind for kind in cases}
    assert (cases["changed"].columns, cases["changed"].gold, cases["changed"].source) == (
        ("v",),
        ("a",),
        (None,),
    )


class Answers:
    """A server that gives one answer, to statements that it knows, and keeps what it was asked."""

    def __init__(self, *rows: tuple[bytes | None, ...], unknown: str = "") -> None:
        self.rows, self.asked, self.unknown = list(rows), list[str](), unknown

    def ask(self, sql: str) -> list[tuple[bytes | None, ...]]:
        self.asked.append(sql)
        if sql == self.unknown:
            raise DatabaseError("You have an error in your SQL syntax", 1064)
        return self.rows


@pytest.mark.parametrize("unknown", ["", "SHOW BINARY LOG STATUS"])
def test_each_kind_of_server_is_asked_for_its_place_in_its_words(unknown: str) -> None:
    server = Answers((b"binlog.000012", b"345", b""), unknown=unknown)

    assert str(place_of(server)) == "binlog.000012:345"
    assert server.asked == ["SHOW BINARY LOG STATUS", *(["SHOW MASTER STATUS"] if unknown else [])]


def test_a_server_without_a_binlog_is_refused() -> None:
    with pytest.raises(EnvironmentError_, match="expected a server that writes a binlog"):
        place_of(Answers())


def test_a_tidb_is_read_at_a_tso() -> None:
    assert at_tso(470606995731251200)[-1] == "SET SESSION tidb_snapshot = '470606995731251200'"


def test_a_sample_is_some_of_the_buckets() -> None:
    compared = Comparison("d", "t", (), (), buckets=100, sample=(40, 3))

    assert [bucket for bucket in range(100) if compared.has(bucket)] == [40, 41, 42]
