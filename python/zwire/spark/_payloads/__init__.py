"""Payloads as columns: readers of formats, and the assembly of their values into batches.

A reader takes the bytes of one payload and returns the values of its columns, or an Arrow table of several
rows; a payload that does not fit raises ``Misfit``, with the place.
"""
