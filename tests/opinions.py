"""Second opinions on a table, asked alone."""

from lrmc.methods.cleaned import Lines
from lrmc.observations import as_observations


def asked(of, Y, X, bend, weight=1.0):
    """What an opinion says of Y beside the fit X, where residuals beyond `bend` are clipped."""
    return of(Lines.of(as_observations(Y), X).cleaned(bend), bend, weight)
