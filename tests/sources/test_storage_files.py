"""Landing a storage-sink tree while it grows: everything once, nothing half, nothing listed twice (T108,
T109, T111).
"""

import errno
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.formats.ticdc.storage_gaps import first_commit_ts
from lakehouse.formats.ticdc.storage_layout import DataFile, classify
from lakehouse.sources.file_systems import FileInfo, FileSystem, LocalFiles
from lakehouse.sources.storage_files import Scan, new_files
from lakehouse.sources.storage_tree import read_tree

HOUR = 3_600_000
NOON = 1_795_262_400_000  # 2026-11-21 12:00 UTC, in ms
CSV = {"protocol": "csv", "include-commit-ts": "true", "terminator": "\n"}


def tso(milliseconds: int) -> int:
    return milliseconds << 18


class Tree:
    """A file system in memory that counts what is asked of it; `now` is the time of what is written."""

    is_listed = False

    def __init__(self) -> None:
        self.files: dict[str, tuple[bytes, int]] = {}
        self.now = NOON
        self.before_list: Callable[[], None] = lambda: None
        self.forget()

    def forget(self) -> None:
        self.lists, self.listed, self.stats, self.reads = 0, 0, 0, 0

    def put(self, path: str, data: bytes = b"row\n") -> None:
        self.files[path] = (data, self.now)

    def index(self, folder: str, name: str, place: str = "meta/CDC.index") -> None:
        self.put(f"{folder}/{place}", name.encode() + b"\n")

    def checkpoint(self, milliseconds: int) -> None:
        self.put("metadata", b'{"checkpoint-ts":%d}' % tso(milliseconds))

    def list_dir(self, path: str) -> list[FileInfo]:
        self.before_list()
        prefix = f"{path}/" if path else ""
        names = {file[len(prefix) :].partition("/")[0] for file in self.files if file.startswith(prefix)}
        found = [self.info(prefix + name) or FileInfo(prefix + name, 0, 0, True) for name in sorted(names)]
        self.lists, self.listed = self.lists + 1, self.listed + len(found)
        return found

    def info(self, path: str) -> FileInfo | None:
        return FileInfo(path, len(self.files[path][0]), self.files[path][1]) if path in self.files else None

    def stat(self, path: str) -> FileInfo | None:
        self.stats += 1
        return self.info(path)

    def read(self, path: str, start: int = 0) -> bytes:
        self.reads += 1
        return self.files[path][0][start:] if path in self.files else b""


class Lander:
    """What bronze does: lands a scan, and remembers paths with size and time, and the checkpoint of the last
    whole scan.
    """

    def __init__(self, files: FileSystem, options: dict[str, str]) -> None:
        self.files, self.options = files, options
        self.landed: dict[str, tuple[int, int]] = {}
        self.contents: dict[str, list[bytes]] = {}
        self.done: int | None = None

    def scan(self, sweep: bool = False) -> Scan:
        scan = new_files(self.files, self.landed, self.options, self.done, sweep)
        for info in scan.files:
            self.landed[info.path] = (info.size, info.mtime)
            self.contents.setdefault(info.path, []).append(self.files.read(info.path))
        self.done = scan.checkpoint or self.done
        return scan

    def paths(self, sweep: bool = False) -> list[str]:
        return [info.path for info in self.scan(sweep).files]


def schema_file(version: int, table: str = "d/t") -> str:
    return f"{table}/meta/schema_{version}_0000000001.json"


@pytest.fixture
def tree() -> Tree:
    tree = Tree()
    tree.put(schema_file(tso(NOON - 9)), b"{}")
    tree.put(f"d/t/{tso(NOON - 9)}/2026-11-21/CDC000001.csv")
    tree.index(f"d/t/{tso(NOON - 9)}/2026-11-21", "CDC000001.csv")
    tree.checkpoint(NOON - 5)
    return tree


def test_schema_files_land_before_data_and_the_checkpoint_is_that_of_before_the_listing(tree: Tree) -> None:
    scan = new_files(tree, {}, CSV)

    assert [info.path for info in scan.files] == [
        schema_file(tso(NOON - 9)),
        f"d/t/{tso(NOON - 9)}/2026-11-21/CDC000001.csv",
    ]
    assert scan.metadata == tree.files["metadata"][0]
    assert scan.checkpoint == tso(NOON - 5)


