"""The page in a real browser: it opens alone, shows points, and answers to mouse and keyboard."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from neucmds import neuc_mds
from neucmds.ecology import envfit

from .conftest import IMAGE, SCRIPT, N

pytest.importorskip("selenium", reason="selenium is not installed")

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

PLOTS = [
    "scan",
    "spectrum",
    "stress",
    "r2",
    "neighbours",
    "objects",
    "shepard",
    "errors",
    "worst",
]
PATIENCE = 90


def wait(driver, condition):
    return WebDriverWait(driver, PATIENCE, poll_frequency=0.1).until(
        lambda _: condition()
    )


def open_page(driver, path):
    driver.get_log("browser")  # what came before
    driver.get(path.as_uri())
    wait(
        driver,
        lambda: driver.execute_script(
            "return document.documentElement.dataset.ready"
        ),
    )


@pytest.fixture
def fresh(driver, case):
    """The page as it opens."""
    open_page(driver, case.path)
    return driver


@pytest.fixture
def page(driver, case):
    """The page as the last test left it: to open it again takes two seconds."""
    if driver.current_url != case.path.as_uri():
        open_page(driver, case.path)
    return driver


def pixel_of(driver, i):
    """Scroll to the picture of the objects, and return where in the window an object lies."""
    return driver.execute_script(
        """
        const plot = document.getElementById("plot-objects");
        plot.scrollIntoView({block: "center", behavior: "instant"});
        const {xaxis, yaxis} = plot._fullLayout, box = plot.getBoundingClientRect();
        for (const trace of plot.data) {
          const at = Array.from(trace.customdata || []).indexOf(arguments[0]);
          if (at >= 0) return [
            box.left + xaxis._offset + xaxis.d2p(trace.x[at]),
            box.top + yaxis._offset + yaxis.d2p(trace.y[at]),
          ];
        }
        """,
        i,
    )


def point_at(driver, i, *, click=False):
    x, y = (round(v) for v in pixel_of(driver, i))
    actions = ActionChains(driver)
    actions.w3c_actions.pointer_action.move_to_location(x - 30, y - 30)
    actions.w3c_actions.pointer_action.move_to_location(x, y)
    if click:
        actions.w3c_actions.pointer_action.click()
    actions.perform()


def lonely(embedding, axes):
    """Return the object that is farthest from all others on two axes: easy to hit."""
    gaps = cdist(*[embedding.coordinates[:, list(axes)]] * 2)
    np.fill_diagonal(gaps, np.inf)
    return int(gaps.min(axis=1).argmax())


def drawn_axes(driver):
    return tuple(int(Select(driver.find_element(By.ID, f"axis-{a}")).first_selected_option
                     .get_attribute("value")) for a in "xy")  # fmt: skip


def names_in(driver, heading):
    """Names in the table of the panel below a heading."""
    return driver.execute_script(
        """
        const panel = document.getElementById("panel");
        const heading = [...panel.querySelectorAll("h3")].find(h => h.textContent === arguments[0]);
        return heading && [...heading.nextElementSibling.querySelectorAll("button")]
          .map(b => b.textContent.replace(" ●", ""));
        """,
        heading,
    )


def test_it_draws_every_plot_without_an_error(fresh, page):
    assert [
        entry for entry in page.get_log("browser") if entry["level"] != "DEBUG"
    ] == []
    drawn = page.execute_script(
        """
        return Object.fromEntries([...document.querySelectorAll(".plot")].map(plot => [
          plot.id.replace("plot-", ""),
          plot.data.reduce((sum, trace) => sum + trace.x.length, 0),
        ]))
        """
    )
    assert sorted(drawn) == sorted(PLOTS)
    assert all(count > 0 for count in drawn.values()), drawn
    assert drawn["objects"] == N


def test_a_name_that_looks_like_html_is_text(page, case):
    for i, name in ((7, SCRIPT), (8, IMAGE)):
        page.execute_script(
            """
            const plot = document.getElementById("plot-objects"), i = arguments[0];
            const curve = plot.data.findIndex(t => t.customdata.includes(i));
            const point = plot.data[curve].customdata.indexOf(i);
            Plotly.Fx.hover(plot, [{curveNumber: curve, pointNumber: point}]);
            """,
            i,
        )
        label = page.find_element(
            By.CSS_SELECTOR, "#plot-objects .hoverlayer"
        ).text
        assert name[:39] in label
        field = page.find_element(By.ID, "find")
        field.clear()
        field.send_keys(name, Keys.ENTER)
        assert page.find_element(By.CSS_SELECTOR, "#panel h3").text == name
    legend = page.find_element(By.CSS_SELECTOR, "#plot-objects .legend").text
    assert SCRIPT in legend
    assert len(page.find_elements(By.CSS_SELECTOR, "body script")) == 3
    assert page.find_elements(By.CSS_SELECTOR, "img, body b[onerror]") == []


def test_pointing_names_an_object_and_clicking_lists_the_nearest_by_both(
    fresh, page, case
):
    for axis, sign in (("x", 1), ("y", -1)):
        drawn = np.argmax(case.embedding.signs == sign)
        Select(page.find_element(By.ID, f"axis-{axis}")).select_by_value(
            str(drawn)
        )
    i, labels = lonely(case.embedding, drawn_axes(page)), case.embedding.labels
    point_at(page, i)
    shown = wait(
        page,
        lambda: (
            page.find_element(
                By.CSS_SELECTOR, "#plot-objects .hoverlayer"
            ).text
        ),
    )
    assert labels[i] in shown
    assert "habitat" in shown
    point_at(page, i, click=True)
    wait(page, lambda: names_in(page, "Nearest by d"))
    by_fitted = case.embedding.neighbors(10)[0][i]
    by_given = [j for j in np.argsort(case.D[i], kind="stable") if j != i][:10]
    assert names_in(page, "Nearest by d̂") == [labels[j] for j in by_fitted]
    assert names_in(page, "Nearest by d") == [labels[j] for j in by_given]
    # The lines where both axes cancel go through it.
    x, y = case.embedding.coordinates[i][list(drawn_axes(page))]
    shapes = page.execute_script(
        "return document.getElementById('plot-objects').layout.shapes"
    )
    assert len(shapes) == 2
    for shape in shapes:
        assert (shape["x0"] + shape["x1"]) / 2 == pytest.approx(x, rel=1e-4)
        assert (shape["y0"] + shape["y1"]) / 2 == pytest.approx(y, rel=1e-4)
        assert abs(
            (shape["y1"] - shape["y0"]) / (shape["x1"] - shape["x0"])
        ) == pytest.approx(1)


def test_any_two_coordinates_can_be_chosen_and_explain_themselves(
    fresh, page, case
):
    signs = case.embedding.signs
    assert sorted(signs) == [-1, 1, 1, 1]
    negative, positive = (
        int(np.argmin(signs)),
        [a for a in range(4) if signs[a] > 0],
    )
    across, up = (Select(page.find_element(By.ID, f"axis-{a}")) for a in "xy")
    text = page.find_element(By.ID, "explanation")

    def titles():
        layout = "document.getElementById('plot-objects').layout"
        return page.execute_script(
            f"return [{layout}.xaxis.title.text, {layout}.yaxis.title.text]"
        )

    assert drawn_axes(page) == (0, 1)
    across.select_by_value(str(positive[0]))
    up.select_by_value(str(negative))
    assert text.text.startswith("This is not a map")
    across.select_by_value(str(positive[1]))
    up.select_by_value(str(positive[2]))
    assert text.text.startswith("Both axes are positive")
    assert titles()[0].startswith(f"axis {positive[1] + 1}")
    # The same axis twice: they change places.
    up.select_by_value(str(positive[1]))
    assert drawn_axes(page) == (positive[2], positive[1])
    across.select_by_value(str(negative))
    assert f"axis {negative + 1} is negative" in text.text
    assert "negative" in titles()[0]


def test_any_column_can_colour_the_points(fresh, page):
    colour = Select(page.find_element(By.ID, "colour"))
    columns = ["nothing", "habitat", "depth", "mean error of the object in %"]
    assert [option.text for option in colour.options] == columns

    def traces():
        return page.execute_script(
            "return document.getElementById('plot-objects').data"
            ".map(t => [t.name, Boolean(t.marker.colorscale)])"
        )

    assert [name for name, _ in traces()][1:] == ["a", "b"]
    colour.select_by_visible_text("depth")
    assert traces() == [["objects", True]]
    colour.select_by_visible_text("nothing")
    assert traces() == [["objects", False]]
    colour.select_by_visible_text("habitat")
    assert len(traces()) == 3


def test_everything_can_be_reached_and_worked_by_keyboard(fresh, page):
    controls = page.find_elements(
        By.CSS_SELECTOR, "select, input, button, summary"
    )
    shown = [control for control in controls if control.is_displayed()]
    assert len(shown) >= 12
    assert [
        c.get_attribute("outerHTML") for c in shown if not c.accessible_name
    ] == []
    reached = set()
    for _ in range(60):
        ActionChains(page).send_keys(Keys.TAB).perform()
        reached.add(page.switch_to.active_element.get_attribute("id"))
        if "find" in reached:
            break
    assert {"theme", "axis-x", "axis-y", "colour", "find"} <= reached
    page.switch_to.active_element.send_keys("site 12", Keys.ENTER)
    assert page.find_element(By.CSS_SELECTOR, "#panel h3").text == "site 12"


def test_numbers_are_also_tables(page, case):
    table = page.find_element(By.ID, "coordinates")
    details = table.find_element(By.XPATH, "ancestor::details")
    details.find_element(By.TAG_NAME, "summary").send_keys(Keys.ENTER)
    rows = wait(page, lambda: table.find_elements(By.CSS_SELECTOR, "tbody tr"))
    assert len(rows) == N
    first = [
        cell.text.replace("−", "-")
        for cell in rows[0].find_elements(By.TAG_NAME, "td")
    ]
    assert first[0] == "site 0"
    np.testing.assert_allclose(
        [float(text) for text in first[1:]],
        case.embedding.coordinates[0],
        rtol=1e-3,
    )
    sections = page.find_elements(By.CSS_SELECTOR, "section:has(.plot)")
    assert len(sections) == 7
    assert all(
        section.find_elements(By.CSS_SELECTOR, "details table")
        for section in sections
    )


def test_the_button_changes_to_dark_mode_and_back(fresh):
    look = """return [getComputedStyle(document.body).backgroundColor,
                      document.getElementById("plot-objects").layout.font.color]"""
    light, dark = (
        ["rgb(255, 255, 255)", "#1b1f24"],
        ["rgb(20, 23, 28)", "#e8eaed"],
    )
    button = fresh.find_element(By.ID, "theme")
    for after, name in ((dark, "Light mode"), (light, "Dark mode")):
        button.send_keys(Keys.ENTER)
        wait(fresh, lambda: fresh.execute_script(look) == after)  # noqa: B023
        assert button.text == name


def test_thousands_of_objects_are_drawn_by_webgl_and_answer(
    driver, case, tmp_path
):
    x = np.random.default_rng(1).normal(size=(4000, 4))
    many = replace(case.embedding, coordinates=x, labels=None)
    path = many.report(tmp_path / "many.html")
    open_page(driver, path)
    assert [
        entry
        for entry in driver.get_log("browser")
        if entry["level"] == "SEVERE"
    ] == []
    kinds = "return document.getElementById('plot-objects').data.map(t => [t.type, t.x.length])"
    assert driver.execute_script(kinds) == [["scattergl", 4000]]
    assert (
        driver.find_elements(By.CSS_SELECTOR, "#plot-objects .no-webgl") == []
    )
    i = lonely(many, drawn_axes(driver))
    point_at(driver, i, click=True)
    chosen = wait(
        driver, lambda: driver.find_elements(By.CSS_SELECTOR, "#panel h3")
    )
    assert chosen[0].text == f"object {i}"
    # Marks of the chosen one as SVG would lie below the points.
    assert {kind for kind, _ in driver.execute_script(kinds)} == {"scattergl"}


def test_pointing_says_by_how_much_an_object_hangs_out(driver, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 2))
    D = np.sqrt(
        cdist(x, x, "sqeuclidean") + np.add.outer(*[rng.random(30)] * 2)
    )
    np.fill_diagonal(D, 0)
    fitted = neuc_mds(D, (2, 0), loss="relative", heights=True, n_init=1)
    open_page(driver, fitted.report(tmp_path / "heights.html"))
    texts = driver.execute_script(
        "return document.getElementById('plot-objects').data[0].text"
    )
    assert len(texts) == 30
    for text, height in zip(texts, fitted.heights, strict=True):
        told = text.split("hangs out by ")[1].split(" ")[0]
        assert float(told.replace("−", "-")) == pytest.approx(height, rel=1e-3)


def test_ellipses_arrows_and_replicates_are_drawn_on_request(fresh, case):
    def drawn():
        return fresh.execute_script(
            """
            const plot = document.getElementById("plot-objects");
            const lines = plot.data.filter((trace) => trace.mode === "lines");
            return [lines.map((t) => t.x.filter((v) => v === null).length),
                    plot.layout.annotations.map((note) => note.text)];
            """
        )

    def click(name):
        fresh.execute_script(
            "document.getElementById(arguments[0]).click()", name
        )

    assert drawn()[0] == []
    for name in ("names", "ellipses", "arrows", "stability"):
        click(name)
    x, y = (a + 1 for a in drawn_axes(fresh))
    r2 = envfit(
        case.embedding,
        {"v": case.metadata["depth"]},
        axes=(x, y),
        permutations=0,
    )["v"].r2
    label = f"<b>depth (r² {float(f'{r2:.2g}'):g})</b>"
    # One outline for each of three groups, one for each object, and one arrow with its name.
    wait(fresh, lambda: drawn() == [[1, 1, 1, N], ["", label]])
    click("centroids")
    wait(fresh, lambda: len(drawn()[1]) == 5)
    assert {"<b>a</b>", "<b>b</b>"} < set(drawn()[1])


def test_names_of_objects_are_labels_that_do_not_overlap(fresh, case):
    boxes = wait(
        fresh,
        lambda: fresh.execute_script(
            """
            return [...document.querySelectorAll("#plot-objects .annotation-text")].map((g) => {
              const box = g.getBoundingClientRect();
              return [g.textContent, box.left, box.top, box.right, box.bottom];
            })
            """
        ),
    )
    names = {name for name, *_ in boxes}
    assert len(names & set(case.embedding.labels)) > N / 2
    for name, left, top, right, bottom in boxes:
        for other, x0, y0, x1, y1 in boxes:
            apart = left >= x1 or right <= x0 or top >= y1 or bottom <= y0
            assert name == other or apart
