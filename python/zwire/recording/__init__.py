"""Recordings: samples in files, in and out, and published again.

>>> from zwire import recording
>>> for batch in recording.read("run.mcap", keys=["robot/*/pose"]):  # doctest: +SKIP
...     print(batch.num_rows, batch.column("key")[0])
>>> recording.write(recording.read("run.mcap"), "run.parquet")  # doctest: +SKIP
>>> recording.replay(session, recording.read("run.parquet"), rate=2)  # doctest: +SKIP

:func:`read` gives Parquet, Arrow IPC, MCAP, captures and spools as record batches of the columns of
``zwire.columns.SAMPLE``, :func:`write` makes Parquet, Arrow IPC and MCAP of such batches and of those
that ``recv_batch`` gives, :func:`replay` publishes them. :class:`Recorder` records a session, with the
losses named in the file. All of it needs pyarrow (``zwire[arrow]``), MCAP its
own library (``zwire[record]``).
"""

from zwire.recording._damage import Damage, damage
from zwire.recording._keys import Remap
from zwire.recording._losses import Loss, losses
from zwire.recording._mcap import McapSchema
from zwire.recording._read import ReadOptions, Recording, read
from zwire.recording._record import Recorded, Recorder, RecordOptions
from zwire.recording._replay import Replayed, ReplayOptions, replay
from zwire.recording._rows import conform
from zwire.recording._write import Written, write

__all__ = [
    "Damage",
    "Loss",
    "McapSchema",
    "ReadOptions",
    "RecordOptions",
    "Recorded",
    "Recorder",
    "Recording",
    "Remap",
    "ReplayOptions",
    "Replayed",
    "Written",
    "conform",
    "damage",
    "losses",
    "read",
    "replay",
    "write",
]
