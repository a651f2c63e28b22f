"""What MariaDB's connector 3.4.0 sent of a MariaDB 11.4 with binlog_legacy_event_pos=OFF, where it is wrong
or leaves something open: `mariadb-3.4.0.records.gz` (it has a dead letter, so it is none of the recordings
that read whole), without schemas, of

    CREATE TABLE latin (id INT PRIMARY KEY, a VARCHAR(20)) CHARACTER SET latin1; INSERT … (1, 'é')
    CREATE TABLE label (id INT PRIMARY KEY, e ENUM('é')) CHARACTER SET latin1; INSERT … (1, 'é')
    the snapshot
    ALTER TABLE label MODIFY e BLOB
    ALTER TABLE latin CONVERT TO CHARACTER SET utf8mb4; INSERT … (3, 'é')
    CREATE TABLE anew (id INT PRIMARY KEY, k INT); CREATE OR REPLACE TABLE anew (k INT, id INT PRIMARY KEY);
    INSERT INTO anew VALUES (101, 2)
    CREATE TABLE loose (a INT); BEGIN; INSERT … (1); INSERT … (1), (2); UPDATE … SET a = 3 WHERE a = 2; COMMIT
"""

from lakehouse.events import DeadLetter
from lakehouse.spark.silver.decode import decode_all
from tests.support.engine import Memory
from tests.support.paths import DATA
from tests.support.recorded_truth import recorded

SENT = [message for message, _ in recorded(DATA / "debezium/mistakes/mariadb-3.4.0.records.gz")]
NUMBERED = {"server": "mariadb 11.4", "charset": "utf8mb4", "binlog_transaction_compression": "true"}


def test_what_the_connector_reads_wrong_is_not_called_exact() -> None:
    memory = Memory("debezium", NUMBERED, tidb=False).add(SENT)
    tables, live = memory.tables(memory.reach), memory.lineages().live(memory.reach)

    assert tables["d.label"] == [{"id": 1, "e": "6Q=="}]  # é in latin1
    assert tables["d.loose"] == [{"a": 1}, {"a": 1}, {"a": 3}]
    doubts = {table: one.incomplete_at(memory.reach) for (_, table), one in live.items()}
    assert doubts.pop("latin") is not None
    assert set(doubts.values()) == {None}
    assert [(type(one), one.database, one.table) for one in memory.dead] == [(DeadLetter, "d", "anew")]


def test_rows_at_one_place_are_told_where_the_options_do_not_say_so() -> None:
    settings = {"format": "debezium", "epochs": {}, "order": "binlog", "options": {}}
    topic = [message for message in SENT if message.topic == "shop.d.loose"]
    letters = {(one.table, one.error_code) for one in decode_all(topic, settings).others}
    assert letters == {("loose", "position")}
