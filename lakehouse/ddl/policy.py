"""The policy for a DDL: a table's `on_ddl` per kind of edit, and operators' decisions on a single statement.

    evolve   gold follows the source
    ignore   the source's schema goes on, gold's shape and rows stay: `GoldKeeps` says how gold's shape
             differs from there on
    hold     gold stops that table before the statement until an operator approves or skips it
    reject   the same, and the run fails; it can only be skipped

To skip a statement is to ignore all of its edits. What changes the key can't be ignored: rows could not be
matched.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from lakehouse.ddl import edits as e
from lakehouse.ddl.apply.effects import Effects
from lakehouse.ddl.apply.schema import alter_by_edit
from lakehouse.ddl.definitions import ColumnDef
from lakehouse.ddl_effects import Effect, Rekey, Retype, Unknowable
from lakehouse.errors import DdlError
from lakehouse.events import Position
from lakehouse.lineage import Held, Lineage, Name
from lakehouse.schema import Column, ColumnType, GoldKeeps, TableSchema

Policy = Mapping[str, str]
EVERYTHING = "*"


class Decision(NamedTuple):
    """What an operator said of one statement: `approve` or `skip`. `instead` is the statement to apply in its
    place.
    """

    action: str
    instead: str | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """The policies by table name, the decisions by (position, text) of the statement, and the tables whose
    log goes on when they are dropped and created again. `charset`: the server's default, where it is said.
    `mixes_names`: the producer may mix up columns that exchange their names; `hides_sessions`: a statement's
    message may have another database than its session; `tells_all`: statements come of tables too whose rows
    the producer leaves out. `server`: whose rules hold.
    """

    policies: Mapping[Name, Policy] = field(default_factory=dict)
    decisions: Mapping[tuple[Position, str], Decision] = field(default_factory=dict)
    logs: frozenset[Name] = frozenset()
    charset: str | None = None
    mixes_names: bool = False
    hides_sessions: bool = False
    tells_all: bool = False
    server: str = "mysql"

    def decision(self, position: Position, ddl: str | None) -> Decision | None:
        return self.decisions.get((position, ddl or ""))

    def policy(self, lineage: Lineage, position: Position, ddl: str | None) -> Policy:
        """What holds for a table at a statement: its YAML's policy by its newest name that has one, unless an
        operator spoke.
        """
        found = next(
            (self.policies[i.name] for i in reversed(lineage.intervals) if i.name in self.policies), {}
        )
        decision = self.decision(position, ddl)
        if decision is None:
            return found
        if decision.action == "skip":
            return {EVERYTHING: "ignore"}
        return {kind: "evolve" if action == "hold" else action for kind, action in found.items()}


def action_of(policy: Policy, kind: str) -> str:
    return policy.get(EVERYTHING) or policy.get(kind, "evolve")


def stopping(policy: Policy, kinds: Iterable[str], position: Position, ddl: str | None) -> Held | None:
    """The hold of a table if one of the kinds is held or rejected; reject is the stronger."""
    stops = sorted(
        ((action_of(policy, kind), kind) for kind in kinds if action_of(policy, kind) in ("hold", "reject")),
        reverse=True,
    )
    if not stops:
        return None
    action, kind = stops[0]
    return Held(position, f"on_ddl says {action} for {kind}", ddl, action)


@dataclass(frozen=True, slots=True)
class AlterOutcome:
    """An ALTER under a policy: what holds the table, else the next schema, its effects, and the kinds that
    were ignored.
    """

    held: Held | None
    schema: TableSchema
    effects: Effects = ()
    ignored: tuple[str, ...] = ()


def alter_outcome(
    schema: TableSchema, edits: Iterable[e.Edit], policy: Policy, position: Position, ddl: str | None
) -> AlterOutcome:
    """The ALTER's outcome; DdlError where it does not fit the schema, or ignores what can't be ignored."""
    following, steps = alter_by_edit(schema, edits)
    if not policy:
        return AlterOutcome(None, following, tuple(effect for _, effects in steps for effect in effects))
    kinds = [kinds_of(edit, effects) for edit, effects in steps]
    held = stopping(policy, (kind for kinds_of_edit in kinds for kind in kinds_of_edit), position, ddl)
    if held is not None:
        return AlterOutcome(held, schema)
    keeps = _living(following.keeps, schema, following)
    effects: Effects = ()
    ignored: list[str] = []
    for (edit, made), kinds_of_edit in zip(steps, kinds, strict=True):
        passed = tuple(kind for kind in kinds_of_edit if action_of(policy, kind) == "ignore")
        effects += _effects(made, passed, keeps)
        keeps = _keeps(keeps, edit, made, passed, old=schema, new=following)
        ignored += passed
    return AlterOutcome(None, replace(following, keeps=keeps), effects, tuple(ignored))


def kinds_of(edit: e.Edit, effects: Effects) -> tuple[str, ...]:
    """The words of `on_ddl` that an edit falls under. MODIFY and CHANGE count as such where they touch
    values: a place, a comment or NOT NULL alone is nothing to gold.
    """
    modified = ("modify_column",) if any(map(_changes_values, effects)) else ()
    match edit:
        case e.AddColumn(column):
            return ("add_column", *_key(column))
        case e.ModifyColumn(column):
            return (*modified, *_key(column))
        case e.ChangeColumn(name, column):
            return (*(("rename_column",) if name != column.name else ()), *modified, *_key(column))
        case e.TableCharset(_, True):
            return modified
        case e.DropIndex(name) if name.casefold() == "primary":
            return ("drop_primary_key",)
        case _:
            return () if edit.on_ddl is None else (edit.on_ddl,)


def _changes_values(effect: Effect) -> bool:
    return isinstance(effect, Unknowable) or (isinstance(effect, Retype) and effect.old != effect.new)


def _key(column: ColumnDef) -> tuple[str, ...]:
    return ("add_primary_key",) if column.primary_key else ()


def _effects(made: Effects, ignored: tuple[str, ...], keeps: GoldKeeps) -> Effects:
    """An ignored edit does nothing to gold's rows; neither does a new type of a column whose type
    gold keeps.
    """
    kept = dict(keeps.types)
    if not ignored or ignored == ("rename_column",) or ignored == ("alter_default",):
        return tuple(
            effect for effect in made if not (isinstance(effect, Retype) and effect.column_id in kept)
        )
    if (
        "add_primary_key" in ignored
        or "drop_primary_key" in ignored
        or any(isinstance(effect, Rekey) for effect in made)
    ):
        raise DdlError("a DDL that changes the key can't be ignored or skipped: rows could not be matched")
    return ()


def _living(keeps: GoldKeeps, old: TableSchema, new: TableSchema) -> GoldKeeps:
    """Without what is said of columns that are gone; a column that gets a new name has it in gold too."""
    living = {column.id: column.name for column in new.columns}
    before = {column.id: column.name for column in old.columns}
    return replace(
        keeps,
        hidden=tuple(key for key in keeps.hidden if key in living),
        names=tuple((key, name) for key, name in keeps.names if living.get(key) == before.get(key)),
        types=tuple(
            (key, kind)
            for key, kind in keeps.types
            if key in living or any(c.id == key for c in keeps.dropped)
        ),
    )


def _keeps(
    keeps: GoldKeeps,
    edit: e.Edit,
    made: Effects,
    ignored: tuple[str, ...],
    old: TableSchema,
    new: TableSchema,
) -> GoldKeeps:
    """Gold's shape once the edit is ignored."""
    if "add_column" in ignored and isinstance(edit, e.AddColumn):
        keeps = replace(keeps, hidden=(*keeps.hidden, *_ids(new, edit.column.name)))
    if "drop_column" in ignored and isinstance(edit, e.DropColumn):
        keeps = _keep_dropped(keeps, old, edit.name)
    if "rename_column" in ignored and isinstance(edit, e.RenameColumn | e.ChangeColumn):
        keeps = _keep_name(keeps, old, edit.name)
    if "modify_column" in ignored:
        known = dict(keeps.types)
        retyped = {effect.column_id: _kept_type(effect, old) for effect in made if isinstance(effect, Retype)}
        keeps = replace(keeps, types=tuple({**retyped, **known}.items()))
    return keeps


