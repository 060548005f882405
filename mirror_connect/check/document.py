"""One thing to judge: a worker's properties, a connector's config, or a file of the dedicated MirrorMaker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from mirror_connect.app.config.properties import LocatedProperties
from mirror_connect.check.judgement import Setting
from mirror_connect.connectors.errors import ConfigError

CLASS: Final = "connector.class"
WORKER: Final = "worker"
CONNECTOR: Final = "connector"
MM2: Final = "mm2"


class UnknownDocument(ConfigError):
    """A file or URL that is nothing that can be checked. The text is one line."""

    def __init__(self, checked: str, problem: str) -> None:
        super().__init__(checked, None, problem)
        self.args = (f"{checked}: {problem}",)


@dataclass(frozen=True, slots=True)
class Document:
    """One thing to judge. `settings`: by the name that the worker or connector sees. `kind`: WORKER, CONNECTOR or MM2.

    `defaults`: values that it has although they stand nowhere in it. `located`: of a properties file, as read.
    """

    kind: str
    name: str
    settings: Mapping[str, Setting] = field(repr=False)
    defaults: Mapping[str, str] = field(default_factory=dict)
    located: LocatedProperties | None = field(default=None, repr=False)

    def config(self) -> dict[str, str | None]:
        """Names and values."""
        return {name: setting.value for name, setting in self.settings.items()}

    def texts(self) -> dict[str, str]:
        """The same without nulls, which properties files don't have."""
        return {name: setting.value for name, setting in self.settings.items() if setting.value is not None}
