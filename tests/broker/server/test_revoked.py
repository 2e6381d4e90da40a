"""What a bus can still do when its token has been revoked, and what its broker tells it before."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import polycast as pc
from polycast.broker.server.fair_scheduler import TOO_LONG
from polycast.broker.server.run import Serving

OpenBus = Callable[..., pc.Bus]
Eventually = Callable[[Callable[[], object]], None]
Tokens = Callable[..., tuple[Any, dict[str, str]]]
RIGHTS = 'publish = ["*"]\nsubscribe = ["*"]'


@dataclass(frozen=True)
class Reading:
    value: int


def revoke_all(tokens: Any) -> None:
    """Let nobody in any more but somebody else."""
    path = Path(tokens.path)
    path.write_text(f'[[token]]\nname = "other"\nsha256 = "{"1" * 64}"\nadmin = true\n')
    path.chmod(0o600)


@pytest.fixture
def revoked(
    serve: Callable[..., Serving], tokens: Tokens, open_bus: OpenBus, eventually: Eventually
) -> tuple[pc.Bus, pc.Subscription[Reading]]:
    """A bus with a subscription, whose token is not valid any more."""
    known, secrets = tokens(shop=RIGHTS + '\ndescribe = ["*"]')
    serving = serve(tokens=known)
    bus = open_bus(serving.url, token=secrets["shop"])
    sub = bus.subscribe(Reading, lambda reading: None, durable="readings")
    bus.publish(Reading(1))
    bus.flush(5)
    revoke_all(known)
    serving.broker.soon(serving.broker.refresh_tokens)
    eventually(lambda: any("was refused" in each for each in bus.health().problems))
    return bus, sub


def test_health_says_that_the_token_is_revoked(
    revoked: tuple[pc.Bus, pc.Subscription[Reading]],
) -> None:
    (problem,) = revoked[0].health().problems
    assert "one that the broker does not know or that has expired" in problem
    assert problem in str(revoked[0].health())


def test_a_revoked_bus_explains_and_closes_and_the_rest_says_why_not(
    revoked: tuple[pc.Bus, pc.Subscription[Reading]],
) -> None:
    bus, sub = revoked
    assert sub.state == "active"
    assert sub.explain(Reading(2)).delivered
    assert "Reading" in str(sub.explain())
    calls: list[Callable[[], object]] = [
        lambda: bus.publish(Reading(2)),
        lambda: list(bus.dead_letters()),
        lambda: bus.flush(1),
    ]
    for call in calls:
        with pytest.raises(pc.AccessDeniedError):
            call()
    sub.detach()
    bus.close()


def test_the_log_of_a_revoked_bus_tells_it_once(
    caplog: pytest.LogCaptureFixture, revoked: tuple[pc.Bus, pc.Subscription[Reading]]
) -> None:
    revoked[0].close()
    errors = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert [each.getMessage().split(":")[0] for each in errors] in ([], ["reading stopped"])
    assert not any(each.exc_info for each in errors)


def test_a_client_is_told_that_its_filters_are_suspended(
    serve: Callable[..., Serving], tokens: Tokens, open_bus: OpenBus
) -> None:
    known, secrets = tokens(shop=RIGHTS, evil=RIGHTS)
    serving = serve(tokens=known)
    shop, evil = (open_bus(serving.url, token=secrets[each]) for each in ("shop", "evil"))
    assert not evil.health().problems
    serving.broker.filter_budget.spend("evil", 2 * TOO_LONG)
    (notice,) = evil.health().problems
    assert notice.startswith("the filters of 'evil' took 0.06 s of the broker's time within 1 s")
    assert not shop.health().problems
