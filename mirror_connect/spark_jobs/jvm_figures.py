"""What the JVM of Spark tells of itself: memory, threads, garbage collections. For the worker's metrics."""

from __future__ import annotations

from typing import Any, Final

# A call into the JVM takes less than a millisecond, and these are some ten.
EVERY_S: Final = 5.0


def jvm_figures(jvm: Any) -> dict[str, Any]:
    """By the JVM's own beans; `jvm`: py4j's view of it."""
    management = jvm.java.lang.management.ManagementFactory
    memory = management.getMemoryMXBean()
    return {
        "memory": {
            "heap": memory.getHeapMemoryUsage().getUsed(),
            "nonheap": memory.getNonHeapMemoryUsage().getUsed(),
        },
        "threads": management.getThreadMXBean().getThreadCount(),
        "collections": {
            bean.getName(): (bean.getCollectionCount(), bean.getCollectionTime() / 1000)
            for bean in management.getGarbageCollectorMXBeans()
        },
    }
