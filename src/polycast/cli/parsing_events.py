"""The words of the commands about events: who publishes, who gets them, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polycast.cli.arguments import add_bounds, add_place, add_yes, command, family, seconds, whole
from polycast.cli.explaining import explain_subscription
from polycast.cli.letters import list_letters, purge_letters, replay_letters, show_letter
from polycast.cli.publishing import publish_events
from polycast.cli.replaying import replay_events
from polycast.cli.subs import cancel_subscription, list_subscriptions
from polycast.cli.subscribing import print_subscribed
from polycast.cli.tailing import show_events
from polycast.cli.vocabulary import show_types
from polycast.delivery.replay import MOST

if TYPE_CHECKING:
    import argparse

__all__ = ["add_event_commands", "take_late_words"]

REPLAY = (
    f"At most {MOST:,} events go to a subscription at a time. What it is busy with, or gets "
    "anyway, is left alone."
)
TEXT = "a filter, as in 'event.number > 3', or its form as JSON"
# The word of a command that may be left out.
_LATE = {replay_events: "type", print_subscribed: "what", show_types: "type"}


def add_event_commands(commands: Any) -> None:
    """Add them."""
    _add_pub(commands)
    _add_sub(commands)
    _add_tail(commands)
    _add_types(commands)
    _add_subscriptions(commands)
    _add_explain(commands)
    _add_letters(commands)
    _add_replay(commands)


def take_late_words(given: argparse.Namespace, left: list[str]) -> list[str]:
    """Words after options are left over: argparse has decided before that there are none."""
    if given.run is publish_events:
        data = [each for each in left if not each.startswith("--")]
        given.data += data
        return [each for each in left if each not in data]
    late = _LATE.get(given.run)
    if late and left and left[0][0] != "-" and getattr(given, late) is None:
        setattr(given, late, left[0])
        return left[1:]
    return left


def _add_pub(commands: Any) -> None:
    what = "publish events that are given as JSON; prints where each is in the log"
    example = """pub events.db shop.Sale '{"number": 8}' --topic /shop/front"""
    one = command(commands, "pub", publish_events, what, example)
    add_place(one)
    one.add_argument(
        "type", metavar="TYPE", help="a type that the store describes, or one of --import"
    )
    one.add_argument("data", metavar="DATA", nargs="*", help="an event as JSON")
    one.add_argument(
        "--json-lines", metavar="FILE", help="a file with an event on each line; - is the input"
    )
    _add_import(one)
    one.add_argument("--topic", metavar="TOPIC", help="as in /shop/front")
    one.add_argument("--priority", metavar="N", type=int, default=0, help="more is sooner (0)")
    one.add_argument(
        "--header",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="something beside the event; may be said again",
    )
    one.add_argument(
        "--expires", metavar="SECONDS", type=seconds, help="after which nobody is to get it"
    )
    one.add_argument("--publisher", metavar="NAME", help="the name to publish under")


def _add_sub(commands: Any) -> None:
    what = "subscribe, and print events as they come; each is acknowledged when it is printed"
    example = "sub polycast://127.0.0.1:7788 Sale --where 'event.number > 3' --count 10"
    one = command(commands, "sub", print_subscribed, what, example)
    add_place(one)
    one.add_argument(
        "what", metavar="TYPE|TOPIC", nargs="?", help="a type or a topic; everything by default"
    )
    one.add_argument("--where", metavar="TEXT", help=TEXT)
    one.add_argument("--topic", metavar="PATTERN", help="for a type: only on these topics")
    one.add_argument("--exact", action="store_true", help="this very type, and none below it")
    one.add_argument("--durable", metavar="NAME", help="go on where this name was last")
    one.add_argument("--group", metavar="NAME", help="share the events with its other members")
    one.add_argument("--lease", metavar="SECONDS", type=seconds, help="after which it is over")
    one.add_argument(
        "--since",
        metavar="WHEN",
        help="a position, a time such as 2030-12-31T08:00, or 'beginning'; by default from now on",
    )
    one.add_argument("--count", metavar="N", type=whole, help="end after so many")
    _add_import(one)


def _add_import(
    one: argparse.ArgumentParser, *, what: str = "modules that define types, separated by commas"
) -> None:
    one.add_argument("--import", dest="imports", metavar="MODULES", help=what)


def _add_tail(commands: Any) -> None:
    what = "show the last events, and with --follow those that come; with --json one per line"
    example = "tail events.db --type Sale --topic '/shop/**' --follow"
    one = command(commands, "tail", show_events, what, example)
    add_place(one)
    one.add_argument("--last", "-n", metavar="N", type=whole, help="begin with so many (10)")
    one.add_argument(
        "--since",
        metavar="WHEN",
        help="begin there instead: a position, a time such as 2030-12-31T08:00, or 'beginning'",
    )
    one.add_argument("--type", metavar="NAME", help="only this class, and those below it")
    one.add_argument("--topic", metavar="PATTERN", help="only on these topics, as in '/shop/**'")
    one.add_argument(
        "--limit",
        metavar="N",
        type=whole,
        help="at most so many; with --since by default 100, all with --follow or --json",
    )
    one.add_argument("--follow", "-f", action="store_true", help="go on with what is published")


def _add_types(commands: Any) -> None:
    what = "list the event types that are described, or show one with all its attributes"
    one = command(commands, "types", show_types, what, "types events.db Sale --count")
    add_place(one)
    one.add_argument("type", metavar="TYPE", nargs="?", help="by its name, or the end of it")
    one.add_argument("--count", action="store_true", help="count the events, which takes a while")


def _add_subscriptions(commands: Any) -> None:
    what = "list durable subscriptions and groups, or cancel one"
    group = family(commands, "subs", what, "subs events.db")
    what = "list durable subscriptions and groups; `list` may be left out"
    one = command(group, "list", list_subscriptions, what, "subs events.db")
    add_place(one)
    what = "cancel a subscription that nobody will attach to again"
    one = command(group, "cancel", cancel_subscription, what, "subs cancel events.db billing")
    add_place(one)
    one.add_argument("name", metavar="NAME", help="as `subs` shows it")
    add_yes(one)


def _add_explain(commands: Any) -> None:
    what = "say what a kept subscription wants, where that is asked, and what became of an event"
    example = "explain events.db billing --position 17"
    one = command(commands, "explain", explain_subscription, what, example)
    add_place(one)
    one.add_argument("name", metavar="SUBSCRIPTION", help="as `subs` shows it")
    one.add_argument("--position", metavar="N", type=whole, help="of an event in the log")


def _add_letters(commands: Any) -> None:
    group = family(commands, "dlq", "look after dead letters", "dlq list events.db")
    one = command(group, "list", list_letters, "list dead letters", "dlq list events.db --payload")
    add_place(one)
    one.add_argument("--subscription", metavar="NAME", help="only those of one subscription")
    one.add_argument("--limit", metavar="N", type=whole, default=100, help="at most so many (100)")
    one.add_argument("--payload", action="store_true", help="show the events, too")
    one = command(group, "show", show_letter, "show one dead letter", "dlq show events.db 17")
    add_place(one)
    one.add_argument("number", metavar="NUMBER", type=whole, help="as `dlq list` shows it")
    for name, run, what in (
        ("replay", replay_letters, "give dead letters to their subscriptions once more"),
        ("purge", purge_letters, "throw dead letters away for good"),
    ):
        example = f"dlq {name} events.db --subscription billing"
        one = command(group, name, run, what, example)
        add_place(one)
        one.add_argument("number", metavar="NUMBER", nargs="*", type=whole, help="which of them")
        one.add_argument("--subscription", metavar="NAME", help="all of one subscription")
        one.add_argument("--all", action="store_true", help="all there are")
        if run is replay_letters:
            _add_import(
                one,
                what="modules that declare contexts, separated by commas: for events that could "
                "not leave one",
            )
        add_yes(one)


def _add_replay(commands: Any) -> None:
    what = "show events of the past, or give them to a subscription once more"
    example = "replay events.db Sale --since 2030-12-31 --to billing --dry-run"
    one = command(commands, "replay", replay_events, what, example, more=REPLAY)
    add_place(one)
    one.add_argument(
        "type",
        metavar="TYPE",
        nargs="?",
        help="only this type, and what conforms to it; with --to by default what that wants",
    )
    one.add_argument("--where", metavar="TEXT", help=TEXT)
    one.add_argument("--topic", metavar="PATTERN", help="only on these topics, as in '/shop/**'")
    one.add_argument("--exact", action="store_true", help="this very type, and none below it")
    add_bounds(one)
    one.add_argument("--to", metavar="NAME", help="give them to this durable subscription")
    one.add_argument("--dry-run", action="store_true", help="count and sample, change nothing")
    one.add_argument(
        "--limit",
        metavar="N",
        type=whole,
        help="at most so many; by default 100 are shown, all with --json",
    )
    one.add_argument("--spark", action="store_true", help="search with Spark, on all cores")
    add_yes(one)
