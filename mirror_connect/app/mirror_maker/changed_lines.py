"""Lines of the log about what may last: a line comes again only when it has changed, or was over in between."""

from __future__ import annotations

import logging


class ChangedLines:
    """One line for each subject. `log`: where they go, as warnings."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._told: dict[str, str] = {}

    def tell(self, subject: str, line: str) -> None:
        """Logs the line, unless it was the last one of this subject."""
        if self._told.get(subject) != line:
            self._log.warning("%s", line)
        self._told[subject] = line

    def over(self, subject: str) -> None:
        """What the last line said is over: the same line is news again."""
        self._told.pop(subject, None)
