"""The commit that numbers come from."""

import subprocess

import pytest

from ktae_lab import provenance


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A repository with both packages and a file beside them, and how to run git in it."""
    packages = [tmp_path / "src" / "ktae", tmp_path / "lab" / "src" / "ktae_lab"]
    for package in packages:
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("")
    monkeypatch.setattr(provenance, "PACKAGES", packages)
    (tmp_path / "results.json").write_text("old")

    def git(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        done = subprocess.run(
            ["git", *identity, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    git("init")
    return tmp_path, git


@pytest.mark.parametrize("package", ["src/ktae", "lab/src/ktae_lab"])
def test_the_commit_is_dirty_only_if_a_package_has_changed(checkout, package):
    folder, git = checkout
    git("add", ".")
    git("commit", "-m", "first")
    head = git("rev-parse", "--short=12", "HEAD")
    (folder / "results.json").write_text("new")
    (folder / package / "untracked.py").write_text("")
    assert provenance.commit() == head
    (folder / package / "__init__.py").write_text("changed = 1")
    assert provenance.commit() == f"{head}-dirty"


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
