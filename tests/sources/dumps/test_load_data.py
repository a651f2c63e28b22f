"""Folders of mydumper with `--csv` and `--load-data`: rows as the statement beside them says, or refused."""

from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.sources.dumps import window
from lakehouse.sources.dumps.csv_rows import csv_rows, field_of_mydumper, loaded
from lakehouse.sources.dumps.tuples import Row
from lakehouse.sources.dumps.window import Window
from tests.sources.dumps.test_read import refused, tables
from tests.sources.dumps.test_tuples import CELL, ESCAPES, Slow

METADATA = """# Started dump at: 2026-11-27 21:42:44
[source]
# SOURCE_LOG_FILE = "binlog.000001"
# SOURCE_LOG_POS = 1604869
# Finished dump at: 2026-11-27 21:42:45
"""
HEAD = "/*!40101 SET NAMES binary*/;\n/*!40103 SET TIME_ZONE='+00:00' */;\n"
CREATE = "CREATE TABLE `t` (`id` int NOT NULL PRIMARY KEY, `v` varchar(99), `b``s` blob, `n` int);\n"
INTO = "LOAD DATA LOCAL INFILE 'd.t.00000.dat' INTO TABLE `t` "
CSV = "FIELDS TERMINATED BY ',' ENCLOSED BY '\"' ESCAPED BY '\\\\' LINES STARTING BY '' TERMINATED BY '\\n' "
TABS = "FIELDS TERMINATED BY '\\t' ENCLOSED BY '' ESCAPED BY '\\\\' LINES STARTING BY '' TERMINATED BY '\\n' "
COLUMNS = "(`id`,`v`,`b`s`,`n`);\n"
ROWS = [
    [b"1", b"a,b\"'\\\n\r\t;", b"\0\x1a%\xff", None],
    [b"-2", None, None, b"7"],
    [b"3", b"\\N", b"", b"-0"],
    [b"4", b"NULL", b"''", b"0"],
]
AS_CSV = (
    rb'1,"a\,b\"\'\\\n\r' + b"\t" + rb';","\0\Z%' + b'\xff",\\N\n-2,\\N,\\N,7\n3,"\\\\N","",-0\n'
    rb'4,"NULL","\'\'",0' + b"\n"
)
AS_TABS = (
    rb"1" + b"\t" + rb"a,b\"\'\\\n\r\ " + b"\t" + rb";" + b"\t" + rb"\0\Z%" + b"\xff\t\\N\n"
    b"-2\t\\N\t\\N\t7\n3\t\\\\N\t\t-0\n4\tNULL\t\\'\\'\t0\n"
).replace(b"\\ \t", b"\\\t")


def dump(folder: Path, statement: str, rows: bytes | None, name: str = "d.t.00000.dat") -> Path:
    """A folder with one table, whose file of rows is loaded by a statement."""
    folder.mkdir()
    (folder / "metadata").write_text(METADATA)
    (folder / "d-schema-create.sql").write_text("CREATE DATABASE `d`;\n")
    (folder / "d.t-schema.sql").write_text(HEAD + CREATE)
    (folder / "d.t.00000.sql").write_text(HEAD + statement)
    if rows is not None:
        (folder / name).write_bytes(rows)
    return folder


@pytest.mark.parametrize(
    ("statement", "rows"),
    (
        (INTO + CSV + COLUMNS, AS_CSV),
        (INTO.replace("INTO", "REPLACE INTO") + "CHARACTER SET binary " + CSV + COLUMNS, AS_CSV),
        (INTO + CSV + "IGNORE 1 LINES " + COLUMNS, b'"id","v","b`s","n"\n' + AS_CSV),
        (INTO + CSV.replace("\\n", "\\r\\n") + COLUMNS, AS_CSV.replace(b"\n", b"\r\n")),
        (INTO + CSV.replace("','", "'||'") + COLUMNS, AS_CSV.replace(b",", b"||").replace(b"\\||", b",")),
        (INTO + CSV.replace("'\"'", "'''") + COLUMNS, AS_CSV.replace(b',"', b",'").replace(b'",', b"',")),
        (INTO + TABS + COLUMNS, AS_TABS),
    ),
    ids=("csv", "0.12.7", "header", "crlf", "pipes", "apostrophes", "tabs"),
)
@pytest.mark.parametrize("size", (window.READ, 1))
def test_rows_are_those_that_the_statement_describes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str, rows: bytes, size: int
) -> None:
    monkeypatch.setattr(window, "READ", size)

    assert tables(dump(tmp_path / "dump", statement, rows)) == {("d", "t"): ROWS}


