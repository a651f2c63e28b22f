"""Folders and files of dumps, written as their programs write them."""

import gzip
from pathlib import Path
from typing import Any

import pytest
import zstandard

from lakehouse.errors import LakehouseError
from lakehouse.events import RowChange
from lakehouse.formats import FORMATS, decode_message
from lakehouse.formats.snapshot.records import TableRecord, read_record
from lakehouse.sources.dumps.files import LocalDump, window_of
from lakehouse.sources.dumps.metadata import given_place, read_metadata
from lakehouse.sources.dumps.read import find_dump
from lakehouse.sources.dumps.records import BinlogPlace, DumpEvent, Rows, TableBegins, TableEnds, Tso
from lakehouse.sources.dumps.snapshot import Found, checked, place_in, snapshot_messages

TSO = 449583647234560001
DUMPLING = f"""Started dump at: 2026-11-23 08:44:23
SHOW MASTER STATUS:
\tLog: tidb-binlog
\tPos: {TSO}
\tGTID:

Finished dump at: 2026-11-23 08:44:24
"""
CREATE = """CREATE TABLE `t` (
  `id` bigint(20) NOT NULL,
  `v` varchar(20) COLLATE utf8mb4_bin DEFAULT NULL,
  `b` varbinary(9) DEFAULT NULL,
  PRIMARY KEY (`id`) /*T![clustered_index] CLUSTERED */
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
"""
HEAD = "/*!40014 SET FOREIGN_KEY_CHECKS=0*/;\n/*!40101 SET NAMES binary*/;\n"
MYSQLDUMP = """-- MySQL dump 10.13  Distrib 8.0.36, for Linux (x86_64)
--
-- Host: localhost    Database: shop
-- ------------------------------------------------------
/*!50503 SET NAMES utf8mb4 */;
/*!40103 SET TIME_ZONE='+00:00' */;
-- CHANGE MASTER TO MASTER_LOG_FILE='binlog.000012', MASTER_LOG_POS=157;
"""
COMPLETED = "-- Dump completed on 2026-11-23  8:44:24\n"


def folder(path: Path, **files: str | bytes) -> Path:
    for name, text in files.items():
        (path / name.replace("__", "-").replace("_dot_", ".")).write_bytes(
            text if isinstance(text, bytes) else text.encode()
        )
    return path


