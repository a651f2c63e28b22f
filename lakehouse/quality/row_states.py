"""The row right after each change, under the schema at that change's own position, for expectations to
evaluate.

So a verdict depends on a change, on the changes of the same row before it where its image is partial, and on
nothing else: not on the batch it came in, nor on any later DDL. What a DDL fills or converts is never judged.
"""

from lakehouse.fold.row_edits import Change, Key, is_partial, row_key
from lakehouse.fold.upcast import Carrier, Row, Upstream
from lakehouse.lineage import Lineage, key_ids


class States:
    """Computes the row after each change. Changes of a row come in position order; with `remember` a partial
    image is completed from earlier ones.
    """

    def __init__(self, lineage: Lineage, upstream: Upstream, *, remember: bool) -> None:
        self.lineage, self.upstream, self.remember = lineage, upstream, remember
        self.rows: dict[Key, tuple[int, Row]] = {}
        self.carriers: dict[tuple[int, str], Carrier] = {}
        self.movers: dict[tuple[int, int], Carrier] = {}

    def after(self, change: Change) -> tuple[int, Row | None, Row | None]:
        """The step of the change, and the row before (as far as it is told) and after it by column id; None
        where there is none.
        """
        step = self.lineage.step_at(change.position)
        carrier = self._carrier(step, change.encoding)
        before = None if change.before is None else carrier(change.before)
        after = None if change.after is None else carrier(change.after)
        ids = key_ids(self.lineage, step)
        if after is not None and ids:
            earlier = self._earlier(step, ids, before, after) if is_partial(change) else {}
            after = {**earlier, **(before or {}), **after}
        if self.remember:
            self._keep(step, ids, before, after)
        return step, before, after

    def _earlier(self, step: int, ids: tuple[int, ...], before: Row | None, after: Row) -> Row:
        key = row_key({**after, **(before or {})}, ids)
        known = self.rows.get(key) if key is not None else None
        if known is None:
            return {}
        return (known[1] if known[0] == step else self._mover(known[0], step).move(dict(known[1]))) or {}

    def _keep(self, step: int, ids: tuple[int, ...], before: Row | None, after: Row | None) -> None:
        for image in (before, after):
            key = row_key(image, ids) if image is not None and ids else None
            if key is not None:
                self.rows.pop(key, None)
        key = row_key(after, ids) if after is not None and ids else None
        if key is not None and after is not None:
            self.rows[key] = (step, after)

    def _carrier(self, step: int, encoding: str) -> Carrier:
        if (step, encoding) not in self.carriers:
            self.carriers[step, encoding] = Carrier(
                self.lineage, step, step, encoding, upstream=self.upstream
            )
        return self.carriers[step, encoding]

    def _mover(self, source: int, target: int) -> Carrier:
        if (source, target) not in self.movers:
            self.movers[source, target] = Carrier(
                self.lineage, source, target, "canonical", upstream=self.upstream
            )
        return self.movers[source, target]

    def completed(self, step: int, change: Change, before: Row | None, after: Row | None) -> Change:
        """The change with all that is known of the row after it: once an earlier image is refused, a partial
        one can't be folded.
        """
        if not self.remember or change.after is None or after is None or len(after) <= len(change.after):
            return change
        names = {column.id: column.name for column in self.lineage.steps[step].schema.columns}
        images = [
            None if row is None else {names[key]: value for key, value in row.items()}
            for row in (before, after)
        ]
        flags = tuple(flag for flag in change.flags if not flag.startswith("partial_"))
        return Change(change.position, change.op, images[0], images[1], encoding="canonical", flags=flags)
