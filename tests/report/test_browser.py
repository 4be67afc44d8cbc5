"""The page as a person meets it: drawn by Chromium, light and dark, on a phone, by mouse, finger, keyboard and on paper."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from chromium import Browser, Page, installed
from made import STATES, hostile, whole

from adarl.report import page

Open = Callable[..., Page]
EDGE = "document.querySelectorAll('.edge')[{}]"
TIP = "document.querySelector('.tip:not([hidden])')?.textContent"
# The first edge leads from x to x, level and free of others; where it starts nothing crosses it.
MIDDLE = f"""(() => {{ {EDGE.format(0)}.scrollIntoView({{block: 'center'}});
  const box = {EDGE.format(0)}.querySelector('.line').getBoundingClientRect();
  return [box.x + 4, box.y + box.height / 2]; }})()"""
BLOCKS = """[...document.querySelectorAll('section > *, figure > *, header > *, .lane > *')]
  .filter(e => !['SCRIPT', 'STYLE'].includes(e.tagName) && e.checkVisibility())"""
# Pairs of blocks, and of texts in one plot, that lie on each other by more than two pixels both ways.
OVERLAPS = f"""(() => {{
  const over = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2;
  const pairs = (list) => list.flatMap((a, i) => list.slice(i + 1).filter(b => !a.contains(b) && !b.contains(a)
    && over(a.getBoundingClientRect(), b.getBoundingClientRect())).map(b => [a.textContent, b.textContent]));
  const plots = [...document.querySelectorAll('.plot')];
  const texts = plots.flatMap(plot => pairs([...plot.querySelectorAll('text')].filter(t => t.textContent.trim())));
  return [...pairs({BLOCKS}), ...texts];
}})()"""
# Texts whose contrast with what lies behind them is below 4.5, as in WCAG 2.
FAINT = """(() => {
  const rgba = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => rgba(colour).slice(0, 3).map(c => c / 255)
    .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0.05);
  const behind = (e) => {
    if (e.matches('.graph .node text')) return getComputedStyle(e.parentElement.querySelector('rect')).fill;
    for (let at = e; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if ((rgba(colour)[3] ?? 1) > 0) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  const found = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || !e.checkVisibility() || e.closest('script, style, title')) continue;
    const style = getComputedStyle(e);
    const [low, high] = [light(e.closest('svg') ? style.fill : style.color), light(behind(e))].sort((a, b) => a - b);
    if (high / low < 4.5) found.push([walk.currentNode.data.trim().slice(0, 40), high / low]);
  }
  return found;
})()"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if installed() is None:
        pytest.skip("chromium is not on PATH; `make browser` installs Debian's as root")
    opened = Browser(tmp_path_factory.mktemp("profile"))
    try:
        opened.call("Browser.getVersion")
    except (OSError, RuntimeError, TimeoutError) as error:
        opened.close()
        pytest.skip(f"{installed()} does not start here: {error}")
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return page.write(whole(), tmp_path_factory.mktemp("report") / "report.html")


@pytest.fixture
def look(browser: Browser, report: Path) -> Iterator[Open]:
    opened: list[Page] = []

    def look(path: Path = report, *size: int, **how) -> Page:
        opened.append(browser.open(path, *size, **how))
        return opened[-1]

    yield look
    for one in opened:
        one.close()


def test_nothing_complains_and_nothing_is_fetched(look: Open, report: Path):
    here = look()
    here.run("scrollTo(0, document.body.scrollHeight)")
    assert here.complaints() == []
    assert here.requests() == [report.as_uri()]


def test_a_driver_that_sees_nothing_would_be_noticed(look: Open, tmp_path: Path):
    bad = tmp_path / "bad.html"
    bad.write_text("<img src='missing.png'><script>console.error('no'); absent()</script>")
    here = look(bad)
    told = " ".join(here.complaints())
    assert "ReferenceError" in told and '"no"' in told and len(here.requests()) == 2


def test_every_section_is_there_and_drawn(look: Open):
    here = look()
    sections = here.run("[...document.querySelectorAll('section')].map(s => [s.id, s.offsetHeight, s.innerText.length])")
    assert [name for name, _, _ in sections] == ["what", "where", "how", "scores", "learning", "watch", "time", "reproduce"]
    assert all(height > 60 and length > 20 for _, height, length in sections), sections
    drawn = here.run("""[...document.querySelectorAll('.plot')].map(p => [p.id, p.offsetHeight,
      p.querySelectorAll('.points path, .js-line, .errorbar').length])""")
    assert [name for name, _, _ in drawn] == ["plot-theta", "plot-adaptation", "plot-scores", "plot-curves"]
    assert all(height > 150 and marks > 5 for _, height, marks in drawn), drawn
    # 4 sources and 2 targets with 3 numbers of samples; 2 targets x 3 numbers x 7 methods x 8 seeds and a mean.
    count = "document.querySelectorAll('#plot-{} .points path').length"
    assert here.run(count.format("theta")) == 10 and here.run(count.format("scores")) == 2 * 3 * 7 * 9


