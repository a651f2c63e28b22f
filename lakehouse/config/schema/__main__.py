"""`python -m lakehouse.config.schema [DOCS_FILE]`: refresh what is generated from the models."""

import sys
from pathlib import Path

from lakehouse.config.schema import docs_text, write

write()
for name in sys.argv[1:]:
    Path(name).write_text(docs_text(), encoding="utf-8")
