"""What a task has to obey follows from its orders and the end of its epoch."""

from __future__ import annotations

import pytest

from mirror_connect.connectors.task_protocol import TaskOrders
from mirror_connect.spark_jobs.task_context import UnderOrders


@pytest.mark.parametrize(
    ("orders", "epoch_over", "wanted"),
    [
        pytest.param(TaskOrders(1), False, (False, False, False), id="nothing"),
        pytest.param(TaskOrders(1), True, (True, False, False), id="the_epochs_end"),
        pytest.param(TaskOrders(1, finish=True), False, (True, True, False), id="finish"),
        pytest.param(TaskOrders(0, abandon=True), False, (True, True, True), id="abandon"),
    ],
)
def test_a_task_ends_by_orders_and_with_its_epoch(
    orders: TaskOrders, epoch_over: bool, wanted: tuple[bool, bool, bool]
) -> None:
    task = UnderOrders()
    task.orders, task.epoch_over = orders, epoch_over
    assert (task.finish_wanted, task.end_ordered, task.abandon_wanted) == wanted
