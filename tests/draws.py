"""What hypothesis draws: the same in each run of `make test`, and other examples in each round of `make soak`.

By itself it also draws constants that stand in any module that is loaded. So its examples would depend on which tests ran
before in the same process, and each change of the product would change the examples of every seed.
"""

from __future__ import annotations

import os
from typing import Any, Final

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture.providers import HypothesisProvider

# The seed of a round of `make soak` (tests/soak.py), from which the models make their schedules.
MODEL_SEED: Final = "MODEL_SEED"


def settle() -> None:
    """Call it before any test is collected."""
    drawn = "_maybe_draw_constant"
    if not hasattr(HypothesisProvider, drawn):
        raise AttributeError(
            f"this hypothesis has no HypothesisProvider.{drawn}: see what replaces it in tests/draws.py"
        )
    setattr(HypothesisProvider, drawn, _no_constant)
    # How long a made-up example takes says how busy the machine is.
    settings.register_profile(
        "any_machine",
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        derandomize=MODEL_SEED not in os.environ,
    )
    settings.load_profile("any_machine")


def _no_constant(*_: Any, **__: Any) -> None:
    return None
