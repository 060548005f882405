"""`python -m mirror_connect.app worker.properties`: one worker in the foreground, its log on standard error.

Exit codes: 0 stopped as asked; 2 wrong usage or settings; 3 this machine lacks something (Java, room, a free port);
4 the cluster refuses this worker (credentials, group.id held by others) or can't be reached; 1 anything else, which is a
mistake of ours. What went wrong is the last line on standard error; stack traces are logged only for mistakes of ours.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from typing import Final

import uvloop

from mirror_connect.app.environment import check_java, check_scratch
from mirror_connect.app.errors import StartupError
from mirror_connect.app.worker import Worker
from mirror_connect.app.worker_config import WorkerConfig, load_worker_config
from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError, NotAuthorized
from mirror_connect.kafka_io.group_membership import GroupRefusedError

log = logging.getLogger("mirror_connect.app")

USAGE: Final = "usage: connect-distributed.sh worker.properties"
OK, MISTAKE, WRONG_SETTINGS, MACHINE, CLUSTER = range(5)
# Whatever hangs, a worker that was asked to stop is gone within ten seconds.
LAST_RESORT_S: Final = 9.0


def main() -> int:
    """Entry point."""
    logging.basicConfig(
        level=os.environ.get("MIRROR_CONNECT_LOG_LEVEL", "INFO").upper(),
        format="[%(asctime)s] %(levelname)s %(message)s (%(name)s)",
        stream=sys.stderr,
    )
    for noisy in ("httpx", "httpcore", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(USAGE, file=sys.stderr)
        return WRONG_SETTINGS
    try:
        config = load_worker_config(sys.argv[1])
        check_scratch()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_run(config))
    except ConfigError as error:
        return _say(error, WRONG_SETTINGS)
    except StartupError as error:
        return _say(error, MACHINE)
    except (ClusterUnreachable, NotAuthorized, GroupRefusedError) as error:
        return _say(error, CLUSTER)
    except Exception as error:
        log.exception("The worker ends because of a mistake of its own")
        return _say(error, MISTAKE)
    return OK


async def _run(config: WorkerConfig) -> None:
    worker = Worker(config)
    loop = asyncio.get_running_loop()

    def end() -> None:
        log.info("Stopping")
        last_resort = threading.Timer(LAST_RESORT_S, os._exit, (OK,))
        last_resort.daemon = True
        last_resort.start()
        worker.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    java = asyncio.create_task(asyncio.to_thread(check_java))
    running = asyncio.create_task(worker.run())
    await asyncio.wait({java, running}, return_when=asyncio.FIRST_COMPLETED)
    if java.done() and java.exception():
        worker.stop()
        await asyncio.gather(running, return_exceptions=True)
        java.result()
    await running


def _say(error: Exception, code: int) -> int:
    print(f"mirror-connect: {_one_line(error)}", file=sys.stderr)
    return code


def _one_line(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return " ".join(str(error).split()) or type(error).__name__


if __name__ == "__main__":
    sys.exit(main())
