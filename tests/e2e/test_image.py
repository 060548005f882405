"""The image's container without an engine: in a read-only root, as user 1001, a worker copies by each convention.

`make test` uses a root whose environment is this checkout's. `make soak` builds the whole image, line by line, and runs
all conventions in it. See tests/image_root.py.
"""

from __future__ import annotations

import contextlib
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
import pytest

from deploy.local import LocalCluster
from mirror_connect.app.config.properties import parse_properties
from tests.brokers import messages
from tests.e2e import mirror_makers
from tests.e2e.dedicated import Dedicated, mm2_properties
from tests.e2e.ends import wait_ends
from tests.e2e.identity_topics import produce
from tests.e2e.mirror_makers import MirrorMaker
from tests.e2e.product import WORKER, Product, mirror_config
from tests.image_root import PATH, PYTHON, STUB, Root, build, can_enter

pytestmark = [
    pytest.mark.brokers,
    pytest.mark.spark,
    pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the image has Python 3.11"),
]
CONFLUENT, DEBEZIUM, PLAIN, STRIMZI = "confluent", "debezium", "plain", "strimzi"
SHORT: Final = {
    "bootstrap.servers": "BOOTSTRAP_SERVERS",
    "group.id": "GROUP_ID",
    "config.storage.topic": "CONFIG_STORAGE_TOPIC",
    "offset.storage.topic": "OFFSET_STORAGE_TOPIC",
    "status.storage.topic": "STATUS_STORAGE_TOPIC",
}
STRIMZIS: Final = """\
rest.advertised.host.name=${strimzienv:ADVERTISED_HOSTNAME}
rest.advertised.port=8083
plugin.path=/opt/kafka/plugins
config.providers=strimzienv,strimzifile,strimzidir,strimzisecrets
config.providers.strimzienv.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider
config.providers.strimzienv.param.allowlist.pattern=.*
config.providers.strimzifile.class=org.apache.kafka.common.config.provider.FileConfigProvider
config.providers.strimzidir.class=org.apache.kafka.common.config.provider.DirectoryConfigProvider
config.providers.strimzidir.param.allowed.paths=/opt/kafka
config.providers.strimzisecrets.class=io.strimzi.kafka.KubernetesSecretConfigProvider
consumer.client.rack=zone-a
"""


@dataclass(frozen=True)
class Image:
    """A built root, what of this machine is seen in it, and the Java to name."""

    root: Root
    bound: Mapping[Path, str]
    variables: Mapping[str, str]

    def script(
        self, path: Path, arguments: list[str], variables: Mapping[str, str], mounts: Mapping[Path, str]
    ) -> None:
        """Writes a program that becomes the container, whatever arguments it is given."""
        command = self.root.command(
            arguments,
            {**self.variables, **variables},
            directory="/opt/kafka",
            user="1001:0",
            read_only=True,
            bound={**self.bound, **mounts},
            scratches=["var/lib/mirror-connect"],
        )
        path.write_text(f"#!/bin/sh\nexec {shlex.join(command)}\n")
        path.chmod(0o755)


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """The image with this checkout's environment."""
    if not can_enter():
        pytest.skip("this machine lets nobody mount in a namespace")
    root = build(tmp_path_factory.mktemp("linked"), whole=False)["final"]
    return Image(root, STUB, {"PATH": f"/opt/mirror-connect/bin:{PATH}"})


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    """The image, every RUN and COPY line executed. It takes minutes, and asks the registries."""
    if not can_enter():
        pytest.skip("this machine lets nobody mount in a namespace")
    directory = tmp_path_factory.mktemp("built")
    root = build(directory, whole=True, timeout_s=900)["final"]
    yield Image(root, PYTHON, root.stage.variables())
    shutil.rmtree(directory, ignore_errors=True)