def test_the_checkpoint_is_read_before_anything_is_listed(tree: Tree) -> None:
    tree.before_list = lambda: tree.checkpoint(NOON + HOUR)

    assert new_files(tree, {}, CSV).checkpoint == tso(NOON - 5)


def test_a_second_scan_lands_nothing_and_lists_no_data_folder(tree: Tree) -> None:
    lander = Lander(tree, CSV)
    lander.scan()
    tree.forget()

    assert lander.paths() == []
    assert (tree.lists, tree.stats) == (
        6,
        2,
    )  # root, d, d/t, d/t/meta, the version (for dates), the index's folder; last file and the next


def test_an_empty_and_a_half_written_file_wait_and_hold_nothing_else(tree: Tree) -> None:
    folder = f"d/t/{tso(NOON - 9)}/2026-11-21"
    tree.put(f"{folder}/CDC000002.csv", b"")
    tree.put(f"{folder}/CDC000003.csv", b"row\nro")
    tree.put(f"{folder}/CDC000004.csv")
    tree.put(schema_file(tso(NOON)), b'{"Table')
    lander = Lander(tree, CSV)

    first = lander.scan()
    tree.put(f"{folder}/CDC000002.csv")
    tree.put(f"{folder}/CDC000003.csv", b"row\nrow\n")
    tree.put(schema_file(tso(NOON)), b"{}")
    second = lander.scan()

    assert first.pending == sorted(
        [f"{folder}/CDC000002.csv", f"{folder}/CDC000003.csv", schema_file(tso(NOON))]
    )
    assert f"{folder}/CDC000004.csv" in [info.path for info in first.files]
    assert (first.metadata, first.checkpoint) == (None, None)
    assert [info.path for info in second.files] == [
        schema_file(tso(NOON)),
        f"{folder}/CDC000002.csv",
        f"{folder}/CDC000003.csv",
    ]
    assert (second.pending, second.checkpoint) == ([], tso(NOON - 5))


def test_what_a_crash_left_half_written_lands_once_the_checkpoint_has_passed_it(tree: Tree) -> None:
    tree.put(f"d/t/{tso(NOON - 9)}/2026-11-21/CDC000002.csv", b"row\nro")
    lander = Lander(tree, CSV)
    lander.scan()

    tree.checkpoint(NOON + HOUR)

    assert lander.paths() == [f"d/t/{tso(NOON - 9)}/2026-11-21/CDC000002.csv"]


def test_an_empty_file_never_lands(tree: Tree) -> None:
    tree.put(f"d/t/{tso(NOON - 9)}/2026-11-21/CDC000002.csv", b"")
    tree.checkpoint(NOON + HOUR)

    scan = Lander(tree, CSV).scan()

    assert [info.size for info in scan.files if not info.size] == []
    assert (scan.pending, scan.checkpoint) == ([], tso(NOON + HOUR))


def test_an_index_may_name_a_file_that_is_not_there_yet(tree: Tree) -> None:
    folder = f"d/t/{tso(NOON - 9)}/2026-11-21"
    lander = Lander(tree, CSV)
    lander.scan()

    tree.index(folder, "CDC000002.csv")
    waiting = lander.scan()
    tree.put(f"{folder}/CDC000002.csv")

    assert waiting.pending == [f"{folder}/CDC000002.csv"]
    assert lander.paths() == [f"{folder}/CDC000002.csv"]


def test_an_index_that_names_an_absurd_number_is_not_followed(tree: Tree) -> None:
    lander = Lander(tree, CSV)
    lander.scan()
    tree.forget()

    tree.index(f"d/t/{tso(NOON - 9)}/2026-11-21", f"CDC{2**62}.csv")
    tree.put(f"d/t/{tso(NOON - 9)}/2026-11-21/CDC000002.csv")

    assert len(lander.paths()) == 1
    assert tree.stats == 0