def dumpling(path: Path) -> Path:
    """What Dumpling v8 leaves of a database with two tables, one of them in CSV."""
    path.mkdir(exist_ok=True)
    files: dict[str, str | bytes] = {
        "metadata": DUMPLING,
        "shop-schema-create.sql": HEAD + "CREATE DATABASE `shop` /*!40100 DEFAULT CHARSET utf8mb4 */;\n",
        "shop.t-schema.sql": HEAD + CREATE,
        "shop.t.000000000.sql": HEAD + "INSERT INTO `t` VALUES\n(1,'a\\'b\\n',x'00ff'),\n(2,NULL,NULL);\n",
        "shop.t.000000001.sql.zst": zstandard.compress(
            (HEAD + "INSERT INTO `t` VALUES\n(3,'é',x'');\n").encode()
        ),
        "shop.odd%2Ename-schema.sql": HEAD + CREATE.replace("`t`", "`odd.name`"),
        "shop.odd%2Ename.0000000010000.csv": b'"id","v","b"\r\n1,"a\\"b,\\\\\\n\\r\\n c",\\N\r\n'
        b'2,\\N,"\\0\xff"\r\n',
        "shop.v-schema.sql": HEAD + "CREATE TABLE `v`(\n`id` int\n)ENGINE=MyISAM;\n",
        "shop.v-schema-view.sql": HEAD + "DROP TABLE IF EXISTS `v`;\nCREATE VIEW `v` AS SELECT 1 AS `id`;\n",
    }
    for name, data in files.items():
        (path / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def tables(path: Path) -> dict[Any, list[Any]]:
    """The rows of each table."""
    found: dict[Any, list[Any]] = {}
    for event in find_dump(LocalDump(path)).events():
        match event:
            case TableBegins(name):
                rows = found.setdefault(name, [])
            case Rows(rows=some):
                rows += some
            case TableEnds(count):
                assert count == len(rows)
    return found


def refused(path: Path) -> str:
    with pytest.raises(LakehouseError) as error:
        tables(path)
    return str(error.value)


def test_a_folder_of_dumpling(tmp_path: Path) -> None:
    path = dumpling(tmp_path / "dump")

    assert find_dump(LocalDump(path)).place == Tso(TSO)
    assert tables(path) == {
        ("shop", "odd.name"): [[b"1", b'a"b,\\\n\r\n c', None], [b"2", None, b"\0\xff"]],
        ("shop", "t"): [[b"1", b"a'b\n", b"\0\xff"], [b"2", None, None], [b"3", "é".encode(), b""]],
    }


def test_the_text_of_dumpling_is_utf8_although_its_files_say_binary(tmp_path: Path) -> None:
    dump = find_dump(LocalDump(dumpling(tmp_path / "dump")))

    assert {event.charset for event in dump.events() if isinstance(event, Rows)} == {"utf8mb4"}


def test_the_text_of_mydumper_is_as_each_column_stores_it(tmp_path: Path) -> None:
    create = "CREATE TABLE `t` (`a` varchar(9) CHARACTER SET latin1 DEFAULT NULL, `b` text) CHARSET=utf8mb4;"
    meta = DUMPLING.replace("tidb-binlog", "b.000003").replace(str(TSO), "828")
    path = folder(
        tmp_path,
        metadata=meta,
        d__schema__create_dot_sql="CREATE DATABASE `d b`;",
        d_dot_t__schema_dot_sql=HEAD + create,
        d_dot_t_dot_00000_dot_sql=HEAD.encode()
        + b'/*!40103 SET TIME_ZONE=\'+00:00\' */;\nINSERT INTO `t` VALUES\n("\xe9","\xc3\xa9");\n',
    )
    dump = find_dump(LocalDump(path))
    place = place_in("debezium", "binlog", dump.place, "shop")
    events = [e for m in snapshot_messages(dump, place, Found()) for e in decode_message("debezium", m, {})]

    assert dump.place == BinlogPlace("b.000003", 828)
    rows = [event for event in events if isinstance(event, RowChange)]
    assert [(row.database, row.after) for row in rows] == [("d b", {"a": "é", "b": "é"})]


def test_mydumper_has_latin1_of_a_tidb_in_utf8(tmp_path: Path) -> None:
    create = "CREATE TABLE `t` (`a` varchar(9) CHARACTER SET latin1, `g` varchar(9) CHARACTER SET gbk);"
    path = folder(
        tmp_path,
        metadata=DUMPLING,
        d_dot_t__schema_dot_sql=HEAD + create,
        d_dot_t_dot_00000_dot_sql=HEAD.encode()
        + b"INSERT INTO `t` VALUES\n('"
        + "é€".encode()
        + b"','\xd6\xd0');\n",
    )
    dump = find_dump(LocalDump(path))
    place = place_in("ticdc-open", "tidb", dump.place, "shop")
    events = [e for m in snapshot_messages(dump, place, Found()) for e in decode_message("ticdc-open", m, {})]

    assert [row.after for row in events if isinstance(row, RowChange)] == [{"a": "é€", "g": "中"}]


def test_one_file_of_mysqldump(tmp_path: Path) -> None:
    rows = "INSERT INTO `t` (`id`, `v`) VALUES (1,'x');\nINSERT INTO `t` (`id`, `v`) VALUES (2,NULL);\n"
    view = "/*!50001 CREATE VIEW `v` AS SELECT \n 1 AS `id`*/;\n"
    path = tmp_path / "shop.sql.gz"
    path.write_bytes(gzip.compress((MYSQLDUMP + CREATE + rows + view + COMPLETED).encode()))

    dump = find_dump(LocalDump(path))

    assert dump.place == BinlogPlace("binlog.000012", 157)
    assert tables(path) == {("shop", "t"): [[b"1", b"x"], [b"2", None]]}
    assert tables(tmp_path) == tables(path)  # the one file of a folder


@pytest.mark.parametrize("mode", ["NO_BACKSLASH_ESCAPES", "STRICT_TRANS_TABLES,ANSI_QUOTES"])
def test_the_mode_of_a_trigger_is_not_that_of_the_rows_behind_it(tmp_path: Path, mode: str) -> None:
    trigger = f"""/*!50003 SET @saved_sql_mode       = @@sql_mode */ ;
/*!50003 SET sql_mode              = '{mode}' */ ;
DELIMITER ;;
/*!50003 CREATE*/ /*!50003 TRIGGER `r` BEFORE INSERT ON `t` FOR EACH ROW SET @a = ';' */;;
DELIMITER ;
/*!50003 SET sql_mode              = @saved_sql_mode */ ;
"""
    rows = "INSERT INTO `t` VALUES (1,'a\\\\b\\n',NULL);\n"
    other = (CREATE + rows).replace("`t`", "`u`")
    path = folder(tmp_path, d_dot_sql=MYSQLDUMP + CREATE + rows + trigger + other + COMPLETED) / "d.sql"

    assert tables(path) == {("shop", name): [[b"1", b"a\\b\n", None]] for name in ("t", "u")}


def test_a_mode_that_rows_are_written_in_holds_for_them(tmp_path: Path) -> None:
    rows = "SET SQL_MODE='NO_BACKSLASH_ESCAPES';\nINSERT INTO `t` VALUES (1,'a\\n',NULL);\n"
    path = folder(tmp_path, d_dot_sql=MYSQLDUMP + CREATE + rows + COMPLETED) / "d.sql"

    assert tables(path) == {("shop", "t"): [[b"1", b"a\\n", None]]}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("CHANGE REPLICATION SOURCE TO SOURCE_LOG_FILE='b.1', SOURCE_LOG_POS=4;\n", BinlogPlace("b.1", 4)),
        ("-- CHANGE MASTER TO MASTER_LOG_FILE='b.1', MASTER_LOG_POS=4;\n", BinlogPlace("b.1", 4)),
        ("", None),
    ],
)
def test_the_position_that_mysqldump_tells(tmp_path: Path, text: str, place: Any) -> None:
    path = folder(tmp_path, d_dot_sql=text + "USE `d`;\n" + CREATE) / "d.sql"

    assert find_dump(LocalDump(path)).place == place


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (
            "# Started dump at: x\n[config]\n\n[source]\n# Channel_Name = ''\nFile = b.7\nPosition = 9\n",
            "b.7:9",
        ),
        ('[master]\nSOURCE_LOG_FILE = "b.7"\nSOURCE_LOG_POS = 9\n\n[`d`.`t`]\nrows = 3\n', "b.7:9"),
        ("[replication]\nFile = r.1\nPosition = 2\n[source]\nFile = b.7\nPosition = 9\n", "b.7:9"),
        ("SHOW MASTER STATUS:\n\tLog: b.7\n\tPos: 9\n\nSHOW SLAVE STATUS:\n\tLog: r.1\n\tPos: 2\n", "b.7:9"),
        ("SHOW BINARY LOG STATUS: /* AFTER X */\n\tLog: b.7\n\tPos: 9\n\tGTID:\n", "b.7:9"),
        ("Started dump at: x\n", "None"),
    ],
)
def test_the_position_that_metadata_tells(text: str, place: str) -> None:
    found = read_metadata(text + "# Finished dump at: 2026-11-23 08:44:24\n")

    assert (str(found.place), found.finished) == (place, True)


