"""A report that follows a run: what is read when, what the server answers, and a real browser."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest
from dumps import ROLLOUTS, write_lines

pytest.importorskip("jinja2")

from ktae import InputError
from ktae.report import following
from ktae.report.following import Following
from ktae.report.watch import is_own_name, serving

HOSTILE = "</script><img src=x onerror='window.owned = 1'>\u202e ${window.owned = 1}"


def rows_of(step, more=""):
    return [row | {"step": step, "response": f"{row['response']} {more}"} for row in ROLLOUTS]


def write_step(run, step, more=""):
    (run / "rollouts").mkdir(parents=True, exist_ok=True)
    return write_lines(run / f"rollouts/step-{step}.jsonl", rows_of(step, more))


@pytest.fixture
def run(tmp_path):
    """A run of two steps, under way."""
    for step in (1, 2):
        write_step(tmp_path / "run", step)
    return tmp_path / "run"


@pytest.fixture
def reads(monkeypatch):
    """The files that are read, in turn."""
    names = []
    load = following.load

    def note(inputs, *rest, **more):
        names.extend(path.name for path in inputs)
        return load(inputs, *rest, **more)

    monkeypatch.setattr(following, "load", note)
    return names


def look(run, times=2):
    """A file counts as written when two looks in turn have found it the same."""
    for _ in range(times):
        run.look()


def test_each_file_is_read_once_and_the_newest_first(run, reads):
    live = Following(run)
    live.look()
    assert reads == []  # it may still be written
    look(live, 3)
    assert reads == ["step-2.jsonl", "step-1.jsonl"]
    news = live.changes(-1, 0)
    assert [step["name"] for step in news["steps"]] == [f"rollouts/step-{n}.jsonl" for n in (1, 2)]
    assert news["order"] == [step["number"] for step in news["steps"]]
    write_step(run, 3)
    look(live)
    for step in live.changes(-1, 0)["steps"]:
        assert live.page(step["number"], whole=False)
    assert reads == ["step-2.jsonl", "step-1.jsonl", "step-3.jsonl"]
    later = live.changes(news["number"], 0)
    assert [step["name"] for step in later["steps"]] == ["rollouts/step-3.jsonl"]


def test_what_is_known_of_a_step(run):
    live = Following(run)
    look(live)
    row = live.changes(-1, 0)["steps"][0]["rows"][0]
    assert row["step"] == 1
    assert row["values"]["accuracy"] == row["values"]["reward"] == 0.5
    by_text = {text: (impact, credit) for _, text, impact, credit in row["tokens"]}
    assert by_text["maybe"][0] < 0 and by_text["maybe"][1] < 0
    assert [abs(impact) for _, _, impact, _ in row["tokens"]] == sorted(
        (abs(impact) for _, _, impact, _ in row["tokens"]), reverse=True
    )


def test_a_word_has_one_number_in_all_steps(run):
    write_step(run, 2, more="and other words")
    live = Following(run)
    look(live)
    first, second = (
        {text: id_ for id_, text, *_ in step["rows"][0]["tokens"]}
        for step in live.changes(-1, 0)["steps"]
    )
    common = first.keys() & second.keys()
    assert "maybe" in common
    assert [first[text] for text in common] == [second[text] for text in common]


def test_half_a_file_is_waited_for(run, reads):
    live = Following(run)
    look(live)
    path = write_step(run, 3)
    whole = path.read_text()
    path.write_text(whole[:-10])
    look(live)
    news = live.changes(-1, 0)
    assert "broken JSON" in news["troubles"]["rollouts/step-3.jsonl"]
    assert len(news["steps"]) == 2
    look(live)
    assert reads.count("step-3.jsonl") == 1  # not again before it has changed
    path.write_text(whole)
    look(live)
    news = live.changes(news["number"], 0)
    assert news["troubles"] == {}
    assert [step["name"] for step in news["steps"]] == ["rollouts/step-3.jsonl"]


def test_a_line_that_stays_broken_is_left_out(run):
    """Only what may be whole soon is waited for: a last line that does not end."""
    path = run / "rollouts/step-2.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], '{"group": "g", "resp', *lines[1:]]) + "\n")
    live = Following(run)
    look(live)
    news = live.changes(-1, 0)
    assert not news["troubles"]
    assert [step["rollouts"] for step in news["steps"]] == [len(ROLLOUTS)] * 2


def test_a_resumed_run_takes_steps_back(run):
    live = Following(run)
    look(live)
    before = live.changes(-1, 0)
    (run / "rollouts/step-2.jsonl").unlink()
    look(live, 1)
    assert len(live.changes(before["number"], 0)["order"]) == 1
    assert live.page(before["order"][1], whole=False) is None
    write_step(run, 2, more="anew")
    look(live)
    assert live.changes(before["number"], 0)["order"][0] == before["order"][0]


def test_a_folder_of_other_files_is_no_run_yet(tmp_path):
    """A run folder has JSON files before it has rollouts."""
    live = Following(tmp_path / "run")
    look(live)
    (tmp_path / "run").mkdir()
    (tmp_path / "run/recipe.yaml").write_text("{name: x, steps: 1, model: {path: nowhere}}")
    (tmp_path / "run/before.json").write_text("{}")
    look(live)
    assert live.changes(-1, 0)["order"] == []
    assert live.changes(-1, 0)["troubles"] == {}


def test_metrics_are_of_their_step_whenever_they_come(run):
    live = Following(run)
    (run / "metrics.jsonl").write_text('{"step": 1, "entropy": 0.5, "kl": NaN}\n{"step": 2, "ent')
    look(live, 1)
    news = live.changes(-1, 0)
    assert news["logged"][1]["entropy"] == 0.5
    with (run / "metrics.jsonl").open("a") as file:
        file.write('ropy": 0.25}\n')
    look(live, 1)
    assert live.changes(news["number"], 0)["logged"] == {2: {"entropy": 0.25}}


def test_what_is_left_out_for_others_is_read_again(run, reads, monkeypatch):
    monkeypatch.setattr(following, "MAX_DUMP_BYTES", 1)
    monkeypatch.setattr(following, "MAX_PAGE_BYTES", 1)
    live = Following(run)
    look(live)
    first, second = live.changes(-1, 0)["order"]
    pages = [live.page(number, whole=False) for number in (first, second, first)]
    assert pages[0] == pages[2] != pages[1]
    assert reads.count("step-1.jsonl") > 1


@pytest.mark.parametrize(
    ("header", "own"),
    [
        ("127.0.0.1:8642", True),
        ("localhost:9000", True),  # a tunnel ends at another port
        ("LOCALHOST", True),
        ("[::1]:8642", True),
        ("192.168.0.7", True),
        ("named.here:1", True),
        ("evil.example:8642", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("evil.example@localhost.evil", False),
        ("", False),
        (None, False),
    ],
)
def test_names_of_this_machine(header, own):
    assert is_own_name(header, {"localhost", "Named.here"}) is own


@contextmanager
def served(run, **options):
    with serving(Following(run, **options), "ktae: <b>run", port=0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def server(run):
    with served(run) as server:
        yield server


def ask(server, path, method="GET", **headers):
    connection = http.client.HTTPConnection(*server.server_address[:2], timeout=60)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    content = answer.read().decode()
    connection.close()
    return answer, content


def steps_read(server, n):
    """The news once `n` steps are read."""
    news = json.loads(ask(server, "/changes")[1])
    while len(news["order"]) < n:
        newer = json.loads(ask(server, f"/changes?after={news['number']}")[1])
        assert newer["session"] == news["session"]
        news = newer
    return news


def test_answers(server):
    answer, page = ask(server, "/")
    assert answer.status == 200
    assert "<title>ktae: &lt;b&gt;run</title>" in page
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "connect-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy and "unsafe" not in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-store"
    assert "Access-Control-Allow-Origin" not in answer.headers
    number = steps_read(server, 2)["order"][-1]
    answer, blocks = ask(server, f"/steps/{number}")
    assert answer.headers["Content-Type"].startswith("application/json")
    assert {"meta", "vocabulary", "texts", "tokens"} == set(json.loads(blocks))


@pytest.mark.parametrize("path", ["/steps/99999", "/steps/x", "/../recipe.yaml", "/metrics.jsonl"])
def test_nothing_else_is_served(server, path):
    assert ask(server, path)[0].status == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_can_be_sent(server, method):
    assert ask(server, "/", method=method)[0].status == 501


@pytest.mark.parametrize("path", ["/", "/changes", "/steps/1"])
def test_a_foreign_name_is_refused(server, path):
    """As a page from elsewhere would send it whose name was made to point here."""
    answer, content = ask(server, path, Host=f"evil.example:{server.server_address[1]}")
    assert answer.status == 403
    assert "maybe" not in content


def test_it_listens_on_this_machine_alone(server):
    assert server.server_address[0] == "127.0.0.1"


def test_a_port_in_use(server, run):
    taken = server.server_address[1]
    with (
        pytest.raises(InputError, match=f"cannot listen on 127.0.0.1, port {taken}"),
        serving(Following(run), "t", port=taken),
    ):
        pass


@pytest.mark.slow
def test_ctrl_c_ends_it_cleanly(run):
    command = [sys.executable, "-m", "ktae", "report", str(run), "--watch", "--port", "0"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    )
    line = process.stdout.readline()
    port = int(re.search(r"http://127\.0\.0\.1:(\d+)/", line)[1])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/changes")
    assert connection.getresponse().status == 200
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0
    assert "Traceback" not in err  # on a slow machine it says that it compiles
    assert out.strip() == "stopped"


class Watched:
    """A page in a browser that follows a server; any trouble or request elsewhere is kept."""

    def __init__(self, browser, server, fragment=""):
        self.troubles = []
        self.page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
        self.page.set_default_timeout(60_000)
        self.page.on("pageerror", lambda error: self.troubles.append(f"error: {error}"))
        self.page.on("console", lambda m: self.troubles.append(m.text))
        self.page.on(
            "request",
            lambda r: r.url.startswith(server.url) or self.troubles.append(f"request {r.url}"),
        )
        self.page.goto(f"{server.url}#{fragment}")

    def wait_for_step(self, step):
        """Until the page shows that step."""
        self.page.wait_for_selector("html[data-ready]")
        self.page.wait_for_selector(f"#watched option:checked:text-is('{step}')", state="attached")


def test_the_page_follows(run, browser):
    with served(run, regrade=False) as server:
        watched = Watched(browser, server)
        page = watched.page
        watched.wait_for_step(2)
        page.evaluate("window.same = true")
        assert page.locator(".rollout").count() == 4
        write_step(run, 3, more=HOSTILE)
        watched.wait_for_step(3)
        assert HOSTILE[:20] in page.locator(".text").first.inner_text()
        page.locator(".t", has_text="maybe").first.click()
        assert "at=rollouts" in page.url
        assert not page.is_checked("#follow")
        write_step(run, 4)
        page.wait_for_selector("#watched option:text-is('4')", state="attached")
        watched.wait_for_step(3)  # the reader stays
        assert "maybe" in page.locator("#card .token").inner_text()
        page.click("#to-training")
        page.wait_for_selector("svg.curve")
        assert page.locator("#step").get_attribute("max") == "3"
        page.locator(".bar-list button", has_text="maybe").first.click()
        page.check("#follow")
        watched.wait_for_step(4)
        page.click("#to-rollouts")
        page.click("#believe summary")
        page.wait_for_selector("html[data-whole=true]")
        assert page.locator("#believe table").count() > 0
        assert page.evaluate("[window.same, window.owned]") == [True, None]
        assert watched.troubles == []
        page.close()


def test_the_page_waits_for_a_run_and_says_when_the_server_is_gone(tmp_path, browser):
    with served(tmp_path / "later", regrade=False) as server:
        watched = Watched(browser, server)
        watched.page.wait_for_selector("#watch-state:text('Waiting for the first step')")
        write_step(tmp_path / "later", 1)
        watched.wait_for_step(1)
        assert watched.troubles == []
    watched.page.wait_for_selector("#watch-state.lost")
    watched.page.close()
