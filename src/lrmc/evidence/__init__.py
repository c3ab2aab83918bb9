"""How far a fit can be believed: intervals, gross errors, simple models beside it; by
entries that were set aside.
"""

from .calibration import Calibration, NotCalibrated, calibrate, fitted_again

__all__ = [
    "Calibration",
    "NotCalibrated",
    "calibrate",
    "fitted_again",
]
