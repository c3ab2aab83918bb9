"""Reports: what the page says, that its text is harmless, and that it is written whole
or not at all.
"""

import math
import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
from each import each
from numpy.testing import assert_allclose
from pages import Reader, everything, film, read, result_of

import lrmc
from lrmc import report
from lrmc.report import text
from lrmc.report.charts import Series
from lrmc.report.standard import noise_norm
from lrmc.report.survey import survey
from lrmc.report.text import percent
from lrmc.result import Record, Result, Status
from lrmc.units import Units

HOSTILE = "</script><img src=x onerror=alert(1)>\"'&\x00\ud800<!--"
IMAGES = pytest.importorskip("PIL.Image")


@pytest.fixture(scope="module")
def problem():
    return lrmc.synthetic.problem(120, 3, 0.1, 0.5, n2=150, noise=0.02, form="dense")


@pytest.fixture(scope="module")
def result(problem):
    return lrmc.solve(problem.Y)


# ---- the page


def test_the_page_is_whole_and_asks_for_nothing(result):
    page = report.page("All", everything(result))
    found = Reader(page)
    assert page.startswith("<!DOCTYPE html>")
    policy = next(
        a["content"]
        for a in found.all("meta")
        if a.get("http-equiv") == "Content-Security-Policy"
    )
    assert "default-src 'none'" in policy
    assert "http" not in policy
    for tag, attributes in found.elements:
        assert tag not in ("link", "iframe", "object", "embed", "base", "form")
        assert not [name for name in attributes if name.startswith("on")]
        for name in ("src", "href"):
            assert attributes.get(name, "#").startswith(("data:image/", "#"))
    style = "".join(t for tag, t in found.texts if tag == "style")
    assert not re.search(r"url\(|@import", style)
    assert all("alt" in a for a in found.all("img"))
    assert len({a["id"] for _, a in found.elements if "id" in a}) == len(
        [a for _, a in found.elements if "id" in a]
    )
    targets = {a["id"] for _, a in found.elements if "id" in a}
    assert {a["href"][1:] for a in found.all("a")} <= targets


def test_text_from_files_is_escaped(result):
    n1, n2 = result.shape
    frames, back = film(3)
    sections = [
        report.Facts(HOSTILE, {HOSTILE: HOSTILE}),
        report.Words(HOSTILE, [HOSTILE], "warning"),
        report.Lines(
            HOSTILE,
            [Series(HOSTILE, [1, 2], [1, 2])] * 2,
            x_name=HOSTILE,
            marks={HOSTILE: 1.5},
            caption=HOSTILE,
        ),
        report.Values(
            HOSTILE, [1.0], 0.5, x_name=HOSTILE, level_name=HOSTILE, caption=HOSTILE
        ),
        report.Map(HOSTILE, (1, 1), (1, 1), np.ones((1, 1)), np.ones((1, 1)), HOSTILE),
        report.Table(HOSTILE, [HOSTILE], [[HOSTILE]], HOSTILE),
        report.Table(HOSTILE, [HOSTILE], [], HOSTILE),
        report.BeforeAfter(HOSTILE, frames[0], back[0], HOSTILE, (HOSTILE, HOSTILE)),
        report.Frames(HOSTILE, {HOSTILE: frames}, [HOSTILE] * 3, HOSTILE),
        report.Gallery(HOSTILE, [*frames], [HOSTILE] * 3, HOSTILE),
        report.Group(HOSTILE, [report.Words(HOSTILE, [HOSTILE])], HOSTILE),
        *report.result_sections(
            result, row_names=[HOSTILE] * n1, col_names=[HOSTILE] * n2
        ),
    ]
    page = report.page(HOSTILE, sections, subtitle=HOSTILE)
    page.encode("utf-8")
    assert "\x00" not in page
    assert "<img src=x" not in page
    found = Reader(page)
    assert len(found.all("script")) == 2  # the script, and the frames
    assert not [
        a for _, a in found.elements if any(name.startswith("on") for name in a)
    ]
    assert all(a["src"].startswith("data:") for a in found.all("img"))
    assert (
        "</script><img src=x onerror=alert(1)>\"'&\N{REPLACEMENT CHARACTER}"
        in found.text
    )


