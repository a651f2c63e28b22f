"""`python -m tests.reporting.web.pictures` takes the pictures of the pages that the documentation shows."""

import threading
from pathlib import Path

from PIL import Image

from lakehouse.reporting.web.server import Server
from tests.reporting.web.test_report import observed
from tests.support.browser import opened, program
from tests.support.paths import ROOT
from tests.support.readings import FakeReadings, site_of


def small(picture: Path) -> None:
    """Save a picture with the colours that can be told apart in it alone."""
    Image.open(picture).convert("RGB").quantize(64, dither=Image.Dither.NONE).save(picture, optimize=True)


def main() -> None:
    found = program()
    assert found is not None
    with Server(0) as server, opened(found) as tab:
        site = site_of(FakeReadings(lambda: [observed()]))
        threading.Thread(target=server.serve, args=(site,)).start()
        for name, dark in (("ui-light", False), ("ui-dark", True)):
            tab.show(width=960, height=1240, dark=dark)
            tab.open(server.url)
            small(tab.picture(ROOT / "docs" / f"{name}.png", whole=False))
        server.stop()


if __name__ == "__main__":
    main()
