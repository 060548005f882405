"""Converters of the worker's properties, which change nothing here: they are named with each connector that has none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

# In a process of its own: a worker's parts are made for good.
SAY: Final = """
import asyncio, logging, sys
from mirror_connect.app.distributed import DistributedWorker
from mirror_connect.app.config.worker_config import load_worker_config
from mirror_connect.connectors import connector_definition

async def say():
    worker = DistributedWorker(load_worker_config(sys.argv[1]), lambda _: None).worker
    config = {"name": "c", "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector"}
    worker.herder.validation._notices.log_once("c", connector_definition(config["connector.class"]), config, config)

logging.basicConfig(stream=sys.stdout, format="%(message)s")
asyncio.run(say())
"""
JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
PROPERTIES: Final = f"""
bootstrap.servers=127.0.0.1:1
group.id=converters
config.storage.topic=configs
offset.storage.topic=offsets
status.storage.topic=statuses
listeners=http://127.0.0.1:0
key.converter={JSON}
value.converter=org.apache.kafka.connect.converters.ByteArrayConverter
"""


def test_a_converter_of_the_worker_is_named_with_a_connector_that_has_none(tmp_path: Path) -> None:
    file = tmp_path / "worker.properties"
    file.write_text(PROPERTIES)
    done = subprocess.run(
        [sys.executable, "-c", SAY, str(file)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"write keys as JSON that holds their bytes in base64 (key.converter={JSON} of the worker)." in done.stdout
