"""Where the files of this repository lie that tests read."""

from __future__ import annotations

from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).resolve().parent
FIXTURES: Final = TESTS / "fixtures"
ROOT: Final = TESTS.parent
