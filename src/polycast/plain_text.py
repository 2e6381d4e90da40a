"""Text from outside, made safe to print and to log: control characters are escaped."""

from __future__ import annotations

import logging
import re
import traceback
from textwrap import indent
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

# C0, DEL and C1 (also ANSI sequences), what ends a line, what turns or hides text (bidirectional
# marks, zero-width and tag characters), and halves of surrogate pairs.
_OBEYED = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
_BUT_LINES = re.compile(f"(?![\n\t]){_OBEYED.pattern}")


def plain(text: str) -> str:
    """Escape all control characters in a text: ESC becomes \\x1b, a new line \\n."""
    return _OBEYED.sub(_shown, text)


def words_of(error: BaseException) -> str:
    """What an error says, as a store can keep it, even if its class cannot put it into words."""
    try:
        said = str(error)
    except BaseException as broken:  # of a class of a user
        said = f"({type(broken).__name__} while it was put into words)"
    return str.encode(said, errors="backslashreplace").decode()


def plain_lines(text: str) -> str:
    """Escape control characters except new lines and tabs, for our own text with foreign parts."""
    return _BUT_LINES.sub(_shown, text)


def plain_json(document: str) -> str:
    """Escape control characters in JSON: encoders leave C1 and the like as they are."""
    return _BUT_LINES.sub(_shown_in_json, document)


def _shown(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


def _shown_in_json(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


class PlainFilter(logging.Filter):
    """Makes each record one plain line, and its exception plain, indented lines.

    So what begins a line always comes from this program.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Escape the record; it is always logged."""
        record.msg, record.args = plain(_message(record)), None
        if isinstance(record.exc_info, tuple) and not record.exc_text:
            record.exc_text = indent(plain_lines(_trace(*record.exc_info)), "  ")
        return True


def log_of(name: str) -> logging.Logger:
    """Return the logger of a name; it escapes records for all handlers."""
    logger = logging.getLogger(name)
    if not any(isinstance(known, PlainFilter) for known in logger.filters):
        logger.addFilter(PlainFilter())
    return logger


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception as error:  # a failing str() of an object must not break logging
        return f"{record.msg} ({type(error).__name__} while it was put into words)"


def _trace(
    kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
) -> str:
    return "".join(traceback.format_exception(kind, error, trace)).rstrip("\n")
