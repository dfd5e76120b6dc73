"""Key expressions, selectors, parameters, encodings and enumerations.

Texts, equality, hashes and numbers are those that eclipse-zenoh 1.10.2 gives, except where a test says so.
"""

import enum
import pickle

import pytest

from zwire import errors, zenoh
from zwire.zenoh import (
    CongestionControl,
    ConsolidationMode,
    Encoding,
    KeyExpr,
    Locality,
    Parameters,
    Priority,
    QueryConsolidation,
    QueryTarget,
    Reliability,
    ReplyKeyExpr,
    SampleKind,
    Selector,
    SetIntersectionLevel,
    WhatAmI,
    WhatAmIMatcher,
    ZError,
)

NUMBERS = {
    CongestionControl: {"DROP": 0, "BLOCK": 1, "BLOCK_FIRST": 2, "DEFAULT": 0},
    ConsolidationMode: {"AUTO": 0, "NONE": 1, "MONOTONIC": 2, "LATEST": 3, "DEFAULT": 0},
    Locality: {"SESSION_LOCAL": 0, "REMOTE": 1, "ANY": 2, "DEFAULT": 2},
    Priority: {
        "REAL_TIME": 1,
        "INTERACTIVE_HIGH": 2,
        "INTERACTIVE_LOW": 3,
        "DATA_HIGH": 4,
        "DATA": 5,
        "DATA_LOW": 6,
        "BACKGROUND": 7,
        "DEFAULT": 5,
        "MIN": 7,
        "MAX": 1,
    },
    QueryTarget: {"BEST_MATCHING": 0, "ALL": 1, "ALL_COMPLETE": 2, "DEFAULT": 0},
    Reliability: {"BEST_EFFORT": 0, "RELIABLE": 1, "DEFAULT": 0},
    ReplyKeyExpr: {"ANY": 0, "MATCHING_QUERY": 1, "DEFAULT": 1},
    SampleKind: {"PUT": 0, "DELETE": 1},
    SetIntersectionLevel: {"DISJOINT": 0, "INTERSECTS": 1, "INCLUDES": 2, "EQUALS": 3},
    WhatAmI: {"ROUTER": 1, "PEER": 2, "CLIENT": 4},
}


def same_after_pickling(value):
    return all(pickle.loads(pickle.dumps(value, protocol)) == value for protocol in (2, 4, 5))


# ---- All of them ------------------------------------------------------------------------------------


def test_every_public_name_exists():
    assert len(zenoh.__all__) > 20
    assert [name for name in zenoh.__all__ if not hasattr(zenoh, name)] == []


def test_classes_say_where_programs_find_them():
    classes = [c for name in zenoh.__all__ if isinstance(c := getattr(zenoh, name), type)]
    assert len(classes) > 20
    for c in classes:
        module = "zwire.errors" if issubclass(c, Exception) else "zwire.zenoh"
        assert c.__module__ in {module, "zwire.zenoh.handlers"}, c
        assert c.__doc__, c


def test_every_public_method_is_documented():
    looked_at = 0
    for name in zenoh.__all__:
        cls = getattr(zenoh, name)
        if not isinstance(cls, type) or issubclass(cls, Exception | enum.Enum):
            continue
        for attribute, value in vars(cls).items():
            if not attribute.startswith("_") and (callable(value) or hasattr(value, "__get__")):
                looked_at += 1
                assert value.__doc__, f"{name}.{attribute}"
    assert looked_at > 60


# ---- Key expressions --------------------------------------------------------------------------------


def test_a_key_expression_is_like_its_text():
    key = KeyExpr("a/*")
    assert str(key) == "a/*"
    assert repr(key) == "ke`a/*`"
    assert key == "a/*"
    assert key == KeyExpr("a/*")
    assert KeyExpr(key) == key
    assert key != "a/b"
    assert key != 1
    assert hash(key) == hash("a/*")
    assert {"a/*": 1}[key] == 1


def test_key_expressions_sort_like_texts():
    texts = ["b", "a/b", "a", "a/*", "é"]
    assert [str(key) for key in sorted(map(KeyExpr, texts))] == sorted(texts)
    assert KeyExpr("a") < "b"
    with pytest.raises(TypeError):
        KeyExpr("a") < 1  # noqa: B015 - the comparison is the test


@pytest.mark.parametrize(
    ("text", "offset"), [("", 0), ("/a", 0), ("a//b", 2), ("a/", 2), ("a#", 1), ("a/**/**", 5), ("a*", 1)]
)
def test_what_is_no_key_expression(text, offset):
    with pytest.raises(errors.KeyExprError) as caught:
        KeyExpr(text)
    assert caught.value.offset == offset
    assert f"at byte {offset}" in str(caught.value)
    assert isinstance(caught.value, ZError | ValueError)


def test_a_key_expression_is_made_of_text_only():
    for value in (1, None, b"a", ["a"]):
        with pytest.raises(TypeError, match="expected a KeyExpr or str"):
            KeyExpr(value)


