"""Checks of ``zwire doctor`` and ``zwire zre doctor``, and the form of their findings."""
