"""`python -m deploy.local up kafka-1 kafka-2:9092 [--sasl]`: clusters for trying things by hand, until Ctrl-C."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from deploy.local.cluster import Listener, LocalCluster, start_all
from deploy.local.errors import LocalError


def main(arguments: list[str] | None = None) -> int:
    """Starts clusters, prints how to reach them, and waits for SIGINT or SIGTERM. Returns 1 with one line if that fails."""
    parser = argparse.ArgumentParser(prog="python -m deploy.local", description="Kafka clusters on loopback.")
    commands = parser.add_subparsers(required=True)
    up = commands.add_parser("up", help="start clusters and stay until Ctrl-C")
    up.add_argument(
        "clusters", nargs="+", metavar="NAME[:PORT]", type=_named, help="PORT: where its first broker listens"
    )
    up.add_argument("--brokers", type=int, default=1, help="brokers of each cluster (1)")
    up.add_argument("--sasl", action="store_true", help="SASL_PLAINTEXT with the user admin, password admin-secret")
    up.add_argument("--tls", action="store_true", help="encrypt the connections")
    up.add_argument("--directory", type=Path, help="keep data here, in a folder for each name (default: temporary)")
    options = parser.parse_args(arguments)
    kinds = {
        (False, False): Listener.PLAINTEXT,
        (True, False): Listener.SASL_PLAINTEXT,
        (False, True): Listener.SSL,
        (True, True): Listener.SASL_SSL,
    }
    listener = kinds[options.sasl, options.tls]
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    clusters: list[LocalCluster] = []
    try:
        for name, port in options.clusters:
            clusters.append(
                LocalCluster(
                    name,
                    options.brokers,
                    listeners=[listener],
                    users={"admin": "admin-secret"} if listener.sasl else {},
                    directory=options.directory / name if options.directory else None,
                    port=port,
                )
            )
        start_all(*clusters)
        for cluster in clusters:
            _describe(cluster)
        print("Ctrl-C stops them.", flush=True)
        while True:
            signal.pause()
    except KeyboardInterrupt:
        return 0
    except LocalError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        for cluster in clusters:
            cluster.close()


def _named(text: str) -> tuple[str, int | None]:
    name, colon, port = text.partition(":")
    if colon and not (port.isdecimal() and 0 < int(port) < 1 << 16):
        raise argparse.ArgumentTypeError(f"{port!r} is no port: give a number from 1 to 65535")
    return name, int(port) if colon else None


def _describe(cluster: LocalCluster) -> None:
    print(f"{cluster.name}: {cluster.bootstrap_servers}  (id {cluster.cluster_id}, files {cluster.directory})")
    path = cluster.write_client_properties()
    print(f"  Java client properties: {path}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
