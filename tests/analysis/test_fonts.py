import logging
import warnings

import pytest

matplotlib = pytest.importorskip("matplotlib", reason="pip install .[plots]")

from matplotlib import font_manager, pyplot  # noqa: E402

from albert_tf.analysis.attention import analyze_attention  # noqa: E402
from albert_tf.analysis.figures import save_figure  # noqa: E402


@pytest.fixture
def fonts(monkeypatch, tmp_path):
    """A folder of installed fonts; others are matplotlib's own."""
    folder = tmp_path / "fonts"
    folder.mkdir()
    manager = font_manager.fontManager
    own = matplotlib.get_data_path()
    monkeypatch.setattr(
        manager, "ttflist", [x for x in manager.ttflist if own in x.fname]
    )
    monkeypatch.setattr(
        font_manager,
        "findSystemFonts",
        lambda: [str(path) for path in folder.glob("*.ttf")],
    )
    manager._findfont_cached.cache_clear()
    yield folder
    manager._findfont_cached.cache_clear()


def write_font(path, characters, family):
    """Writes a TrueType font whose glyphs are triangles."""
    from fontTools.fontBuilder import FontBuilder
    from fontTools.pens.ttGlyphPen import TTGlyphPen

    pen = TTGlyphPen(None)
    for number, point in enumerate([(0, 0), (500, 900), (900, 0)]):
        (pen.lineTo if number else pen.moveTo)(point)
    pen.closePath()
    names = [".notdef", *(f"uni{ord(x):04X}" for x in characters)]
    builder = FontBuilder(1000, isTTF=True)
    builder.setupGlyphOrder(names)
    builder.setupCharacterMap(
        dict(zip(map(ord, characters), names[1:], strict=True))
    )
    builder.setupGlyf(dict.fromkeys(names, pen.glyph()))
    builder.setupHorizontalMetrics(dict.fromkeys(names, (1000, 0)))
    builder.setupHorizontalHeader(ascent=900, descent=-100)
    names = {"familyName": family, "styleName": "Regular"}
    builder.setupNameTable(names | {"psName": family.replace(" ", "")})
    builder.setupOS2()
    builder.setupPost()
    builder.save(path)


def drawn(folder, *labels):
    """Returns the SVG of a figure with a title, ticks and a legend."""
    figure, axis = pyplot.subplots()
    axis.set_title(labels[0])
    axis.set_xticks(range(len(labels)), labels)
    axis.plot([0, 1], [0, 1], label=labels[-1])
    axis.legend()
    save_figure(figure, folder / "figure.svg")
    return (folder / "figure.svg").read_text("utf-8")


def test_fonts_installed_since_matplotlib_listed_them(
    fonts, tmp_path, caplog, recwarn
):
    write_font(fonts / "han.ttf", "中文", "Some Han")
    write_font(fonts / "runes.ttf", "ᚠ", "Some Runes")
    svg = drawn(tmp_path, "A 中 story", "文", "ᚠ")
    assert svg.count('id="SomeHan-') == 2
    assert svg.count('id="SomeRunes-') == 1
    assert not caplog.records
    assert not [x for x in recwarn if "Glyph" in str(x.message)]


@pytest.mark.parametrize(
    ("labels", "named", "font"),
    [
        (["中", "A 文 story"], "中文,", "Noto Sans CJK"),
        (
            ["一丁七万三上下不与丑"],
            "一丁七万三上下不 and 2 other",
            "fonts-noto-cjk",
        ),
        (["한국"], "국한,", "Noto Sans CJK"),
        (["ᚠ"], "ᚠ,", "Noto Sans (Debian's fonts-noto-core)"),
        (["🦜"], "🦜,", "Symbola"),
    ],
)
def test_one_line_recommends_a_font(
    fonts, tmp_path, caplog, labels, named, font
):
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING):
        warnings.simplefilter("error")
        drawn(tmp_path, *labels)
    (record,) = caplog.records
    message = record.getMessage()
    assert message.startswith(f"no installed font has {named}")
    assert font in message
    assert "\n" not in message


def test_attention_to_chinese(make_encoder, fonts, tmp_path, caplog):
    tokens = ("[CLS]", "中", "文", "[SEP]")
    report = analyze_attention(make_encoder(), "A good story.")
    object.__setattr__(report, "tokens", tokens)
    report.plot(tmp_path / "maps.png")
    assert "no installed font has 中文" in caplog.text
    caplog.clear()
    write_font(fonts / "han.ttf", "中文", "Some Han")
    report.plot(tmp_path / "maps.svg")
    assert 'id="SomeHan-' in (tmp_path / "maps.svg").read_text("utf-8")
    assert not caplog.records


def test_latin_looks_for_no_font(monkeypatch, tmp_path):
    monkeypatch.setattr(font_manager, "findSystemFonts", pytest.fail)
    drawn(tmp_path, "A good story: ½", "naïve")
