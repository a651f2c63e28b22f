"""Feeds in arrival order over several partitions: rows are right where their keys stay, and what can't be
known is said.
"""

import json
import random
import zlib

import pytest
from hypothesis import given

from lakehouse.events import Message
from lakehouse.schema_history.ordering_problems import (
    APART,
    KEYLESS,
    NAME,
    REPEATED,
    STATEMENT,
    SentStatement,
    report_repeats,
)
from tests.fold.test_properties import OPTIONS, as_set, canonical, seeds, steps
from tests.support.encode_binlog import binlog, canal_flat
from tests.support.engine import Memory
from tests.support.source_model import History
from tests.whole_path.test_eight_formats import SHORT, types_of

ROW = (
    '{"database":"d","table":"%s","type":"%s","es":1,"pkNames":["id"],'
    '"mysqlType":{"id":"int","v":"int"},"old":%s,"data":[%s]}'
)
DDL = '{"database":"d","table":"%s","type":"ALTER","isDdl":true,"es":1,"sql":"%s"}'
CREATE = "CREATE TABLE t (id INT PRIMARY KEY, v INT)"


class Kafka:
    """Messages of a topic, by partition."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def send(self, partition: int, text: str) -> "Kafka":
        offset = sum(message.partition == partition for message in self.messages)
        self.messages.append(Message("c", partition, offset, None, text.encode()))
        return self

    def row(
        self,
        partition: int,
        key: int,
        value: int | None = 1,
        kind: str = "INSERT",
        old: str = "null",
        table: str = "t",
    ) -> "Kafka":
        data = json.dumps({"id": str(key), "v": None if value is None else str(value)})
        return self.send(partition, ROW % (table, kind, old, data))

    def ddl(self, text: str, partition: int = 0, table: str = "t") -> "Kafka":
        return self.send(partition, DDL % (table, text))

    def silver(self) -> Memory:
        silver = Memory("canal", tidb=False).add(self.messages)
        assert silver.dead == []
        return silver


def why(silver: Memory, table: str = "t") -> list[str]:
    lineage = silver.history().live(silver.reach)["d", table]
    return [text for _, text in lineage.incomplete]


@pytest.mark.parametrize(
    "statement",
    [
        "TRUNCATE TABLE t",
        "ALTER TABLE t DROP COLUMN v",
        "ALTER TABLE t ADD w INT NOT NULL",
        "ALTER TABLE t RENAME COLUMN v TO w",
        "ALTER TABLE t MODIFY v VARCHAR(9)",
        "ALTER TABLE t ADD w INT",
    ],
)
def test_a_statement_beside_rows_of_other_partitions_is_reported(statement: str) -> None:
    beside = Kafka().ddl(CREATE).row(1, 1).ddl(statement).row(0, 2, table="other")
    together = Kafka().ddl(CREATE).row(0, 1).ddl(statement).row(1, 2, table="other")

    assert why(beside.silver()) == [STATEMENT]
    assert why(together.silver()) == []


def test_an_index_beside_rows_of_other_partitions_is_nothing_to_report() -> None:
    assert why(Kafka().ddl(CREATE).row(1, 1).ddl("ALTER TABLE t ADD INDEX i(v)").row(2, 2).silver()) == []


def test_statements_of_one_table_in_several_partitions_are_reported() -> None:
    """Canal's dynamic topics: a RENAME of two tables is in the topic of its first new name alone."""
    renames = "RENAME TABLE t TO u, other TO t"
    apart = Kafka().ddl(CREATE, 0).ddl("CREATE TABLE other (id INT PRIMARY KEY)", 1, "other")
    moved = apart.ddl(renames, 2, "u").row(0, 1).ddl("TRUNCATE TABLE t", 0).silver()
    last = moved.history().live(moved.reach)["d", "t"].incomplete_at(moved.reach)

    assert APART in why(moved)
    assert last is not None  # of what came before the TRUNCATE, nothing is known behind it either
    assert why(Kafka().ddl(CREATE, 0).row(0, 1).ddl(CREATE.replace(" t ", " o "), 1, "o").silver()) == []


def test_a_key_that_came_in_two_partitions_is_reported_and_one_that_stays_is_not() -> None:
    stays = Kafka().ddl(CREATE).row(1, 1).row(2, 2).row(1, 1, 5, "UPDATE", '[{"v":"1"}]')
    moves = Kafka().ddl(CREATE).row(1, 1).row(2, 2, 1, "UPDATE", '[{"id":"1"}]')

    assert why(stays.silver()) == []
    assert why(moves.silver()) == ["changes of 1 keys came in several partitions, whose order is not known"]


