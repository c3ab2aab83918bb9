"""What a run gives: iterates on its way, and a result that says how it ended."""

from .completion import UNDETERMINED, Undetermined, left_out
from .files import check_factors
from .result import Result
from .status import Iterate, Record, Status

__all__ = [
    "UNDETERMINED",
    "Iterate",
    "Record",
    "Result",
    "Status",
    "Undetermined",
    "check_factors",
    "left_out",
]