def written(cell: bytes | None, separator: bytes, quote: bytes) -> bytes:
    """A field of text, as write_load_data_column_into_string makes it."""
    if cell is None:
        return b"\\N"
    escaped = b"".join(ESCAPES.get(byte, bytes([byte])) for byte in cell)
    return quote + escaped.replace(separator[:1], b"\\" + separator[:1]) + quote


@given(
    table=st.lists(st.lists(CELL, min_size=2, max_size=2), min_size=1, max_size=6),
    separator=st.sampled_from((b",", b"\t", b"||", b";~", b" ")),
    quote=st.sampled_from((b'"', b"'", b"")),
    line=st.sampled_from((b"\n", b"\r\n")),
    size=st.sampled_from((1, 2, 3, 7, 1 << 20)),
)
def test_what_mydumper_escapes_is_read_back_wherever_the_file_is_cut(
    table: list[Row], separator: bytes, quote: bytes, line: bytes, size: int
) -> None:
    dialect = loaded(separator, quote, line, header=False)
    fields = [field_of_mydumper(name, dialect, quote, is_hex=False) for name in "ab"]
    told = b"".join(separator.join(written(cell, separator, quote) for cell in row) + line for row in table)

    assert list(csv_rows(Window(Slow(told, size), "d.t.dat"), dialect, fields)) == table


def test_columns_that_the_statement_converts(tmp_path: Path) -> None:
    """`--hex-blob`, and MySQL's JSON; columns may be in another order than the table's."""
    statement = f"{INTO}{CSV}(`id`,@b`s,@v,`n`)SET `b`s`=UNHEX(@b`s),`v`=CONVERT(@v USING UTF8MB4);\n"

    found = tables(dump(tmp_path / "dump", statement, b'1,00FF,"{\\"a\\": 1}",\\N\n2,,\\N,\\N\n'))

    assert found == {("d", "t"): [[b"1", b"\0\xff", b'{"a": 1}', None], [b"2", b"", None, None]]}


def test_a_packed_file_is_loaded_by_its_own_name_or_the_plain_one(tmp_path: Path) -> None:
    packed, plain = zstandard.compress(AS_CSV), INTO + CSV + COLUMNS

    for number, statement in enumerate((plain, plain.replace(".dat'", ".dat.zst'"))):
        found = tables(dump(tmp_path / str(number), statement, packed, "d.t.00000.dat.zst"))
        assert found == {("d", "t"): ROWS}


@pytest.mark.parametrize(
    ("told", "refusal"),
    (
        ("REPLACE INTO TABLE `t` " + CSV, "expected mydumper 0.12.7 or later"),
        ("INTO TABLE `t` " + CSV.replace("','", "'x'"), "got FIELDS TERMINATED BY b'x'"),
        ("INTO TABLE `t` " + CSV.replace("'\"'", "'|'"), "got ENCLOSED BY b'|'"),
        ("INTO TABLE `t` " + CSV.replace("'\\\\'", "'|'"), "got ESCAPED BY another sign"),
        ("INTO TABLE `t` " + CSV.replace("STARTING BY ''", "STARTING BY '>'"), "got LINES STARTING BY"),
        ("INTO TABLE `t` " + CSV.replace("\\n", ";"), "got LINES TERMINATED BY b';'"),
        ("INTO TABLE `t` CHARACTER SET latin1 " + CSV, "in the charset of SET NAMES, got latin1"),
        ("INTO TABLE `u` " + CSV, "expected rows of t in d.t.00000.dat beside it"),
        ("IGNORE INTO TABLE `t` " + CSV, "expected a LOAD DATA as mydumper writes it"),
    ),
)
def test_a_statement_whose_rows_could_be_read_otherwise_is_refused(
    tmp_path: Path, told: str, refusal: str
) -> None:
    statement = INTO.replace("INTO TABLE `t` ", told) + COLUMNS

    assert refusal in refused(dump(tmp_path / "dump", statement, AS_CSV))