def _kept_type(effect: Retype, old: TableSchema) -> ColumnType:
    """The type that gold keeps; of a key column only where equal values stay equal."""
    if effect.column_id in old.handle_key and not (
        effect.old.family == effect.new.family in ("integer", "text")
    ):
        raise DdlError("a new type of a key column can't be ignored or skipped: rows could not be matched")
    return effect.old


def _ids(schema: TableSchema, name: str) -> tuple[int, ...]:
    column = schema.column(name)
    return () if column is None else (column.id,)


def _keep_dropped(keeps: GoldKeeps, old: TableSchema, name: str) -> GoldKeeps:
    """The dropped column stays in gold under the name it has there; one that gold does not show is
    just gone.
    """
    column = old.column(name)
    if column is None or column.id in old.keeps.hidden or column.generated == "virtual":
        return keeps
    if column.id in old.handle_key:
        raise DdlError(
            f"column {name}: a DROP of a key column can't be ignored or skipped: rows could not be matched"
        )
    shown: Column = replace(column, name=dict(old.keeps.names).get(column.id, column.name))
    kind = dict(old.keeps.types).get(column.id)
    return replace(keeps, dropped=(*keeps.dropped, shown if kind is None else replace(shown, type=kind)))


def _keep_name(keeps: GoldKeeps, old: TableSchema, name: str) -> GoldKeeps:
    column = old.column(name)
    if column is None:
        return keeps
    shown = dict(old.keeps.names).get(column.id, column.name)
    return replace(
        keeps, names=(*((key, kept) for key, kept in keeps.names if key != column.id), (column.id, shown))
    )