def test_canonical_form_on_request():
    assert KeyExpr.autocanonize("a/**/**/$*") == "a/*/**"
    with pytest.raises(errors.KeyExprError):
        KeyExpr.autocanonize("a//b")


def test_matching_takes_texts_too():
    wild = KeyExpr("a/*")
    assert wild.intersects("a/b")
    assert not wild.intersects(KeyExpr("b"))
    assert wild.includes("a/b")
    assert not KeyExpr("a/b").includes(wild)
    assert KeyExpr("a/b").relation_to("a/*") is SetIntersectionLevel.INTERSECTS
    assert wild.relation_to("a/b") is SetIntersectionLevel.INCLUDES
    assert wild.relation_to("a/*") is SetIntersectionLevel.EQUALS
    assert wild.relation_to("b") is SetIntersectionLevel.DISJOINT
    with pytest.raises(errors.KeyExprError):
        wild.intersects("a//b")


def test_putting_key_expressions_together():
    key = KeyExpr("a/b")
    assert key.join("c") == "a/b/c"
    assert key / "c" == "a/b/c"
    assert "r" / key == "r/a/b"
    assert key.concat("c") == "a/bc"
    with pytest.raises(errors.KeyExprError):
        key.join("/c")
    with pytest.raises(errors.KeyExprError):
        KeyExpr("a/*").concat("*")


# ---- Parameters and selectors -----------------------------------------------------------------------


def test_parameters_of_text_dict_and_themselves():
    for given in ("a=1;b=x|y", {"a": "1", "b": "x|y"}, Parameters("a=1;b=x|y")):
        parameters = Parameters(given)
        assert str(parameters) == "a=1;b=x|y"
        assert list(parameters) == [("a", "1"), ("b", "x|y")]
    assert str(Parameters()) == str(Parameters(None)) == ""
    for wrong in (1, [("a", "b")], {"a": 1}, {1: "a"}):
        with pytest.raises(TypeError):
            Parameters(wrong)


def test_reading_parameters():
    parameters = Parameters("a=1|2;b;;c=;")
    assert parameters
    assert not parameters.is_empty()
    assert "b" in parameters
    assert "d" not in parameters
    assert parameters["a"] == "1|2"
    assert parameters["b"] == ""
    assert parameters["d"] is None
    assert parameters.get("d") is None
    assert parameters.get("d", "x") == "x"
    assert parameters.values("a") == ["1", "2"]
    assert parameters.values("d") == []
    assert parameters.is_ordered()
    assert not Parameters("b;a").is_ordered()
    assert not Parameters("")


def test_changing_parameters():
    parameters = Parameters("a=1")
    assert parameters.insert("b", "2") is None
    assert parameters.insert("a", "3") == "1"
    assert str(parameters) == "b=2;a=3"
    assert parameters.remove("b") == "2"
    assert parameters.remove("b") is None
    parameters.extend({"c": "4"})
    parameters.extend(parameters)
    assert str(parameters) == "a=3;c=4"
    assert parameters == Parameters("a=3;c=4")
    # A program may have them in a set: equal ones have one hash, and keep it when they change.
    known = {parameters}
    parameters.insert("d", "5")
    assert parameters in known
    assert hash(Parameters("e=6")) == hash(Parameters("e=6"))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("a/b?x=1",), "a/b?x=1"),
        (("a/b", "x=1"), "a/b?x=1"),
        (("a/b", {"x": "1"}), "a/b?x=1"),
        ((KeyExpr("a"),), "a"),
        ((KeyExpr("a"), Parameters("x")), "a?x"),
        ((Selector("a?x"),), "a?x"),
    ],
)
def test_selectors(arguments, text):
    selector = Selector(*arguments)
    assert str(selector) == text
    assert repr(selector) == f'sel"{text}"'
    assert selector.key_expr == text.partition("?")[0]
    assert str(selector.parameters) == text.partition("?")[2]
    assert selector == Selector(text)


def test_what_is_no_selector():
    with pytest.raises(errors.KeyExprError):
        Selector("a//b?x")
    with pytest.raises(errors.KeyExprError):
        Selector("a?x", "y")
    with pytest.raises(TypeError):
        Selector(1)


def test_the_parts_of_a_selector_are_assigned_not_changed():
    selector = Selector("a?x=1")
    selector.parameters.insert("y", "2")
    assert str(selector) == "a?x=1"
    selector.parameters = {"y": "2"}
    selector.key_expr = "b"
    assert str(selector) == "b?y=2"
    with pytest.raises(errors.KeyExprError):
        selector.key_expr = "b//c"
    assert str(selector) == "b?y=2"


# ---- Encodings --------------------------------------------------------------------------------------


