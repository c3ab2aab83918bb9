"""`make fuzz SECONDS=600` is for all random tests together: each has its share."""

import os


def pytest_collection_modifyitems(items):
    total = os.environ.get("LRMC_FUZZ_TOTAL")
    if total:
        os.environ["LRMC_FUZZ_SECONDS"] = str(float(total) / max(1, len(items)))
