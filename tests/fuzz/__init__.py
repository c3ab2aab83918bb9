"""Random calls against slow references: a package, so that its files may have the names
of those beside it.
"""
