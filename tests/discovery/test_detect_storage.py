"""The settings that a tree shows by itself."""

import json
from pathlib import Path

import pytest

from lakehouse.discovery.detect_storage import detect_options
from lakehouse.formats.ticdc.storage import decode
from lakehouse.sources.storage_tree import read_tree
from tests.support.paths import DATA

TREES = sorted(path.parent for path in (DATA / "storage").glob("*/expected.json"))
HIDDEN = ("time_zone",)  # what no file shows


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.name)
def test_a_recorded_tree_shows_its_own_settings(tree: Path) -> None:
    told = json.loads((tree / "expected.json").read_text())["options"]

    found = detect_options(tree / "data", {name: told[name] for name in HIDDEN if name in told})

    def events(options: dict[str, str]) -> list[object]:
        return [event for message in read_tree(tree / "data", options) for event in decode(message, options)]

    assert events(found) == events(told)


def test_what_is_told_stays(tmp_path: Path) -> None:
    assert detect_options(tmp_path, {"protocol": "csv"}) == {"protocol": "csv"}
    (tmp_path / "s/t/5").mkdir(parents=True)
    (tmp_path / "s/t/5/CDC000001.csv").write_bytes(b"I||t||s||1\n")

    found = detect_options(tmp_path, {"quote": "'"})

    assert (found["quote"], found["delimiter"], found["terminator"], found["protocol"]) == (
        "'",
        "||",
        "\n",
        "csv",
    )


@pytest.mark.parametrize("word", ["NULL", "", "-"])
def test_the_word_that_stands_without_quotes_is_the_null_word(word: str, tmp_path: Path) -> None:
    (tmp_path / "s/t/5").mkdir(parents=True)
    (tmp_path / "s/t/5/CDC000001.csv").write_bytes(
        f'"I","t","s",470607110537740288,1,{word},"NULL"\r\n'.encode()
    )
    (tmp_path / "s/t/5/CDC000002.csv").write_bytes(
        f'"U","t","s",470607110537740288,{word},"",1e+06\r\n'.encode()
    )

    assert detect_options(tmp_path, {})["null"] == word


@pytest.mark.parametrize(
    ("folder", "told"),
    [
        ("112/470607110537740288/2026-11-21", "true"),
        ("112/470607110537740288", "true"),
        ("112/7/470607110537740288", None),
    ],
)
def test_folders_named_by_the_table_s_id_are_seen(folder: str, told: str | None, tmp_path: Path) -> None:
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / "CDC000001.csv").write_bytes(b'"I","t","s",1\r\n')

    found = detect_options(tmp_path, {})

    assert (found.get("use-table-id-as-path"), found["quote"]) == (told, '"')


def test_without_quotes_and_names_in_paths_a_schema_file_tells_the_name_that_ends_the_delimiter(
    tmp_path: Path,
) -> None:
    version = 470607110537740288
    (tmp_path / f"112/{version}").mkdir(parents=True)
    (tmp_path / "112/meta").mkdir()
    (tmp_path / f"112/{version}/CDC000001.csv").write_bytes(b"I||t||s||1\r\n")
    (tmp_path / f"112/meta/schema_{version}_0000000001.json").write_text('{"Table": "t", "Schema": "s"}')

    found = detect_options(tmp_path, {})

    assert (found["use-table-id-as-path"], found["quote"], found["delimiter"]) == ("true", "", "||")


SCHEMA = json.dumps(
    {
        "Table": "t",
        "Schema": "s",
        "TableColumns": [
            {"ColumnName": "id", "ColumnType": "INT", "ColumnIsPk": "true"},
            {"ColumnName": "b", "ColumnType": "VARBINARY", "ColumnPrecision": "20"},
            {"ColumnName": "n", "ColumnType": "INT"},
        ],
    }
)


def detected(tmp_path: Path, *files: bytes) -> dict[str, str]:
    version = 470607110537740288
    (tmp_path / f"s/t/{version}").mkdir(parents=True)
    (tmp_path / "s/t/meta").mkdir()
    (tmp_path / f"s/t/meta/schema_{version}_0000000001.json").write_text(SCHEMA)
    for number, data in enumerate(files, 1):
        (tmp_path / f"s/t/{version}/CDC{number:06}.csv").write_bytes(data)
    return detect_options(tmp_path, {})


def test_many_bytes_of_hexadecimal_digits_are_hexadecimal(tmp_path: Path) -> None:
    """All of it could be read as base64."""
    found = detected(tmp_path, b'"I","t","s",470607110537740289,1,"00112233445566778899aabb",\\N\r\n')

    assert (found["binary-encoding-method"], found["include-commit-ts"]) == ("hex", "true")


def test_few_bytes_that_may_be_either_are_left_to_the_default(tmp_path: Path) -> None:
    assert "binary-encoding-method" not in detected(
        tmp_path, b'"I","t","s",470607110537740289,1,"0011",2\r\n'
    )


@pytest.mark.parametrize("word", ["", "NULL"])
def test_the_null_word_shows_without_quotes_where_no_text_can_stand(word: str, tmp_path: Path) -> None:
    found = detected(tmp_path, f"I|t|s|470607110537740289|1|AAE=|{word}\r\n".encode())

    assert (found["quote"], found["null"], found["include-commit-ts"]) == ("", word, "true")


def test_the_settings_are_those_of_the_most_rows(tmp_path: Path) -> None:
    row = b'"I","t","s",470607110537740289,1,"AAE=",2\r\n'

    found = detected(tmp_path, b'"I","t","s",1,"cut o', row, row)

    assert found["include-commit-ts"] == "true"


@pytest.mark.parametrize("header", [b"", b"ticdc-meta$operation,ticdc-meta$table,ticdc-meta$schema,id\r\n"])
def test_a_commit_ts_is_no_column_though_an_unknown_virtual_one_makes_the_fields_fit(
    header: bytes, tmp_path: Path
) -> None:
    rows = b"".join(b'"I","t","s",47060711053774028%d,1,"AAE="\r\n' % last for last in (8, 9))

    assert detected(tmp_path, header + rows)["include-commit-ts"] == "true"


@pytest.mark.parametrize(
    "value", [b"470607110537740287", b"587000000000065536", b"1729382256910270464", b"7", b"\\N"]
)
def test_a_number_that_is_no_time_behind_the_table_s_version_is_a_column(
    value: bytes, tmp_path: Path
) -> None:
    row = b'"I","t","s",%s,"AAE=",2\r\n'

    found = detected(tmp_path, row % b"470607110537740289" + row % value)

    assert found["include-commit-ts"] == "false"
