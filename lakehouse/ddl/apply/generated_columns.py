"""Generated columns of the next schema: the columns that their expressions name, and stored values that
change with those.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from lakehouse.ddl_effects import Effect, Forget, Retype, Unknowable
from lakehouse.schema import Column, TableSchema, name_key

_PARTS = re.compile(
    r"'(?:[^'\\]|''|\\.)*'|\"(?:[^\"\\]|\"\"|\\.)*\"|`((?:[^`]|``)*)`|([^\W\d][\w$]*)(?!\w|\s*\()"
)


def named_columns(expression: str) -> Iterator[str]:
    """The names in an expression, folded: those of columns, words of SQL, and what double quotes hold, which
    are names under ANSI_QUOTES.
    """
    for match in _PARTS.finditer(expression):
        name = match[2] if match[1] is None else match[1].replace("``", "`")
        if name is not None or match[0].startswith('"'):
            yield name_key(match[0][1:-1] if name is None else name)


def with_names(column: Column, names: Mapping[str, str]) -> Column:
    """The column, its expression naming others by their new names (`names`: folded old one → new one), as
    servers rewrite it.
    """

    def part(found: re.Match[str]) -> str:
        name = found[2] if found[1] is None else found[1].replace("``", "`")
        new = None if name is None else names.get(name_key(name))
        return found[0] if new is None else "`" + new.replace("`", "``") + "`"

    return (
        replace(column, expression=_PARTS.sub(part, column.expression))
        if column.expression and names
        else column
    )


def recomputed(
    old: Sequence[Column], new: Sequence[Column], effects: Iterable[Effect], own: Column | None
) -> tuple[Effect, ...]:
    """The stored generated columns whose values the source computes again, since a column that they name has
    changed: one whose values an effect converts, or `own`, the one that the clause is about. In another
    charset their own text is computed again as well: what the expression gives may be no text of the old one.
    """
    following = {column.id: column for column in new}
    names = {name_key(own.name)} if own is not None and _is_another(own, following) else set[str]()
    stored = [column for column in old if column.id in following and column.generated == "stored"]
    effects = list(effects)
    computed = {column.id for column in _touched(old, stored, effects, names)} | _recoded(effects)
    return tuple(
        effect for column in stored if column.id in computed for effect in forgotten(column, "anew ")
    )


def _recoded(effects: Iterable[Effect]) -> set[int]:
    """The columns whose text takes another charset."""
    retyped = (effect for effect in effects if isinstance(effect, Retype))
    return {one.column_id for one in retyped if one.old.charset != one.new.charset and one.new.charset}


def _is_another(before: Column, following: Mapping[int, Column]) -> bool:
    """Whether a clause gives a VIRTUAL column another expression, or a column's name to a new one."""
    after = following.get(before.id)
    if after is None:
        return any(name_key(column.name) == name_key(before.name) for column in following.values())
    return before.generated == "virtual" == after.generated and _bare(before) != _bare(after)


def _touched(
    old: Sequence[Column],
    computed: Sequence[Column],
    effects: Iterable[Effect],
    names: Iterable[str] = (),
) -> list[Column]:
    """The generated columns that name a column whose values change, of `names` too, or a generated one that
    names such a column; each whose expression is not known.
    """
    retyped = {effect.column_id for effect in effects if isinstance(effect, Retype)}
    touched = {name_key(column.name) for column in old if column.id in retyped} | set(names)
    generated = [column for column in old if column.generated is not None]
    while reached := {name_key(one.name) for one in generated if _names_any(one, touched)} - touched:
        touched |= reached
    return [column for column in computed if _names_any(column, touched)]


def _names_any(column: Column, touched: set[str]) -> bool:
    """Whether a generated column's expression names one of the columns, or may name any."""
    expression = column.expression
    return bool(touched and (expression is None or touched & set(named_columns(expression))))


def recomputed_virtual(old: TableSchema, new: TableSchema, effects: Iterable[Effect]) -> tuple[Effect, ...]:
    """The VIRTUAL columns whose values for existing rows the source computes, which no message shows even
    where rows carry such columns.
    """
    known = {column.id: column for column in old.columns}
    virtual = [
        column
        for column in new.columns
        if column.generated == "virtual" and column.id not in new.keeps.hidden
    ]
    touched = {
        column.id
        for column in _touched(
            old.columns, [known[column.id] for column in virtual if column.id in known], effects
        )
    }
    names = _old_names(new, known)
    return tuple(
        effect
        for column in virtual
        if column.id in touched or _is_new(known.get(column.id), with_names(column, names))
        for effect in forgotten(column, "anew " if column.id in known else "")
    )


def _is_new(before: Column | None, after: Column) -> bool:
    return before is None or (before.generated == "virtual" and _bare(before) != _bare(after))


def _bare(column: Column) -> str:
    """The expression without quotes, which a rename of a column that it names adds."""
    return spaceless(column).replace("`", "")


def _old_names(new: TableSchema, known: Mapping[int, Column]) -> dict[str, str]:
    pairs = [(column.name, known[column.id].name) for column in new.columns if column.id in known]
    return {name_key(name): old for name, old in pairs if name != old}


def spaceless(column: Column) -> str:
    return re.sub(r"\s+", "", column.expression or "")


def forgotten(column: Column, how: str = "") -> tuple[Effect, ...]:
    return Forget(column.id), Unknowable(
        f"column {column.name}: the source computes its values {how}for existing rows"
    )
