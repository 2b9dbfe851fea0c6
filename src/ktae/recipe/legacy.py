"""Recipes as versions before 0.1 wrote them, read as recipes of today: run folders keep theirs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ktae.demo import SUMS, language_named
from ktae.errors import InputError

RENAMED = {"random-tokens": "random-places"}
"""Controls that have another name now."""

FIELDS = ("h1", "h2", "h3", "k1", "b_len", "eps", "fisher", "normalize", "graded")
"""Settings of the section `ktae` that are settings of an estimator now."""

PRESETS: dict[str, dict[str, Any]] = {
    "paper": {},
    "released": {
        "h2": 1.0,
        "normalize": True,
        "term_scale": 2.0,
        "ignore_token_ids": [151643],
    },
    "calibrated": {"statistic": "z", "term_scale": 0.3, "units": ["token", "bigram"]},
    "no-fisher": {"h1": 0.0},
    "no-ig": {"h2": 0.0},
    "no-tf": {"h3": 0.0},
}
"""What the presets of the section `ktae` stood for."""


def translated(content: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The recipe's content with its section `ktae`, if it has one, as the section `credit`.

    `model.demo_size` is left out: a demo language has base models of one size now.

    Raises:
        InputError: it has both, the section `ktae` is none of before, `model.demo_size` is not the
        language's, or `trl.ktae_decay_steps` has no section `ktae`; `where` begins the message.
    """
    content = dict(content)
    model, trl = content.get("model"), content.get("trl")
    if isinstance(model, Mapping) and "demo_size" in model:
        _check_size(content, where)
        content["model"] = {k: v for k, v in model.items() if k != "demo_size"}
    old, decay = content.pop("ktae", None), None
    if isinstance(trl, Mapping) and "ktae_decay_steps" in trl:
        content["trl"] = {k: v for k, v in trl.items() if k != "ktae_decay_steps"}
        decay = trl["ktae_decay_steps"]
    if old is None:
        if decay:  # as a key that was added to a recipe of today, too
            raise InputError(
                f"{where}: trl.ktae_decay_steps is {decay!r} without a section ktae; it is a "
                "transform of the section credit now: transforms: [{decayed: ...}]"
            )
        return content
    if "credit" in content:
        raise InputError(f"{where} has both ktae and credit; the section is called credit now")
    if not isinstance(old, Mapping):
        raise InputError(f"{where}: ktae is {old!r}; the section is called credit now")
    content["credit"] = credit_section(old, where, decay_steps=decay or 0)
    return content


def _check_size(content: Mapping[str, Any], where: str) -> None:
    """Raise an InputError for a demo model of another size than its language has."""
    model, demo = content["model"], content.get("demo")
    name = demo.get("language", SUMS.name) if isinstance(demo, Mapping) else SUMS.name
    if model.get("path", "demo") != "demo" or not isinstance(name, str):
        return
    size = language_named(name).size.name
    if model["demo_size"] != size:
        raise InputError(
            f"{where}: model.demo_size is {model['demo_size']!r}; the base models of the demo "
            f"language {name} have the size {size} now"
        )


def credit_section(old: Mapping[str, Any], where: str, *, decay_steps: int = 0) -> dict[str, Any]:
    """The section `credit` of a section `ktae`: a preset's name and replaced settings.

    Raises:
        InputError: no such preset, or no such setting.
    """
    preset = old.get("preset", "paper")
    if not isinstance(preset, str) or preset not in PRESETS:
        raise InputError(f"{where}: ktae.preset is {preset!r}; the section is called credit now")
    found = PRESETS[preset] | {k: v for k, v in old.items() if k != "preset" and v is not None}
    z = found.pop("statistic", "ktae") == "z"
    scale, units = found.pop("term_scale", 1.0), found.pop("units", ["token"])
    control, seed = found.pop("control", "none"), found.pop("control_seed", 0)
    ignored = found.pop("ignore_token_ids", [])
    for key in found:
        if key not in FIELDS:
            raise InputError(f"{where}: unknown key ktae.{key}; the section is called credit now")
    if z:  # the others played no part
        found = {key: value for key, value in found.items() if key == "graded"}
    if "graded" in found:
        found["graded_rewards"] = found.pop("graded")
    section: dict[str, Any] = {"estimator": "presence-z" if z else "ktae"} | found
    control = RENAMED.get(control, control)
    seeded = control if control in ("rollout-mean", "within-rollout") else {control: {"seed": seed}}
    transforms: list[Any] = []
    if control == "shuffled-values":
        transforms.append(seeded)
    units = [units] if isinstance(units, str) else list(units)
    if units != ["token"]:
        transforms.append({"over-units": {"units": units}})
    if control not in ("none", "shuffled-values"):
        transforms.append(seeded)
    if ignored:
        transforms.append({"ignoring": {"token_ids": list(ignored)}})
    if scale != 1:
        transforms.append({"scaled": {"factor": scale}})
    if decay_steps:
        transforms.append({"decayed": {"steps": decay_steps}})
    return section | ({"transforms": transforms} if transforms else {})