def test_a_file_that_its_index_does_not_tell_yet_is_found(tree: Tree) -> None:
    lander = Lander(tree, CSV)
    lander.scan()

    tree.put(f"d/t/{tso(NOON - 9)}/2026-11-21/CDC000002.csv")
    tree.put(f"d/t/{tso(NOON - 9)}/2026-11-21/CDC000003.csv")

    assert len(lander.paths()) == 2


def test_a_file_rewritten_after_a_crash_lands_again(tree: Tree) -> None:
    path = f"d/t/{tso(NOON - 9)}/2026-11-21/CDC000001.csv"
    lander = Lander(tree, CSV)
    lander.scan()

    tree.now += 1000
    tree.put(path, b"row\nrow\n")

    assert lander.paths() == [path]
    assert lander.contents[path] == [b"row\n", b"row\nrow\n"]
    assert lander.paths() == []


@pytest.mark.parametrize("before", (3, 40))
def test_a_writer_that_begins_again_at_1_in_an_emptied_folder_is_read(tree: Tree, before: int) -> None:
    """A changefeed that is created anew once its folder was emptied: paths are known, files are others."""
    folder = f"d/t/{tso(NOON - 9)}/2026-11-21"
    for number in range(2, before + 1):
        tree.put(f"{folder}/CDC{number:06}.csv")
    tree.index(folder, f"CDC{before:06}.csv")
    lander = Lander(tree, CSV)
    lander.scan(sweep=True)
    for path in [path for path in tree.files if path.startswith(folder)]:
        del tree.files[path]
    tree.now += 1000
    for number in range(1, 6):
        tree.put(f"{folder}/CDC{number:06}.csv", b"another row\n")
    tree.index(folder, "CDC000005.csv")
    tree.checkpoint(NOON - 3)

    assert lander.paths() == [f"{folder}/CDC{number:06}.csv" for number in range(1, 6)]


def test_no_index_is_read_where_the_tree_is_listed_already(tree: Tree) -> None:
    lander, folder = Lander(tree, CSV), f"d/t/{tso(NOON - 9)}/2026-11-21"
    tree.is_listed = True
    lander.scan()
    tree.put(f"{folder}/CDC000002.csv")
    lander.scan()
    tree.now += 1
    tree.put(f"{folder}/CDC000001.csv", b"another row\n")
    tree.forget()

    scan = new_files(tree, lander.landed, CSV, lander.done)

    assert [info.path for info in scan.files] == [f"{folder}/CDC000001.csv"]
    assert tree.reads == 2  # the checkpoint, and the end of the file


def test_a_new_dispatcher_in_a_folder_is_found(tree: Tree) -> None:
    folder = "d/u/5"
    tree.put(f"{folder}/CDC_11_000001.csv")
    tree.index(folder, "CDC_11_000001.csv", "meta/CDC_11.index")
    lander = Lander(tree, CSV)
    lander.scan()

    tree.put(f"{folder}/CDC_222_000001.csv")
    tree.index(folder, "CDC_222_000001.csv", "meta/CDC_222.index")

    assert lander.paths() == [f"{folder}/CDC_222_000001.csv"]


def test_a_folder_without_an_index_is_listed_and_numbers_may_outgrow_their_width(tree: Tree) -> None:
    tree.put("d/old/5/schema.json", b"{}")
    tree.put("d/old/5/CDC000001.csv")
    tree.put("d/new/5/CDC999999.csv")
    tree.index("d/new/5", "CDC999999.csv")
    lander = Lander(tree, CSV)
    lander.scan()

    tree.put("d/old/5/CDC000002.csv")
    tree.put("d/new/5/CDC1000000.csv")
    tree.index("d/new/5", "CDC1000000.csv")

    assert lander.paths() == ["d/old/5/CDC000002.csv", "d/new/5/CDC1000000.csv"]


@pytest.mark.parametrize(("before", "after"), [(6, 20), (20, 6)])
def test_numbers_of_another_width_are_found(tree: Tree, before: int, after: int) -> None:
    """As behind a change of file-index-width, or an upgrade from a release that had another default."""
    lander = Lander(tree, CSV)
    tree.put(f"d/new/5/CDC{1:0{before}}.csv")
    tree.index("d/new/5", f"CDC{1:0{before}}.csv")
    lander.scan()

    for number in (2, 3, 4):
        tree.put(f"d/new/5/CDC{number:0{after}}.csv")
    tree.index("d/new/5", f"CDC{3:0{after}}.csv")

    assert lander.paths() == [f"d/new/5/CDC{number:0{after}}.csv" for number in (2, 3, 4)]


