"""`run` over a storage sink's folder that grows, as its YAML names it: a local folder, and a URL that Spark
reads.
"""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from lakehouse.config.load import load
from lakehouse.errors import EnvironmentError_
from lakehouse.fold.row_edits import OLD_ROW_STAYS
from lakehouse.formats.ticdc.storage_layout import DataFile
from lakehouse.ops.records.bronze import MissingFile
from lakehouse.sources.file_systems import FileInfo, LocalFiles, all_files
from lakehouse.sources.storage_files import Scan
from lakehouse.sources.storage_tree import read_tree
from lakehouse.spark.bronze import storage
from lakehouse.spark.lake import Lake
from lakehouse.spark.operations.dead_letters import dismiss_dead_letters, list_dead_letters
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.ops.run_context import LandedFiles, RunContext
from lakehouse.spark.pipeline.run import run
from lakehouse.spark.readers.status import source_status
from lakehouse.spark.table_versions import Commit
from tests.support.encode_open import dumps
from tests.support.encode_tidb import storage_tree
from tests.support.engine import Memory
from tests.support.killable import Killed, killing
from tests.support.lakes import in_order, quiet, shown
from tests.support.sink_trees import old_layout
from tests.support.source_model import History
from tests.whole_path.test_eight_formats import storage_options, write_tree

