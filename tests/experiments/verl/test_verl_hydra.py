"""Values as Hydra reads them: what goes into `arguments` is what Hydra's own parser gives back."""

import pytest
from extras import installed
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ktae.experiments.verl.overrides import arguments

pytestmark = pytest.mark.skipif(not installed("hydra-core"), reason="needs the extra 'verl'")


def read(value):
    from hydra.core.override_parser.overrides_parser import OverridesParser

    [parsed] = OverridesParser.create().parse_overrides(arguments({"key": value}))
    assert not parsed.is_sweep_override()
    return parsed.value()


characters = st.characters(exclude_categories=["Cs"])
texts = st.text(characters) | st.text("\\\"'\n ~é.:/-+_=,${}[]()019eaEinfNtrulsTF")
texts = texts.filter(lambda text: "${" not in text and text != "???")  # OmegaConf's own
keys = st.from_regex(r"[a-z_][a-z0-9_.@-]*", fullmatch=True).filter(
    lambda key: key not in ("null", "true", "false", "nan", "inf")
)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(keys, inner))


LOOKS_LIKE = [
    *("/home/josé/run", "/runs/backup~1", "C:\\new", "1_000", "0x10", "-Inf", "True", "null", ""),
    *(" a", "f(x)", "[a]", "{a:b}", "k=v", "--x", "~", "$", '\\"', '"\\', "a\\nb", "a\nb"),
]


@settings(max_examples=30)
@example([LOOKS_LIKE, dict.fromkeys("ab", LOOKS_LIKE)])
@given(values)
def test_any_value_comes_back(value):
    """Paths, what looks like another type, Hydra's grammar, and escapes, too."""
    assert repr(read(value)) == repr(value)