def test_metadata_of_two_moments_is_refused() -> None:
    text = "SHOW MASTER STATUS:\n\tLog: b.7\n\tPos: {}\n\n"

    with pytest.raises(LakehouseError, match=r"expected one position, got b\.7:10 and b\.7:9"):
        read_metadata(text.format(9) + text.format(10))


def test_a_position_that_an_operator_gives() -> None:
    assert given_place(f" {TSO}") == Tso(TSO)
    assert given_place("mysql-bin.000012:4") == BinlogPlace("mysql-bin.000012", 4)
    for wrong in ("", "12", "mysql-bin:4", "a:b", "mysql-bin.000012"):
        with pytest.raises(LakehouseError, match="expected a TSO such as"):
            given_place(wrong)


def test_what_is_no_whole_dump_is_refused(tmp_path: Path) -> None:
    def cut(name: str, change: Any) -> str:
        path = dumpling(tmp_path / name)
        change(path)
        return refused(path)

    def shorten(path: Path) -> None:
        file = path / "shop.t.000000001.sql.zst"
        file.write_bytes(file.read_bytes()[:-3])

    unfinished = cut("a", lambda path: (path / "metadata").write_text(DUMPLING.rpartition("Fin")[0]))
    assert "expected `Finished dump at`, got none: the dump was cut short" in unfinished
    assert "metadata.partial: the dump was cut short" in cut(
        "b", lambda path: (path / "metadata").rename(path / "metadata.partial")
    )
    assert "expected the schema of its table beside it" in cut(
        "c", lambda path: (path / "shop.t-schema.sql").unlink()
    )
    assert "shop.t.000000001.sql.zst: byte" in cut("d", shorten)
    assert "expected a plain file, gzip (.gz) or Zstandard (.zst), got .snappy" in cut(
        "e", lambda path: (path / "shop.t.000000002.sql.snappy").write_bytes(b"")
    )
    assert "expected rows of t, as the file is named" in cut(
        "f", lambda path: (path / "shop.t.000000002.sql").write_text("INSERT INTO `u` VALUES (1);")
    )
    assert "expected a LOAD DATA as mydumper writes it, got another; dump again" in cut(
        "g",
        lambda path: (path / "shop.t.000000002.sql").write_text("LOAD DATA LOCAL INFILE 'x' INTO TABLE t;"),
    )
    assert "expected 3 values in each row, got a row of 2" in cut(
        "h", lambda path: (path / "shop.t.000000002.sql").write_text("INSERT INTO `t` VALUES (1,2);")
    )
    assert "expected `metadata` of Dumpling or mydumper, or one SQL file of mysqldump, got 0" in refused(
        tmp_path
    )
    assert "got nothing there" in refused(tmp_path / "none")


