"""What is particular to a format is in its row of FORMATS: no other module names one."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from lakehouse.config.models import FormatName
from lakehouse.formats import FORMATS, STORAGE_FORMAT
from lakehouse.values.decode_with_schema import READERS
from tests.support.paths import ROOT

# `snapshot` is of no producer: the project writes those records itself, and they join sources of any format
OURS = {"proto", "snapshot"}
FOLDERS = {path.parent.name for path in (ROOT / "lakehouse/formats").glob("*/__init__.py")} - OURS
NAME = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted({*FORMATS, *FOLDERS})))})\b")
# the words that silver stores as a row's encoding, and how the schema reads their values
ENCODINGS = "lakehouse/values/decode_with_schema.py"
# a storage sink is an input of its own (`storage:` in a source's YAML), whatever its files are written as
STORAGE_SINK = "lakehouse.formats.ticdc.storage"


def modules() -> list[Path]:
    paths = [*(ROOT / "lakehouse").rglob("*.py"), *(ROOT / "pipelines").rglob("*.py")]
    return [path for path in sorted(paths) if ROOT / "lakehouse/formats" not in path.parents]


def explanations(tree: ast.AST) -> Iterator[ast.AST]:
    """Docstrings, and what help and descriptions say."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                yield node
            case ast.keyword(arg="help" | "description"):
                yield node.value


def named_formats(source: str) -> list[str]:
    """The formats, or families of them, that a module's code names."""
    tree = ast.parse(source)
    left_out = {id(inner) for outer in explanations(tree) for inner in ast.walk(outer)}
    texts = [
        str(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes) and id(node) not in left_out
    ]
    return sorted({found for text in texts for found in NAME.findall(text)})


def imported_modules(source: str) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def test_no_module_outside_formats_names_a_format() -> None:
    naming = {
        str(path.relative_to(ROOT)): found
        for path in modules()
        if (found := named_formats(path.read_text(encoding="utf-8")))
    }

    assert naming.keys() == {ENCODINGS}, naming


def test_no_module_outside_formats_imports_a_formats_own_modules() -> None:
    own = tuple(f"lakehouse.formats.{folder}" for folder in FOLDERS)
    importing = {
        (str(path.relative_to(ROOT)), name)
        for path in modules()
        for name in imported_modules(path.read_text(encoding="utf-8"))
        if name.startswith(own) and not name.startswith(STORAGE_SINK)
    }

    assert importing == set()


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('x = format == "tencent-dts"', ["tencent-dts"]),
        ('x = f"{name} is no ticdc"', ["ticdc"]),
        ('x = name.startswith("ticdc-")', ["ticdc"]),
        ('x = b"debezium"', ["debezium"]),
        ('def f():\n    "debezium"\n    return "canal"', ["canal"]),
        ('"""Of debezium."""\nx = Option("--format", help="such as canal")  # or debezium', []),
        ('def f():\n    yield from g("dts")', ["dts"]),
        ('x = "TiCDC writes, canals flow"', []),
    ],
)
def test_a_name_is_found_in_code_and_not_in_what_explains_it(source: str, found: list[str]) -> None:
    assert named_formats(source) == found


def test_the_schema_reads_the_encodings_that_the_rows_of_formats_name() -> None:
    named = [encoding for row in FORMATS.values() for encoding in row.schema_encodings]

    assert sorted(READERS) == sorted(named)


def test_the_configurations_word_list_is_the_table_of_formats() -> None:
    assert get_args(FormatName) == tuple(FORMATS)


def test_one_format_reads_the_files_of_a_storage_sink() -> None:
    assert [name for name, row in FORMATS.items() if row.reads_files] == [STORAGE_FORMAT]


@pytest.mark.parametrize("format", FORMATS)
def test_what_a_row_loads_later_is_there(format: str) -> None:
    row = FORMATS[format]
    loaded = [row.parts, row.large, row.transactions, row.is_own, row.detected and row.detected.shows]

    assert all(load() is not None for load in loaded if load)
    assert row.detected is None or row.options[row.detected.name].choices == ("auto", "true", "false")
    assert {option.only_with[0] for option in row.options.values() if option.only_with} <= set(row.options)
    assert row.redelivery is None or "arrival" in (row.order, row.other_order and row.other_order.order)
