"""scikit-learn's face of lrmc: rows are samples, columns are features.

`lrmc.RobustPCA` and `lrmc.RobustImputer` come from here when they are first asked for, and with
them scikit-learn."""

from .imputer import RobustImputer
from .pca import RobustPCA

__all__ = ["RobustImputer", "RobustPCA"]
