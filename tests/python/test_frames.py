"""Data frames, arrays and live plots of samples, replies and batches."""

import io
import sys
import time
import types

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import nodes
from nodes import eventually
from zwire import frames, plot, typed, zenoh
from zwire.columns import RECEIVED, REPLY
from zwire.errors import KeyExprError, PayloadError
from zwire.zenoh.handlers import FifoChannel

PATIENCE = 10
NPY = "application/x-npy"


@pytest.fixture
def alone():
    with nodes.opened("peer") as session:
        yield session


def npy(array, **options):
    out = io.BytesIO()
    np.save(out, array, **options)
    return out.getvalue()


# ---- Arrays of zwire.typed --------------------------------------------------------------------------

KINDS = st.one_of(
    arrays.scalar_dtypes(),
    arrays.byte_string_dtypes(min_len=1, max_len=4),
    st.just(np.dtype([("a", "<i2"), ("\u00fc", "f8", (2,))])),
)


@settings(max_examples=150, deadline=None)
@given(arrays.arrays(KINDS, arrays.array_shapes(min_dims=0, min_side=0, max_side=4)), st.booleans())
def test_arrays_come_back_with_shape_and_type(array, transposed):
    array = array.T if transposed else array
    payload, encoding = typed.encode(array)
    assert str(encoding) == NPY
    # numpy itself reads it, and what numpy writes is read.
    for data in (bytes(payload), npy(array)):
        loaded = np.load(io.BytesIO(data))
        found = typed.decode(data, NPY, np.ndarray)
        assert (found.shape, found.dtype) == (array.shape, array.dtype)
        assert found.tobytes() == loaded.tobytes()
    assert not found.flags.writeable


def test_an_array_refers_to_its_payload():
    payload, _ = typed.encode(np.arange(10_000.0))
    found = typed.decode(payload, NPY, np.ndarray)
    assert found.base is not None
    assert np.shares_memory(found, np.frombuffer(memoryview(payload), np.uint8))


def test_the_model_may_demand_a_type():
    model = npt.NDArray[np.float32]
    payload, encoding = typed.encode(np.zeros(3, np.float32), model)
    assert typed.decode(payload, encoding, model).dtype == np.float32
    assert typed.decode(npy(np.zeros(3, ">f4")), NPY, model).dtype == np.dtype(">f4")
    assert typed.decode(npy(np.zeros(3, "f8")), NPY, npt.NDArray[np.floating]).dtype == np.float64
    for wrong in (npy(np.zeros(3)), npy(np.zeros(3, "i4"))):
        with pytest.raises(PayloadError, match="an array of float32 is expected"):
            typed.decode(wrong, NPY, model)
    with pytest.raises(PayloadError, match="an array of float32 is expected"):
        typed.encode(np.zeros(3), model)


def test_subscribers_get_arrays(alone):
    with (
        typed.subscriber(alone, "scan", np.ndarray) as subscriber,
        typed.publisher(alone, "scan", np.ndarray) as publisher,
    ):
        publisher.put(np.eye(3, dtype=np.int16))
        message = subscriber.recv(PATIENCE)
        alone.put("scan", "[1]", encoding="application/json")
        other = subscriber.recv(PATIENCE)
    assert message.value.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert isinstance(other.error, PayloadError)


class Bomb:
    def __reduce__(self):
        return (exec, ("raise AssertionError('a pickle was read')",))


def header(text):
    data = text.encode()
    return b"\x93NUMPY\x01\x00" + len(data).to_bytes(2, "little") + data


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x93NUMPY",
        b"\x93NUMPY\x09\x00" + bytes(20),
        b"\x93NUMPY\x03\x00" + bytes(20),
        npy(np.array([Bomb()], object), allow_pickle=True),
        npy(np.arange(10))[:-1],
        npy(np.arange(10)) + b"x",
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 1000000000000)}"),
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}") + bytes(8),
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (0, " + "9" * 40 + ")}"),
        header("{'descr': '|S0', 'fortran_order': False, 'shape': (99999999,)}"),
        header("{'descr': '|V0', 'fortran_order': False, 'shape': ()}"),
        header("{'descr': 'O', 'fortran_order': False, 'shape': ()}"),
        header("{'descr': [('a', 'O')], 'fortran_order': False, 'shape': ()}"),
        header("__import__('os').abort()"),
        header("(" * 5000),
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (" + "1," * 100 + ")}") + bytes(8),
        b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + b"(" * 20_000,
    ],
)
def test_hostile_arrays_are_refused(payload):
    with pytest.raises(PayloadError):
        typed.decode(payload, NPY, np.ndarray)


