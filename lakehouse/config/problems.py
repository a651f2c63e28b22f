"""Texts of configuration problems: the errors of pydantic and of the models, as one sentence with what to do.

A text names options and what was expected. It repeats a written value only where a closed list of words is
expected, so that no problem can show a secret.
"""

import re
import types
from collections.abc import Iterator
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from lakehouse.config.models import SourceConfig
from lakehouse.config.options import known_option
from lakehouse.config.producer_settings import Finding
from lakehouse.config.yaml_reader import Path
from lakehouse.errors import did_you_mean, nearest
from lakehouse.formats import FORMATS

_EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "model_type": "a mapping of options",
    "list_type": "a list",
    "string_too_short": "some text",
    "too_short": "at least one entry",
}


def model_findings(model: type[BaseModel], data: Any, error: ValidationError) -> Iterator[Finding]:
    """The problems that a model's validation reports."""
    for details in error.errors(include_url=False):
        path = tuple(part for part in details["loc"] if part != "[key]")
        if details["type"] == "extra_forbidden":
            yield path, "unknown option", _unknown_fix(model, data, path)
        elif details["type"] == "missing":
            yield path, "is missing", f"add `{path[-1]}:`"
        elif details["type"] == "literal_error":
            yield _literal(path, details)
        elif details["type"] == "value_error":
            yield path, str(details["ctx"]["error"]), ""
        else:
            yield path, *_expected(details)


def _literal(path: Path, details: ErrorDetails) -> Finding:
    words = re.findall(r"'([^']*)'", details["ctx"]["expected"])
    if details["loc"][-1] == "[key]":
        return path, "unknown option", did_you_mean(str(path[-1]), words)
    got = details["input"]
    if not isinstance(got, str):
        return path, f"expected one of {', '.join(words)}", "write one of the words"
    close = nearest(got, words)
    return (
        path,
        f"expected one of {', '.join(words)}",
        f"did you mean `{close}`?" if close else "write one of the words",
    )


def _expected(details: ErrorDetails) -> tuple[str, str]:
    expected = _EXPECTED.get(details["type"])
    if expected is None:
        return details["msg"][:1].lower() + details["msg"][1:], ""
    number = details["type"] == "string_type" and isinstance(details["input"], int | float)
    got = _kind(details["input"])
    return f"expected {expected}, got {got}", "put it in quotes" if number else f"write {expected}"


def _kind(value: object) -> str:
    names = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "text",
        dict: "a mapping",
        list: "a list",
        type(None): "nothing",
    }
    return names.get(type(value), "another value")


def _unknown_fix(model: type[BaseModel], data: Any, path: Path) -> str:
    """What to do about an unknown option: move it to the section that it belongs to, or the nearest valid
    name.
    """
    name = str(path[-1])
    if len(path) == 1:
        owner = next((field for field in model.model_fields if name in option_names(model, (field,))), None)
        format = data.get("format") if model is SourceConfig and isinstance(data, dict) else None
        if owner is None and format in tuple(FORMATS) and known_option(format, name):
            owner = "options"
        if owner:
            return f"it belongs under `{owner}:`"
    elif name in model.model_fields:
        return "it belongs to the first level"
    return did_you_mean(name, option_names(model, path[:-1]))


def option_names(model: type[BaseModel], path: Path) -> list[str]:
    """The options of the mapping at `path`; none where its names are free."""
    annotations: list[Any] = [model]
    for part in path:
        annotations = [inner for annotation in annotations for inner in _inside(annotation, part)]
    return [name for annotation in annotations if _is_model(annotation) for name in annotation.model_fields]


def _inside(annotation: Any, part: str | int) -> list[Any]:
    if _is_model(annotation):
        field = annotation.model_fields.get(part)
        return _alternatives(field.annotation) if field else []
    arguments = get_args(annotation)
    return _alternatives(arguments[-1]) if get_origin(annotation) in (dict, list) else []


def _alternatives(annotation: Any) -> list[Any]:
    """The parts of a union, without Annotated."""
    if get_origin(annotation) is Annotated:
        return _alternatives(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return [part for alternative in get_args(annotation) for part in _alternatives(alternative)]
    return [annotation]


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def empty_findings(data: Any, path: Path = ()) -> Iterator[Finding]:
    """Problems of options without a value, which are not allowed. Arguments of an expectation may be null."""
    if data is None:
        yield path, "has no value", "write one, or remove the line"
    elif isinstance(data, dict) and "args" not in path[-1:]:
        for name, value in data.items():
            yield from empty_findings(value, (*path, name))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from empty_findings(value, (*path, index))