def test_closed_folders_are_not_looked_at_but_by_a_sweep(tree: Tree) -> None:
    lander = Lander(tree, CSV)
    lander.scan()
    tree.put(schema_file(tso(NOON)), b"{}")
    tree.put(f"d/t/{tso(NOON)}/2026-11-21/CDC000001.csv")
    tree.checkpoint(NOON + HOUR)
    assert len(lander.paths()) == 2
    late = f"d/t/{tso(NOON - 9)}/2026-11-21/CDC000002.csv"

    tree.put(late)

    assert lander.paths() == []
    assert lander.paths(sweep=True) == [late]


def test_a_statement_of_the_database_closes_no_folder_of_a_table_named_meta(tree: Tree) -> None:
    lander, version = Lander(tree, CSV), tso(NOON - 9)
    tree.put(schema_file(version, "d/meta"), b"{}")
    lander.scan()
    tree.put(schema_file(tso(NOON), "d"), b"{}")
    tree.checkpoint(NOON + HOUR)
    lander.scan()
    late = f"d/meta/{version}/2026-11-21/CDC000001.csv"

    tree.put(late)

    assert lander.paths() == [late]


@pytest.mark.parametrize(
    ("statements", "rows"), [("110", "112"), ("k/t", "k/T"), ("k/t", "K/t"), ("d/elsewhere", "d/t")]
)
def test_a_folder_gains_rows_again_once_its_columns_are_as_they_were_and_no_statement_is_beside_it(
    statements: str, rows: str
) -> None:
    """With use-table-id-as-path a statement's schema file is in the table's folder, that of a partition's
    rows in the partition's, and so it is with capitals; a statement may have none at all, filtered or lost
    (pingcap/ticdc#4398). The writer finds none of its own version then, and takes the newest of equal
    checksum, which may be older than others.
    """
    tree, (created, added, dropped) = Tree(), (tso(NOON + ms) for ms in (0, 10, 20))
    lander = Lander(tree, CSV | {"use-table-id-as-path": str(rows.isdecimal()).lower()})
    for version, checksum in ((created, 1), (added, 2)):
        tree.put(f"{rows}/meta/schema_{version}_000000000{checksum}.json", b"{}")
        tree.put(f"{rows}/{version}/CDC000001.csv")
        tree.index(f"{rows}/{version}", "CDC000001.csv")
        tree.put(f"{statements}/meta/schema_{version}_000000000{checksum}.json", b"{}")
    tree.put(f"{statements}/meta/schema_{dropped}_0000000001.json", b"{}")
    tree.checkpoint(NOON + HOUR)
    lander.scan()

    tree.put(f"{rows}/{created}/CDC000002.csv")
    tree.index(f"{rows}/{created}", "CDC000002.csv")

    assert lander.paths() == [f"{rows}/{created}/CDC000002.csv"]


def test_version_0_is_open_for_it_has_no_schema_file(tree: Tree) -> None:
    """Where a table's schema files are of other checksums, releases until 2023 wrote rows to version 0
    (pingcap/tiflow#10284), which had been there before the next versions or came behind them.
    """
    lander = Lander(tree, CSV)
    tree.checkpoint(NOON + HOUR)
    lander.scan()

    tree.put("d/t/0/2026-11-21/CDC000001.csv")

    assert lander.paths() == ["d/t/0/2026-11-21/CDC000001.csv"]


def test_a_name_that_is_no_utf8_is_reported_in_words_that_can_be_printed(tree: Tree) -> None:
    version = tso(NOON - 9)
    for path in (f"d/t/{version}/CDC00000\udcff.csv", "d/t/\udcff/x", f"\udcff/t/{version}/CDC000001.csv"):
        tree.put(path)

    scan = new_files(tree, {}, CSV)

    assert [other.path for other in scan.unknown] == [
        r"d/t/\udcff",
        rf"d/t/{version}/CDC00000\udcff.csv",
        rf"\udcff/t/{version}/CDC000001.csv",
    ]
    assert all(info.path.isascii() for info in scan.files)