def test_a_file_of_mysqldump_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    path = (
        folder(tmp_path, d_dot_sql=MYSQLDUMP + CREATE + "INSERT INTO `t` VALUES (1,NULL,NULL);\n") / "d.sql"
    )

    assert "expected `-- Dump completed` at its end, got none" in refused(path)


def test_the_last_table_of_a_file_that_is_cut_short_does_not_end(tmp_path: Path) -> None:
    path = (
        folder(tmp_path, d_dot_sql=MYSQLDUMP + CREATE + "INSERT INTO `t` VALUES (1,NULL,NULL);\n") / "d.sql"
    )
    found = list[Any]()

    with pytest.raises(LakehouseError, match="the dump was cut short"):
        for event in find_dump(LocalDump(path)).events():
            found.append(event)

    assert not [event for event in found if isinstance(event, TableEnds)]


def test_several_dumps_in_one_file_are_of_no_one_moment(tmp_path: Path) -> None:
    first = MYSQLDUMP + CREATE + "INSERT INTO `t` VALUES (1,NULL,NULL);\n"
    other = MYSQLDUMP.replace("POS=157", "POS=900").replace("shop", "crm") + CREATE + COMPLETED

    two = folder(tmp_path, d_dot_sql=first + COMPLETED + other) / "d.sql"
    assert "expected one position, got binlog.000012:157 and binlog.000012:900: several" in refused(two)

    cut = folder(tmp_path, d_dot_sql=first + other.replace("POS=900", "POS=157")) / "d.sql"
    assert "the dump was cut short" in refused(cut)

    one = folder(tmp_path, d_dot_sql=first + COMPLETED + other.replace("POS=900", "POS=157")) / "d.sql"
    assert set(tables(one)) == {("shop", "t"), ("crm", "t")}


@pytest.mark.parametrize("row", ["1,,x", "1,NULL,\\N", '1,x,"y"', ',"x","y"'])
def test_csv_that_has_another_sign_for_null_or_no_quotes_is_refused(tmp_path: Path, row: str) -> None:
    path = dumpling(tmp_path / "dump")
    (path / "shop.odd%2Ename.0000000010000.csv").write_text(f'"id","v","b"\r\n{row}\r\n')

    assert "expected text in quotes, with escapes, and NULL as \\N" in refused(path)


