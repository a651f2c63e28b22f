"""A module is loaded by an import statement, which the type checker and the import contracts see; folders,
modules and functions are short enough to be read.
"""

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


def long_functions(name: str, tree: ast.AST) -> Iterator[str]:
    """The functions of more than 40 lines, of which the docstring is none."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            is_documented = ast.get_docstring(node) is not None
            documented = (first.end_lineno or 0) - first.lineno + 1 if is_documented else 0
            if (node.end_lineno or 0) - node.lineno + 1 - documented > 40:
                yield f"{name}: {node.name}"


def test_no_module_has_more_than_four_hundred_lines() -> None:
    written = [path for path in modules() if not path.stem.endswith("_pb2")]
    counts = {str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines()) for path in written}

    assert {module: count for module, count in counts.items() if count > 400} == {}


def test_no_function_has_more_than_forty_lines() -> None:
    found = [
        function
        for path in modules()
        for function in long_functions(str(path.relative_to(ROOT)), ast.parse(path.read_text("utf-8")))
    ]

    assert found == []


def test_a_docstring_makes_no_function_long() -> None:
    steps = "    pass\n" * 39
    text = f'def f():\n    """\n    What it is.\n    """\n{steps}def g():\n{steps}    pass\n'

    assert list(long_functions("m.py", ast.parse(text))) == ["m.py: g"]