def lacking(scan: Scan) -> list[str]:
    return sorted(file.path for file in scan.missing)


def row_at(milliseconds: int) -> bytes:
    return b'"I","t","d",%d,1\n' % tso(milliseconds)


def test_a_number_that_is_lacking_before_others_is_lost(tree: Tree) -> None:
    folder = f"d/t/{tso(NOON - 9)}/2026-11-21"
    for name in ("CDC000004.csv", "CDC_7_000001.csv", "CDC_7_000003.csv"):
        tree.put(f"{folder}/{name}", row_at(NOON - 6))
    lost = [f"{folder}/CDC000002.csv", f"{folder}/CDC_7_000002.csv"]

    scan = new_files(tree, {}, CSV)
    assert (lacking(scan), scan.checkpoint, scan.pending) == (lost, tso(NOON - 5), [])

    landed = {f"{folder}/CDC{number:06}.csv": (4, NOON) for number in (2, 3)} | {
        f"{folder}/CDC_7_000002.csv": (4, NOON)
    }
    assert lacking(new_files(tree, landed, CSV)) == [], "they have landed, and were deleted since"


@pytest.mark.parametrize("is_listed", [False, True])
@pytest.mark.parametrize("there", [("CDC000001.csv",), ("CDC000001.csv", "CDC000002.csv")])
def test_the_last_file_is_lost_where_the_index_names_it_and_the_checkpoint_is_past_it(
    tree: Tree, there: tuple[str, ...], is_listed: bool
) -> None:
    """Nothing had shown it, and the table was called exact."""
    tree.is_listed = is_listed
    folder = f"d/t/{tso(NOON - 9)}/2026-11-21"
    for name in there:
        tree.put(f"{folder}/{name}", row_at(NOON - 6))
    tree.now += 1
    tree.index(folder, "CDC000003.csv")
    lost = f"{folder}/CDC{len(there) + 1:06}.csv"
    lander = Lander(tree, CSV)

    scan = lander.scan()
    assert (lacking(scan), scan.checkpoint) == ([], tso(NOON - 5))
    assert scan.pending == [f"{folder}/CDC000003.csv"], "on its way"

    tree.checkpoint(NOON + HOUR)
    assert lacking(lander.scan()) == [lost], "by its index, where a folder is not listed"
    assert lacking(lander.scan(sweep=True)) == [lost]

    tree.put(f"{folder}/CDC000003.csv", row_at(NOON - 6))
    tree.put(lost, row_at(NOON - 6))
    assert lacking(lander.scan()) == []


def test_no_last_file_is_lost_which_a_dead_writer_announced_or_that_has_landed_or_expired(tree: Tree) -> None:
    table = f"d/t/{tso(NOON - 9)}"
    tree.put(f"{table}/2026-11-21/CDC_7_000001.csv", row_at(NOON - 6))
    tree.index(f"{table}/2026-11-21", "CDC_7_000002.csv", "meta/CDC_7.index")
    tree.index(f"{table}/2026-11-20", "CDC000004.csv")
    tree.put(f"{table}/2026-11-22/CDC000001.csv", row_at(NOON - 6))
    tree.index(f"{table}/2026-11-22", "CDC000002.csv")
    tree.checkpoint(NOON + HOUR)

    assert lacking(new_files(tree, {f"{table}/2026-11-22/CDC000002.csv": (4, NOON)}, CSV)) == []


def test_a_number_is_late_until_the_checkpoint_is_past_what_lies_behind_it(tree: Tree) -> None:
    folder = f"d/t/{tso(NOON - 9)}/2026-11-21"
    tree.put(f"{folder}/CDC000003.csv", row_at(NOON - 4))
    lander = Lander(tree, CSV)

    scan = lander.scan()
    assert (lacking(scan), scan.checkpoint) == ([], None), "the checkpoint waits"
    assert scan.pending == [f"{folder}/CDC000002.csv"]

    tree.checkpoint(NOON - 3)
    scan = lander.scan()
    assert (lacking(scan), scan.checkpoint) == ([f"{folder}/CDC000002.csv"], tso(NOON - 3))

    tree.put(f"{folder}/CDC000002.csv")
    scan = lander.scan()
    assert (lacking(scan), [info.path for info in scan.files]) == ([], [f"{folder}/CDC000002.csv"])
    assert folder in scan.looked