@pytest.mark.parametrize("text", ["a''b", 'a"b', "a\nb", "a\\b", "\\N", "a\\%"])
def test_sql_of_dumpling_without_backslash_escapes_is_refused(tmp_path: Path, text: str) -> None:
    """No file tells `--escape-backslash=false`; text shows it that Dumpling writes otherwise by default."""
    path = dumpling(tmp_path / "dump")
    (path / "shop.t.000000000.sql").write_text(f"INSERT INTO `t` VALUES\n(1,'{text}',NULL);\n")

    assert "got text of --escape-backslash=false" in refused(path)


@pytest.mark.parametrize("text", ['a""b', "a\nb", "a\\b", "a\\'"])
def test_csv_of_dumpling_without_backslash_escapes_is_refused(tmp_path: Path, text: str) -> None:
    path = dumpling(tmp_path / "dump")
    (path / "shop.odd%2Ename.0000000010000.csv").write_text(f'"id","v","b"\r\n1,"{text}",\\N\r\n')

    assert "got text of --escape-backslash=false" in refused(path)


def test_parquet_is_refused(tmp_path: Path) -> None:
    path = dumpling(tmp_path / "dump")
    (path / "shop.t.000000000.snappy.parquet").write_bytes(b"PAR1")

    assert "expected SQL or CSV, got Parquet; dump again with --filetype sql" in refused(path)


def test_a_file_of_mysqldump_without_comments_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    """A lost connection ends the statement that is being written, and the file."""
    head = "/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO' */;\nUSE `d`;\n"
    rows = "INSERT INTO `t` VALUES (1,NULL,NULL);\n"
    whole = folder(tmp_path, d_dot_sql=head + CREATE + rows + "/*!40101 SET SQL_MODE=@OLD_SQL_MODE */;\n")
    assert tables(whole / "d.sql") == {("d", "t"): [[b"1", None, None]]}

    cut = folder(tmp_path, d_dot_sql=head + CREATE + rows) / "d.sql"

    assert "the dump was cut short" in refused(cut)


@pytest.mark.parametrize("sign", ["/*M!999999", "/*!999999"])
def test_the_sandbox_line_of_mariadb_hides_nothing_behind_it(tmp_path: Path, sign: str) -> None:
    """10.6.18, 10.11.8 and others of their day wrote it without the M. No server executes either."""
    line = sign + "\\- enable the sandbox mode */ \n"
    dump = line + MYSQLDUMP.replace("MySQL dump", "MariaDB dump") + CREATE
    rows = "-- Dumping data for table `t`\nINSERT INTO `t` VALUES (1,'a',NULL);\n"
    path = folder(tmp_path, d_dot_sql=dump + rows + COMPLETED) / "d.sql"
    assert tables(path) == {("shop", "t"): [[b"1", b"a", None]]}

    path.write_text(dump + rows)

    assert "the dump was cut short" in refused(path)


def test_a_table_whose_rows_were_left_out_is_not_taken_as_empty(tmp_path: Path) -> None:
    """As with --no-data and --ignore-table-data; of general_log nobody dumps the rows."""
    empty = "-- Dumping data for table `t`\n"
    log = "USE `mysql`;\nCREATE TABLE `general_log` (`a` int);\n"
    whole = folder(tmp_path, d_dot_sql=MYSQLDUMP + CREATE + empty + log + COMPLETED) / "d.sql"
    assert len(list(checked(find_dump(LocalDump(whole)), Found()))) == 2

    path = folder(tmp_path, d_dot_sql=MYSQLDUMP + CREATE.replace("`t`", "`u`") + CREATE + empty + COMPLETED)

    with pytest.raises(LakehouseError, match=r"shop\.u: expected its rows, got its CREATE TABLE alone"):
        list(checked(find_dump(LocalDump(path / "d.sql")), Found()))


