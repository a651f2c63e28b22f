"""A module is loaded by an import statement, which the type checker and the import contracts see."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.support.paths import ROOT

BY_TEXT = {"import_module", "__import__", "exec_module", "load_module", "run_module", "run_path"}
TABLE_OF_FORMATS = "lakehouse/formats/__init__.py"  # a worker loads the one format that it reads


def named(tree: ast.AST) -> Iterator[str]:
    """Every name that a module reads or imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names)


def modules() -> list[Path]:
    return [path for folder in ("lakehouse", "pipelines") for path in sorted((ROOT / folder).rglob("*.py"))]


def test_only_the_table_of_formats_loads_modules_by_their_names_as_text() -> None:
    found = [
        str(path.relative_to(ROOT))
        for path in modules()
        if BY_TEXT & set(named(ast.parse(path.read_text(encoding="utf-8"))))
    ]

    assert found == [TABLE_OF_FORMATS]


def test_no_folder_has_more_than_twelve_modules() -> None:
    counts = Counter(str(path.parent.relative_to(ROOT)) for path in modules() if path.name != "__init__.py")

    assert {folder: count for folder, count in counts.items() if count > 12} == {}
