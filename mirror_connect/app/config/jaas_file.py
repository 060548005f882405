"""The Java login configuration file (`java.security.auth.login.config`) that a Connect worker is pointed to.

    KafkaConnect {
        org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule required
        file="/etc/connect/users.properties";
    };

As for a Java worker, `-Djava.security.auth.login.config=FILE` in KAFKA_OPTS names the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from mirror_connect.app.errors import StartupError
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.kafka_io.client.jaas import JaasError, LoginModule, parse_sections
from mirror_connect.kafka_io.client.java_options import system_property

__all__ = ["PROPERTY", "LoginModule", "find_jaas_file", "login_modules", "read_text"]

PROPERTY: Final = "-Djava.security.auth.login.config="


def find_jaas_file(environment: Mapping[str, str]) -> Path | None:
    """The file that KAFKA_OPTS names, or None; the last of several counts, as in a JVM."""
    try:
        named = system_property("java.security.auth.login.config", environment)
    except ConfigError as error:
        raise StartupError(str(error)) from None
    # In Java a second = means "this file and no other"; a file: URL is allowed, too.
    path = (named or "").lstrip("=")
    return Path(re.sub(r"^file:(//)?(?=/)", "", path)) if path else None


def read_text(path: Path, what: str) -> str:
    """The text of a small file, UTF-8 or else Latin-1; StartupError names the file and the reason."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise StartupError(f"{what} {path} can't be read: {error.strerror or error}") from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def login_modules(path: Path, section: str) -> list[LoginModule]:
    """The modules of a section; StartupError if the file is unreadable, malformed or without that section."""
    text = read_text(path, "The login configuration file")
    try:
        sections = parse_sections(text)
    except JaasError as error:
        raise StartupError(f"The login configuration file {path} is malformed: {error}") from None
    if section not in sections:
        raise StartupError(f"The login configuration file {path} has no section {section}; add one")
    return sections[section]