def test_a_file_of_schemas_alone_is_refused_also_where_it_has_no_comments(tmp_path: Path) -> None:
    """As with --no-data --compact: nothing of it may be given before a row shows that it has some."""
    schemas = "USE `d`;\n" + CREATE + CREATE.replace("`t`", "`u`")
    alone = find_dump(LocalDump(folder(tmp_path, d_dot_sql=schemas) / "d.sql"))
    given = list[DumpEvent]()
    with pytest.raises(LakehouseError, match="expected rows of some table, got schemas alone"):
        given += checked(alone, Found())
    assert not given

    floats = schemas.replace("varbinary(9)", "float") + "INSERT INTO `u` VALUES (1,NULL,0.5);\n"
    dump = find_dump(LocalDump(folder(tmp_path, d_dot_sql=floats) / "d.sql"))
    place = place_in("debezium", "binlog", BinlogPlace("b.000003", 4), "shop")

    told = [read_record(message.value) for message in snapshot_messages(dump, place, Found())]
    ends = [(one.table, one.rows, one.rounded) for one in told if isinstance(one, TableRecord)]
    assert ends == [("t", 0, ()), ("u", 1, ("b",))]


def test_a_folder_of_schemas_alone_is_refused(tmp_path: Path) -> None:
    path = folder(tmp_path, metadata=DUMPLING, shop_dot_t__schema_dot_sql=CREATE)

    assert "expected files with rows, got schemas alone" in refused(path)


def test_a_part_of_the_rows_is_refused(tmp_path: Path) -> None:
    rows = "-- Dumping data for table `t`\n--\n-- WHERE:  id > 1\n\nINSERT INTO `t` VALUES (2,NULL,NULL);\n"
    path = folder(tmp_path, d_dot_sql=MYSQLDUMP + CREATE + rows + COMPLETED) / "d.sql"

    assert "expected all rows of a table, got a dump with --where" in refused(path)


@pytest.mark.parametrize(("rows", "told"), [(3, None), (2, "expected 2 rows of"), (4, "expected 4 rows of")])
def test_the_rows_that_mydumper_counted_have_to_be_there(tmp_path: Path, rows: int, told: str | None) -> None:
    path = dumpling(tmp_path / "dump")
    metadata = (
        "# Started dump at: x\n[config]\nquote-character = BACKTICK\n\n[source]\nFile = b.7\nPosition = 9\n\n"
        "[`shop`.`odd%2Ename`]\nreal_table_name=odd.name\nrows = 2\n\n[`shop`.`none`]\nrows = 9\n\n"
        f"[`shop`.`t`]\nreal_table_name=t\nrows = {rows}\n# Finished dump at: x\n"
    )
    (path / "metadata").write_text(metadata)

    if told is None:
        assert len(tables(path)) == 2
    else:
        assert told in refused(path)


def test_a_file_that_lies_there_packed_and_unpacked_does_not_count_twice(tmp_path: Path) -> None:
    path = dumpling(tmp_path / "dump")
    text = (path / "shop.t.000000000.sql").read_bytes()
    (path / "shop.t.000000000.sql.gz").write_bytes(gzip.compress(text))

    assert "expected each file of the dump once, got shop.t.000000000.sql too" in refused(path)


def test_the_rows_of_a_database_that_is_called_checkpoint_are_read(tmp_path: Path) -> None:
    path = dumpling(tmp_path / "dump")
    for file in path.glob("shop*"):
        text = file.read_bytes().replace(b"`shop`", b"`checkpoints`")
        (path / file.name.replace("shop", "checkpoints")).write_bytes(text)
        file.unlink()
    (path / "checkpoint").write_text("{}")

    assert len(tables(path)["checkpoints", "t"]) == 3


@pytest.mark.parametrize("name", ["p%2E1-placement-policy-create", "all-schema-create-tablespace"])
def test_what_belongs_to_no_database_is_passed_over(tmp_path: Path, name: str) -> None:
    path = dumpling(tmp_path / "dump")
    expected = tables(path)
    (path / f"{name}.sql").write_text("CREATE PLACEMENT POLICY `p.1` FOLLOWERS=4;\n")

    assert tables(path) == expected


def test_a_comment_about_a_sequence_makes_none_of_a_table(tmp_path: Path) -> None:
    path = dumpling(tmp_path / "dump")
    expected = tables(path)
    sequence = "CREATE TABLE `s` (\n  `next` bigint NOT NULL\n) ENGINE=InnoDB SEQUENCE=1 COMMENT='x';\n"
    (path / "shop.s-schema.sql").write_text(sequence)
    with_comment = CREATE.replace("utf8mb4_bin;", "utf8mb4_bin COMMENT='sequence=1';")
    (path / "shop.t-schema.sql").write_text(HEAD + with_comment)

    assert tables(path) == expected


