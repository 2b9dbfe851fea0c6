"""The library's own language, and how others are found."""

import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest
from every_language import EveryLanguage
from second_language import MORE, offer

from ktae import demo
from ktae.demo import SUMS, language_named, language_names
from ktae.errors import InputError


class TestSums(EveryLanguage):
    language = SUMS
    frozen = ("1", "6c2d3e3b5612054a")


def test_languages_by_name(monkeypatch):
    offer(monkeypatch)
    assert language_named("sums") is SUMS
    assert language_named("more-sums") is MORE
    assert language_names() == ["sums", "rooms", "more-sums"]


def test_an_unknown_language_lists_what_there_is(monkeypatch):
    offer(monkeypatch)
    message = r"no demo language 'latin'; expected one of sums, rooms, more-sums \(.*ktae-lab\)"
    with pytest.raises(InputError, match=message):
        language_named("latin")


def test_nobody_replaces_the_library_s_own(monkeypatch):
    offer(monkeypatch, sums="second_language:MORE")
    assert language_named("sums") is SUMS
    assert language_names() == ["sums", "rooms"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("no_such_module:IT", "cannot be loaded from no_such_module:IT: ModuleNotFoundError"),
        ("second_language:NONE", "cannot be loaded from second_language:NONE: AttributeError"),
        ("second_language:offer", r"is <function offer.*expected a ktae\.demo\.Language of that"),
        ("second_language:MORE", r"as the demo language 'x' and is Language\(name='more-sums'"),
    ],
)
def test_what_is_offered_and_is_no_such_language(monkeypatch, value, message):
    offer(monkeypatch, x=value)
    assert language_names() == ["sums", "rooms", "x"], "not loaded before it is asked for"
    with pytest.raises(InputError, match=message):
        language_named("x")


def test_entry_points_of_the_group_are_what_is_offered(monkeypatch):
    monkeypatch.setattr(
        demo, "entry_points", lambda *, group: [EntryPoint("x", "second_language:MORE", group)]
    )
    demo._offered.cache_clear()
    try:
        assert demo._offered()["x"].group == "ktae.languages"
    finally:
        demo._offered.cache_clear()


def test_importing_the_demo_costs_no_torch():
    code = "import sys, ktae.demo; print('torch' in sys.modules, 'transformers' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