def test_an_encoding_is_like_its_text():
    assert Encoding() == Encoding(None) == Encoding("") == Encoding.ZENOH_BYTES
    assert Encoding("text/plain") == Encoding.TEXT_PLAIN == "text/plain"
    assert hash(Encoding.TEXT_PLAIN) == hash("text/plain")
    assert Encoding(Encoding.TEXT_PLAIN) == Encoding.TEXT_PLAIN
    assert Encoding.TEXT_PLAIN != 1
    assert repr(Encoding("foo/bar;x")) == "Encoding('foo/bar;x')"
    with pytest.raises(TypeError):
        Encoding(1)


def test_schemas():
    assert str(Encoding.TEXT_PLAIN.with_schema("utf8")) == "text/plain;utf8"
    assert str(Encoding("foo/bar;x").with_schema("y")) == "foo/bar;y"
    assert Encoding("text/plain;utf8").schema == b"utf8"
    assert Encoding.TEXT_PLAIN.schema is None
    assert Encoding.TEXT_PLAIN.with_schema("x" * 255).schema == b"x" * 255
    for make in (lambda: Encoding.TEXT_PLAIN.with_schema("x" * 256), lambda: Encoding("é" * 128)):
        with pytest.raises(errors.InvalidValue, match="at most 255 bytes, not 256"):
            make()


def test_predefined_encodings_are_attributes():
    predefined = {name: value for name, value in vars(Encoding).items() if isinstance(value, Encoding)}
    assert len(predefined) == 53
    assert sorted(encoding.id for encoding in predefined.values()) == list(range(53))
    for name, encoding in predefined.items():
        assert "".join(c if c.isalnum() else "_" for c in str(encoding)).upper() == name
    assert Encoding.APPLICATION_JSON_PATCH_JSON == "application/json-patch+json"
    assert Encoding.VIDEO_VP9.id == 52


def test_what_peers_may_send_can_be_held():
    odd = Encoding.from_id(999, b"\xff")
    assert (odd.id, odd.schema) == (999, b"\xff")
    assert str(odd) == "unknown(999);unknown(non-utf8)"
    assert same_after_pickling(odd)
    assert Encoding("foo/bar").id == 65535


# ---- Enumerations -----------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", NUMBERS)
def test_the_members_of_an_enumeration(cls):
    assert {name: int(member) for name, member in cls.__members__.items()} == NUMBERS[cls]
    for member in cls:
        # Roles are written as in the text of what holds them.
        expected = member.name.capitalize() if cls is WhatAmI else f"{cls.__name__}.{member.name}"
        assert repr(member) == expected
        assert cls[member.name] is cls(member.value) is member
        assert member != member.value
        assert pickle.loads(pickle.dumps(member)) is member


def test_roles_print_as_the_configuration_writes_them():
    assert [str(role) for role in WhatAmI] == ["router", "peer", "client"]
    assert WhatAmI("peer") is WhatAmI.PEER
    with pytest.raises(ZError, match="no role"):
        WhatAmI("Peer")
    assert str(Priority.DATA) == "Priority.DATA"


def test_matchers():
    matcher = WhatAmIMatcher("client|router")
    assert str(matcher) == "router|client"
    assert matcher == WhatAmIMatcher.empty().client().router() == WhatAmI.ROUTER | WhatAmI.CLIENT
    assert matcher.matches(WhatAmI.ROUTER)
    assert WhatAmI.PEER not in matcher
    assert WhatAmIMatcher().is_empty()
    assert WhatAmIMatcher("peer|peer") == WhatAmIMatcher("").peer()
    # As eclipse-zenoh reads them.
    assert WhatAmIMatcher(" peer | router |") == WhatAmIMatcher("router|peer")
    assert matcher.matches("router")
    assert "peer" not in matcher
    assert WhatAmI.ROUTER | "peer" == "peer" | WhatAmI.ROUTER == WhatAmIMatcher("router|peer")
    for wrong in ("Peer", "router,peer", "x"):
        with pytest.raises(errors.InvalidValue):
            WhatAmIMatcher(wrong)
        with pytest.raises(errors.InvalidValue):
            matcher.matches(wrong)
    with pytest.raises(TypeError):
        matcher.matches(1)


def test_a_consolidation_holds_a_mode():
    assert QueryConsolidation.AUTO.mode is ConsolidationMode.AUTO
    assert QueryConsolidation(ConsolidationMode.LATEST).mode is ConsolidationMode.LATEST
    assert QueryConsolidation.DEFAULT == QueryConsolidation.AUTO
    assert QueryConsolidation.AUTO != ConsolidationMode.AUTO
    with pytest.raises(TypeError, match="a member of ConsolidationMode"):
        QueryConsolidation(0)


# ---- Pickling ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        KeyExpr("a/**"),
        Parameters("a=1;b"),
        Selector("a?x=1"),
        Encoding("text/plain;utf8"),
        Encoding.ZENOH_BYTES,
        Encoding("custom"),
        QueryConsolidation(ConsolidationMode.NONE),
        WhatAmIMatcher("peer|client"),
        WhatAmIMatcher(),
    ],
    ids=repr,
)
def test_values_pickle(value):
    assert same_after_pickling(value)