def test_what_is_no_array_is_refused():
    with pytest.raises(PayloadError, match="ndarray expected, not list"):
        typed.encode([1], np.ndarray)
    with pytest.raises(PayloadError, match="Python objects"):
        typed.encode(np.array([{}]))
    with pytest.raises(PayloadError, match="Latin-1"):
        typed.encode(np.zeros(1, [("\u0100", "f8")]))
    with pytest.raises(TypeError, match="has no form in JSON"):
        typed.encode(np.zeros(1), codec="json")
    with pytest.raises(TypeError, match="is no ndarray"):
        typed.encode({}, codec="numpy")


# ---- Data frames ------------------------------------------------------------------------------------


def test_samples_batches_and_recordings_become_the_same_frame(alone):
    with alone.declare_subscriber("a/*") as one, alone.declare_subscriber("a/*") as other:
        alone.put("a/json", '{"x": 1.5}', encoding="application/json", attachment="beside")
        alone.put("a/plain", "7")
        alone.delete("a/plain")
        samples = [one.recv(PATIENCE) for _ in range(3)]
        batch = other.recv_batch(timeout=PATIENCE)
    found = frames.to_pandas(samples, values=True)
    assert list(found.columns) == [*RECEIVED.names, "value"]
    assert found["value"].tolist() == [{"x": 1.5}, 7, None]
    assert found["kind"].tolist() == ["put", "put", "del"]
    assert found["attachment"].tolist() == [b"beside", None, None]
    pd.testing.assert_frame_equal(found, frames.to_pandas(batch, values=True))
    pd.testing.assert_frame_equal(
        found.drop(columns="value"), frames.to_pandas(pa.table(pa.record_batch(batch)))
    )
    assert frames.to_pandas(samples[1:2], values=True)["value"].dtype == "Int64"
    assert len(frames.to_pandas([])) == 0


def test_replies_become_a_frame(alone):
    def answer(query):
        query.reply("q", "1.5", encoding="application/json")
        query.reply_err("no")

    with alone.declare_queryable("q", answer):
        found = frames.to_pandas(alone.get("q", FifoChannel(8), timeout=PATIENCE), values=True)
    assert list(found.columns) == [*REPLY.names, "value"]
    found = found.sort_values("key")
    assert found["key"].tolist() == ["q", None]
    assert (found["value"].tolist()[0], found["error"].tolist()) == (1.5, [None, "no"])
    assert set(found["replier"]) == {str(alone.zid())}


def test_what_is_no_message_is_refused():
    for source in (5, "text", [1], None):
        with pytest.raises(TypeError, match="a batch, samples or replies are expected"):
            frames.to_pandas(source)
        with pytest.raises(TypeError, match="a batch, samples or replies are expected"):
            frames.to_numpy(source)


def sample(payload, encoding="zenoh/bytes", key="k"):
    return types.SimpleNamespace(
        payload=zenoh.ZBytes(payload),
        encoding=zenoh.Encoding(encoding),
        key_expr=key,
        kind=zenoh.SampleKind.PUT,
    )


def test_messages_become_arrays():
    array = np.arange(6, dtype=np.uint8).reshape(2, 3)
    one = sample(npy(array), NPY)
    assert np.array_equal(frames.to_numpy(one), array)
    assert frames.to_numpy([one, one]).shape == (2, 2, 3)
    assert frames.to_numpy(sample("[[1, 2.5]]", "application/json")).tolist() == [[1, 2.5]]
    assert frames.to_numpy(sample("7")).tolist() == 7
    assert frames.to_numpy(sample("1e3", "text/plain")) == 1000
    assert frames.to_numpy(sample(b"\x01\x00\x02\x00"), "<u2").tolist() == [1, 2]
    assert frames.to_numpy(sample(b"\x01\x02", "application/cdr"), np.uint8).tolist() == [1, 2]
    assert frames.to_numpy(types.SimpleNamespace(ok=one, err=None)).tolist() == array.tolist()
    assert frames.to_numpy([]).shape == (0,)


