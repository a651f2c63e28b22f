"""A call of our own with more than four positional arguments names them: a reader sees which is which."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.paths import ROOT

MOST = 4
MODULES = [path for folder in ("lakehouse", "pipelines") for path in sorted((ROOT / folder).rglob("*.py"))]
TREES = {
    path: ast.parse(path.read_text(encoding="utf-8")) for path in MODULES if not path.stem.endswith("_pb2")
}


def defined() -> set[str]:
    """The names of all functions, methods and classes of our own, but of functions that take any number."""
    nodes = [node for tree in TREES.values() for node in ast.walk(tree)]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    classes = {node.name for node in nodes if isinstance(node, ast.ClassDef)}
    return classes | {node.name for node in functions} - {node.name for node in functions if node.args.vararg}


def foreign(tree: ast.AST) -> set[str]:
    """The names that a module imports from elsewhere."""
    names = set()
    for node in ast.walk(tree):
        ours = isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("lakehouse", "pipelines"))
        if isinstance(node, ast.Import | ast.ImportFrom) and not ours:
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    return names


def called(node: ast.Call, foreign: set[str]) -> str | None:
    """The name of what is called, unless it is reached through a foreign name."""
    name, root = "", node.func
    while isinstance(root, ast.Attribute):
        name, root = name or root.attr, root.value
    if isinstance(root, ast.Name) and root.id in foreign:
        return None
    return name or (root.id if isinstance(root, ast.Name) else None)


def long_calls(path: Path, tree: ast.AST, ours: set[str]) -> Iterator[str]:
    others = foreign(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and called(node, others) in ours:
            positional = [argument for argument in node.args if not isinstance(argument, ast.Starred)]
            if len(positional) > MOST:
                yield f"{path.relative_to(ROOT)}:{node.lineno}: {called(node, others)}: {len(positional)}"


def test_no_call_has_more_than_four_positional_arguments() -> None:
    ours = defined()

    found = [call for path, tree in TREES.items() for call in long_calls(path, tree, ours)]

    assert found == []


def test_a_call_of_ours_is_told_from_a_foreign_one() -> None:
    text = "import a\nfrom lakehouse.x import f\nf(1, 2, 3, 4, 5)\na.f(1, 2, 3, 4, 5)\nf(1, 2, 3, 4, *x)\n"

    assert list(long_calls(ROOT / "m.py", ast.parse(text), {"f"})) == ["m.py:3: f: 5"]