ROWS = [f'"I","t","k",60{number},{number},{number}0' for number in (1, 2, 3, 4)]
LACKING = DataFile(
    "k/t/500/CDC000002.csv",
    *("k", "t", None, 500, None, None, None),
    number=2,
    extension="csv",
    layout="names",
)
SOURCE = "format: ticdc-storage\nstorage: {path: %s}\ntables: auto\nlake: %s\ntime_zone: %s\noptions:\n%s"
HISTORY = History(11, 14)
LATE = storage_tree(HISTORY.events, "csv")
# where to cut the history so that the file under way is written anew, longer
CUTS = (
    storage_tree(HISTORY.events[:count], "csv")
    for count in range(len(HISTORY.events) // 2, len(HISTORY.events))
)
EARLY = next(
    early
    for early in CUTS
    if any(path.endswith(".csv") and LATE[path] != data for path, data in early.items())
)


def configured(tmp_path: Path, path: str, settings: dict[str, str] | None = None) -> Any:
    """The configuration of a folder with one source of a sink."""
    said = settings or storage_options("csv")
    options = "".join(f"  {name}: '{value}'\n" for name, value in said.items() if name != "time_zone")
    folder = tmp_path / "configs"
    (folder / "sources").mkdir(parents=True)
    (folder / "sources/sink.yml").write_text(
        SOURCE % (path, tmp_path / "lake", said.get("time_zone", "UTC"), options)
    )
    return load(folder)


def passed(config: Any) -> dict[str, Any]:
    (outcome,) = run(config, ("bronze", "silver", "gold"), True, (), None, quiet)
    return outcome


def engine(root: Path) -> dict[str, list[dict[str, Any]]]:
    silver = Memory("ticdc-storage", storage_options("csv")).add(read_tree(root, storage_options("csv")))
    assert silver.dead == []
    return in_order(silver.tables(silver.watermark))


@pytest.mark.parametrize("scheme", ["", pytest.param("file://", marks=pytest.mark.long)])
def test_a_folder_that_grows_gives_the_sources_tables_after_each_pass(
    spark: Any, tmp_path: Path, scheme: str
) -> None:
    root = tmp_path / "sink"
    early, late = EARLY, LATE
    config = configured(tmp_path, f"{scheme}{root}")
    write_tree(root, early)
    first, again = passed(config), passed(config)
    assert (first["new_messages"], again["new_messages"], again["gold"]) == (
        len(data_files(early)),
        0,
        "nothing new",
    )
    assert shown(tmp_path / "lake", tmp_path / "a") == engine(root)

    # a crash left a file of which only a part is there, and one that was begun before is written anew, longer
    changed = {path: data for path, data in data_files(late).items() if early.get(path) != data}
    torn = max(path for path in changed if path.endswith(".csv") and path not in early)
    assert any(path in early for path in changed)
    write_tree(root, {**changed, torn: late[torn][:-5]})
    assert passed(config)["new_messages"] == len(changed) - 1
    assert shown(tmp_path / "lake", tmp_path / "b") == engine_at(root, first)

    write_tree(
        root, {path: data for path, data in late.items() if path == torn or path not in data_files(late)}
    )
    assert passed(config)["new_messages"] == 1
    assert shown(tmp_path / "lake", tmp_path / "c") == engine(root)


def test_an_update_that_may_have_changed_its_key_leaves_the_table_incomplete(
    spark: Any, tmp_path: Path
) -> None:
    """6.5.0 sends the new image of an UPDATE alone, and splits none."""
    root = tmp_path / "sink"
    config = configured(tmp_path, str(root), {"protocol": "csv", "include-commit-ts": "true"})
    create = "CREATE TABLE `k`.`t` (`id` INT NOT NULL,`a` INT,PRIMARY KEY(`id`))"
    write_tree(root, old_layout(create, '"I","t","k",600,5,1'))
    (entry,) = passed(config)["tables"]
    assert entry["state"] == "exact"

    later = {"metadata": b'{"checkpoint-ts": 1000}', "k/t/500/CDC000002.csv": b'"U","t","k",910,7,1\r\n'}
    write_tree(root, later)
    (entry,) = passed(config)["tables"]

    assert entry["state"] == "incomplete"
    assert entry["why"].startswith(f"{OLD_ROW_STAYS}; set output-old-value=true (8.0 and later)")


def test_a_table_is_incomplete_while_the_sink_lacks_one_of_its_files(spark: Any, tmp_path: Path) -> None:
    root = tmp_path / "sink"
    config = configured(tmp_path, str(root), {"protocol": "csv", "include-commit-ts": "true"})
    files = old_layout("CREATE TABLE `k`.`t` (`id` INT NOT NULL,`a` INT,PRIMARY KEY(`id`))", *ROWS[:1])
    other = {path.replace("k/t", "k/u"): data.replace(b"`t`", b"`u`") for path, data in files.items()}
    write_tree(root, {**other, **files, "k/t/500/CDC000003.csv": f"{ROWS[2]}\r\n".encode()})
    (root / "k/u/500/CDC000001.csv").write_bytes(b'"I","u","k",600,1,10\r\n')
    why = "the storage sink lacks k/t/500/CDC000002.csv, though later files are there"

    t, u = passed(config)["tables"]
    assert (t["state"], u["state"]) == ("incomplete", "exact")
    assert t["why"].startswith(why)
    assert [one["origin"] for one in list_dead_letters(str(tmp_path / "lake"), "sink", "lost")] == [
        {"path": "k/t/500/CDC000002.csv"}
    ]
    assert source_status(spark, Lake(str(tmp_path / "lake")), "sink", None)["gaps"][0].startswith(why)

    assert dismiss_dead_letters(str(tmp_path / "lake"), "sink", "lost", "known")["dismissed"] == 1
    assert [one["state"] for one in passed(config)["tables"]] == ["exact", "exact"]

    (root / "k/t/500/CDC000005.csv").write_bytes(f"{ROWS[3]}\r\n".encode())
    assert [one["state"] for one in passed(config)["tables"]] == ["incomplete", "exact"]

    (root / "k/t/500/CDC000004.csv").write_bytes(f"{ROWS[1]}\r\n".encode())
    t, _ = passed(config)["tables"]
    assert t["why"].startswith("changes came after a watermark that had passed them")
    (root / "metadata").write_bytes(b'{"checkpoint-ts": 1000}')
    assert [one["state"] for one in passed(config)["tables"]] == ["exact", "exact"]
    assert shown(tmp_path / "lake", tmp_path / "a")["k.t"] == [
        {"id": number, "a": number * 10} for number in (1, 2, 3, 4)
    ]


def test_what_a_sink_lacks_stands_until_its_folder_is_looked_at_again() -> None:
    options = {"protocol": "csv", "include-commit-ts": "true"}
    nothing = Scan([], b"", 5, [], [], [], frozenset())
    known = storage.missing_after((), nothing._replace(missing=[LACKING]), 3, options)

    assert known == (MissingFile(LACKING.path, ("k", "t"), (3, 500, 2, 0, 0, 1)),)
    assert storage.missing_after(known, nothing, 4, options) == known, "its folder is closed"
    looked = nothing._replace(looked=frozenset({LACKING.folder}))
    assert storage.missing_after(known, looked._replace(missing=[LACKING]), 4, options) == known
    assert storage.missing_after(known, looked, 4, options) == ()
    found = [FileInfo(LACKING.path, 1, 1)]
    assert storage.missing_after(known, nothing._replace(files=found), 4, options) == ()


def data_files(files: dict[str, bytes]) -> dict[str, bytes]:
    return {path: data for path, data in files.items() if path != "metadata" and not path.endswith(".index")}


def engine_at(root: Path, outcome: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The tables at the watermark of an outcome, out of what the folder holds whole."""
    whole = [
        message
        for message in read_tree(root, storage_options("csv"))
        if message.value and not message.value.endswith(b'"')
    ]
    silver = Memory("ticdc-storage", storage_options("csv")).add(whole)
    return in_order(silver.tables(tuple(outcome["watermark"])))


def test_data_files_that_came_before_their_schema_file_count_once_it_is_there(
    spark: Any, tmp_path: Path
) -> None:
    """Though the run that landed them has died, and their batch is done again with the schema file there."""
    root, config = tmp_path / "sink", configured(tmp_path, str(tmp_path / "sink"))
    files = many(400_000_000_000_000_000, 2)
    schema = next(name for name in files if "schema" in name)
    other = {name.replace("d/t/", "d/u/"): data.replace(b'"t"', b'"u"') for name, data in files.items()}
    other = {name: data.replace(b"`t`", b"`u`") for name, data in other.items()}
    write_tree(root, {name: data for name, data in {**files, **other}.items() if name != schema})
    with (
        killing(type(spark), lambda name: name.startswith("ops done"), after=False),
        pytest.raises(Killed),
    ):
        passed(config)

    write_tree(root, {schema: files[schema]})
    found = passed(config)
    assert passed(config)["silver_batches"] == 0
    states = sorted((entry["table"], entry["state"], entry["why"]) for entry in found["tables"])
    assert states == [("d.t", "exact", None), ("d.u", "exact", None)]
    rows = [{"id": 1}, {"id": 2}]
    assert shown(tmp_path / "lake", tmp_path / "b") == in_order({"d.t": rows, "d.u": rows})


def test_a_remote_listing_has_names_that_begin_with_an_underscore_or_a_dot(
    spark: Any, tmp_path: Path
) -> None:
    """Spark hides such names where it comes upon them, and a table renamed by gh-ost begins as one."""
    root = f"file://{tmp_path}"
    assert storage.SparkFiles(spark, root, {}).list_dir("") == []

    paths = [
        f"{database}/{table}/1/CDC000001.csv" for database in ("_d", "d") for table in (".t", "_t_gho", "t")
    ]
    write_tree(tmp_path, dict.fromkeys([*paths, "_d/meta/schema_1_0000000001.json"], b"row\n"))

    files = storage.SparkFiles(spark, root, {})
    assert [info.path for info in all_files(files, "")] == sorted(
        [*paths, "_d/meta/schema_1_0000000001.json"]
    )

    write_tree(
        tmp_path, {"d/a:b/1/CDC000001.csv": b"row\n"}
    )  # no pattern takes a colon: then Spark's own listing has to do

    files = storage.SparkFiles(spark, root, {})
    assert [info.path for info in all_files(files, "")] == ["d/a:b/1/CDC000001.csv", "d/t/1/CDC000001.csv"]
    assert files.read("d/a:b/1/CDC000001.csv") == b"row\n"
    with pytest.raises(EnvironmentError_, match="expected to list d/_t_gho, but Spark hides it"):
        storage.SparkFiles(spark, root, {"d/_t_gho/1/CDC000001.csv": (4, 0), "d/t/1/CDC000001.csv": (4, 0)})


def test_a_remote_root_that_is_not_there_yet_holds_nothing_and_any_sign_may_be_in_its_name(
    spark: Any, tmp_path: Path
) -> None:
    """An object store has no folder before its first file; Spark takes some signs for a pattern."""
    root = tmp_path / "sink [a]{b}*"
    assert storage.SparkFiles(spark, f"file://{root}", {}).list_dir("") == []

    write_tree(root, {"metadata": b"{}", "d/t/1/CDC000001.csv": b"row\n"})
    files = storage.SparkFiles(spark, f"file://{root}/", {})

    assert [info.path for info in all_files(files, "")] == ["d/t/1/CDC000001.csv"]
    assert (files.read("metadata"), files.read("d/t/1/CDC000001.csv")) == (b"{}", b"row\n")


@pytest.mark.parametrize(
    ("root", "told"),
    [
        ("s3a://lake/lake", "s3a://lake/lake/d/t/CDC1.csv"),
        ("s3a://bucket", "s3a://bucket/d/t/CDC1.csv"),
        ("file:///tmp/d", "file:/tmp/d/d/t/CDC1.csv"),
        ("abfss://d@d.net/a/b", "abfss://d@d.net/a/b/d/t/CDC1.csv"),
        ("/Volumes/c/s/v", "dbfs:/Volumes/c/s/v/d/t/CDC1.csv"),
        ("dbfs:/Volumes/c/d", "/Volumes/c/d/d/t/CDC1.csv"),
        ("hdfs://host:8020/d", "hdfs://host:8020/d/d/t/CDC1.csv"),
    ],
)
def test_a_path_is_relative_to_its_root_whatever_the_root_is_called(root: str, told: str) -> None:
    assert storage.below(root, told) == "d/t/CDC1.csv"


@pytest.mark.parametrize(
    ("scan", "said"),
    [
        (
            Scan([], None, None, [], [], []),
            "the sink's `metadata` is not there or tells no checkpoint-ts, which gold waits for",
        ),
        (
            Scan([], None, None, ["a"], [], []),
            "1 files are not there or not whole yet, such as a: the checkpoint waits (a whole data file",
        ),
        (Scan([], b"", 5, ["a"], [], []), "1 files are not there or not whole yet, such as a"),
        (
            Scan([], b"", 5, [], [], [LACKING]),
            "1 files are lacking before later ones, such as k/t/500/CDC000002.csv: deleted or never copied",
        ),
    ],
)
def test_what_a_scan_could_not_take_is_said(scan: Scan, said: str) -> None:
    lines: list[str] = []

    storage.report(scan, "s", True, lines.append)

    assert [line.startswith(f"warning: s: {said}") for line in lines] == [True]


class Counting(LocalFiles):
    """Local files that count what is asked of them."""

    calls: ClassVar[Counter[str]] = Counter()

    def list_dir(self, path: str) -> list[FileInfo]:
        self.calls["list"] += 1
        return list(super().list_dir(path))

    def stat(self, path: str) -> FileInfo | None:
        self.calls["stat"] += 1
        return super().stat(path)

    def read(self, path: str, start: int = 0) -> bytes:
        self.calls["read"] += 1
        return super().read(path, start)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    monkeypatch.setattr(storage, "LocalFiles", Counting)
    Counting.calls = Counter()
    yield Counting.calls


@pytest.mark.parametrize("files", [300, pytest.param(10_000, marks=pytest.mark.long)])
def test_what_is_done_is_neither_listed_nor_read_again(
    spark: Any, tmp_path: Path, calls: Counter[str], files: int
) -> None:
    """The long form: `pytest -m long tests/spark/bronze/test_storage.py`."""
    root, config = tmp_path / "sink", configured(tmp_path, str(tmp_path / "sink"))
    ts = 400_000_000_000_000_000
    write_tree(root, many(ts, files))
    first = passed(config)
    assert first["new_messages"] == files + 1
    assert calls["read"] <= 3 * (files + 5)

    calls.clear()
    assert passed(config)["new_messages"] == 0
    assert (calls["list"] + calls["stat"], calls["read"]) <= (20, 4)

    calls.clear()
    write_tree(
        root,
        {
            name: data
            for name, data in many(ts, files + 1).items()
            if f"{files + 1:020}" in name or name.endswith(("metadata", "index"))
        },
    )
    assert passed(config)["new_messages"] == 1
    assert (calls["list"] + calls["stat"], calls["read"]) <= (20, 6)
    assert shown(tmp_path / "lake", tmp_path / "a") == in_order(
        {"d.t": [{"id": number} for number in range(1, files + 2)]}
    )


def many(ts: int, count: int) -> dict[str, bytes]:
    """One table, one row a file."""
    column = {
        "ColumnName": "id",
        "ColumnType": "INT",
        "ColumnPrecision": "11",
        "ColumnNullable": "false",
        "ColumnIsPk": "true",
    }
    schema = {
        "Table": "t",
        "Schema": "d",
        "Version": 1,
        "TableVersion": ts,
        "Query": "CREATE TABLE `d`.`t` (`id` INT PRIMARY KEY)",
        "Type": 3,
        "TableColumns": [column],
        "TableColumnsTotal": 1,
    }
    folder = f"d/t/{ts}/2026-11-21"
    rows = {
        f"{folder}/CDC{n:020}.csv": b'"I","t","d",%d,false,%d\r\n' % (ts + n, n) for n in range(1, count + 1)
    }
    index = {f"{folder}/meta/CDC.index": f"CDC{count:020}.csv\n".encode()}
    return {
        f"d/t/meta/schema_{ts}_0000000001.json": dumps(schema),
        **rows,
        **index,
        "metadata": dumps({"checkpoint-ts": ts + count}),
    }


def test_a_file_that_cannot_be_read_when_it_lands_is_landed_once_it_can(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was landed as an empty file under its true size, and never read again: its rows were missing in
    tables that were called exact.
    """
    root, config = tmp_path / "sink", configured(tmp_path, str(tmp_path / "sink"))
    write_tree(root, EARLY)
    away = root / max(path for path in data_files(EARLY) if path.endswith(".csv"))
    data, times, chunks = away.read_bytes(), away.stat(), storage.chunks

    def gone_meanwhile(files: list[FileInfo]) -> Iterator[list[FileInfo]]:
        away.unlink()
        return chunks(files)

    monkeypatch.setattr(storage, "chunks", gone_meanwhile)
    first = passed(config)
    monkeypatch.undo()
    assert first["new_messages"] == len(data_files(EARLY)) - 1
    assert {entry["state"] for entry in first["tables"]} <= {"retired"}, "gold waits for the checkpoint"

    away.write_bytes(data)
    os.utime(away, ns=(times.st_atime_ns, times.st_mtime_ns))
    second = passed(config)
    assert second["new_messages"] == 1
    assert {entry["state"] for entry in second["tables"]} <= {"exact", "retired"}
    assert shown(tmp_path / "lake", tmp_path / "a") == engine(root)


def test_a_later_pass_of_a_run_reads_of_bronze_what_was_appended_since(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each pass of one run sees the files that a run of its own would see."""
    options, lake, root = storage_options("csv"), Lake(str(tmp_path / "lake")), tmp_path / "sink"
    context = RunContext(OpsLog(spark, lake, "sink").load(), quiet)
    read: list[int] = []
    added = storage.add_landed

    def counted(known: LandedFiles, bronze: Any) -> None:
        read.append(known.following)
        added(known, bronze)

    def passes() -> list[int]:
        """From which offsets on a pass, and one after it, have read bronze."""
        monkeypatch.setattr(storage, "add_landed", counted)
        read.clear()
        for _ in range(2):
            storage.land_storage(context, str(root), options)
        monkeypatch.setattr(storage, "add_landed", added)
        alone = RunContext(context.log, quiet)
        assert storage.seen_files(context) == storage.seen_files(alone)
        return list(read)

    write_tree(root, EARLY)
    assert passes() == [0]
    after = context.landed.following
    assert passes() == []
    write_tree(root, LATE)
    assert passes() == [after]

    spark.sql(f"RESTORE TABLE {lake.ref('bronze', 'sink')} TO VERSION AS OF 0").collect()
    assert passes()[0] == 0


def test_only_appends_that_delta_knows_all_of_leave_what_was_seen() -> None:
    def commit(version: int, *, takes: bool = False, at: int = 7) -> Commit:
        return Commit(version, "WRITE", None, None, takes=takes, at=at)

    assert storage.goes_on((3, 7), [commit(5), commit(4), commit(3)])
    assert not storage.goes_on(None, [commit(3)])
    assert not storage.goes_on((3, 7), [commit(5), commit(3)]), "Delta has forgotten one"
    assert not storage.goes_on((3, 7), [commit(4, takes=True), commit(3)])
    assert not storage.goes_on((3, 7), [commit(3, at=8)]), "the table was put back from a copy"


def test_schema_files_land_apart_from_much_data() -> None:
    """Each batch reads all of them, and with one the file of bronze that it is in."""
    told = [FileInfo(f"d/t{number}/meta/schema_400_1.json", 2_000, 1) for number in range(2)]
    data = [FileInfo(f"d/t/400/CDC00000{number}.csv", 3 << 20, 1) for number in range(2)]

    assert list(storage.chunks([*told, *data])) == [told, data]
    assert list(storage.chunks([*told, data[0]])) == [[*told, data[0]]], "one commit is cheaper than two"
    assert list(storage.chunks(data)) == [data]
    assert list(storage.chunks(told)) == [told]
