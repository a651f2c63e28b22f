"""A program: what is run on the server, commit by commit. It is plain data, so that a failing one can be cut
down and kept as a case.

A step is {"rows": [statement…]}, one transaction, or {"ddl": statement, …}, with what a feed tells of the
statement and what no statement tells of its effect:

    feed      [[database, table, query]…] where TiCDC sends it in other pieces or words than it was run
    renamed   [[old name, new name]…]: tables, in order
    like      [old, new]
    columns   {old: new}, within the statement's table
    unknown   columns of `table` whose values no message tells, "rows" where any row may differ, "maybe" where
              gold must not be sure
    select    CREATE TABLE … SELECT: its rows come as a transaction of their own behind it
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.oracle.dialects import MARIADB

Step = dict[str, Any]
ZONE, OFFSET = "Etc/GMT-8", "+08:00"
CHARSET = "utf8mb4"  # of its databases
STRICT = "STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"


@dataclass
class Program:
    """`seed` decides commit times and how the feed tells rows; `database` is the first of two: the other ends
    with _2. `raw` leaves updates of keys in one piece. `server`: whose rules hold, as a source's option
    has it.
    """

    seed: int
    strict: bool
    steps: list[Step] = field(default_factory=list)
    database: str = "d"
    raw: bool = False
    server: str = MARIADB.rules

    def save(self, path: Path) -> None:
        head = {name: value for name, value in asdict(self).items() if name != "steps"}
        steps = ",\n".join(json.dumps(step, ensure_ascii=False) for step in self.steps)
        path.write_text(f'{{"program": {json.dumps(head)}, "steps": [\n{steps}\n]}}\n', encoding="utf-8")

    @staticmethod
    def load(path: Path) -> "Program":
        told = json.loads(path.read_text(encoding="utf-8"))
        return Program(**told["program"], steps=told["steps"])

    def statements(self) -> int:
        return sum(len(step.get("rows", "1")) for step in self.steps)
