"""Payloads as columns: readers of formats, and what puts their values into batches.

A reader takes the bytes of one payload and gives the values of its columns, or an Arrow table of several
rows; what does not fit raises ``Misfit``, with the place.
"""