def _container(convention: str, image: Image, product: Product, directory: Path) -> None:
    """Makes the product's command the image's container, with its properties given by the convention."""
    properties = dict(product.properties) | {
        "plugin.path": "/opt/kafka/plugins",
        "listeners": f"http://:{product.port}",
    }
    variables: dict[str, str] = {}
    mounts: dict[Path, str] = {}
    arguments = ["/entrypoint.sh"]
    mounted = directory / "mounted"
    mounted.mkdir()
    if convention in (CONFLUENT, DEBEZIUM):
        names = SHORT if convention == DEBEZIUM else {}
        long = {name: "CONNECT_" + name.upper().replace(".", "_") for name in properties}
        variables = {names.get(name, long[name]): value for name, value in properties.items()}
        if convention == CONFLUENT:
            arguments = ["/etc/confluent/docker/run"]
            variables["CONNECT_REST_ADVERTISED_HOST_NAME"] = "127.0.0.1"
    elif convention == PLAIN:
        (mounted / "worker.properties").write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        mounts = {mounted: "/config"}
        arguments += ["/config/worker.properties"]
    else:
        text = "".join(f"{name}={value}\n" for name, value in {**properties, **parse_properties(STRIMZIS)}.items())
        (mounted / "kafka-connect.properties").write_text(text)
        mounts = {mounted: "/opt/kafka/custom-config"}
        arguments = ["/opt/kafka/kafka_connect_run.sh"]
    image.script(directory / "container", arguments, variables, mounts)


def _copies(
    convention: str, image: Image, source: LocalCluster, target: LocalCluster, directory: Path, *, topic: str
) -> None:
    source.create_topic(topic, 1)
    produce(source, topic, ({"value": b"record %d" % number, "partition": 0} for number in range(50)))
    product = Product(target, group=topic, command=[directory / "container"])
    _container(convention, image, product, directory)
    more = {}
    if convention == STRIMZI:
        # As the operator writes it for a KafkaMirrorMaker2 with racks.
        more["consumer.client.rack"] = "${strimzifile:/tmp/strimzi-connect.properties:consumer.client.rack}"
    with product as worker:
        worker.put(topic, {**mirror_config(source, target, topic), **more})
        worker.wait_running(topic)
        wait_ends(target, f"A.{topic}", {0: 50})
        parts = worker.parts()
        assert _writes_as_1001(parts[WORKER])
        # The internal HTTP, Spark's driver and its block manager: nobody outside of the container reaches them.
        assert _reached_from_outside([each for part in parts.values() for each in part]) == {worker.port}
        assert len(list(messages(target, f"A.{topic}", 0))) == 50
        assert worker.stop() == 0