def test_a_name_that_two_tables_had_is_reported() -> None:
    silver = Kafka().ddl(CREATE).row(1, 1).ddl("DROP TABLE t").ddl(CREATE).row(1, 2).silver()

    assert NAME in why(silver)


def test_a_table_without_a_key_says_what_a_replay_does_to_it() -> None:
    silver = Kafka().ddl("CREATE TABLE t (id INT, v INT)").silver()

    assert KEYLESS in silver.history().live(silver.reach)["d", "t"].notes


def test_files_without_commit_ts_may_repeat_rows_of_a_table_without_a_key() -> None:
    """After a restart the sink writes what it had written into later files; a version's schema file says
    nothing twice.
    """
    column = {"ColumnName": "a", "ColumnType": "INT"}
    schema = json.dumps(
        {
            "Table": "t",
            "Schema": "d",
            "TableVersion": 4,
            "Query": "CREATE TABLE t (a INT)",
            "TableColumns": [column],
        }
    ).encode()
    paths = [
        ("d/t/meta/schema_4_0000000001.json", schema),
        ("d/t/meta/schema_4_0000000002.json", schema.replace(b"CREATE TABLE t (a INT)", b"")),
    ]
    paths += [(f"d/t/4/CDC00000{number}.csv", b'"I","t","d",1\r\n') for number in (1, 2)]
    messages = [
        Message("s", 0, n, None, data, (("schema", schema),), path=path)
        for n, (path, data) in enumerate(paths)
    ]

    silver = Memory("ticdc-storage", {"protocol": "csv"}, tidb=False).add(messages)
    lineage = silver.history().live(silver.reach)["d", "t"]

    assert (silver.tables(silver.reach), lineage.notes, lineage.incomplete) == (
        {"d.t": [{"a": 1}, {"a": 1}]},
        [KEYLESS],
        [],
    )


@SHORT
@given(seeds, steps, seeds)
def test_a_table_that_is_not_reported_is_the_sources(seed: int, count: int, chance: int) -> None:
    """Rows go to the partition of their (new) key, statements to the first one, as Canal's partitionHash does
    it.
    """
    rand, history = random.Random(chance), History(seed, count, raw_updates=True, types=types_of("canal"))
    kafka = Kafka()
    for event in binlog(history.events, rand):
        for pair in event.pairs or [()]:
            value = canal_flat(event._replace(pairs=(pair,)) if pair else event, 1)
            if value is not None:
                shape, row = event.shape, (pair[1] or pair[0]) if pair else None
                keys = (
                    [column.name for column in shape.columns if column.id in shape.primary_key]
                    if shape and row
                    else []
                )
                spot = (
                    zlib.crc32(repr([row[name]["value"] for name in keys]).encode()) % 3
                    if row and keys
                    else 0
                )
                kafka.send(spot, value.decode())
    silver = Memory("canal", OPTIONS, tidb=False).add(kafka.messages)
    found, lineages = silver.tables((0, 2**40, 0, 0, 0, 0)), silver.history().live((0, 2**40, 0, 0, 0, 0))

    assert silver.dead == []
    for name, snapshot in history.states[-1][1].items():
        lineage = lineages.get(name)
        if (
            lineage is not None
            and not lineage.incomplete
            and not lineage.held
            and set(lineage.notes) <= {KEYLESS}
        ):
            assert as_set(found[".".join(name)]) == as_set(canonical(snapshot)), name


@pytest.mark.parametrize("sql", ["DROP TABLE u, t", "ALTER TABLE u RENAME TO t", "DROP DATABASE d"])
def test_a_statement_of_several_tables_that_comes_again_is_reported_for_each(sql: str) -> None:
    """Its message names one of them."""
    told = [SentStatement((0, at, 0, 0, 0, 0), "d", "u", sql, commit_ts=1) for at in (3, 7)]
    history = Kafka().ddl(CREATE).row(0, 1).ddl(CREATE, table="v").silver().history()

    report_repeats(history, told)

    incomplete = {one.intervals[0].name[1]: [text for _, text in one.incomplete] for one in history.lineages}
    assert incomplete["t"] == [REPEATED]
