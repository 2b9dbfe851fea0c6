"""Values as Hydra reads them: what goes into `arguments` is what Hydra's own parser gives back."""

import pytest
from extras import installed
from hypothesis import given
from hypothesis import strategies as st

from ktae.trainers.verl.overrides import arguments

pytestmark = pytest.mark.skipif(not installed("hydra-core"), reason="needs the extra 'verl'")


def read(value):
    from hydra.core.override_parser.overrides_parser import OverridesParser

    [parsed] = OverridesParser.create().parse_overrides(arguments({"key": value}))
    assert not parsed.is_sweep_override()
    return parsed.value()


@pytest.mark.parametrize(
    "text",
    [
        *(
            "/home/josé/run",
            "/runs/backup~1",
            "/a b",
            "C:\\new",
            "123",
            "-5",
            "1_000",
            ".5",
            "1e-6",
        ),
        *("True", "null", "nan", "-Inf", "", " a", "a:b", "k=v", "[a]", "{a:b}", "f(x)", "0x10"),
        *("~", "#", "$", "\\", '"', '\\"', '"\\', "a\\nb", "a\nb", "\t", "'", "--x", "é漢"),
    ],
)
def test_text_stays_that_text(text):
    """Paths, what looks like another type, Hydra's grammar, and escapes."""
    assert repr(read(text)) == repr(text)
    assert repr(read([text, {"a": text}])) == repr([text, {"a": text}])


characters = st.characters(exclude_categories=["Cs"])
texts = st.text(characters) | st.text("\\\"'\n ~é.:/-+_=,${}[]()019eaEinfNtrulsTF")
texts = texts.filter(lambda text: "${" not in text and text != "???")  # OmegaConf's own
keys = st.from_regex(r"[a-z_][a-z0-9_.@-]*", fullmatch=True).filter(
    lambda key: key not in ("null", "true", "false", "nan", "inf")
)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(keys, inner))


@given(values)
def test_any_value_comes_back(value):
    assert repr(read(value)) == repr(value)
