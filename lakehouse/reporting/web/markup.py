"""Pieces of a page as text: whatever is not Markup is escaped, so that a name or a value is never a tag."""

from collections.abc import Iterable, Sequence
from html import escape
from urllib.parse import urlencode

from lakehouse.reporting.text.remedies import Steps


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Query = Sequence[tuple[str, object]]
_CLASSES = {
    "exact": "ok",
    "ok": "ok",
    "incomplete": "warn",
    "warn": "warn",
    "open": "warn",
    "behind": "fail",
    "fail": "fail",
    "retired": "muted",
    "closed": "muted",
}


def text(value: object) -> str:
    """Text for XML: escaped, without characters that XML forbids. Markup stays as it is."""
    if isinstance(value, Markup):
        return value
    plain = "".join(sign if sign in "\t\n" or sign.isprintable() else "�" for sign in str(value))
    return escape(plain, quote=True)


def joined(pieces: Iterable[object], between: object = "") -> Markup:
    """The pieces behind each other."""
    return Markup(text(between).join(map(text, pieces)))


def element(tag: str, inner: object, kind: str = "") -> Markup:
    """An element of a class; `tag` and `kind` are the page's own words."""
    of_class = f" class='{kind}'" if kind else ""
    return Markup(f"<{tag}{of_class}>{text(inner)}</{tag}>")


def code(value: object) -> Markup:
    """A name, a statement or a command as it is typed."""
    return element("code", value)


def state(word: str) -> Markup:
    """A state in its colour, which is never all that says it."""
    return element("span", word, f"state {_CLASSES.get(word, '')}".rstrip())


def link(path: str, query: Query, inner: object) -> Markup:
    """A link to another page of the server. What the query says is quoted."""
    return Markup(f"<a href='{text(address(path, query))}'>{text(inner)}</a>")


def address(path: str, query: Query) -> str:
    """The address of a page of the server."""
    return f"{path}?{urlencode(list(query))}" if query else path


def steps(of: Steps) -> Markup:
    """What to do, one line each: commands to copy, and what each does."""
    if not of:
        return Markup()
    lines = (joined(filter(None, (step.command and code(step.command), step.what)), " ") for step in of)
    return element("ul", joined(element("li", line) for line in lines), "steps")


def details(name: str, title: object, inner: object) -> Markup:
    """Something to unfold. `name` is its id, by which it stays open when the page changes."""
    summary = element("summary", title)
    return Markup(f"<details id='{text(name)}'>{summary}{text(inner)}</details>")


def table(
    names: Sequence[object],
    rows: Iterable[Sequence[object]],
    numbers: Sequence[int] = (),
    kind: str = "",
    none: str = "None yet.",
) -> Markup:
    """A table below its names, those columns in `numbers` to the right."""
    cells = list(rows)
    if not cells:
        return element("p", none, "none")
    kinds = [" class='n'" if number in numbers else "" for number in range(len(names))]
    head = (f"<th scope='col'{kind}>{text(name)}</th>" for kind, name in zip(kinds, names, strict=True))
    lines = (
        "".join(f"<td{kind}>{text(cell)}</td>" for kind, cell in zip(kinds, row, strict=True))
        for row in cells
    )
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    whole = f"<table><thead><tr>{''.join(head)}</tr></thead><tbody>{body}</tbody></table>"
    return Markup(f"<div class='{f'scroll {kind}'.rstrip()}'>{whole}</div>")