@pytest.mark.parametrize(
    ("columns", "refusal"),
    (
        ("(`id`,`v`,`x`,`n`);\n", "expected columns of the table's CREATE, got x"),
        ("(`id`,@v,`b`s`,`n`)SET `v`=UPPER(@v);\n", "expected UNHEX or CONVERT of v"),
    ),
)
def test_a_statement_of_other_columns_is_refused(tmp_path: Path, columns: str, refusal: str) -> None:
    assert refusal in refused(dump(tmp_path / "dump", INTO + CSV + columns, AS_CSV))


@pytest.mark.parametrize(
    ("statement", "row"),
    (
        (CSV, b'1,"a"b",\\N,1\n'),
        (CSV, b'1,"a\\b",\\N,1\n'),
        (CSV, b'1,"a\nb",\\N,1\n'),
        (CSV, b'1,"a""b",\\N,1\n'),
        (CSV, b"1,a,\\N,1\n"),
        (CSV, b"1,NULL,\\N,1\n"),
        (CSV, b'1,"a",\\N\n'),
        (CSV, b'1,"a",\\N,1'),
        (TABS, b'1\ta"b\t\\N\t1\n'),
        (TABS, b"1\ta\tb\t\\N\t1\n"),
        (TABS, b"1\ta\0b\t\\N\t1\n"),
        (TABS, b"1\ta\t\\N\t1"),
    ),
)
def test_rows_that_are_not_written_so_are_refused(tmp_path: Path, statement: str, row: bytes) -> None:
    assert "d.t.00000.dat: byte" in refused(dump(tmp_path / "dump", INTO + statement + COLUMNS, row))


def test_each_file_of_rows_and_its_statement_belong_together(tmp_path: Path) -> None:
    whole = INTO + CSV + COLUMNS

    missing = dump(tmp_path / "missing", whole, None)
    assert "expected rows of t in d.t.00000.dat beside it, got no such file" in refused(missing)
    lonely = dump(tmp_path / "lonely", whole, AS_CSV)
    (lonely / "d.t.00000.sql").unlink()
    assert "expected the SQL file that loads it beside it" in refused(lonely)
    unread = dump(tmp_path / "unread", "", AS_CSV)
    assert "expected the LOAD DATA of d.t.00000.dat, got none" in refused(unread)
    both = dump(tmp_path / "both", "INSERT INTO `t` VALUES (1,'a',NULL,NULL);\n", AS_CSV)
    assert "expected each file of the dump once, got d.t.00000.dat too" in refused(both)
    twice = dump(tmp_path / "twice", whole, AS_CSV)
    (twice / "d.t.00000.dat.zst").write_bytes(zstandard.compress(AS_CSV))
    assert "expected each file of the dump once, got d.t.00000.dat too" in refused(twice)
    other = dump(tmp_path / "other", whole.replace("00000.dat", "00001.dat"), AS_CSV)
    assert "expected rows of t in d.t.00001.dat beside it" in refused(other)


def test_rows_are_counted_against_metadata_by_either_name(tmp_path: Path) -> None:
    """0.16 tells a table's own name where its files have another."""
    path = dump(tmp_path / "dump", INTO.replace("d.t.", "mydumper_0.t.") + CSV + COLUMNS, None)
    for file in sorted(path.glob("d*")):
        file.rename(path / file.name.replace("d", "mydumper_0", 1))
    (path / "mydumper_0.t.00000.dat").write_bytes(AS_CSV)

    (path / "metadata").write_text(METADATA.replace("# Fin", "[`d`.`t`]\nrows = 4\n# Fin"))
    assert tables(path) == {("d", "t"): ROWS}
    (path / "metadata").write_text(METADATA.replace("# Fin", "[`d`.`t`]\nrows = 5\n# Fin"))
    assert "expected 5 rows of mydumper_0.t, as metadata says, got 4" in refused(path)


def test_a_database_of_which_files_have_a_stand_in_alone_is_refused(tmp_path: Path) -> None:
    """`mydumper_0` stands for a name that can't be a file's, which the file of its CREATE DATABASE tells."""
    path = dump(tmp_path / "dump", INTO.replace("d.t.", "mydumper_0.t.") + CSV + COLUMNS, None)
    for file in sorted(path.glob("d*")):
        file.rename(path / file.name.replace("d", "mydumper_0", 1))
    (path / "mydumper_0.t.00000.dat").write_bytes(AS_CSV)
    (path / "mydumper_0-schema-create.sql").unlink()

    assert "expected the name of the table's database in the file's, got none" in refused(path)