def test_written_whole_or_not_at_all(tmp_path):
    target = tmp_path / "report.html"
    assert report.write_report(target, "One", [report.Words("", ["first"])]) == target
    before = target.read_bytes()
    with pytest.raises(ValueError, match="a picture has shape"):
        report.write_report(
            target, "Two", [report.Gallery("", [np.zeros((2, 2, 2, 2))])]
        )
    assert target.read_bytes() == before
    assert list(tmp_path.iterdir()) == [target]
    with pytest.raises(FileNotFoundError):
        report.write_report(tmp_path / "nowhere" / "report.html", "Three", [])


def test_an_empty_page():
    assert "A page" in read([]).text
    assert "No values to draw." in read([report.Values("", [])]).text
    assert "No frames to show." in read([report.Frames("", {})]).text
    assert "No pictures to show." in read([report.Gallery("", [])]).text
    assert "Nothing to show." in read([report.Table("", ["a"], [])]).text


def test_pillow_is_needed_for_pictures_only(result, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "PIL.Image", None)
    assert "rank 3" in read(report.result_sections(result)).text
    with pytest.raises(ImportError, match=r'pip install "lrmc\[report\]"'):
        read([report.Gallery("", [np.zeros((2, 2))])])


# ---- sections


@each("log", [False, True])
@each(
    "y",
    [
        [],
        [math.nan],
        [1.0],
        [0.0, 0.0],
        [-1.0, 5.0],
        [1e-300, 1e300],
        [math.nan, 1.0, math.inf, 2.0, -math.inf, 3.0],
        [5e-324, 5e-324],
        list(range(5000)),
    ],
    ids=str,
)
def test_charts_of_any_numbers(y, log):
    x = list(range(len(y)))
    sections = [
        report.Lines(
            "", [Series("y", x, y)], log=log, marks={"a": math.nan, "b": 0.0, "c": 2.0}
        ),
        report.Values("", y[:50], 0.0),
        report.Values("", y[:50], math.inf),
    ]
    with np.errstate(all="raise", under="ignore"):
        page = report.page("", sections)
    Reader(page)
    drawn = page.partition("<main>")[2].partition("</main>")[0]
    assert "nan" not in drawn.lower().replace("nannte", "")
    assert "inf" not in drawn
    for value in re.findall(r'c[xy]="([^"]*)"', drawn):
        assert abs(float(value)) < 1000


def test_a_chart_shows_its_values():
    found = read(
        [
            report.Lines(
                "",
                [Series("change", [1, 2, 3], [1.0, math.inf, 1e-3])],
                log=True,
                x_name="pass",
            )
        ]
    )
    points = found.all("circle", **{"class": "point"})
    assert [p["data-t"] for p in points] == [
        "pass 1, change: 1",
        "pass 3, change: 0.001",
    ]
    assert float(points[0]["cy"]) < float(points[1]["cy"])  # up is more
    # a gap where there is no value
    assert found.all("path", **{"class": "line"})[0]["d"].count("M") == 2


@each(
    ("x", "shown"),
    [
        (0, "0"),
        (3.0, "3"),
        (-0.5, "−0.5"),
        (1e-5, "10⁻⁵"),
        (-1e-5, "−10⁻⁵"),
        (1.23456e-9, "1.235·10⁻⁹"),
        (123456.7, "123\N{NARROW NO-BREAK SPACE}457"),
        (-1234567, "−1.235·10⁶"),
        (math.nan, "–"),
        (math.inf, "∞"),
        (-math.inf, "−∞"),
    ],
)
def test_numbers(x, shown):
    assert text.number(x) == shown


