"""Rollouts are written by models, so a page may hold anything; none of it may run or hide."""

import pytest
from dumps import move
from saved_outputs import write_lines

from ktae.report.page import write_report
from ktae.rollouts.options import ReadOptions

HOSTILE = [
    "</script><script>window.owned = 1</script>",
    "<img src=x onerror='window.owned = 1'>",
    "<!--<script>",
    "]]></style><svg onload=window.owned=1>",
    "{{ 7 * 7 }} {% raw %} ${window.owned = 1} `",
    "javascript:window.owned=1",
    "nul \x00 bell \x07 escape \x1b[31m del \x7f",
    "over\u202eridden \u2066isolated zero\u200bwidth \ufeff soft\u00adhyphen",
    "line\u2028separator \u2029",
    "half \ud800 pair \udfff",
    "family 👩‍👩‍👧 flag 🇫🇷",
    "Devanagari हिन्दी क्षत्रिय Arabic العربية Hebrew עברית Thai ภาษาไทย Han 漢字",
    "",
]


@pytest.fixture
def hostile_page(tmp_path):
    rows = [
        {
            **{"group": text or "empty", "prompt": text, "answer": text, "model": text},
            **{"response": text + more, "reward": reward, "__proto__": text},
        }
        for text in HOSTILE
        for more, reward in ((" right", 1), (" wrong " + text, 0))
    ]
    path = write_lines(tmp_path / "</script><b>hostile.jsonl".replace("/", "_"), rows)
    write_report(path, tmp_path / "page.html")
    return tmp_path / "page.html"


def test_no_text_of_a_rollout_is_in_the_file(hostile_page):
    """All of it is in blocks of base64; the title is escaped."""
    text = hostile_page.read_text(encoding="utf-8")
    assert "owned" not in text
    assert "hostile.jsonl" in text
    assert "<b>hostile" not in text
    blocks = text.count('<script type="application/octet-stream"')
    assert text.count("<script") == text.count("</script>") == blocks + 1 > 5


def test_texts_are_shown_to_the_letter_and_nothing_runs(hostile_page, open_page):
    page = open_page(hostile_page)
    for group, text in enumerate(HOSTILE):
        place = {"view": "rollouts", "group": group, "rollout": 0, "token": 0}
        move(page, page.evaluate("(place) => ktae.fragment(place)", place))
        assert page.locator("#card.open").count() == 1
        for token in page.locator(".t").all()[:4]:
            token.hover()
        shown = page.locator(".text .block").first.text_content()
        visible = "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text + " right")
        for hidden in "\x00\x07\x1b\x7f\u202e\u2066\u200b\ufeff\u00ad\u2028\u2029":
            visible = visible.replace(hidden, f"⟨{ord(hidden):02X}⟩")
        assert shown == visible
    for view in ("tokens", "overview"):
        move(page, f"view={view}")
    move(page, "view=tokens&id=0")
    page.wait_for_selector("#contexts .contexts")
    assert page.evaluate("window.owned") is None
    assert page.locator("main img, main svg[onload], main script, main b b").count() == 0


def test_scripts_are_not_broken_by_tokens(tmp_path, open_page, byte_tokenizer):
    """Byte-level tokens end inside characters; what is drawn apart never does."""
    texts = [
        "हिन्दी 👩‍👩‍👧 🇫🇷 漢字 العربية naïve é̂",
        "हिन्दी 😀 ไทย 漢語",
    ]
    rows = [{"group": 0, "response": t, "reward": i % 2} for i, t in enumerate(texts)]
    path = write_lines(tmp_path / "r.jsonl", rows)
    write_report(path, tmp_path / "r.html", ReadOptions(byte_tokenizer))
    page = open_page(tmp_path / "r.html", "view=rollouts&group=1")
    page.wait_for_selector(".t")
    shown = page.locator(".text .block").all_text_contents()
    assert sorted(shown) == sorted(text.replace("\u200d", "\u200d") for text in texts)
    clusters = page.evaluate(
        """() => [...document.querySelectorAll('.text .block')].every((list) => {
             const starts = new Set([...new Intl.Segmenter('en').segment(list.textContent)]
               .map((part) => part.index));
             let at = 0;
             return [...list.children].every((span) => {
               const fits = starts.has(at); at += span.textContent.length; return fits; });
           })"""
    )
    assert clusters
    assert "\ufffd" not in "".join(shown)
    page.locator(".t", has_text="👩‍👩‍👧").first.click()
    assert "is made of" in page.locator("#card .parts").inner_text()


def test_the_policy_stops_what_would_run(hostile_page, open_page, tmp_path, browser):
    """Even a script that got in would not run: the policy holds."""
    text = hostile_page.read_text(encoding="utf-8")
    injected = tmp_path / "injected.html"
    injected.write_text(
        text.replace("<noscript>", "<script>window.owned = 1</script><noscript>", 1),
        encoding="utf-8",
    )
    page = browser.new_page()
    page.goto(injected.as_uri())
    page.wait_for_selector("html[data-ready]")
    assert page.evaluate("window.owned") is None
    blocked = page.evaluate(
        """() => new Promise((resolve) => {
             addEventListener('securitypolicyviolation', (e) => resolve(e.effectiveDirective));
             const image = document.createElement('img'); image.src = 'http://localhost/x.png';
             document.body.append(image);
             setTimeout(() => resolve('nothing was blocked'), 3000); })"""
    )
    assert blocked == "img-src"
    page.close()