def test_a_read_only_container_copies_as_another_user(
    linked: Image, source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    _copies(CONFLUENT, linked, source_cluster, target_cluster, tmp_path, topic="image-linked")


def _dedicated_copies(image: Image, source: LocalCluster, target: LocalCluster, directory: Path, *, topic: str) -> None:
    """`docker run -v …/mm2.properties:/config/mm2.properties IMAGE /config/mm2.properties`."""
    source.create_topic(topic, 1)
    produce(source, topic, ({"value": b"record %d" % number, "partition": 0} for number in range(50)))
    # Both clusters are shared with other tests: topics of heartbeats would be found there.
    more = {"topics": topic, "groups": "", "emit.heartbeats.enabled": "false"}
    properties = mm2_properties({"A": source, "B": target}, ["A->B"], more)
    with contextlib.closing(Dedicated(target, properties, name=topic, command=directory / "container")) as node:
        mounted = _mounted(directory, {"mm2.properties": node.properties})
        image.script(directory / "container", ["/entrypoint.sh", "/config/mm2.properties"], {}, {mounted: "/config"})
        node.start()
        node.wait_running("A/B/MirrorSourceConnector")
        wait_ends(target, f"A.{topic}", {0: 50})
        assert len(list(messages(target, f"A.{topic}", 0))) == 50
        assert _writes_as_1001(node.parts()[WORKER])
        assert node.stop() == 0


def _mirror_maker_1_copies(
    image: Image, source: LocalCluster, target: LocalCluster, directory: Path, *, topic: str
) -> None:
    """`docker run -v …:/config IMAGE kafka-mirror-maker.sh --consumer.config /config/… …`."""
    source.create_topic(topic, 1)
    expected = mirror_makers.produce(source, topic, 0, 50, partitions=1)
    consumer = mirror_makers.consumer_properties(source, topic)
    files = {"source.properties": consumer, "target.properties": target.client_properties()}
    mounted = _mounted(directory, files)
    options = ("--consumer.config", "/config/source.properties", "--producer.config", "/config/target.properties")
    arguments = ["/entrypoint.sh", "kafka-mirror-maker.sh", *options, "--whitelist", topic]
    image.script(directory / "container", arguments, {}, {mounted: "/config"})
    with MirrorMaker([consumer], target, command=[str(directory / "container")]) as maker:
        maker.wait_running()
        mirror_makers.wait_copied(target, topic, expected, partitions=1)
        assert _writes_as_1001([psutil.Process(maker.process.pid)])
        assert maker.stop() == 0
    assert len(mirror_makers.values(target, topic, partitions=1)) == 50


def _standalone_copies(
    image: Image, source: LocalCluster, target: LocalCluster, directory: Path, *, topic: str
) -> None:
    """`docker run -v …:/config IMAGE /config/worker.properties /config/copy.properties`."""
    source.create_topic(topic, 1)
    produce(source, topic, ({"value": b"record %d" % number, "partition": 0} for number in range(50)))
    with contextlib.closing(Product(target, group=topic, command=[directory / "container"])) as worker:
        of_group = ("group.id", "config.storage", "status.storage", "offset.storage")
        own = {name: value for name, value in worker.properties.items() if not name.startswith(of_group)}
        own |= {
            "plugin.path": "/opt/kafka/plugins",
            "offset.storage.file.filename": "/var/lib/mirror-connect/connect.offsets",
        }
        connector = {**mirror_config(source, target, topic), "name": topic}
        mounted = _mounted(directory, {"worker.properties": own, "copy.properties": connector})
        files = ["/config/worker.properties", "/config/copy.properties"]
        image.script(directory / "container", ["/entrypoint.sh", *files], {}, {mounted: "/config"})
        worker.start()
        worker.wait_running(topic)
        wait_ends(target, f"A.{topic}", {0: 50})
        assert len(list(messages(target, f"A.{topic}", 0))) == 50
        assert _writes_as_1001(worker.parts()[WORKER])
        assert worker.stop() == 0


def _mounted(directory: Path, files: Mapping[str, Mapping[str, str]]) -> Path:
    mounted = directory / "mounted"
    mounted.mkdir()
    for name, properties in files.items():
        (mounted / name).write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    return mounted


def _writes_as_1001(processes: Sequence[psutil.Process]) -> bool:
    return all((each.uids().effective, each.gids().effective) == (1001, 0) for each in processes)


def _reached_from_outside(processes: Sequence[psutil.Process]) -> set[int]:
    """The ports that they listen on, but for those of the loopback address."""
    found = set()
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            for each in process.net_connections("tcp"):
                address = each.laddr
                if each.status == psutil.CONN_LISTEN and not address.ip.removeprefix("::ffff:").startswith(
                    ("127.", "::1")
                ):
                    found.add(address.port)
    return found


OTHER_MODES: Final = [
    pytest.param(_dedicated_copies, id="dedicated"),
    pytest.param(_standalone_copies, id="standalone"),
    pytest.param(_mirror_maker_1_copies, id="mm1"),
]


@pytest.mark.long
@pytest.mark.parametrize("copies", OTHER_MODES)
def test_a_container_copies_by_the_files_that_are_its_arguments(
    copies: Callable[..., None],
    linked: Image,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    tmp_path: Path,
) -> None:
    copies(linked, source_cluster, target_cluster, tmp_path, topic=f"image-linked{copies.__name__.replace('_', '-')}")


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("copies", OTHER_MODES)
def test_the_built_image_copies_by_the_files_that_are_its_arguments(
    copies: Callable[..., None],
    built: Image,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    tmp_path: Path,
) -> None:
    copies(built, source_cluster, target_cluster, tmp_path, topic=f"image-built{copies.__name__.replace('_', '-')}")


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_tini_is_process_1_of_the_built_image(built: Image) -> None:
    show = ["/entrypoint.sh", "bash", "-c", "cat /proc/1/comm; curl --version | head -1; java --list-modules | wc -l"]
    command = built.root.command(
        ["unshare", "--pid", "--fork", "--mount-proc", *show], built.variables, bound=built.bound
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    first, second, third = done.stdout.splitlines()
    assert (first, second.split()[0]) == ("tini", "curl"), done.stderr
    # Of the seventy of a whole Java.
    assert int(third) < 30


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("convention", [CONFLUENT, DEBEZIUM, PLAIN, STRIMZI])
def test_the_built_image_copies_by_each_convention(
    convention: str, built: Image, source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    _copies(convention, built, source_cluster, target_cluster, tmp_path, topic=f"image-{convention}")
