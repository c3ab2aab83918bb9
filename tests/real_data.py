"""Where real data are, if they are there: beside the repository, or where LRMC_DATA says."""

import os
from pathlib import Path

DATA = Path(
    os.environ.get("LRMC_DATA", Path(__file__).resolve().parents[2] / "shared" / "data")
)