def test_the_rows_of_a_table_whose_name_ends_in_schema_are_not_passed_over(tmp_path: Path) -> None:
    """mydumper 0.10 names its one file of rows as another table's schema."""
    path = dumpling(tmp_path / "dump")
    create = CREATE.replace("`t`", "`u-schema`")
    (path / "shop.u-schema-schema.sql").write_text(create)
    (path / "shop.u-schema.sql").write_text(HEAD + "INSERT INTO `u-schema` VALUES (1,NULL,NULL);\n")

    assert "shop.u-schema.sql: byte" in (told := refused(path))
    assert "expected a schema, as the file is named, got rows" in told


def test_what_is_damaged_inside_of_gzip_is_refused(tmp_path: Path) -> None:
    data = bytearray(gzip.compress((MYSQLDUMP + CREATE + COMPLETED).encode()))
    data[10] = 0xFF
    path = folder(tmp_path, d_dot_sql_dot_gz=bytes(data)) / "d.sql.gz"

    assert "expected a whole compressed file, got one that is cut short or damaged" in refused(path)


def test_a_file_of_equal_rows_is_not_unpacked_at_once(tmp_path: Path) -> None:
    data = zstandard.compress(b"(1)," * (1 << 26))
    path = folder(tmp_path, d_dot_sql_dot_zst=data)

    with window_of(LocalDump(path), "d.sql.zst") as window:
        assert window.more()
        assert len(window.buffer) < 1 << 28


def test_a_quoted_end_of_comment_in_a_view_ends_no_statement(tmp_path: Path) -> None:
    view = "/*!50001 CREATE VIEW `v` AS select '*/' AS `x`,1 AS `it's` */;\n"
    other = (CREATE + "INSERT INTO `u` VALUES (2,NULL,NULL);\n").replace("`t`", "`u`")
    rows = "INSERT INTO `t` VALUES (1,NULL,NULL);\n"
    text = MYSQLDUMP + CREATE + rows + view + "USE `b`;\n" + other + COMPLETED
    path = folder(tmp_path, d_dot_sql=text) / "d.sql"

    assert tables(path) == {("shop", "t"): [[b"1", None, None]], ("b", "u"): [[b"2", None, None]]}


def test_a_charset_in_which_a_backslash_may_be_half_a_character_is_refused(tmp_path: Path) -> None:
    path = folder(tmp_path, d_dot_sql="SET NAMES gbk;\nUSE `d`;\n" + CREATE) / "d.sql"

    assert "expected SET NAMES utf8mb4 or binary, got gbk; dump again with --default-char" in refused(path)


@pytest.mark.parametrize(
    ("charset", "column", "lost"),
    [
        ("utf8", "CHARSET latin1", False),
        ("utf8", "CHARSET utf8mb3", False),
        ("utf8", "CHARSET utf8mb4", True),
        ("latin1", "CHARSET latin1", False),
        ("latin1", "CHARSET utf8mb3", True),
        ("latin1", "CHARSET ascii", False),
    ],
)
def test_a_charset_that_lacks_characters_of_a_column_is_refused(
    tmp_path: Path, charset: str, column: str, lost: bool
) -> None:
    create = f"CREATE TABLE `t` (`v` text {column});\n"
    text = f"SET NAMES {charset};\nUSE `d`;\n{create}INSERT INTO `t` VALUES ('?');\n"
    dump = find_dump(LocalDump(folder(tmp_path, d_dot_sql=text) / "d.sql"))

    if lost:
        with pytest.raises(LakehouseError, match="expected SET NAMES utf8mb4, got"):
            list(checked(dump, Found()))
    else:
        assert len(list(checked(dump, Found()))) == 3


def test_rows_without_their_create_table_are_refused(tmp_path: Path) -> None:
    path = folder(tmp_path, d_dot_sql=MYSQLDUMP + "INSERT INTO `t` VALUES (1);\n" + COMPLETED) / "d.sql"

    assert "expected CREATE TABLE t right before its rows, got rows of it" in refused(path)


