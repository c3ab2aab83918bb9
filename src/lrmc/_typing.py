"""What the checkers of types know, and older versions of Python do not."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from typing_extensions import override as override
else:
    Method = TypeVar("Method")

    def override(method: Method) -> Method:
        """Says that a method takes the place of one that a base class has, which also
        documents it.
        """
        return method
