"""The public address, once there is one: written once, into a copy of the checkout's files."""

import re
import shutil
from pathlib import Path

import pytest
import set_address
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

ADDRESS = "https://example.org/owner/ktae"
FILES = ("pyproject.toml", "src/ktae/_version.py", "LICENSE", *set_address.CLONED_IN)


@pytest.fixture
def checkout(tmp_path):
    for name in FILES:
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(set_address.ROOT / name, target)
    return tmp_path


def metadata(checkout):
    found = ProjectMetadata(str(checkout), PluginManager())
    return found.version, found.core.urls, found.core.readme


def links_of(page):
    return re.findall(r"\]\(([^)]*)\)", page)


def test_the_package_page_leads_into_the_repository(checkout):
    before = metadata(checkout)[2]
    assert all(link.startswith("https://") for link in links_of(before))
    left = set_address.set_address(ADDRESS, checkout)
    version, urls, page = metadata(checkout)
    assert urls["Repository"] == ADDRESS
    assert all(link.startswith("https://") for link in links_of(page))
    inside = [link for link in links_of(page) if link.startswith(ADDRESS)]
    assert f"{ADDRESS}/raw/v{version}/docs/images/report.png" in inside
    for link in inside:
        path = re.sub(r"#.*", "", link.split(f"/v{version}/")[1])
        assert (set_address.ROOT / path).exists()
    readme = (checkout / "README.md").read_text(encoding="utf-8")
    assert len(inside) == len([x for x in links_of(readme) if not x.startswith(("https:", "#"))])
    assert f"git clone {ADDRESS} ktae" in readme
    assert {line.split(":")[0] for line in left} == {"README.md", "CONTRIBUTING.md"}


@pytest.mark.parametrize(
    "address", ["", "github.com/owner/ktae", "https://example.org", "https://x/y z"]
)
def test_what_is_no_address(checkout, address):
    with pytest.raises(ValueError, match=r"is no address; expected one as https://"):
        set_address.set_address(address, checkout)


def test_a_second_time_nothing_changes(checkout):
    set_address.set_address(ADDRESS, checkout)
    files = {name: Path(checkout, name).read_bytes() for name in FILES}
    with pytest.raises(ValueError, match="has an address already"):
        set_address.set_address("https://example.org/other/ktae", checkout)
    assert files == {name: Path(checkout, name).read_bytes() for name in FILES}