def test_a_version_behind_the_checkpoint_lacks_nothing_yet_and_holds_nothing(tree: Tree) -> None:
    tree.put(f"d/t/{tso(NOON)}/2026-11-21/CDC000002.csv", row_at(NOON + 1))

    scan = new_files(tree, {}, CSV)

    assert (lacking(scan), scan.checkpoint) == ([], tso(NOON - 5))


def test_a_folder_read_by_its_index_lacks_what_it_lacked_when_it_was_listed(tree: Tree) -> None:
    folder = f"d/t/{tso(NOON - 9)}/2026-11-21"
    tree.put(f"{folder}/CDC000003.csv", row_at(NOON - 6))
    tree.index(folder, "CDC000003.csv")
    lander = Lander(tree, CSV)

    assert lacking(lander.scan()) == lacking(lander.scan()) == [f"{folder}/CDC000002.csv"]


def test_the_first_files_of_a_tables_earliest_day_may_have_expired(tree: Tree) -> None:
    """`file-expiration-days` deletes whole days, file by file; a feed that begins later never had them."""
    table = f"d/u/{tso(NOON - 9)}"
    for path in ("2026-11-20/CDC000003.csv", "2026-11-21/CDC000002.csv"):
        tree.put(f"{table}/{path}", row_at(NOON - 6))

    assert lacking(new_files(tree, {}, CSV)) == [f"{table}/2026-11-21/CDC000001.csv"]

    landed = {f"{table}/2026-11-19/CDC000001.csv": (4, NOON)}
    assert lacking(new_files(tree, landed, CSV)) == [
        f"{table}/2026-11-20/CDC000001.csv",
        f"{table}/2026-11-21/CDC000001.csv",
    ], "the feed was there before them"


def test_rows_without_commit_ts_are_lacking_at_once(tree: Tree) -> None:
    folder = f"d/t/{tso(NOON - 9)}/2026-11-21"
    tree.put(f"{folder}/CDC000003.csv")

    assert lacking(new_files(tree, {}, {**CSV, "include-commit-ts": "false"})) == [f"{folder}/CDC000002.csv"]


@pytest.mark.parametrize(
    ("options", "data"),
    [
        (CSV, row_at(7)),
        (
            CSV,
            b"ticdc-meta$operation,ticdc-meta$table,ticdc-meta$schema,ticdc-meta$commit-ts,id\n" + row_at(7),
        ),
        ({**CSV, "quote": "", "delimiter": "|"}, b"I|a\\|b|d|%d|1\n" % tso(7)),
        (
            {"protocol": "canal-json", "enable-tidb-extension": "true"},
            b'{"id":0,"_tidb":{"commitTs":%d}}\r\n{"id"' % tso(7),
        ),
    ],
)
def test_the_commit_ts_of_a_files_first_row(options: dict[str, str], data: bytes) -> None:
    file = classify(f"d/t/5/CDC000001.{'csv' if 'terminator' in options else 'json'}", options)
    assert isinstance(file, DataFile)

    assert first_commit_ts(file, data, options) == tso(7)
    assert [first_commit_ts(file, data[:end], options) for end in (0, 5)] == [None, None]


def test_what_is_not_understood_is_reported(tree: Tree) -> None:
    tree.put("d/t/a/5/CDC000001.csv")
    tree.put("d/t/5/CDC000001.csv.tmp.1")

    scan = new_files(tree, {}, CSV)

    assert [other.path for other in scan.unknown] == ["d/t/a", "d/t/5/CDC000001.csv.tmp.1"]


