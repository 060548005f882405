"""What a worker does about exactly-once copying: its setting `exactly.once.source.support`."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

SUPPORT: Final = "exactly.once.source.support"


class Support(StrEnum):
    """The value of the setting. NONE: of standalone mode, which has no such setting."""

    DISABLED = "disabled"
    PREPARING = "preparing"
    ENABLED = "enabled"
    NONE = ""
