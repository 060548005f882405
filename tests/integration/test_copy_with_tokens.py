"""A source task that logs in with OAuth bearer tokens on both sides, for longer than a login lasts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from deploy.local import Listener, LocalCluster
from tests.fakes.token_endpoint import TokenEndpoint
from tests.integration.mirror_rig import (
    OFFSETS_PARTITIONS,
    OFFSETS_TOPIC,
    fresh_topic,
    produce,
    read,
    running,
    spec_for,
)

pytestmark = pytest.mark.brokers

# The broker hangs up on whoever has not logged in anew for so long, and tokens end sooner than a test does.
# A seventh of a login is left when it is made anew: long enough for a machine that stands still for a moment.
LOGIN_S, TOKEN_S, COPYING_S = 6, 8, 16


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    mechanism = "listener.name.sasl_plaintext.oauthbearer."
    properties = {
        "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{mechanism}connections.max.reauth.ms": str(LOGIN_S * 1000),
        f"{mechanism}sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'unsecuredLoginStringClaim_sub="broker";',
    }
    listeners = (Listener.PLAINTEXT, Listener.SASL_PLAINTEXT)
    with LocalCluster("tokens", listeners=listeners, properties=properties) as made:
        made.create_topic(OFFSETS_TOPIC, OFFSETS_PARTITIONS)
        yield made


async def test_records_flow_on_while_logins_and_tokens_end(cluster: LocalCluster) -> None:
    topic = fresh_topic("tokens")
    for name in (topic, f"A.{topic}"):
        cluster.create_topic(name, 2)
    with TokenEndpoint(TOKEN_S) as endpoint:
        login = endpoint.client_properties(cluster.bootstrap(Listener.SASL_PLAINTEXT))
        async with running(spec_for(cluster, cluster, {topic: 2}, consumer=login, producer=login)) as task:
            for tenth in range(COPYING_S * 10):
                rows = [{"value": b"%d.%d" % (tenth, n), "partition": n % 2} for n in range(20)]
                await asyncio.to_thread(produce, cluster, topic, rows)
                await asyncio.sleep(0.1)
            await task.copied(COPYING_S * 10 * 20)
            await task.finish()
        assert task.link.notices == []
        # Two clients, and each token serves them for less than its whole life.
        assert endpoint.given >= 2 * COPYING_S / TOKEN_S
    # Each record once: nothing was lost with a connection, and sent again without being known.
    assert read(cluster, f"A.{topic}") == read(cluster, topic)
