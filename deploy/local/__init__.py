"""Kafka clusters on loopback: real brokers, started in seconds and gone with the process that started them."""

from deploy.local.cluster import Listener, LocalCluster, start_all
from deploy.local.errors import LocalError
from deploy.local.free_ports import free_port

__all__ = ["Listener", "LocalCluster", "LocalError", "free_port", "start_all"]
