"""`inter.worker.*`: the session key and its use, with the rules and texts of Connect's DistributedConfig."""

from __future__ import annotations

import hmac

import pytest

from mirror_connect.app.config.inter_worker import DIGESTS, INTER_WORKER_KEYS, InterWorker
from mirror_connect.connectors.errors import ConfigError

GENERATION = "inter.worker.key.generation.algorithm"
SIZE = "inter.worker.key.size"
TTL = "inter.worker.key.ttl.ms"
SIGNATURE = "inter.worker.signature.algorithm"
VERIFICATION = "inter.worker.verification.algorithms"


def of(**given: str) -> InterWorker:
    return InterWorker.of(
        INTER_WORKER_KEYS.parse_all({name.replace("__", "."): value for name, value in given.items()})
    )


def test_the_defaults_are_those_of_connect() -> None:
    assert of() == InterWorker("HmacSHA256", 32, 3_600_000, "HmacSHA256", ("HmacSHA256",))


# As Java 17 generates them.
@pytest.mark.parametrize(
    ("algorithm", "size"),
    [
        ("HmacMD5", 64),
        ("HmacSHA1", 64),
        ("HmacSHA224", 28),
        ("HmacSHA512", 64),
        ("HmacSHA512/256", 32),
        ("HmacSHA3-384", 48),
    ],
)
def test_a_key_has_the_size_that_java_gives_it(algorithm: str, size: int) -> None:
    assert len(of(**{GENERATION: algorithm}).new_key()) == size


@pytest.mark.parametrize(("bits", "size"), [("40", 5), ("41", 6), ("512", 64)])
def test_a_size_is_in_bits(bits: str, size: int) -> None:
    made = of(**{SIZE: bits})
    assert (len(made.new_key()), made.new_key() == made.new_key()) == (size, False)


def test_every_algorithm_that_is_named_can_be_used() -> None:
    for digest in DIGESTS.values():
        assert hmac.digest(b"k", b"x", digest)


@pytest.mark.parametrize("bits", ["39", "0", "-8", "65537"])
def test_a_key_that_is_too_short_or_too_long_is_refused(bits: str) -> None:
    with pytest.raises(ConfigError, match=r"inter\.worker\.key\.size.*40 to 65536"):
        of(**{SIZE: bits})


def test_the_own_algorithm_has_to_be_accepted() -> None:
    with pytest.raises(ConfigError, match=r"must be present in inter\.worker\.verification\.algorithms list"):
        of(**{SIGNATURE: "HmacSHA512"})
    assert of(**{SIGNATURE: "HmacSHA512", VERIFICATION: "HmacSHA256,HmacSHA512"}).signature_algorithm == "HmacSHA512"


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        (GENERATION, "HmacROT13", "String must be one of: HmacSHA256"),
        (SIGNATURE, "sha256", "String must be one of"),
        (VERIFICATION, "HmacSHA256,nope", "String must be one of"),
        (VERIFICATION, "", "At least one signature verification algorithm must be provided"),
    ],
)
def test_an_algorithm_that_is_not_known_is_refused(name: str, value: str, problem: str) -> None:
    (found,) = (each for each in INTER_WORKER_KEYS.validate_all({name: value}, {}).values() if each.errors)
    assert (found.name, problem in found.errors[0]) == (name, True)


@pytest.mark.parametrize(
    ("key", "algorithm", "created", "settings", "replaced"),
    [
        pytest.param(32, "HmacSHA256", 0, {}, False, id="as_it_should_be"),
        pytest.param(32, "HmacSHA256", -3_600_000, {}, True, id="too_old"),
        pytest.param(32, "HmacSHA256", -3_600_000, {TTL: "0"}, False, id="never_too_old"),
        pytest.param(64, "HmacSHA256", 0, {}, True, id="of_another_size"),
        pytest.param(32, "HmacMD5", 0, {}, True, id="of_another_kind"),
    ],
)
def test_which_keys_the_leader_replaces(
    key: int, algorithm: str, created: int, settings: dict[str, str], *, replaced: bool
) -> None:
    now = 1_700_000_000_000
    assert of(**settings).replaces(b"k" * key, algorithm, now + created, now) is replaced
