"""What an executor would need, told while there is none: its size, and that of the Spark workers of a standalone master.

The master's page is asked, as it alone says which Spark workers are dead: the master counts these for a quarter of an hour.
Over the driver's connection it tells the page's port, and where the page can't be read, its workers without their states.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING, Any, Final

from mirror_connect.connectors.spark_masters import Kind, kind_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("mirror_connect.spark_jobs")
ASKED_EVERY_S: Final = 15.0
PAGE_S: Final = 5.0
# The state in which a Spark worker gets executors.
_ALIVE: Final = "ALIVE"
_CORES: Final = "spark.executor.cores"
_MEMORY: Final = "spark.executor.memory"


class MissingExecutor:
    """See the module. `clock` gives seconds."""

    def __init__(self, session: SparkSession, clock: Callable[[], float] = time.monotonic) -> None:
        self._context: Any = session.sparkContext
        self._master: str = self._context.master
        self._clock = clock
        self._asked = -ASKED_EVERY_S
        self._asking: threading.Thread | None = None
        self._workers: list[tuple[int, int]] | None = None

    def told(self) -> dict[str, Any]:
        """For the driver's report. It waits for nobody: what the master answers is in a later report."""
        self._ask_now_and_then()
        settings = self._context.getConf()
        return {"cores": settings.get(_CORES, ""), "memory": settings.get(_MEMORY, ""), "workers": self._workers}

    def _ask_now_and_then(self) -> None:
        # `local-cluster[…]` has a master in this JVM, without an address.
        named = kind_of(self._master) is Kind.STANDALONE and self._master.startswith("spark://")
        at_work = self._asking is not None and self._asking.is_alive()
        if not named or at_work or self._clock() - self._asked < ASKED_EVERY_S:
            return
        self._asked = self._clock()
        self._asking = threading.Thread(target=self._ask, name="spark-workers", daemon=True)
        self._asking.start()

    def _ask(self) -> None:
        # Of several masters one leads, and the others have no workers, or are not there.
        found = [self._workers_of(each) for each in self._master.removeprefix("spark://").split(",")]
        answers = [each for each in found if each is not None]
        self._workers = [worker for each in answers for worker in each] if answers else None

    def _workers_of(self, master: str) -> list[tuple[int, int]] | None:
        """Cores and MiB of each; None if no such master answers, or one of another release."""
        deploy = self._context._jvm.org.apache.spark.deploy
        try:
            ports = self._ask_master(master, getattr(deploy.master, "MasterMessages$BoundPortsRequest$"))
            on_page = living_workers(master.rpartition(":")[0].strip("[]"), ports.webUIPort())
            if on_page is not None:
                return on_page
            state = self._ask_master(master, getattr(deploy, "DeployMessages$RequestMasterState$"))
            return [(worker.cores(), worker.memory()) for worker in state.workers()]
        except Exception:
            log.debug("The Spark workers of %s can't be read", master, exc_info=True)
            return None

    def _ask_master(self, master: str, question: Any) -> Any:
        jvm = self._context._jvm
        spark = jvm.org.apache.spark
        tag = getattr(getattr(jvm.scala.reflect, "ClassTag$"), "MODULE$").Any()
        address = spark.rpc.RpcAddress.fromSparkURL(f"spark://{master}")
        endpoint = spark.SparkEnv.get().rpcEnv().setupEndpointRef(address, "Master")
        return endpoint.askSync(getattr(question, "MODULE$"), tag)


def living_workers(host: str, port: int) -> list[tuple[int, int]] | None:
    """Cores and MiB of each Spark worker that gets executors, by a master's page; None if that can't be read."""
    page = HTTPConnection(host, port, timeout=PAGE_S)
    try:
        page.request("GET", "/json/")
        found = json.loads(page.getresponse().read())
        return [(each["cores"], each["memory"]) for each in found["workers"] if each["state"] == _ALIVE]
    except (OSError, HTTPException, ValueError, KeyError, TypeError):
        log.debug("The page of the master at %s:%s can't be read", host, port, exc_info=True)
        return None
    finally:
        page.close()
