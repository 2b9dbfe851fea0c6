"""A second demo language, offered as an installed distribution would offer it."""

import dataclasses
from importlib.metadata import EntryPoint

from ktae.experiments import demo
from ktae.experiments.demo import SUMS

MORE = dataclasses.replace(
    SUMS,
    name="more-sums",
    salt="tests: more sums",
    vocabulary=(*SUMS.vocabulary, "besides"),
)


def offer(monkeypatch, **languages):
    """Let the entry points be these: `module:object` for each name; `MORE` by default."""
    languages = languages or {MORE.name: "second_language:MORE"}
    points = {name: EntryPoint(name, value, demo.GROUP) for name, value in languages.items()}
    monkeypatch.setattr(demo, "_offered", lambda: points)
