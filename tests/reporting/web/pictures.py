"""`python -m tests.reporting.web.pictures` takes the pictures of the pages that the documentation shows."""

import threading
from pathlib import Path
from typing import Any

from PIL import Image

from lakehouse.reporting.web.server import Server
from tests.reporting.web.test_report import observed
from tests.support.browser import opened, program
from tests.support.paths import ROOT
from tests.support.readings import FakeReadings, site_of


def shop() -> dict[str, Any]:
    """A source with two troubles: one statement waits for a decision, and some messages are no messages."""
    source = observed()
    status = {
        **{name: source["status"][name] for name in ("source", "lag_seconds", "lag_messages", "books")},
        "dead_letters": 2,
        "tables": [dict(table) for table in source["status"]["tables"]],
    }
    status["tables"][1] |= {"why": "2 dead letters", "notes": []}
    status["tables"][2] |= {"why": "held by a DDL: on_ddl says hold for drop_column"}
    letters = {**source["dead_letters"], "counts": [{"code": "frame", "table": "shop.items", "number": 2}]}
    return {**source, "status": status, "dead_letters": letters, "gaps": [], "epochs": []}


def small(picture: Path) -> None:
    """Save a picture with the colours that can be told apart in it alone."""
    Image.open(picture).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(picture, optimize=True)


def main() -> None:
    found = program()
    assert found is not None
    with Server(0) as server, opened(found) as tab:
        site = site_of(FakeReadings(lambda: [shop()]))
        threading.Thread(target=server.serve, args=(site,)).start()
        for name, dark in (("ui-light", False), ("ui-dark", True)):
            tab.show(width=1100, height=1240, dark=dark)
            tab.open(server.url)
            small(tab.picture(ROOT / "docs" / f"{name}.png", whole=False))
        server.stop()


if __name__ == "__main__":
    main()
