"""How many examples hypothesis makes: the same ones at every run, unless more are asked for, such as by
LAKEHOUSE_EXAMPLES=2000.
"""

import os

from hypothesis import HealthCheck, settings

EXAMPLES = os.environ.get("LAKEHOUSE_EXAMPLES")
QUICK = settings(
    max_examples=int(EXAMPLES or 40),
    derandomize=EXAMPLES is None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
