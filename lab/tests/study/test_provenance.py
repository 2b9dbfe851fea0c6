"""The commit that numbers come from."""

import subprocess

import pytest
from ktae_lab.study import provenance


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A repository with a package and a file beside it, and how to run git in it."""
    package = tmp_path / "src" / "ktae"
    (package / "study").mkdir(parents=True)
    for name in ("__init__.py", "study/provenance.py"):
        (package / name).write_text("")
    (tmp_path / "results.json").write_text("old")
    monkeypatch.setattr(provenance, "__file__", str(package / "study" / "provenance.py"))

    def git(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        done = subprocess.run(
            ["git", *identity, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    git("init")
    return tmp_path, git


def test_the_commit_is_dirty_only_if_the_package_has_changed(checkout):
    folder, git = checkout
    git("add", ".")
    git("commit", "-m", "first")
    head = git("rev-parse", "--short=12", "HEAD")
    (folder / "results.json").write_text("new")
    (folder / "src" / "ktae" / "untracked.py").write_text("")
    assert provenance.commit() == head
    (folder / "src" / "ktae" / "__init__.py").write_text("changed = 1")
    assert provenance.commit() == f"{head}-dirty"


def test_a_script_beside_the_package_counts_where_it_is_named(checkout):
    folder, git = checkout
    script = folder / "script.py"
    script.write_text("old")
    git("add", ".")
    git("commit", "-m", "first")
    script.write_text("new")
    head = git("rev-parse", "--short=12", "HEAD")
    assert (provenance.commit(), provenance.commit(str(script))) == (head, f"{head}-dirty")


def test_what_git_cannot_tell_is_not_clean(checkout):
    folder, git = checkout
    git("add", ".")
    git("commit", "-m", "first")
    (folder / ".git" / "index").write_bytes(b"broken")
    assert provenance.commit() in (None, git("rev-parse", "--short=12", "HEAD") + "-dirty")


def test_an_installed_package_inside_another_repository_has_no_commit(checkout):
    _, git = checkout
    git("add", "results.json")
    git("commit", "-m", "first")
    assert provenance.commit() is None


def test_without_git_there_is_no_commit(checkout, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert provenance.commit() is None
