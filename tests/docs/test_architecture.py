"""What texts name is there: files, modules and functions in pages, docstrings and comments."""

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.paths import ROOT

PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
ARCHITECTURE = ROOT / "docs/architecture.md"
FOLDERS = ("lakehouse", "tests", "bench", "pipelines")
# a path that begins with a folder of ours, and any file name of Python
_OURS = "|".join((*FOLDERS, "docs", "notebooks"))
_PATH = re.compile(rf"(?<![\w./<>{{}}$:-])((?:{_OURS})(?:/[\w.*-]+)+|(?:[\w-]+/)*\w+\.py\b)")
# a dotted name of a module of ours, with the class or function in it
_DOTTED = re.compile(rf"(?<![\w./`'-])`?((?:{'|'.join(FOLDERS)})(?:\.[A-Za-z_]\w*)+)")
# files that are called as a folder of ours is: `lakehouse.job.yml`, `bench.md`
_NO_MODULE = ("md", "yml", "json", "zip", "prom")
_ROW = re.compile(r"^\| [^|]+ \| `([\w/]+\.py)` \| `([\w.]+)` \|$", re.M)


@cache
def files() -> frozenset[str]:
    """The repository's files, and their folders."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, check=True, text=True,
    )  # fmt: skip
    found = {name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()}
    return frozenset(found | {str(folder) for name in found for folder in Path(name).parents})


def written(source: Path) -> str:
    """A page, or a module's docstrings and comments."""
    text = source.read_text()
    if source.suffix != ".py":
        return text
    docs = [
        node.value.value
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ]
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return "\n".join([*docs, *(token.string for token in tokens if token.type == tokenize.COMMENT)])


def sources() -> Iterator[Path]:
    yield from PAGES
    for name in sorted(files()):
        path = ROOT / name
        if path.suffix == ".py" and not name.endswith("_pb2.py") and not name.startswith("tests/judge/"):
            yield path


def is_file(path: str, beside: Path) -> bool:
    """Whether a path is there: from the root, the package, or the folder of the file that names it."""
    wanted = path.rstrip("./")
    near = str((beside.parent / wanted).relative_to(ROOT))
    if "*" in wanted:
        return any(True for _ in ROOT.glob(wanted))
    return bool({wanted, near, f"lakehouse/{wanted}"} & files())


@cache
def names_in(module: str) -> frozenset[str]:
    """The names that a file defines, `Class.member` too, and those that it imports."""
    found: set[str] = set()

    def walk(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            match node:
                case ast.FunctionDef(name=name):
                    found.add(prefix + name)
                case ast.ClassDef(name=name, body=inner):
                    found.add(prefix + name)
                    walk(inner, f"{prefix}{name}.")
                case ast.Assign(targets=targets):
                    found.update(prefix + one.id for one in targets if isinstance(one, ast.Name))
                case ast.AnnAssign(target=ast.Name(id=name)):
                    found.add(prefix + name)
                case ast.Import(names=names) | ast.ImportFrom(names=names):
                    found.update(prefix + (one.asname or one.name) for one in names)

    walk(ast.parse((ROOT / module).read_text()).body, "")
    return frozenset(found)


def is_name(dotted: str) -> bool:
    """Whether a module, or a name in one, is there."""
    parts = dotted.split(".")
    for count in range(len(parts), 0, -1):
        path, rest = "/".join(parts[:count]), ".".join(parts[count:])
        for module in (f"{path}.py", f"{path}/__init__.py"):
            if module in files():
                return not rest or rest in names_in(module)
        if path in files() and not rest:
            return True
    return False


def absent(source: Path) -> list[str]:
    text = written(source)
    paths = [path for path in _PATH.findall(text) if not is_file(path, source)]
    dotted = [name for name in _DOTTED.findall(text) if name.rpartition(".")[2] not in _NO_MODULE]
    return paths + [name for name in dotted if not is_name(name)]


def test_every_file_and_module_that_a_text_names_is_there() -> None:
    found = {str(source.relative_to(ROOT)): names for source in sources() if (names := absent(source))}

    assert found == {}


@pytest.mark.parametrize(
    "text",
    [
        "as `replay.py` does",
        "(spark/expectations.py)",
        "(lakehouse/stores.py)",
        "see lakehouse/spark/fresh",
        "`lakehouse.fold.replay` does it",
        "lakehouse.fold.upcast.no_such_function",
        "the rest is in lakehouse/cli_*.py",
        "tests/test_fold.py holds it",
    ],
)
def test_a_file_that_is_not_there_is_seen(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = ROOT / "docs" / "page.md"
    monkeypatch.setattr(
        Path, "read_text", lambda path, *_: text if path == page else path.read_bytes().decode()
    )

    assert absent(page) != []


def questions() -> list[tuple[str, str]]:
    """The rows of "Where is …"."""
    return _ROW.findall(ARCHITECTURE.read_text())


def test_every_function_that_the_table_of_questions_names_is_in_its_file() -> None:
    rows = questions()

    assert len(rows) >= 15
    assert [
        f"{file}: {name}" for file, name in rows if file not in files() or name not in names_in(file)
    ] == []


def test_every_package_is_in_the_list_of_packages() -> None:
    listed = {
        name
        for line in ARCHITECTURE.read_text().splitlines()
        for name in re.findall(r"`(\w+(?:/\w+)*)/`", line)
    }
    packages = {
        name.removeprefix("lakehouse/").removesuffix("/__init__.py")
        for name in files()
        if name.startswith("lakehouse/") and name.endswith("/__init__.py") and name != "lakehouse/__init__.py"
    }

    # a folder of files that one package writes is no package of its own
    assert packages - listed - {"config/schema"} == set()
