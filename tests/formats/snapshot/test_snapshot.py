"""Records of table snapshots: what they become, in which order, and what damage does."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from lakehouse.ddl.apply.schema import create
from lakehouse.ddl.edits import CreateTable
from lakehouse.ddl.parse.statements import read
from lakehouse.events import SNAPSHOT_TOPIC, DeadLetter, Message, RowChange, SchemaChange
from lakehouse.formats import FORMATS, decode_message, decode_stored
from lakehouse.formats.assemble import assembled
from lakehouse.formats.snapshot.decode import position
from lakehouse.formats.snapshot.encode import CHUNK_ROWS, TableChunks, incarnation_of, messages
from lakehouse.formats.snapshot.records import PartRecord, Place, RowsRecord, TextColumn, encode
from tests.support.debezium_records import message, row
from tests.support.engine import Memory

TSO = 449583647234560001
CREATE = """CREATE TABLE `t` (
  `id` int NOT NULL, `bits` bit(9), `ts` timestamp(3), `old` varchar(9) CHARSET latin1,
  `d` decimal(5,2), `e` enum('a','b\\\\c'),
  `v` varbinary(9), `f` double, `y` year, `j` json, `ip` inet6, `vec` vector(2),
  PRIMARY KEY (`id`)
)"""
CELLS = {
    "id": b"1",
    "bits": b"\x01\x01",
    "ts": b"2024-01-01 08:00:00.500",
    "old": b"\xe9",
    "d": b"1.20",
    "e": b"b\\c",
    "v": b"\x00\xff",
    "f": b"1e-3",
    "y": b"2024",
    "j": b'{"a": 1}',
    "ip": b"::1",
    "vec": b"\x00\x00\x80?\x00\x00\x00@",
}


def chunks(sql: str, place: Place) -> TableChunks:
    (statement,) = read(sql)
    assert isinstance(statement, CreateTable)
    return TableChunks(place, ("shop", "t"), create(statement))


def told(sql: str, rows: list[dict[str, Any]], place: Place, charset: str | None = None) -> list[Message]:
    table = chunks(sql, place)
    names = tuple(rows[0]) if rows else ()
    records = [*table.add(names, [list(row.values()) for row in rows], charset, "+08:00"), *table.end(sql)]
    return list(messages(records, "abc"))


def events(told: list[Message], format_: str = "ticdc-open") -> list[Any]:
    return [event for message in told for event in decode_message(format_, message, {})]


def test_the_servers_text_becomes_canonical_values() -> None:
    row, table = events(told(CREATE, [CELLS], Place(tso=TSO)))

    assert row == RowChange(
        "shop",
        "t",
        "snapshot",
        (1,),
        key_names=("id",),
        commit_ts=TSO,
        position=(0, TSO, 3, 0, 0, 1),
        before=None,
        after={
            "id": 1,
            "bits": 257,
            "ts": "2024-01-01 00:00:00.500Z",
            "old": "é",
            "d": "1.20",
            "e": "b\\c",
            "v": "AP8=",
            "f": 0.001,
            "y": 2024,
            "j": '{"a": 1}',
            "ip": "::1",
            "vec": "[1,2]",
        },
        index=0,
        flags=("snapshot", "snapshot=table"),
    )
    assert table == SchemaChange(
        "table", "shop", "t", commit_ts=TSO, position=(0, TSO, 3, 0, 0, 0), ddl=CREATE, index=0
    )


@pytest.mark.parametrize(
    ("cell", "vector"),
    [
        (b"[\xcc\x80?\x00\x00\x00@", "[1.0062364,2]"),
        (b"[\x00\x00?\x00\x00\x00@", "[0.5000054,2]"),
        (b"[]", "[]"),
        (b"[1.5,-2e-7]", "[1.5,-2e-7]"),
    ],
)
def test_a_vector_whose_first_byte_is_a_bracket_is_none_that_was_printed(cell: bytes, vector: str) -> None:
    (row, _) = events(told(CREATE, [CELLS | {"vec": cell}], Place(tso=TSO)))

    assert row.after["vec"] == vector


@pytest.mark.parametrize(
    ("scale", "cell", "value"),
    [
        (0, b"0000000012", "12"),
        (0, b"0000000000", "0"),
        (0, b"0", "0"),
        (2, b"00000000.50", "0.50"),
        (2, b"00000012.50", "12.50"),
        (2, b"0.50", "0.50"),
        (2, b"-0.50", "-0.50"),
    ],
)
def test_a_decimal_has_no_zeros_in_front_as_in_a_feed(scale: int, cell: bytes, value: str) -> None:
    sql = f"CREATE TABLE `t` (`d` decimal(10,{scale}) unsigned zerofill NOT NULL, PRIMARY KEY (`d`))"

    (row, _) = events(told(sql, [{"d": cell}], Place(tso=TSO)))

    assert (row.key, row.after) == ((value,), {"d": value})


def test_a_snapshot_joins_a_source_of_any_format() -> None:
    record = told(CREATE, [CELLS], Place(tso=TSO))
    for format_ in FORMATS:
        whole = list(assembled(record, format_, {}))

        assert whole == record
        assert [type(e) for m in record for e in decode_stored(format_, m, {})] == [RowChange, SchemaChange]


def test_positions_rank_between_what_the_snapshot_has_and_what_it_has_not() -> None:
    of_tso, of_binlog = Place(tso=7), Place(file="b.000012", offset=157)
    of_ends = Place(file="b.000012", offset=157, at_ends=True)

    assert (0, 7, 2, 0, 0, 0) < position(0, of_tso) < position(0, of_tso, 0, 1) < (0, 8, 0, 0, 0, 0)
    assert (0, 12, 156, 1, 2**62, 1) < position(0, of_binlog) < position(0, of_binlog, 5, 1)
    assert position(0, of_binlog, 2**62, 1) < (0, 12, 157, 1, 0, 0)
    assert (0, 12, 157, 1, 2**62, 1) < position(0, of_ends) < position(0, of_ends, 5, 1)
    assert position(0, of_ends, 2**62, 1) < (0, 12, 158, 1, 0, 0)
    assert position(3, of_tso)[0] == 3


def test_equal_rows_without_a_key_are_told_apart_by_their_number() -> None:
    rows = [{"a": b"1"}] * (CHUNK_ROWS + 2)
    *changes, end = events(told("CREATE TABLE `t` (`a` int)", rows, Place(tso=TSO)))

    assert len({change.position for change in changes}) == len({c.row_id for c in changes}) == CHUNK_ROWS + 2
    assert changes[0].position > end.position
    assert changes[-1].row_id == f"snapshot:{CHUNK_ROWS + 1}"


def test_text_that_is_none_in_its_charset_keeps_its_bytes() -> None:
    row, _ = events(told(CREATE, [{"id": b"1", "j": b"\xff"}], Place(tso=TSO), charset="utf8mb4"))

    assert row.after == {"id": 1, "j": {"base64": "/w=="}}


def test_a_row_that_can_not_be_read_is_one_dead_letter_of_its_table() -> None:
    rows = [{"id": b"1", "f": b"x"}, {"id": b"2", "f": b"1"}]
    dead, row, _ = events(told(CREATE, rows, Place(tso=TSO)))

    text = "column f: expected a value of its type as the server prints it, got another"
    assert dead == DeadLetter("value", text, 0, "shop", "t")
    assert row.key == (2,)


def test_a_table_without_rows_has_its_end_alone() -> None:
    assert [type(event) for event in events(told(CREATE, [], Place(tso=TSO)))] == [SchemaChange]


def test_the_same_input_is_the_same_incarnation() -> None:
    one = incarnation_of(Place(tso=TSO), [("a.sql", 3)])

    assert one == incarnation_of(Place(tso=TSO), [("a.sql", 3)])
    assert len({one, incarnation_of(Place(tso=TSO), [("a.sql", 4)]), incarnation_of(Place(tso=7), [])}) == 3


def test_a_newer_record_is_refused() -> None:
    record = RowsRecord(
        version=2,
        place=Place(tso=1),
        database="d",
        table="t",
        columns=(TextColumn("a", "int"),),
        key=(),
        charset=None,
        zone=None,
        first=0,
        rows=[],
    )
    (dead,) = events([Message(SNAPSHOT_TOPIC, 0, 0, None, encode(record))])

    assert (dead.code, dead.message) == ("version", "snapshot: expected a record of version 1, got version 2")


@pytest.mark.parametrize("row", [[], [b"1", b"2"]])
def test_a_row_of_another_width_is_a_dead_letter(row: list[bytes | None]) -> None:
    record = RowsRecord(
        place=Place(tso=1),
        database="d",
        table="t",
        columns=(TextColumn("a", "int"),),
        key=("a",),
        charset=None,
        zone=None,
        first=0,
        rows=[row],
    )
    (dead,) = events([Message(SNAPSHOT_TOPIC, 0, 0, None, encode(record))])

    assert dead.message == f"row: expected 1 values, got {len(row)}"


@given(st.data())
def test_damaged_records_are_dead_letters_or_other_events(data: st.DataObject) -> None:
    value = data.draw(st.sampled_from([m.value or b"" for m in told(CREATE, [CELLS], Place(tso=TSO))]))
    at = data.draw(st.integers(0, len(value) - 1))
    damaged = data.draw(
        st.sampled_from((value[:at], value[:at] + bytes([value[at] ^ 0x40]) + value[at + 1 :], b""))
    )

    for event in events([Message(SNAPSHOT_TOPIC, 0, 0, None, damaged)]):
        assert isinstance(event, DeadLetter | RowChange | SchemaChange)
        assert not isinstance(event, DeadLetter) or event.code != "decoder"


LIVE = Place(file="b.000001", offset=100)
UNTIL = Place(file="b.000002", offset=4)


def test_the_end_of_a_live_table_also_tells_from_where_on_it_is_exact() -> None:
    table = chunks(CREATE, LIVE)
    table.live = True
    records = [*table.add(("id",), [[b"1"]], None, None), *table.end(CREATE, UNTIL)]

    row, snapshot, settled = events(list(messages(records, "abc")), "debezium")

    assert row.flags == ("snapshot", "snapshot=table", "snapshot=incremental")
    assert (snapshot.kind, snapshot.position) == ("table", (0, 1, 100, 0, 0, 0))
    assert (settled.kind, settled.position) == ("settled", (0, 2, 4, 0, 0, 0))


def part(
    *rows: list[bytes | None], place: Place = LIVE, gone: tuple[list[Any], ...] = (), number: int = 1
) -> list[Message]:
    record = PartRecord(
        place=place,
        number=number,
        database="shop",
        table="t",
        columns=(TextColumn("id", "int"), TextColumn("v", "varchar(9)", "latin1")),
        key=("id",),
        charset=None,
        zone="+00:00",
        rows=list(rows),
        gone=list(gone),
    )
    return list(messages([record], f"part {number}"))


def test_a_part_is_rows_and_deletes_of_its_place() -> None:
    row, dead, deleted, other = events(part([b"1", b"\xe9"], [b"x", None], gone=([3], [4, 5])), "debezium")

    above = (0, 1, 100, 0, 1, 1)
    flags = ("snapshot", "snapshot=incremental")
    assert (row.op, row.key, row.position, row.flags) == ("snapshot", (1,), above, flags)
    assert (row.before, row.after) == (None, {"id": 1, "v": "é"})
    assert (deleted.op, deleted.key, deleted.position, deleted.flags) == ("delete", (3,), above, flags)
    assert (deleted.before, deleted.after) == ({"id": 3}, None)
    assert [(one.code, one.table) for one in (dead, other)] == [("value", "t"), ("value", "t")]
    (of_tso,) = events(part([b"1", None], place=Place(tso=TSO)))
    assert (of_tso.position, of_tso.commit_ts) == ((0, TSO, 3, 0, 1, 1), TSO)


def test_a_part_counts_by_itself_and_above_a_snapshot_of_its_place() -> None:
    sql = "CREATE TABLE `t` (`id` int PRIMARY KEY, `v` varchar(9) CHARSET latin1)"
    table = chunks(sql, LIVE)
    rows: list[list[bytes | None]] = [[b"1", b"a"], [b"2", b"b"], [b"3", b"c"]]
    whole = list(messages([*table.add(("id", "v"), rows, None, None), *table.end(sql)], "abc"))
    mended = part([b"1", b"z"], [b"4", b"new"], gone=([2],))
    last = (0, 9, 0, 0, 0, 0)

    alone, together = Memory("debezium", tidb=False), Memory("debezium", tidb=False)
    alone.add(whole[:1]).add(mended)
    together.add(mended).add(whole)

    (shown,) = together.tables(last).values()
    assert shown == [{"id": 1, "v": "z"}, {"id": 3, "v": "c"}, {"id": 4, "v": "new"}]
    (found,) = alone.tables(last).values()
    assert [row["id"] for row in found] == ["1", "4"]  # no schema is told
    (lineage,) = together.lineages().lineages
    assert lineage.incomplete_at(last) is None and not together.breaks and not together.problems


def test_of_two_parts_of_one_place_the_later_one_counts() -> None:
    create = "CREATE TABLE `t` (`id` int PRIMARY KEY, `v` varchar(9) CHARSET latin1)"
    earlier = part([b"1", b"a"], [b"2", b"b"], gone=([3],), number=1000)
    later = part([b"1", b"z"], [b"3", b"c"], gone=([2],), number=2000)
    for told in (earlier + later, later + earlier):
        silver = Memory("debezium", tidb=False).add(messages(chunks(create, LIVE).end(create), "abc"))
        (shown,) = silver.add(told).tables((0, 9, 0, 0, 0, 0)).values()
        assert shown == [{"id": 1, "v": "z"}, {"id": 3, "v": "c"}]


def test_two_tables_that_are_settled_at_one_place_are_told_apart() -> None:
    silver = Memory("debezium", tidb=False)
    for name in ("t", "u"):
        sql = CREATE.replace("`t`", f"`{name}`", 1)
        (statement,) = read(sql)
        assert isinstance(statement, CreateTable)
        table = TableChunks(LIVE, ("shop", name), create(statement))
        silver.add(messages(table.end(sql, UNTIL), name))

    last = (0, 9, 0, 0, 0, 0)
    found = {name[1]: lineage.unsettled for name, lineage in silver.lineages().live(last).items()}
    stretch = {(0, 1, 100, 0, 0, 0): (0, 2, 4, 0, 0, 0)}
    assert found == {"t": stretch, "u": stretch}


@pytest.mark.parametrize("server", ["mysql", "mariadb"])
def test_a_document_is_the_row_of_a_snapshot_however_the_stream_writes_it(server: str) -> None:
    """MySQL stores no text; MariaDB does, and logs it (T29)."""
    sql = "CREATE TABLE `t` (`a` int, `j` json)"
    place, written = Place(file="mysql-bin.000012", offset=157), '{"bb":[1,"é"],"a":1.50}'
    shown = '{"a": 1.50, "bb": [1, "é"]}' if server == "mysql" else written
    images = [{"a": number, "j": written} for number in (1, 2, 3)]
    silver = Memory("debezium", {"server": server}, tidb=False)
    silver.add(told(sql, [{"a": b"1", "j": shown.encode()}, {"a": b"2", "j": shown.encode()}], place))

    delete = row("d", images[0], None, db="shop", pos=200)
    update = row("u", *images[1:], db="shop", pos=300)
    silver.add(
        structs.replace(message(one), offset=one["source"]["pos"], epoch=0) for one in (delete, update)
    )

    assert silver.tables((0, 13, 0, 0, 0, 0)) == {"shop.t": [{"a": 3, "j": shown}]}
    assert not silver.problems


@pytest.mark.parametrize(
    ("snapshots", "exact"),
    (
        # one after the other
        (((100, 200), (300, 400)), {150: False, 250: True, 350: False, 400: True}),
        (((100, 200), (200, 300)), {150: False, 250: False, 300: True}),
        (((200, 300), (100, 200)), {150: False, 250: False, 300: True}),
        # the second one begins before all that the first one shows has happened
        (((100, 400), (200, 300)), {150: False, 250: False, 350: False, 400: True}),
        (((100, 300), (200, 400)), {150: False, 350: False, 400: True}),
        (((100, 300), (200, None)), {150: False, 250: False, 300: True}),
    ),
)
def test_a_later_snapshot_makes_nothing_exact_below_its_place(
    snapshots: tuple[tuple[int, int | None], ...], exact: dict[int, bool]
) -> None:
    silver = Memory("debezium", tidb=False)
    for begun, until in snapshots:
        table = chunks(CREATE, Place(file="b.000001", offset=begun))
        end = table.end(CREATE, None if until is None else Place(file="b.000001", offset=until))
        silver.add(messages(end, str(begun)))

    (lineage,) = silver.lineages().lineages
    found = {offset: lineage.incomplete_at((0, 1, offset, 0, 0, 0)) is None for offset in exact}
    assert found == exact