def test_a_past_date_is_closed_once_the_checkpoint_is_past_it_in_every_zone(tree: Tree) -> None:
    lander = Lander(tree, CSV)
    tree.checkpoint(NOON + 24 * HOUR + 59 * 60_000)
    lander.scan()
    tree.put(f"d/t/{tso(NOON - 9)}/2026-11-21/CDC000002.csv")
    assert len(lander.paths()) == 1
    tree.checkpoint(NOON + 26 * HOUR)
    lander.scan()

    tree.put(f"d/t/{tso(NOON - 9)}/2026-11-21/CDC000003.csv")

    assert lander.paths() == []


def test_ten_thousand_files_are_landed_once_and_a_new_one_costs_a_few_calls() -> None:
    tree = Tree()
    for table in range(10):
        folder = f"d/t{table}/5"
        tree.put(schema_file(5, f"d/t{table}"), b"{}")
        for number in range(1, 1001):
            tree.put(f"{folder}/CDC{number:020}.csv")
        tree.index(folder, f"CDC{1000:020}.csv")
    tree.checkpoint(NOON + HOUR)
    lander = Lander(tree, CSV)

    assert len(lander.paths()) == 10_010
    tree.forget()
    tree.put(f"d/t3/5/CDC{1001:020}.csv")
    tree.index("d/t3/5", f"CDC{1001:020}.csv")

    assert lander.paths() == [f"d/t3/5/CDC{1001:020}.csv"]
    assert tree.lists == 2 + 3 * 10
    assert tree.listed < 100
    assert tree.stats == 2 * 10 + 1
    assert tree.reads == 1 + 10 + 1  # metadata, the indexes, and the lander's own


# A writer and a reader in any order of steps


@st.composite
def scripts(draw: st.DrawFn) -> list[tuple[str, int]]:
    """Steps of a writer and a reader; a step's number chooses a table, or how far time goes."""
    step = st.sampled_from(["rows", "rows", "half", "ddl", "restart", "checkpoint", "time", "scan", "scan"])
    return draw(st.lists(st.tuples(step, st.integers(0, 2)), max_size=40))


class Writer:
    """A sink that writes as TiCDC does: a file at a time, the index before or behind it, a number again where
    its file is not whole.
    """

    def __init__(self, tree: Tree, dated: bool, index_first: bool) -> None:
        self.tree, self.dated, self.index_first = tree, dated, index_first
        self.version, self.half, self.number = [1, 1, 1], ["", "", ""], dict[str, int]()
        self.rows = 0
        self.complete = dict[int, int]()  # rows that were whole, per checkpoint
        for table in range(3):
            tree.put(schema_file(tso(1), f"d/t{table}"), b"{}")

    def folder(self, table: int) -> str:
        day = 21 + (self.tree.now - NOON) // (24 * HOUR)
        return f"d/t{table}/{tso(self.version[table])}" + (f"/2026-11-{day}" if self.dated else "")

    def write(self, table: int, whole: bool) -> None:
        folder = self.folder(table)
        if not self.half[table].startswith(folder):
            self.number[folder] = self.number.get(folder, 0) + 1
        path = f"{folder}/CDC{self.number[folder]:06}.csv"
        row = b"<%d>\n" % (self.rows + 1)
        for step in ("index", "data") if self.index_first else ("data", "index"):
            if step == "index":
                self.tree.index(folder, path.rpartition("/")[2])
            else:
                self.tree.put(path, row if whole else row[: len(row) // 2])
        self.half[table] = "" if whole else path
        self.rows += whole

    def step(self, step: str, number: int) -> None:
        match step:
            case "rows":
                self.write(number, True)
            case "half":
                self.write(number, False)
            case "ddl":
                self.tree.now += 1
                self.version[number] = self.tree.now
                self.tree.put(schema_file(tso(self.tree.now), f"d/t{number}"), b"{}")
                self.tree.now += 1
            case "time":
                self.tree.now += (1, HOUR, 40 * HOUR)[number]
            case "checkpoint":
                self.tree.checkpoint(self.tree.now - 1)
                self.complete[tso(self.tree.now - 1)] = self.rows
                self.tree.now += 1


@settings(max_examples=300, deadline=None)
@given(scripts(), st.booleans(), st.booleans(), st.booleans())
def test_at_every_checkpoint_that_lands_all_rows_up_to_it_have_landed(
    script: list[tuple[str, int]], dated: bool, index_first: bool, racing: bool
) -> None:
    tree = Tree()
    writer, lander = Writer(tree, dated, index_first), Lander(tree, CSV)
    steps = [*script, ("checkpoint", 0), ("scan", 0)]

    def write_while_listing() -> None:
        if steps and steps[0][0] != "scan":
            writer.step(*steps.pop(0))

    tree.before_list = write_while_listing if racing else tree.before_list
    while steps:
        step, number = steps.pop(0)
        writer.step(step, number)
        if step == "scan":
            scan = lander.scan()
            landed = b"".join(data for datas in lander.contents.values() for data in datas)
            if scan.checkpoint is not None:
                assert set(range(1, writer.complete[scan.checkpoint] + 1)) <= {
                    int(row) for row in re.findall(rb"<(\d+)>\n", landed)
                }
    lander.scan()
    assert lander.scan().files == []
    assert lander.scan(sweep=True).files == []


# This machine's files


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "root" / "d").mkdir(parents=True)
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "root" / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "root" / "up").symlink_to(tmp_path)
    (tmp_path / "root" / "d" / "file").write_bytes(b"abc")
    yield tmp_path


