"""The pictures of docs/notebooks.md: `python -m tests.support.notebook_pictures` runs the notebooks and
writes them again. Then look at them.
"""

import os
import runpy
import shutil
import tempfile
import warnings
from pathlib import Path

from lakehouse.api import NotExact
from tests.support.paths import ROOT
from tests.support.shop_lake import demo_lake, shop_lake

# of which lake and notebook each picture is
PICTURES = {
    ("demo", "explore_silver"): ("changes", "timeline", "columns"),
    ("shop", "explore_silver"): ("lag",),
    ("shop", "time_travel"): ("rows", "differences"),
    ("shop", "quality"): ("failures",),
    ("shop", "dead_letters"): ("dead_letters",),
}


def target(picture: str) -> Path:
    """Where a picture of the page is."""
    return ROOT / f"docs/notebooks-{picture.replace('_', '-')}.png"


def main() -> None:
    """Make both lakes, run the notebooks as scripts, and keep their pictures."""
    warnings.simplefilter("ignore", NotExact)
    with tempfile.TemporaryDirectory() as name:
        folders = {kind: Path(name, kind) for kind in ("demo", "shop")}
        for folder in folders.values():
            folder.mkdir()
        lakes = {"demo": demo_lake(folders["demo"]), "shop": shop_lake(folders["shop"])}
        for (kind, notebook), pictures in PICTURES.items():
            os.environ["LAKEHOUSE_LAKE"] = str(lakes[kind])
            os.chdir(folders[kind])
            runpy.run_path(str(ROOT / f"notebooks/{notebook}.py"))
            for picture in pictures:
                shutil.move(folders[kind] / f"{picture}.png", target(picture))


if __name__ == "__main__":
    main()
