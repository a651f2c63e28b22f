"""Checks of a table's `quality:` before any row is read: expectations' names, arguments and actions."""

import re
from collections.abc import Iterator
from typing import Any

from lakehouse.config.producer_settings import Data, Finding
from lakehouse.config.yaml_reader import Path
from lakehouse.errors import did_you_mean
from lakehouse.quality.suite import FORMS, ROWS, Form

_REGEXES = ("regex", "regex_list")
# A verdict on a row must be the same whenever it is given.
_UNSTEADY = re.compile(
    r"\b(rand\w*|uuid|shuffle|now|current_\w+|monotonically_increasing_id"
    r"|spark_partition_id|input_file_\w+)\b",
    re.I,
)
_WORDS = {
    "condition_parser": ("spark",),
    "match_on": ("any", "all"),
    "ignore_row_if": (
        "both_values_are_missing",
        "either_value_is_missing",
        "neither",
        "all_values_are_missing",
        "any_value_is_missing",
        "never",
    ),
}


def quality_findings(data: Data) -> Iterator[Finding]:
    """Problems in `quality:` that the model does not see."""
    entries = data.get("quality")
    if entries and "tables" in data:
        yield ("quality",), "is not yet supported with tables", "remove one of the two"
    earlier: list[Any] = []
    for index, entry in enumerate(entries if isinstance(entries, list) else []):
        if (
            isinstance(entry, dict)
            and isinstance(entry.get("expect"), str)
            and isinstance(entry.get("args", {}), dict)
        ):
            yield from _entry(entry, ("quality", index))
            expectation = {name: value for name, value in entry.items() if name != "action"}
            if expectation in earlier:
                yield ("quality", index), "says again what an earlier expectation says", "keep one of the two"
            earlier.append(expectation)


def _entry(entry: Data, path: Path) -> Iterator[Finding]:
    name = entry["expect"]
    form = FORMS.get(name)
    if form is None:
        if name.startswith("expect_"):
            yield (*path, "expect"), "is no expectation that lakehouse checks", did_you_mean(name, FORMS)
        return
    if entry.get("action") in ("reject", "stop") and name not in ROWS:
        yield (
            (*path, "action"),
            f"can't be {entry['action']}: {name} is about the whole table, not about a row",
            "write action: warn",
        )
    args = entry.get("args", {})
    yield from _columns(entry, form, path)
    yield from _arguments(name, args, form, path)
    yield from _values(args, path)


def _columns(entry: Data, form: Form, path: Path) -> Iterator[Finding]:
    if "column" in entry and form.columns != ("column",):
        expected = (
            f"write args: {{{', '.join(f'{name}: …' for name in form.columns)}}}"
            if form.columns
            else "remove it"
        )
        yield (*path, "column"), "has no effect: the expectation is not about one column", expected
    if form.columns == ("column",) and "column" not in entry:
        yield path, "names no column", "add column"


def _arguments(name: str, args: Data, form: Form, path: Path) -> Iterator[Finding]:
    known = (*(column for column in form.columns if column != "column"), *form.needed, *form.optional)
    for given in args:
        if given == "mostly" and name in ROWS:
            yield (*path, "args", given), "has no effect: every row is judged by itself", "remove it"
        elif given not in known:
            yield (*path, "args", given), f"is no argument of {name}", did_you_mean(str(given), known)
    needed = (*(column for column in form.columns if column != "column"), *form.needed)
    for missing in (argument for argument in needed if argument not in args):
        yield path, f"lacks the argument {missing}", f"add args: {{{missing}: …}}"
    if form.one_of and all(args.get(argument) is None for argument in form.one_of):
        yield path, f"lacks {' or '.join(form.one_of)}", f"add args: {{{form.one_of[0]}: …}}"


def _values(args: Data, path: Path) -> Iterator[Finding]:
    for name in (name for name in _REGEXES if name in args):
        values = args[name] if isinstance(args[name], list) else [args[name]]
        if not values or not all(isinstance(text, str) and is_regex(text) for text in values):
            yield (*path, "args", name), "is no regular expression", "write one"
    for name in (name for name in ("value_set", "value_pairs_set", "column_list") if name in args):
        if not isinstance(args[name], list) or not args[name]:
            yield (*path, "args", name), "is no list, or an empty one", "write at least one item"
        elif name == "value_set" and None in args[name]:
            yield (*path, "args", name), "holds null, which is never looked at", "remove it"
    for name, words in _WORDS.items():
        if name in args and args[name] not in words:
            yield (*path, "args", name), f"is none of {', '.join(words)}", f"write {words[0]}"
    condition = args.get("row_condition")
    if condition is not None and "condition_parser" not in args:
        yield (*path, "args", "row_condition"), "is read by no parser", "add condition_parser: spark"
    if isinstance(condition, str) and _UNSTEADY.search(condition):
        yield (
            (*path, "args", "row_condition"),
            "is not the same at every reading",
            "use the row's own columns only",
        )
    if "condition_parser" in args and condition is None:
        yield (*path, "args", "condition_parser"), "has no effect without row_condition", "remove it"


def is_regex(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return True
