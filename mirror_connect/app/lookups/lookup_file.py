"""Opens the file of a lookup, if the worker may read it. It blocks: use a thread. Without Arrow, as for most workers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mirror_connect.app.config.allowed_paths import LookupPaths
from mirror_connect.app.lookups.loaded_lookup import BadLookupError
from mirror_connect.connectors.config.bounded_file import OutsideError, RefusedFile, opened_file


class ForbiddenLookup(BadLookupError):
    """The worker's file does not allow it, or a link leads to where it does not."""


@contextmanager
def opened_lookup(path: str, paths: LookupPaths) -> Iterator[int]:
    """A descriptor of the file. BadLookupError if it can't be read; ForbiddenLookup if it may not be.

    The real path of the open file counts: a link may have changed since the config came.
    """
    permitted = paths.permitted(path)
    if permitted is None:
        raise ForbiddenLookup(paths.refusal())
    try:
        with opened_file(permitted, paths.within) as descriptor:
            yield descriptor
    except OutsideError:
        raise ForbiddenLookup(f"a link leads out of the permitted directories: {paths.refusal()}") from None
    except RefusedFile as error:
        raise BadLookupError(str(error)) from None
    except OSError as error:
        raise BadLookupError(f"it can't be read: {error.strerror}") from None
    except ValueError:
        raise BadLookupError("no file can have this path") from None


def file_problem(path: str, paths: LookupPaths, *, may_come: bool) -> str | None:
    """Why the worker can't read a lookup's file; None if it can. `may_come`: a file that can't be read yet is none."""
    try:
        with opened_lookup(path, paths):
            return None
    except ForbiddenLookup as error:
        return str(error)
    except BadLookupError as error:
        return None if may_come else str(error)