@each(
    ("share", "shown"),
    [
        (0, "0 %"),
        (1, "100 %"),
        (0.5, "50 %"),
        (0.034, "3.4 %"),
        (0.99999, "more than 99.99 %"),
        (1e-9, "below 0.01 %"),
        (0.9996, "99.96 %"),
        (math.nan, "–"),
    ],
)
def test_percent(share, shown):
    assert text.percent(share) == shown


def test_columns_have_as_many_decimals():
    assert text.column([1.0, -22.5, math.nan]) == ["1.00", "−22.50", "–"]
    assert text.column([3, 12000]) == ["3", "12\N{NARROW NO-BREAK SPACE}000"]
    assert text.column([1.0, 255.0]) == ["1", "255"]
    assert text.column([1e-9, 2e-9]) == ["10⁻⁹", "2·10⁻⁹"]
    assert text.column([0.0, 0.0]) == ["0", "0"]
    assert text.column([]) == []


# ---- a result


def test_the_words_of_a_result(result):
    said = read(report.result_sections(result)).text
    assert result.regime == "noisy"
    assert "120 rows and 150 columns" in said
    assert text.percent(result.observations.fraction) in said
    assert "rank 3: every row is a mixture of the same 3 profiles" in said
    assert "What was decided, and why" in said
    assert f"standard deviation of {text.number(result.noise_level, 3)} (noise)" in said
    assert "Converged to" in said


def test_the_outliers_of_the_table_are_those_of_the_result(result):
    found = read(report.result_sections(result))
    cells = [float(a["data-v"]) for a in found.all("td")]
    rows = np.array(cells).reshape(-1, 6)
    S = np.nan_to_num(result.outliers())
    i, j = rows[:, 0].astype(int), rows[:, 1].astype(int)
    assert len(rows) == min(100, np.count_nonzero(S))
    assert_allclose(rows[:, 4], S[i, j], rtol=1e-6)
    assert_allclose(
        np.abs(rows[:, 4]), np.sort(np.abs(S[S != 0]))[::-1][: len(rows)], rtol=1e-6
    )
    assert_allclose(rows[:, 3], (result.L @ result.R.T)[i, j], rtol=1e-6, atol=1e-12)
    assert_allclose(rows[:, 2] - rows[:, 3], rows[:, 4], rtol=1e-6, atol=1e-12)
    assert_allclose(rows[:, 5], np.abs(rows[:, 4]) / result.noise_level)
    assert (
        f"{text.count(np.count_nonzero(S))} observed entries do not follow"
        in found.text
    )


def test_noise_norm_is_that_of_noise():
    rng = np.random.default_rng(0)
    n1, n2, p, sigma = 400, 900, 0.3, 2.0
    seen = rng.random((n1, n2)) < p
    noise = np.where(seen, sigma * rng.standard_normal((n1, n2)), 0) / p
    obs = lrmc.as_observations(np.where(seen, 1.0, np.nan))
    assert noise_norm(sigma, obs) == pytest.approx(np.linalg.norm(noise, 2), rel=0.05)


def test_names_are_used(result):
    n1, n2 = result.shape
    names = {
        "row_names": [f"r{i}" for i in range(n1)],
        "col_names": [f"c{j}" for j in range(n2)],
    }
    found = read(report.result_sections(result, **names))
    worst = survey(result.observations, result.fit, result.listing(), 1)
    assert f"r{worst.rows[0]}" in found.text
    assert "counted from 0" not in found.text
    with pytest.raises(ValueError, match=f"row_names has 2 names; {n1} are wanted"):
        report.result_sections(result, row_names=["a", "b"])


@each("status", list(Status))
def test_every_ending_has_words(status):
    said = read(
        report.result_sections(
            result_of(np.eye(3) + 1, np.ones((3, 1)), np.ones((3, 1)), status=status)
        )
    ).text
    assert ("Converged" in said) == (status is Status.CONVERGED)
    assert ("What to do" in said) == (status is not Status.CONVERGED)
    assert status is Status.CONVERGED or status.meaning in said