def test_local_files_are_listed_stat_and_read(outside: Path) -> None:
    files = LocalFiles(outside / "root")
    os.utime(outside / "root" / "d" / "file", ns=(0, 1_234_567_890))

    assert [(info.path, info.is_dir) for info in files.list_dir("")] == [("d", True)]
    assert files.list_dir("d") == [FileInfo("d/file", 3, 1234)]
    assert files.stat("d/file") == FileInfo("d/file", 3, 1234)
    assert (files.read("d/file"), files.read("d/file", 1), files.read("d/none")) == (b"abc", b"bc", b"")
    assert (files.stat("none"), files.list_dir("none")) == (None, [])


@pytest.mark.parametrize(
    "path", ["../secret", "d/../../secret", "/etc/passwd", "link", "up/secret", "up", "a\0b"]
)
def test_a_path_never_leaves_its_root(outside: Path, path: str) -> None:
    files = LocalFiles(outside / "root")

    assert (files.read(path), files.stat(path), files.list_dir(path)) == (b"", None, [])


def test_a_tree_is_read_in_landing_order_with_its_schemas_and_its_checkpoint_last(tmp_path: Path) -> None:
    content = {
        "metadata": b'{"checkpoint-ts":7}',
        "d/t/6/CDC000001.csv": b"b\n",
        "d/t/5/CDC_1_000001.csv": b"a\n",
        "d/t/5/CDC_2_000001.csv": b"a\n",
        "d/t/5/CDC_2_000002.csv": b"",
        "d/t/5/meta/CDC_1.index": b"CDC_1_000001.csv\n",
        schema_file(5): b"{}",
        "notes.txt": b"x",
    }
    for path, data in content.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)

    messages = list(read_tree(tmp_path, CSV))

    assert [message.path for message in messages] == [
        schema_file(5),
        "d/t/5/CDC_1_000001.csv",
        "d/t/5/CDC_2_000001.csv",
        "d/t/6/CDC000001.csv",
        "metadata",
    ]
    assert [message.offset for message in messages] == [0, 1, 2, 3, 4]
    assert [dict(message.headers) for message in messages] == [
        {},
        {"schema": b"{}"},
        {"schema": b"{}", "dispatchers": b"2"},
        {},
        {},
    ]


def test_what_is_there_and_can_t_be_looked_at_is_no_file_that_is_not_there(tmp_path: Path) -> None:
    class Entry:
        """A file of a storage that fails."""

        def __init__(self, error: int) -> None:
            self.error = error

        def is_symlink(self) -> bool:
            return False

        def stat(self, *, follow_symlinks: bool) -> None:
            raise OSError(self.error, "")

    files: Any = LocalFiles(tmp_path)

    assert files._child("a", Entry(errno.ENOENT)) is None
    with pytest.raises(OSError, match="Errno"):
        files._child("a", Entry(errno.EIO))
    assert files.list_dir("nowhere") == []
    (tmp_path / "file").touch()
    assert files.list_dir("file") == []
