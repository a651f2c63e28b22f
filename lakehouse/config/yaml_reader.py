"""The YAML loader: YAML text to plain data with the place of every key and value, or all problems at once.

Stricter than YAML 1.1, so that what people write is what they get:

- unquoted, only `true`, `false`, `null`, `~`, nothing, and numbers of YAML 1.2 are more than text;
  `no`, `on`, `12:30:00` and `0123` are text;
- keys are always text, whatever they look like;
- a duplicate key, an alias, a tag or a second document is a problem, not a guess.

Places count lines and columns from 1. PyYAML's `compose()` does the reading; nothing here constructs objects.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import yaml

Path = tuple[str | int, ...]


class Place(NamedTuple):
    """A line and a column, both from 1."""

    line: int
    column: int


class Problem(NamedTuple):
    """A problem in a file: its place, what is wrong, and what to do. `path` names the option, such as
    `kafka.topics`.
    """

    file: str
    line: int
    column: int
    path: str
    text: str
    fix: str

    def __str__(self) -> str:
        what = f"{self.path}: {self.text}" if self.path else self.text
        return f"{self.file}:{self.line}:{self.column}: {what}" + (f"; {self.fix}" if self.fix else "")


@dataclass(slots=True)
class Document:
    """The data of one file and the places of its keys and values, by path."""

    file: str
    data: Any = None
    keys: dict[Path, Place] = field(default_factory=dict)
    values: dict[Path, Place] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def problem(self, path: Path, text: str, fix: str = "") -> Problem:
        """A problem at the place of `path`, or of the nearest owner that the file has."""
        place = next((nearest for nearest in self._places(path)), Place(1, 1))
        return Problem(self.file, place.line, place.column, dotted(path), text=text, fix=fix)

    def _places(self, path: Path) -> Iterator[Place]:
        for length in range(len(path), -1, -1):
            for places in (self.keys, self.values):
                if path[:length] in places:
                    yield places[path[:length]]


def dotted(path: Path) -> str:
    """`("columns", "a.b", 0)` as `columns.a.b[0]`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def read_yaml(file: str, raw: bytes) -> Document:
    """The document in `raw`, with its problems."""
    document = Document(file)
    try:
        node = _Loader(raw.decode("utf-8-sig")).get_single_node()
    except UnicodeDecodeError as error:
        document.problems.append(
            Problem(
                file,
                raw[: error.start].count(b"\n") + 1,
                1,
                "",
                text="is not UTF-8",
                fix="save the file as UTF-8",
            )
        )
    except yaml.YAMLError as error:
        document.problems.append(_syntax_problem(file, error))
    else:
        if node is None:
            document.problems.append(
                Problem(file, 1, 1, "", text="is empty", fix="write at least its first option")
            )
        else:
            document.data = _construct(document, node, (), set())
    return document


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Composes nodes without resolving any scalar: an unquoted one keeps its text and an empty style."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - PyYAML's own class attribute


def _syntax_problem(file: str, error: yaml.YAMLError) -> Problem:
    mark = getattr(error, "problem_mark", None)
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    # The error's own text quotes the line, which may hold anything: only its reason is passed on.
    reason = getattr(error, "problem", None) or getattr(error, "reason", None) or "can't be read"
    return Problem(file, line, column, "", text=f"is no YAML: {reason}", fix="")


def _construct(document: Document, node: yaml.Node, path: Path, seen: set[int]) -> Any:
    document.values[path] = _place(node)
    if id(node) in seen:
        document.problems.append(
            document.problem(path, "is an alias of another value", "write the value out")
        )
        return None
    seen.add(id(node))
    if not node.tag.startswith("tag:yaml.org,2002:") or node.tag.rpartition(":")[2] not in (
        "str",
        "map",
        "seq",
    ):
        document.problems.append(
            document.problem(path, "has a tag, which is not supported", "write the plain value")
        )
        return None
    if isinstance(node, yaml.MappingNode):
        return _mapping(document, node, path, seen)
    if isinstance(node, yaml.SequenceNode):
        return [_construct(document, item, (*path, index), seen) for index, item in enumerate(node.value)]
    return node.value if getattr(node, "style", None) else scalar(node.value)


def _mapping(document: Document, node: yaml.MappingNode, path: Path, seen: set[int]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for key_node, value_node in node.value:
        place = _place(key_node)
        if not isinstance(key_node, yaml.ScalarNode):
            document.problems.append(
                Problem(
                    document.file, *place, dotted(path), "has a key that is not text", "write a plain name"
                )
            )
            continue
        here = (*path, key_node.value)
        if here in document.keys:
            text = f"stands twice, first in line {document.keys[here].line}"
            document.problems.append(
                Problem(document.file, *place, dotted(here), text, "remove one of the two")
            )
            continue
        document.keys[here] = place
        data[key_node.value] = _construct(document, value_node, here, seen)
    return data


def _place(node: yaml.Node) -> Place:
    return Place(node.start_mark.line + 1, node.start_mark.column + 1)


_WORDS = {"": None, "~": None, "null": None, "Null": None, "NULL": None} | {
    word: value for value in (True, False) for word in (str(value), str(value).lower(), str(value).upper())
}
# A leading zero is kept as text, although YAML 1.2 reads 0123 as 123: who writes it means an identifier.
# Forty digits are more than any option takes, and fewer than Python refuses to read.
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,39})")
_FLOAT = re.compile(
    r"[-+]?(?:(?:0|[1-9][0-9]*)?\.[0-9]+|(?:0|[1-9][0-9]*)\.|(?:0|[1-9][0-9]*)(?=[eE]))(?:[eE][-+]?[0-9]+)?"
)


def scalar(text: str) -> str | int | float | bool | None:
    """The value of an unquoted scalar: a YAML 1.2 word or decimal number, else its text."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text