@each("regime", ["exact", "noisy", "unknown"])
@each("noise", [math.nan, math.inf, 0.0, 1e-300])
def test_odd_numbers(regime, noise):
    history = (
        Record(0, math.nan, math.nan, math.nan, 0.0),
        Record(1, math.inf, 0.0, math.nan, math.nan),
    )
    Y = np.array([[1.0, np.nan, 1e30], [2.0, 3.0, np.nan]])
    made = result_of(
        Y,
        np.zeros((2, 1)),
        np.zeros((3, 1)),
        noise_level=noise,
        outlier_fraction=math.nan,
        regime=regime,
    )
    for one in (
        replace(made, history=history),
        replace(made, history=history[:1]),
        replace(made, observations=None),
    ):
        said = read(report.result_sections(one)).text
        assert "rank 1" in said
        assert "nan" not in said


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (7, 1)])
def test_one_row_or_column(shape):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = lrmc.solve(np.arange(1.0, 1 + math.prod(shape)).reshape(shape), 1)
    assert ("1 row " if shape[0] == 1 else "7 rows") in read(
        report.result_sections(made)
    ).text


def test_a_loaded_result_needs_the_data_again(problem, result, tmp_path):
    result.save(tmp_path / "result.npz")
    loaded = Result.load(tmp_path / "result.npz")
    bare = read(report.result_sections(loaded))
    assert "The data are not part of this result" in bare.text
    assert not bare.all("table")
    assert "Errors on hidden entries" in bare.text  # now dictionaries
    again, first = (
        read(s).all("td")
        for s in (
            report.result_sections(loaded, problem.Y),
            report.result_sections(result),
        )
    )
    assert again == first
    with pytest.raises(ValueError, match=r"the data have shape \(2, 2\)"):
        report.result_sections(loaded, np.ones((2, 2)))


def test_without_entries(result):
    assert not read(report.result_sections(result, entries=False)).all("table")


def test_what_has_no_observation_is_named():
    Y = np.random.default_rng(0).standard_normal((30, 1)) @ np.ones((1, 20))
    Y[4], Y[:, [2, 5]] = np.nan, np.nan
    with pytest.warns(UserWarning, match="no observation"):
        made = lrmc.solve(Y, 1)
    said = read(
        report.result_sections(made, row_names=[f"name{i}" for i in range(30)])
    ).text
    assert "1 row has no observed entry at all" in said
    assert "(name4)" in said
    assert "2 columns have no observed entry" in said
    assert "(2, 5)" in said


def test_rank_given_found_and_tried(problem):
    assert (
        "This rank was given"
        in read(report.result_sections(lrmc.solve(problem.Y, 3))).text
    )
    tried = [
        {"loss": "huber", "shrink": 1.0, "rank": r, "error": 1 / r, "way": "grown"}
        for r in (1, 2, 3)
    ]
    tests = [{"rank": 0, "singular_values": [3.0, 0.5], "noise": 1.0, "added": 1}]
    ones = (np.ones((4, 2)), np.ones((4, 2)))
    said = read(
        report.result_sections(
            result_of(None, *ones, evidence={"rank_tests": tests, "trials": tried})
        )
    ).text
    assert "chosen by trial: some known entries were hidden, 3 fits" in said
    assert "loss huber, rank 3" in said
    said = read(
        report.result_sections(result_of(None, *ones, evidence={"rank_tests": tests}))
    ).text
    assert "reached 50 % of that level" in said
    said = read(report.result_sections(result_of(None, *ones, evidence={}))).text
    assert "given" not in said


