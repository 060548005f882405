"""openapi.yaml against a real worker: hundreds of made-up requests get no answer that it does not describe."""

from __future__ import annotations

import pytest

from deploy.local import LocalCluster
from tests.contract.openapi_fuzz import fuzz, make_connectors
from tests.e2e.product import Product
from tests.seeds import chance

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

# Beside the hundreds that come from the contract itself. `make fuzz` makes up thousands.
EXAMPLES = 1


def test_every_answer_to_whatever_is_sent_is_one_of_the_contract(target_cluster: LocalCluster) -> None:
    with Product(target_cluster, group="contract") as worker:
        make_connectors(worker)
        done = fuzz(worker, chance("openapi").randrange(1 << 32), "--max-examples", str(EXAMPLES))
        assert done.returncode == 0, done.stdout
        worker.check_alive()
        assert "Traceback" not in worker.log_text()
