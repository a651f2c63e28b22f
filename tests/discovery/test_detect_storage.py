"""The settings that a tree shows by itself."""

import json
from pathlib import Path

import pytest

from lakehouse.discovery.detect_storage import detect_options
from lakehouse.formats.ticdc.storage import decode
from lakehouse.sources.storage_files import read_tree
from tests.support.paths import DATA

TREES = sorted(path.parent for path in (DATA / "storage").glob("*/expected.json"))
HIDDEN = ("null", "binary-encoding-method", "time_zone")  # what no file shows


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