def test_groups_are_reported_too():
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((40, 2)) @ rng.standard_normal(
        (2, 30)
    ) + 0.01 * rng.standard_normal((40, 30))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = lrmc.solve(Y, 2, groups=np.arange(40) // 2)
    assert "40 rows and 30 columns" in read(report.result_sections(made)).text


def test_the_report_does_not_load_more_than_it_needs():
    import subprocess
    import sys

    code = "import lrmc.report, sys; print(' '.join(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"PIL", "matplotlib", "pandas"} & set(loaded)


def test_columns_of_several_units_keep_their_digits():
    from lrmc.report.text import column

    assert column([1.5, 22.25, 8.0, 9.5, 0.003]) == [
        "1.50",
        "22.25",
        "8.00",
        "9.50",
        "0.00",
    ]
    assert column([1117.0, 0.7369, 0.0541, 80.5]) == [
        "1\N{NARROW NO-BREAK SPACE}117",
        "0.7369",
        "0.0541",
        "80.5",
    ]
    assert column([4e-8, 4e-8, 3e-3]) == ["4·10⁻⁸", "4·10⁻⁸", "0.003"]


def test_entries_in_the_units_of_the_data():
    """What was removed before the fit is put back in the table of outliers, and
    distances say what they are in.
    """
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((60, 1)) @ (
        1 + rng.random((1, 9))
    ) + 0.01 * rng.standard_normal((60, 9))
    Y[7, 3] = 40.0
    units = Units(np.full(9, 1000.0), np.full(9, 5.0))
    sections = report.result_sections(lrmc.solve(Y, 1), units=units)
    table = next(s for s in sections if s.title == "The worst outliers")
    row, col, observed, expected, difference = table.rows[0][:5]
    assert (row, col, observed) == (7, 3, 1200.0)
    assert difference == pytest.approx(observed - expected)
    assert abs(expected - 1000) < 50
    said = read(sections).text
    assert "column spreads (noise)" in said
    assert "noise, in spreads" in said
    assert "units of the data" not in said


def test_models_beside_each_other_and_how_sure():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 2)) @ rng.standard_normal((2, 60))
    Y = X + 0.3 * rng.standard_normal(X.shape)
    Y[rng.random(X.shape) < 0.3] = np.nan
    result = lrmc.solve(Y, 2)
    assert "How sure" not in read(report.result_sections(result)).text
    level = result.calibration.coverage[0]
    text = read(report.result_sections(result)).text
    assert "How sure" in text
    assert percent(level.value) in text
    for name in ("low rank", "row median", "column median", "row + column"):
        assert name in text
    # a solver that says so itself is believed
    table = [
        {"name": "that one", "mae": 4.0, "chosen": False},
        {"name": "this one", "mae": 1.0, "chosen": True},
    ]
    told = read(report.result_sections(replace(result, evidence={"table": table})))
    assert "this one" in told.text
    assert "25 % of the error" in told.text


def test_named_values_are_drawn_with_their_errors():
    page = read([report.Bars("", ["a", "<b>"], [1.0, 2.0], [0.1, math.nan], "c")])
    assert "<b>" in page.text
    assert "No values to draw." in read([report.Bars("", ["a"], [math.nan], [0])]).text


def test_links_are_quoted():
    page = report.page("T", [report.Files("Files", {"a <b>": "x y/ü#1.csv"})])
    assert '<a href="x%20y/%C3%BC%231.csv">a &lt;b&gt;</a>' in page


def test_links_of_a_folder(tmp_path):
    (tmp_path / "masks").mkdir()
    (tmp_path / "a.npz").touch()
    found = report.Files.in_folder(tmp_path)
    assert dict(found.links) == {"a.npz": "a.npz", "masks/": "masks"}


def test_the_command_is_on_the_page(monkeypatch):
    section = report.Words("W", ["said"])
    assert '<p class="command">' not in report.page("T", [section])
    monkeypatch.setattr("sys.argv", ["/usr/bin/lrmc", "complete", "a b.csv"])
    assert "<code>lrmc complete &#x27;a b.csv&#x27;</code>" in report.page(
        "T", [section]
    )