@pytest.mark.parametrize(("width", "touch"), [(390, True), (320, True), (1000, False)])
def test_nothing_overflows_or_overlaps(look: Open, report: Path, width: int, touch: bool):
    here = look(report, width, 844, touch=touch)
    assert here.run("document.documentElement.scrollWidth") == width
    wide = here.run(
        f"{BLOCKS}.filter(e => e.getBoundingClientRect().right > {width} + 1).map(e => e.outerHTML.slice(0, 80))"
    )
    assert wide == []
    assert here.run(OVERLAPS) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_contrast(look: Open, report: Path, scheme: str):
    here = look(report, prefers_color_scheme=scheme, prefers_reduced_motion="reduce")
    assert (
        here.run("getComputedStyle(document.body).backgroundColor")
        == {
            "light": "rgb(251, 250, 247)",
            "dark": "rgb(21, 24, 28)",
        }[scheme]
    )
    # Also the words that stand there when an agent has failed, and a tip.
    here.run(
        "document.querySelectorAll('.player input').forEach(i => { i.value = i.max; i.dispatchEvent(new Event('input')) })"
    )
    here.run(f"{EDGE.format(0)}.focus()")
    assert here.run(FAINT) == []


def test_pointing_at_an_edge_shows_its_probability(look: Open):
    here = look()
    assert here.run(TIP) is None
    here.point(*here.run(MIDDLE))
    assert here.run(TIP) == "x → x, probability 0.90"
    tip, graph = here.run("['.tip', '.reach-in'].map(s => document.querySelector(s).getBoundingClientRect().toJSON())")
    assert graph["left"] <= tip["left"] and tip["right"] <= graph["right"]
    here.point(2, 2)
    assert here.run(TIP) is None


def test_tapping_an_edge_shows_its_probability(look: Open, report: Path):
    here = look(report, 390, 844, touch=True)
    here.tap(*here.run(MIDDLE))
    here.until(f"{TIP} === 'x → x, probability 0.90'")
    # A tip beside the edge of the screen stays on it.
    assert here.run("document.documentElement.scrollWidth") == 390


def test_the_keyboard_reaches_edges_and_players(look: Open, report: Path):
    here = look(report, prefers_reduced_motion="reduce")
    here.press("Tab")
    assert here.run(TIP) == "x → x, probability 0.90"
    here.press("ArrowDown")
    assert here.run(TIP) == "x → x_dot, probability 0.90"
    here.press("Escape")
    assert here.run(TIP) is None
    reached = []
    for _ in range(7):
        here.press("Tab")
        reached.append(here.run("document.activeElement.classList[0] ?? document.activeElement.tagName"))
    assert reached == ["SUMMARY", "scroll", "SUMMARY", "BUTTON", "INPUT", "BUTTON", "INPUT"]


def test_an_animation_plays_pauses_and_says_who_failed(look: Open, report: Path):
    here = look(report, prefers_reduced_motion="reduce")
    first = "document.querySelector('.clip')"
    step = f"Number({first}.querySelector('input').value)"
    here.run(f"{first}.scrollIntoView()")
    here.run("new Promise(done => setTimeout(done, 400))")
    assert here.run(step) == 0  # less motion was asked for
    carts = f"[...{first}.querySelectorAll('.cart')].map(c => c.getAttribute('transform'))"
    start = here.run(carts)
    here.run(f"{first}.querySelector('button').focus()")
    here.press(" ")
    here.until(f"{step} > 5")
    assert here.run(f"{first}.querySelector('button').textContent") == "Pause"
    assert all(a != b for a, b in zip(here.run(carts), start, strict=True))
    here.press(" ")
    stopped = here.run(step)
    here.run("new Promise(done => setTimeout(done, 200))")
    assert here.run(step) == stopped
    here.run(f"{first}.querySelector('input').focus()")
    here.press("ArrowRight")
    assert here.run(step) == stopped + 1
    over = f"[...{first}.querySelectorAll('.lane')].map(l => l.classList.contains('over'))"
    for at, expected in ((39, [False, False, False]), (40, [False, True, False])):
        here.run(f"(i => {{ i.value = {at}; i.dispatchEvent(new Event('input')) }})({first}.querySelector('input'))")
        assert here.run(over) == expected
    assert here.run(f"{first}.querySelectorAll('.verdict')[1].textContent") == "falls at step 40"
    assert here.run(carts)[1] == "translate(40 0)"  # 40 steps of 1 cm
    assert here.run(f"{first}.querySelector('output').textContent") == "step 40 of 300, 0.8 s"


def test_an_animation_begins_when_it_is_seen(look: Open):
    here = look()
    first = "document.querySelector('.clip')"
    assert here.run(f"{first}.querySelector('input').value") == "0"
    here.run(f"{first}.scrollIntoView()")
    here.until(f"Number({first}.querySelector('input').value) > 3")


def test_on_paper_nothing_is_left_that_needs_a_screen(look: Open, report: Path):
    here = look(report, 720, 1000, media="print", prefers_color_scheme="dark")
    assert here.run("[...document.querySelectorAll('.player, details, .tip')].filter(e => e.checkVisibility()).length") == 0
    assert here.run("document.querySelectorAll('.stage, .plot .main-svg, .graph').length") >= 3 + 3 + 8 + 1
    assert here.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert here.run("document.documentElement.scrollWidth") == 720
    assert here.run(FAINT) == []


def test_hostile_names_stay_text(look: Open, tmp_path: Path):
    here = look(page.write(hostile(whole(), spare=tuple(STATES)), tmp_path / "hostile.html"))
    assert here.complaints() == [] and len(here.requests()) == 1
    assert here.run("document.querySelectorAll('img').length") == 0
    assert here.run("document.querySelectorAll('.js-plotly-plot').length") == 4
