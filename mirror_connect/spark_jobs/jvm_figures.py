"""What the JVM of Spark tells of itself: memory, threads, garbage collections, and how full its heap is."""

from __future__ import annotations

from typing import Any, Final

from mirror_connect.spark_jobs.full_heap import HeapSample

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


def heap_sample(jvm: Any, at: float) -> HeapSample:
    """As `jvm_figures`. `at`: now, of any clock that never goes back."""
    management = jvm.java.lang.management.ManagementFactory
    pools = [pool for pool in management.getMemoryPoolMXBeans() if pool.getType().name() == "HEAP"]
    # Whatever the collector calls it, the old part is the largest one.
    left, old = max(
        (
            (after.getUsed(), pool.getUsage().getMax())
            for pool in pools
            if (after := pool.getCollectionUsage()) is not None
        ),
        key=lambda found: found[1],
    )
    collecting_ms = sum(bean.getCollectionTime() for bean in management.getGarbageCollectorMXBeans())
    return HeapSample(at, collecting_ms / 1000, left, old, management.getMemoryMXBean().getHeapMemoryUsage().getMax())
