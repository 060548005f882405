"""What starts with a `with` block and closes at its end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Started(ABC):
    """Closes also if the start fails, as some of it may be there by then."""

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def start(self) -> Self:
        """Starts all of it; returns when it is ready."""

    @abstractmethod
    def close(self) -> None:
        """Ends all of it. It may be called twice."""