@pytest.mark.parametrize(
    ("given_", "problem"),
    [
        (sample("{}", "application/json"), "no array|is no array of numbers"),
        (sample("x", "text/plain"), "k: no array"),
        (sample("{", "application/json"), "no JSON"),
        (sample("NaN", "application/json"), "NaN is not JSON"),
        (sample(b"\xff", "text/plain"), "no UTF-8"),
        (sample(b"\xff\xff", "application/cdr"), "dtype= reads its bytes"),
        (sample(b"abc"), "no array"),
        ([sample("[1]"), sample("[1, 2]")], "arrays of different shapes"),
        (types.SimpleNamespace(ok=None, err=1), "the reply is an error"),
        (sample("[" * 100_000, "application/json"), "no JSON"),
    ],
)
def test_what_is_no_array_of_numbers_is_refused(given_, problem):
    with pytest.raises(PayloadError, match=problem):
        frames.to_numpy(given_)


# ---- Live plots -------------------------------------------------------------------------------------


def test_numbers_are_plotted_while_they_come(alone):
    with plot.live(alone, "robot/*/state", series=5) as live:
        alone.put(
            "robot/1/state",
            '{"x": 1.5, "pose": {"y": 2}, "name": "7", "list": [1]}',
            encoding="application/json",
        )
        alone.put("robot/2/state", "3")
        alone.put("robot/2/state", npy(np.float32(4)), encoding=NPY)
        alone.put("robot/3/state", "words")
        alone.put("robot/3/state", "inf", encoding="text/plain")
        alone.delete("robot/3/state")
        alone.put("robot/4/state", '{"a": 1, "b": 2, "c": 3}')
        eventually(lambda: live.samples == 7)
        found = {name: [number for _, number in points] for name, points in live.series().items()}
        assert found == {
            "robot/1/state.x": [1.5],
            "robot/1/state.pose.y": [2],
            "robot/2/state": [3, 4],
            "robot/4/state.a": [1],
            "robot/4/state.b": [2],
        }
        assert (live.skipped, live.refused) == (3, 1)
        figure = live.figure()
    (axes,) = figure.axes
    assert [line.get_label().strip() for line in axes.lines] == list(found)
    assert [list(line.get_ydata()) for line in axes.lines] == list(found.values())
    assert axes.get_title() == "robot/*/state: 7 samples, 1 numbers of further series"
    assert live.png().startswith(b"\x89PNG")
    alone.put("robot/2/state", "5")
    time.sleep(0.05)
    assert live.samples == 7
    live.close()


def test_a_function_may_give_the_numbers(alone):
    def halved(sample):
        return {"$half_": float(bytes(sample.payload)) / 2}

    with plot.live(alone, "k", value=halved, points=3) as live:
        for number in range(5):
            alone.put("k", str(number))
        alone.put("k", "x")
        eventually(lambda: live.samples == 6)
        assert [number for _, number in live.series()["k.$half_"]] == [1, 1.5, 2]
        assert live.skipped == 1
        assert live.png().startswith(b"\x89PNG")


def test_a_notebook_shows_it_until_it_is_closed(alone, monkeypatch):
    shown, updates = [], []

    class Handle:
        def update(self, picture):
            updates.append(picture._repr_png_()[:4])

    def display(picture, *, display_id):
        assert display_id
        shown.append(picture)
        return Handle()

    shell = types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", types.SimpleNamespace(display=display))
    with plot.live(alone, "k", interval=0.01) as live:
        live._ipython_display_()
        eventually(lambda: len(updates) > 1)
    assert (len(shown), set(updates)) == (1, {b"\x89PNG"})
    count = len(updates)
    time.sleep(0.05)
    assert len(updates) == count


def test_without_a_notebook_it_says_what_to_use(alone, monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython.display", None)
    with plot.live(alone, "k") as live, pytest.raises(ImportError, match="elsewhere use figure"):
        live.show()


@pytest.mark.parametrize("options", [{"seconds": 0}, {"points": -1}, {"interval": float("inf")}])
def test_wrong_options_of_a_plot_are_refused(alone, options):
    with pytest.raises(ValueError, match="must be above 0"):
        plot.live(alone, "k", **options)
    with pytest.raises(KeyExprError):
        plot.live(alone, "a//b")


def test_models_of_arrays_are_found():
    assert typed.registry.takes(np.ndarray)
    assert typed.registry.takes(npt.NDArray[np.int8])