def test_rows_of_a_table_of_another_database_are_refused(tmp_path: Path) -> None:
    """mysqlpump writes several tables side by side."""
    two = CREATE.replace("`t`", "`a`.`t`") + CREATE.replace("`t`", "`b`.`t`")
    own = folder(tmp_path, d_dot_sql=two + "INSERT INTO `b`.`t` VALUES (1,NULL,NULL);\n") / "d.sql"
    assert tables(own) == {("a", "t"): [], ("b", "t"): [[b"1", None, None]]}

    other = folder(tmp_path, d_dot_sql=two + "INSERT INTO `a`.`t` VALUES (1,NULL,NULL);\n") / "d.sql"

    assert "expected CREATE TABLE t right before its rows, got rows of it" in refused(other)


def test_a_table_with_a_dot_in_its_name_is_of_the_database_that_its_file_says(tmp_path: Path) -> None:
    path = folder(
        tmp_path,
        metadata=DUMPLING,
        a__schema__create_dot_sql="CREATE DATABASE `a`;",
        a_dot_b__schema__create_dot_sql="CREATE DATABASE `a.b`;",
        a_dot_b_dot_t__schema_dot_sql=CREATE.replace("`t`", "`b.t`"),
        a_dot_b_dot_u__schema_dot_sql=CREATE.replace("`t`", "`u`"),
        a_dot_b_dot_u_dot_000000000_dot_sql="INSERT INTO `u` VALUES (1,NULL,NULL);\n",
    )

    assert tables(path) == {("a", "b.t"): [], ("a.b", "u"): [[b"1", None, None]]}


def test_files_outside_of_the_folder_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret.sql").write_text("INSERT INTO `t` VALUES (9,NULL,NULL);")
    path = dumpling(tmp_path / "dump")
    (path / "shop.t.000000009.sql").symlink_to(tmp_path / "secret.sql")

    assert [b"9", None, None] not in tables(path)["shop", "t"]
    assert LocalDump(path).paths()
    with pytest.raises(LakehouseError, match="expected a file of the dump's folder"):
        LocalDump(path).open("../secret.sql")


def test_a_feed_in_order_of_arrival_has_no_place_for_a_dump() -> None:
    for format_, order, place, told in (
        ("canal", "arrival", BinlogPlace("b.1", 4), "got one in order of arrival"),
        (
            "debezium",
            "binlog",
            Tso(TSO),
            f"expected a place in a binlog, as the source's feed has, got TSO {TSO}",
        ),
        ("ticdc-open", "tidb", BinlogPlace("b.1", 4), "expected a TSO, as the source's feed has, got b.1:4"),
        ("ticdc-open", "tidb", None, "expected a dump that tells its position, got none"),
    ):
        with pytest.raises(LakehouseError) as error:
            place_in(format_, order, place, "shop")
        assert told in str(error.value)
    assert [name for name, row in FORMATS.items() if row.tells_ends] == ["tencent-dts"]


def test_servers_own_databases_are_passed_over_and_losses_are_told(tmp_path: Path) -> None:
    text = (
        MYSQLDUMP + "CREATE TABLE `g` (`a` int, `f` float, `c` int GENERATED ALWAYS AS (`a` + 1) STORED);\n"
        "INSERT INTO `g` (`a`, `f`) VALUES (1,1.5),(2,3.14159);\n"
        "CREATE TABLE `m` (\n  `a` int COMMENT ') ENGINE=InnoDB'\n) ENGINE=MyISAM;\n"
        "INSERT INTO `m` VALUES (1);\n"
        "USE `mysql`;\n" + CREATE + COMPLETED
    )
    dump, found = find_dump(LocalDump(folder(tmp_path, d_dot_sql=text) / "d.sql")), Found()

    events = list(checked(dump, found))

    assert [(one.name, one.rows, one.notes) for one in found.tables] == [
        (
            ("shop", "g"),
            2,
            (
                "columns that the dump's rows lack: c",
                "FLOAT has six digits in a dump, so that it is incomplete: f",
            ),
        ),
        (
            ("shop", "m"),
            1,
            ("MyISAM has no transactions: a dump that let others write has rows of later than its place",),
        ),
    ]
    assert len(events) == 6
