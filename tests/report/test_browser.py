"""The page in a real browser: every view opened, hovered, clicked and filtered."""

import re

import numpy as np
import pytest
import scipy.stats
from dumps import AGENTS, ROLLOUTS, move
from saved_outputs import write_lines

import ktae
from ktae.estimators import preset
from ktae.report import inputs, scoring, show, write_report
from ktae.report.frame import frame_of
from ktae.rollouts import record
from ktae.tables import in_tables

VIEWS = ("overview", "rollouts", "tokens", "training")


@pytest.fixture(scope="session")
def run_page(run_folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("page") / "run.html"
    write_report(run_folder, out)
    return out


@pytest.fixture
def plain_page(dump_file, tmp_path):
    write_report(dump_file, tmp_path / "plain.html")
    return tmp_path / "plain.html"


NUMBERS = {
    "a": "a",
    "b": "b",
    "p": "p_value",
    "fisher": "fisher_score",
    "gain": "information_gain",
    "direction": "direction",
    "value": "value",
    "credit": "credit",
}
"""Of the page's script, and the columns of `ktae.credit_table`."""


def test_every_number_is_the_estimators(run_folder, run_page, open_page):
    """Counts, p, gain, direction, value and credit of every token of every group, all presets."""
    page = open_page(run_page)
    frame = frame_of(inputs.load([run_folder]))
    compared = 0
    for number, name in enumerate(("paper", "released", "calibrated")):
        tables = page.evaluate(
            """([preset, names]) => ktae.report.groups.label.map((_, g) => {
                 const group = ktae.groupStatistics(g, preset), id = ktae.report.vocabulary.id;
                 return [...group.counts.keys()].sort((x, y) => id[x] - id[y]).map(
                   (rank) => [id[rank], ...names.map((name) => group.of(rank)[name])]);
               })""",
            [number, list(NUMBERS)],
        )
        for group, shown in enumerate(tables):
            rows = slice(*frame.starts_g[group : group + 2])
            ids_bt, mask_bt = record.pad(frame.rollouts["token_ids"][rows].to_pylist())
            correct = frame.correct_b[rows]
            table = ktae.credit_table(
                ids_bt, mask_bt, correct, np.zeros(len(correct), int), in_tables(preset(name))
            )
            expected = [getattr(table, x) for x in ("token_id", *NUMBERS.values())]
            np.testing.assert_allclose(shown, np.column_stack(expected), rtol=1e-9, atol=1e-12)
            compared += len(shown) * (len(set(correct)) == 2)
    assert compared > 150


def test_p_counts_identical_rollouts_once_in_any_order(tmp_path, page_of):
    """As ktae.report.scoring does; those whose verdicts differ are no evidence. The card of a
    preset whose credit rests on no p shows that p alone."""
    verdicts = {"same text": [1, 0, 0], "b c": [0] * 4, "b d": [0], "q e": [1, 1], "q f": [1]}
    rows = [
        {"group": 1, "response": text, "reward": reward}
        for text, rewards in verdicts.items()
        for reward in rewards
    ]
    for ordered in (rows, rows[::-1]):
        page = page_of(ordered, "view=overview", estimator="calibrated")
        tokens = scoring.score(inputs.load([tmp_path / "r.jsonl"]).rollouts).tokens
        shown = page.evaluate(
            """() => { const group = ktae.groupStatistics(0, 0), id = ktae.report.vocabulary.id;
                 return [...group.counts].sort(([x], [y]) => id[x] - id[y]).map(
                   ([rank, { distinct: { a, b } }]) => [id[rank], a, b, group.pOf(rank)]); }"""
        )
        counts = [tokens[x].to_pylist() for x in ("token_id", "distinct_a", "distinct_b")]
        p_values = [
            scipy.stats.fisher_exact([[a, b], [2 - a, 2 - b]])[1]
            for a, b in zip(*counts[1:], strict=True)
        ]
        np.testing.assert_allclose(shown, np.column_stack([*counts, p_values]))
    move(page, "view=rollouts&group=1&rollout=1&token=1")
    shown = page.locator("#card .units td").nth(2).inner_text()
    assert shown == f"{page.evaluate('ktae.groupStatistics(0, 0).pOf(ktae.idsOf(0)[0])'):.3f}"


def test_rollouts_hover_and_pin(plain_page, open_page):
    page = open_page(plain_page, "view=rollouts&group=2")
    assert page.locator(".side").nth(0).locator(".rollout").count() == 2
    maybe = page.locator(".t", has_text="maybe").first
    maybe.hover()
    card = page.locator("#card")
    assert "Leans to wrong" in card.inner_text()
    assert "0 of 2 right and 2 of 2 wrong" in card.inner_text()
    # [[0, 2], [2, 0]]: one of six tables, and its mirror: p = 1/3, one bit of information.
    assert "0.333" in card.inner_text()
    card.locator("summary").click()
    assert "1.000 bit" in card.inner_text()
    assert card.locator(".contingency td.cell b").all_inner_texts() == ["0", "2", "2", "0"]
    maybe.click()
    page.locator(".t", has_text="answer").first.hover()
    assert "maybe" in card.locator(".token").inner_text()  # pinned
    page.keyboard.press("Escape")
    assert "Point at a word" in card.inner_text()


def test_log_probabilities_and_entropy(page_of):
    rows = [
        {"group": 0, "token_ids": [1, 2], "reward": 1, "log_probs": [-0.5, -2.25]},
        {"group": 0, "token_ids": [1, 3], "reward": 0, "log_probs": [-0.5, -6], "entropy": [1, 2]},
        {"group": 0, "token_ids": [1, 3], "reward": 0, "log_probs": [-0.5]},
    ]
    page = page_of(rows, "view=rollouts&group=1&rollout=1&token=2")
    assert "log-probability" in page.locator("#card").inner_text()
    assert "−2.25" in page.locator("#card").inner_text()
    page.click("#menu summary")
    page.select_option("#signal", "log_prob")
    page.wait_for_selector(".t.s8")
    page.select_option("#signal", "entropy")
    page.wait_for_selector(".t.s5")
    page.click("#to-overview")
    assert "1 rollout without log-prob" in page.locator("#notes").text_content()


def test_inside_a_notebook(dump_file, tmp_path, browser):
    """The page runs in the sandboxed frame that a notebook gets, and its links stay in it."""
    outer = tmp_path / "notebook.html"
    html = show(dump_file, height=400)._repr_html_()
    assert 'sandbox="allow-scripts"' in html and html.count("<") == 2  # the frame's own tags
    outer.write_text(f"<!doctype html><p>cell</p>{html}")
    page = browser.new_page()
    page.goto(outer.as_uri())
    frame = page.frame_locator("iframe")
    frame.locator("html[data-ready]").wait_for()
    frame.locator(".findings a").first.click()
    assert "4" in frame.locator("#card .token").inner_text()
    frame.locator(".t", has_text="maybe").first.click()
    assert "Leans to wrong" in frame.locator("#card").inner_text()
    frame.locator("#to-overview").click()
    assert "What to look at" in frame.locator("main").inner_text()
    page.close()


def test_keys_and_links_lead_back(run_page, open_page):
    page = open_page(
        run_page, "view=rollouts&group=6&rollout=3&token=4&signal=gain&preset=released"
    )
    card = page.locator("#card").inner_text()
    assert "token 4 of" in card and "rollout 3" in card
    assert page.input_value("#signal") == "gain"
    again = open_page(run_page, page.url.partition("#")[2])
    assert again.locator("#card").inner_text() == card
    for key, view in zip("1342", (VIEWS[0], *VIEWS[2:], VIEWS[1]), strict=True):
        page.keyboard.press(key)
        assert page.get_attribute("body", "data-view") == view
    page.keyboard.press("]")
    assert "group=6&" not in page.url
    page.locator(".tokens").first.focus()
    page.keyboard.press("End")
    assert "<eos>" in page.locator(".active").inner_text()
    page.keyboard.press("Enter")
    assert "token=" in page.url
    page.go_back()
    move(page, "view=nope&group=-1&rollout=99&id=abc&%%%")
    assert page.locator("main .pane").count() >= 1


def test_tokens_and_groups_lead_to_rollouts(plain_page, open_page):
    page = open_page(plain_page, "view=tokens")
    page.fill("input[type=search]", "maybe")
    page.locator(".scroller tbody button").first.click()
    contexts = page.locator("#contexts").inner_text()
    assert "Right: 0 rollouts" in contexts and "Wrong: 2 rollouts" in contexts
    page.locator("#contexts a").first.click()
    page.wait_for_selector("#card.open")
    assert "maybe" in page.locator("#card .token").inner_text()
    page.click("#to-overview")
    assert page.locator(".tile b").all_inner_texts() == ["6", "2", "33.3 %", "1"]
    page.locator(".findings a", has_text="overwritten").click()
    page.locator(".why", has_text="Did later text overwrite a right answer?").wait_for()
    page.locator(".found a").first.click()
    assert "4" in page.locator("#card .token").inner_text()


def test_search_and_filters_are_in_the_address(plain_page, open_page):
    page = open_page(plain_page, "view=rollouts")
    page.fill("#search", "Hmm Wait")
    page.press("#search", "Enter")
    assert page.locator("[role=status]").inner_text() == "1 rollout in 1 group"
    assert page.locator(".t.hit").all_inner_texts() == ["hmm", " ", "wait"]
    assert page.locator("#hits").inner_text() == "1 of 1 hit in this group"
    page.select_option("#filter-verdict", "right")
    assert page.locator(".empty").count() == 1
    again = open_page(plain_page, page.url.partition("#")[2])
    assert again.locator("[role=status]").inner_text() == "0 rollouts in 0 groups"
    again.get_by_text("clear all").click()
    assert again.locator("[role=status]").inner_text() == "2 groups"
    again.click("#to-overview")
    again.locator("svg[aria-label='Groups by kind'] a").nth(1).click()
    assert "groups=mixed" in again.url
    assert again.locator(".group-items a").count() == 1


def test_two_runs_are_compared_by_prompt(tmp_path, open_page):
    rng = np.random.default_rng(0)
    right = rng.integers(0, 5, (2, 7))  # of four rollouts of each of seven prompts
    paths = [
        write_lines(
            tmp_path / f"{run}.jsonl",
            [
                {"group": g, "prompt": f"{g}?", "response": "x " * int(4 + g * k), "reward": i < n}
                for g, n in enumerate(right[k].tolist())
                for i in range(4)
            ],
        )
        for k, run in enumerate("ab")
    ]
    write_report(paths, tmp_path / "r.html")
    page = open_page(tmp_path / "r.html", "view=compare")
    change = (right[1] - right[0]) / 4
    assert page.locator(".compare-table td").first.inner_text() == "7"
    shown = page.evaluate("(values) => ktae.pairedDifference(values)", change.tolist())
    low, high = scipy.stats.ttest_1samp(change, 0).confidence_interval(0.95)
    assert (shown["mean"], shown["n"]) == (pytest.approx(change.mean()), 7)
    assert (shown["low"], shown["high"]) == pytest.approx((low, high), abs=0.003)
    won, lost = page.locator(".won").all()
    assert won.locator("li").count() == (change > 0).sum()
    assert lost.locator("li").count() == (change < 0).sum()


def test_steps_with_the_same_prompts_are_compared(page_of):
    rows = [row | {"step": step} for step in (1, 2, 5) for row in ROLLOUTS]
    rows += [{**ROLLOUTS[0], "prompt": f"another {s}?", "group": s, "step": s} for s in (3, 4)]
    page = page_of(rows, "view=compare")
    assert page.locator("select[aria-label='Side A'] option").all_inner_texts() == [
        f"step {step}" for step in (1, 2, 5)
    ]


def test_a_conversation_is_folded_and_unfolded_where_a_link_leads(tmp_path, open_page, page_of):
    """Thoughts, calls of tools and what others wrote; a document of JSON is read as one."""
    thought = "<think>" + "well, 2 and 2 are 4. " * 50 + "</think>"
    text = thought + "<tool_call>add(2, 2)</tool_call> so the answer is 5"
    rows = [
        {"group": 0, "answer": "4", "response": text, "reward": 0},
        {"group": 0, "answer": "4", "response": '{"why": "a\\nb", "answer": [4]}', "reward": 1},
    ]
    page = page_of(rows)
    folds = page.locator(".segment details")
    names = page.locator(".segment .who").all_text_contents()
    assert names == ["Thought", "Tool call", "Assistant"]
    assert folds.evaluate_all("all => all.map((x) => x.open)") == [False, False]
    shown = page.locator(".side .chunk").first.text_content()
    assert shown == '{\n  "why": "a\nb",\n  "answer": [\n    4\n  ]\n}'
    move(page, "view=rollouts&group=1&rollout=1&token=9")
    assert page.locator(".segment details[open] .active").count() == 1
    page = open_page(tmp_path / "r.html", "view=rollouts&group=1")
    page.locator("#search").press_sequentially("2 are 4")
    page.wait_for_url(re.compile(r"q=2\+are\+4"))  # it searches while one types
    assert page.locator(".segment details[open] .active").count() == 1
    page.keyboard.press("Enter")
    assert page.locator("#hits").inner_text() == "2 of 50 hits in this group"


def test_turns_and_what_was_done_in_the_states_that_rollouts_share(page_of):
    """One rollout pulls at the door, walks away and comes back to it; one never gets there. Tokens
    and rollouts are numbered as in the page, from which the first group is left out."""
    away = [{"group": "away", "token_ids": [7] * 40, "reward": 1}] * 4
    page = page_of([*away, *AGENTS], max_tokens=60)
    rows = page.locator(".turn-rows tbody tr")

    def texts(elements):
        return [" ".join(re.sub("[⟨⟩]", "", x).split()) for x in elements.all_inner_texts()]

    turns = [texts(row.locator("td a")) for row in rows.all()]
    assert turns == [["#1 #2", "#3"], ["#1 #2", "#4", "#3"], ["#1 #2", "#4"], ["#5"]]
    credit = page.evaluate(
        """() => [0, 1].map((t) => ktae.creditOf(1, t, ktae.groupStatistics(1, 0)))"""
    )
    shown = rows.nth(1).locator("td small").first.inner_text().replace("\u2212", "-")
    assert float(shown) == pytest.approx(sum(credit), abs=0.005) and sum(credit) != 0
    states = page.locator(".turns tbody:has(th[scope=rowgroup])")
    assert [texts(state.locator("th, td")) for state in states.all()] == [
        ["The prompt 4 rollouts", "#1 #2", "3 of 4", "2/3", "#5", "1 of 4", "0/1"],
        ["#8 #9 3 rollouts", "#3", "2 of 3", "2/2", "#4", "2 of 3", "1/2"],
    ]
    page.locator(".tree > summary").click()
    (tree,) = texts(page.locator(".tree > ul"))
    assert tree == "The prompt #1 #2 2/3 #8 #9 #4 1/2 #3 1/1 #5 0/1"
    rows.nth(1).locator("a").nth(1).click()
    assert "#4" in page.locator("#card .token").inner_text()


def test_a_picture_of_a_group_is_a_file_of_its_own(plain_page, open_page):
    page = open_page(plain_page, "view=rollouts")
    with page.expect_download() as download:
        page.click(".picture")
    text = download.value.path().read_text(encoding="utf-8")
    assert text.startswith("<svg") and "maybe" in text and "<rect" in text


def test_training_view(run_page, open_page):
    page = open_page(run_page, "view=training")
    captions = page.locator(".charts figcaption").all_inner_texts()
    for name in ("accuracy", "response length", "reward", "entropy", "KL", "mean |credit|"):
        assert any(caption.startswith(name) for caption in captions), name
    assert page.locator("figure .curve").count() >= len(captions)
    before = page.locator(".bars").inner_text()
    page.locator("#step").fill("0")
    assert page.locator(".slider output").inner_text() == "1"
    assert page.locator(".bars").inner_text() != before
    page.locator(".bar-list button").nth(1).click()
    assert "step=1" in page.url and "id=" in page.url


def test_nothing_is_wider_than_the_page(run_page, open_page):
    for width in (380, 2560):
        page = open_page(run_page, "view=rollouts&rollout=1&token=1", width=width)
        for view in VIEWS:
            move(page, f"view={view}")
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(run_page, open_page, axe, scheme):
    page = open_page(run_page, "view=rollouts&rollout=1&token=3", scheme=scheme)
    page.evaluate(axe)
    for view in VIEWS:
        page.click(f"#to-{view}")
        for palette in ("safe", "paper"):
            page.evaluate(f"document.documentElement.dataset.palette = '{palette}'")
            violations = page.evaluate(
                "axe.run().then((r) => r.violations.map((v) => [v.id, v.help, v.nodes[0].html]))"
            )
            assert violations == []
