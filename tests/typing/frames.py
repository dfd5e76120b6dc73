"""Data frames, arrays and live plots."""

from typing import Any, assert_type

import numpy as np
import numpy.typing as npt

from zwire import frames, plot, typed, zenoh


def arrays(session: zenoh.Session) -> None:
    subscriber = typed.subscriber(session, "a", np.ndarray)
    value = subscriber.recv().value
    assert value is not None
    assert_type(frames.to_numpy(subscriber.recv().sample), np.ndarray[Any, np.dtype[Any]])
    made: npt.NDArray[np.float32] = np.zeros(3, np.float32)
    typed.put(session, "a", made)


def shown(session: zenoh.Session) -> None:
    def number(sample: zenoh.Sample) -> float:
        return float(bytes(sample.payload))

    with plot.live(session, "a", value=number, seconds=5) as live:
        assert_type(live.series(), dict[str, list[tuple[float, float]]])
        assert_type(live.png(), bytes)
    plot.live(session, "a", value=1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
