"""What a page can and cannot say about a dump, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ktae.files.text import counted
from ktae.report.columns import Frame
from ktae.report.inputs import Dump
from ktae.report.summary import Scored
from ktae.rollouts.tolerance import Tolerance


class Note(NamedTuple):
    """One thing to know about the numbers on the page."""

    severe: bool
    """Whether something that a reader expects is missing; shown open."""
    title: str
    text: str

    def as_dict(self) -> dict[str, Any]:
        """As the page's script reads it."""
        return self._asdict()


def notes_of(dump: Dump, columns: Frame, scored: Scored) -> list[Note]:
    """All notes about a dump, the severe ones first."""
    found = [*_about_rewards(dump, columns), *_about_groups(columns, scored)]
    found += [*_about_tokens(dump), *_left_out(dump.tolerance), *_how_read(dump.tolerance)]
    found += _about_signals(columns)
    return sorted(found, key=lambda note: not note.severe)


def _about_rewards(dump: Dump, columns: Frame) -> list[Note]:
    missing, n = dump.tolerance.without_reward, len(columns.rollouts)
    if missing == n:
        return [
            Note(
                True,
                "No rewards",
                "No row has a reward or a verdict, so nothing can be compared: there is no credit "
                "and no p-values. Rollouts, lengths and how often tokens occur are shown. "
                "Add a field reward (a number) or correct (true, false or null).",
            )
        ]
    found = []
    if missing:
        found.append(
            Note(
                True,
                f"{missing:,} of {n:,} rollouts have no reward",
                "Their correctness is unknown: they are shown, left out of every table and of the "
                "mean reward, and have no credit.",
            )
        )
    unknown = int(np.isnan(columns.correct_b).sum()) - missing
    if unknown > 0:
        found.append(
            Note(
                False,
                f"{unknown:,} of {n:,} rollouts have no verdict",
                "The verifier could not decide; they are left out of every table and have no "
                "credit, and never count as incorrect.",
            )
        )
    return [*found, *_about_advantages(columns)]


def _about_advantages(columns: Frame) -> list[Note]:
    if not columns.own_advantages:
        return [
            Note(
                False,
                "Rollout advantages are computed here",
                "The dump holds none, so they are GRPO's: (reward - mean) / (standard deviation + "
                "1e-6) over the rollouts of the group that have a reward.",
            )
        ]
    missing = int(np.isnan(columns.advantage_b).sum())
    if not missing:
        return []
    return [
        Note(
            False,
            f"{missing:,} of {len(columns.rollouts):,} rollouts have no advantage",
            "The others' are the dump's. By which formula it got them is not known, so none is "
            "computed in the place of those that it lacks.",
        )
    ]


def _about_groups(columns: Frame, scored: Scored) -> list[Note]:
    if np.diff(columns.starts_g).max(initial=0) < 2:
        return [
            Note(
                True,
                "One rollout a prompt",
                "Every group has one rollout: there is nothing to compare it with, so there is no "
                "credit. Rollouts of the same prompt need the same group, and at least two.",
            )
        ]
    known = ~np.isnan(columns.correct_b)
    if not known.any() or ((scored.n_true_g > 0) & (scored.n_false_g > 0)).any():
        return []
    verdicts = np.unique(columns.correct_b[known])
    kind = {(1.0,): "correct", (0.0,): "incorrect"}.get(tuple(verdicts.tolist()))
    text = (
        "Credit compares the correct rollouts of a prompt with its incorrect ones. Here no prompt "
        "has both, so all credit is 0; lengths and how often tokens occur are shown."
    )
    title = f"Every rollout is {kind}" if kind else "No group is mixed"
    return [Note(True, title, text)]


def _about_tokens(dump: Dump) -> list[Note]:
    if dump.unit == "words":
        return [
            Note(
                True,
                "No tokenizer: texts are cut at words",
                "The dump holds text, so the page compares words, signs and blanks "
                "instead of the policy's tokens. Values of words are not the values that training "
                "uses. Give --tokenizer, a folder or a hub name, for tokens.",
            )
        ]
    if dump.unit == "ids":
        return [
            Note(
                True,
                "No tokenizer: tokens have numbers and no text",
                "All values are computed. Give --tokenizer, a folder or a hub name, to read them.",
            )
        ]
    if dump.made_ids:
        return [
            Note(
                False,
                "Token ids were made from the text",
                "The dump holds text and no ids. Tokenising it again may cut it otherwise than the "
                "policy did, and special tokens that the trainer removed (verl does) are missing.",
            )
        ]
    return []


def _left_out(tolerance: Tolerance) -> Iterator[Note]:
    """What of the files is not in the dump."""
    if n := len(tolerance.rejected):
        first = "; ".join(tolerance.rejected[:3])
        rest = f"; and {n - 3:,} more" if n > 3 else ""
        yield Note(True, f"{counted(n, 'row')} could not be used", f"{first}{rest}.")
    if tolerance.left_alone:
        yield Note(
            True,
            tolerance.files_left_alone(),
            "Give a file by its own name to read it; unpack what is not .gz.",
        )
    if n := tolerance.repeated:
        yield Note(
            False,
            f"{counted(n, 'row')} left out",
            "Other filters of the same responses are there already.",
        )
    if tolerance.repeated_steps:
        yield Note(
            False,
            _capital(tolerance.steps_counted_once()),
            "TRL logs the last batch it generated; one batch may serve several steps.",
        )
    if tolerance.empty:
        title = _capital(tolerance.rows_without_rollouts())
        yield Note(True, title, "Nothing is known of these problems.")
    if n := tolerance.padding:
        yield Note(
            False,
            f"{counted(n, 'padding row')} left out",
            "verl fills a batch up to a multiple of its ranks with rows that are no rollouts, "
            "and dumps them as well.",
        )
    if n := tolerance.intermediate:
        yield Note(
            False,
            f"{counted(n, 'intermediate output')} left out",
            "An agent's session with several outputs is one rollout: its last output.",
        )


def _how_read(tolerance: Tolerance) -> Iterator[Note]:
    """How the rows became rollouts and groups."""
    if tolerance.models:
        yield Note(
            False,
            f"{tolerance.models:,} models, {'pooled' if tolerance.pooled else 'told apart'}",
            "A group holds rollouts of all models; --by-model tells them apart."
            if tolerance.pooled
            else "A group is a problem of one model; --pool-models pools them.",
        )
    if tolerance.schemas:
        yield Note(False, _capital(tolerance.read_as()), "The form was told by the fields.")
    if n := tolerance.without_group:
        yield Note(
            False,
            "Grouped by prompt",
            f"{counted(n, 'row')} without a group: those with the same prompt (and step) are one "
            "group.",
        )
    if n := tolerance.split:
        yield Note(
            True,
            f"{counted(n, 'row')} told apart by the input",
            "The group that they name has several inputs. Each input is a group of its own; "
            "--field group=group compares them.",
        )
    if n := tolerance.alone:
        yield Note(
            True,
            f"{counted(n, 'row')} with neither group nor prompt",
            "Each is a group of its own, so nothing can be said about its tokens.",
        )
    if n := tolerance.half_surrogates:
        yield Note(
            False,
            "Half surrogate pairs",
            f"{counted(n, 'row')} with halves of surrogate pairs, which are no text; they are "
            "shown as U+FFFD.",
        )


def _capital(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"


def _about_signals(columns: Frame) -> list[Note]:
    return [
        Note(
            False,
            f"{n:,} rollouts without {name.replace('_', '-')}",
            "What they hold is not a list of one number for each token id, so it is not shown.",
        )
        for name, n in columns.signals_found[1].items()
    ]
