"""Figures as small SVG files."""

import xml.etree.ElementTree as ET

from matplotlib.figure import Figure

from ktae_lab import svg


def drawn(path):
    figure = Figure(figsize=(4, 3), layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 1, 2], [0.1234567, 0.5, 0.25], marker="o", label="a line")
    axes.fill_between([0, 1, 2], [0, 0.4, 0.1], [0.3, 0.6, 0.4], alpha=0.25)
    axes.set_title("0.1234567 & more", parse_math=False)
    axes.legend()
    svg.save(figure, path)
    return path.read_text(encoding="utf-8")


def test_text_stays_text_and_numbers_in_it_too(tmp_path):
    root = ET.fromstring(drawn(tmp_path / "a.svg"))
    texts = ["".join(one.itertext()) for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"0.1234567 & more", "a line"} <= set(texts)


def test_nothing_is_lost_but_digits_and_what_nobody_sees(tmp_path):
    """As many marks as before, and each reference finds what it refers to."""
    text = drawn(tmp_path / "a.svg")
    root = ET.fromstring(text)
    space = "{http://www.w3.org/2000/svg}"
    ids = {element.get("id") for element in root.iter() if element.get("id")}
    uses = [one.get("{http://www.w3.org/1999/xlink}href") for one in root.iter(f"{space}use")]
    assert len(uses) > 3 and {name.removeprefix("#") for name in uses} <= ids
    clips = {path.get("clip-path") for path in root.iter() if path.get("clip-path")}
    assert clips and all(clip.removeprefix("url(#").removesuffix(")") in ids for clip in clips)
    assert "metadata" not in text and "<?xml" not in text and "<g>" not in text
    assert "fill-opacity: 0.25" in text


def test_the_same_figure_is_the_same_file(tmp_path):
    assert drawn(tmp_path / "a.svg") == drawn(tmp_path / "b.svg")
