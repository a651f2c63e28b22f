"""The pictures of terminals in docs: `python -m tests.support.terminal_pictures` runs the commands in a
terminal of their own, in a folder of their own, and writes what they print. Then look at them.
"""

import os
import pty
import re
import sys
import tempfile
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

from lakehouse.demo.run import RECORDING
from tests.support.paths import ROOT

COLUMNS = 110
# the commands in their order, and the picture of those that have one
COMMANDS: dict[tuple[str, ...], str | None] = {
    ("demo",): "terminal-demo",
    ("status",): "terminal-status",
    ("init", "--recording", f"{RECORDING}", "--name", "store"): None,
    ("run", "bronze"): None,
    ("run", "silver"): None,
    ("plan",): "terminal-plan",
}
LAKEHOUSE = (sys.executable, "-c", "from lakehouse.cli.main import main; main()")


def main() -> None:
    """Run the commands one after the other, and keep what they print."""
    os.environ |= {"COLUMNS": f"{COLUMNS}", "LINES": "60", "TERM": "xterm-256color", "PYTHONPATH": str(ROOT)}
    os.environ.pop("NO_COLOR", None)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for words, name in COMMANDS.items():
            text = printed([*LAKEHOUSE, *words]).replace(os.path.realpath(folder), "/srv/shop")
            if words[0] == "init":
                source = Path("configs/sources/store.yml")
                source.write_text(source.read_text().replace("# time_zone:", "time_zone:"))
            if name is not None:
                (ROOT / f"docs/{name}.svg").write_text(picture(f"lakehouse {' '.join(words)}", text))


def printed(command: list[str]) -> str:
    """What a command that succeeds prints to its terminal."""
    found = bytearray()

    def read(handle: int) -> bytes:
        found.extend(data := os.read(handle, 1024))
        return data

    if status := pty.spawn(command, read):
        raise SystemExit(f"{' '.join(command)}: failed with {os.waitstatus_to_exitcode(status)}")
    return found.decode()


def picture(title: str, text: str) -> str:
    """Text with colours of a terminal as SVG, with the fonts of whoever looks at it."""
    lines = [as_shown(line) for line in text.replace("\r\n", "\n").rstrip().split("\n")]
    console = Console(record=True, width=COLUMNS, file=StringIO())
    console.print(Text.from_ansi("\n".join(lines)))
    return re.sub(r"@font-face \{.*?\}", "", console.export_svg(title=title), flags=re.DOTALL)


def as_shown(line: str) -> str:
    """A line as it is at last: progress is written over what was there before."""
    return re.sub(r"\x1b\[[0-9]*[KAJ]|\x1b\[\?[0-9]+[hl]", "", line.rsplit("\r", 1)[-1])


if __name__ == "__main__":
    main()
