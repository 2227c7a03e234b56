#!/usr/bin/env python3
"""Writes reports of hand-made runs and uses them as a reader does, in Chromium: check_page.py TRIFOLD FOLDER.

Ends with 77 and a sentence where there is no Chromium, or where the build has no d3."""
import json
import os
import subprocess
import sys

import sample_runs
from browser import Browser, find_chromium

CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def tooltip_over(browser, mark):
    """The tooltip of the element that a JavaScript expression names, with the pointer on its middle."""
    browser.run(f"({mark}).scrollIntoView({{block: 'center'}})")
    browser.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")  # scrolling hides tooltips
    box = browser.run(f"(() => {{ const box = ({mark}).getBoundingClientRect(); return [box.left + box.width / 2, box.top + box.height / 2]; }})()")
    browser.hover(*box)
    browser.wait("!document.getElementById('tooltip').hidden")
    return browser.run("document.getElementById('tooltip').textContent")


def data_of(browser):
    return json.loads(browser.run("document.getElementById('data').textContent"))


def card(title):
    return f"[...document.querySelectorAll('.card')].find((card) => card.querySelector('h3') && card.querySelector('h3').textContent === {json.dumps(title)})"


@check
def train_page_shows_every_figure(browser, pages):
    browser.open(pages["train"])
    for title in ("Loss", "Accuracy", "Learning rate", "Loss scale", "Images per second", "Confusion of classes", "Worst samples"):
        assert browser.run(f"{card(title)} !== undefined"), title
    assert browser.run("document.querySelector('.samples img').naturalWidth") == 8
    assert browser.run("document.querySelectorAll('b, i').length === document.querySelectorAll('#tooltip b, .legend i, .folds i').length"), "a run's text became HTML"
    assert "network_missing" not in data_of(browser)["runs"][0], data_of(browser)["runs"][0]["network_missing"]


@check
def hover_shows_the_number_of_the_data(browser, pages):
    browser.open(pages["train"])
    text = tooltip_over(browser, f"{card('Loss')}.querySelector('svg')")
    loss = data_of(browser)["runs"][0]["metrics"]["series"]["train"]["loss"]
    step = int(text.split("step ")[1].split("train")[0].replace(",", ""))
    shown = text.split("train")[1].split("least")[0]
    assert float(shown) == loss["mean"][loss["step"].index(step)], text


@check
def arrow_keys_read_a_chart(browser, pages):
    browser.open(pages["train"])
    browser.run(f"{card('Accuracy')}.querySelector('svg').focus()")
    browser.run("document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight', bubbles: true}))")
    text = browser.run("document.getElementById('tooltip').textContent")
    first = data_of(browser)["runs"][0]["metrics"]["series"]["train"]["accuracy"]
    assert str(first["mean"][0]) in text, text


@check
def time_axis_can_be_chosen(browser, pages):
    browser.open(pages["train"])
    browser.run("document.querySelector('input[value=time_s]').click()")
    browser.wait(f"{card('Loss')}.querySelector('svg').textContent.includes('seconds')")


@check
def compare_page_shows_plans(browser, pages):
    browser.open(pages["compare"])
    bar = tooltip_over(browser, f"{card('Throughput')}.querySelectorAll('.mark')[1]")
    assert "812.5" in bar, bar
    cell = tooltip_over(browser, f"{card('What ranks send each other')}.querySelectorAll('.mark')[1]")
    assert "4805632" in cell, cell
    span = tooltip_over(browser, f"{card('One step of pp=2,schedule=1f1b,micro_batches=4')}.querySelectorAll('.mark')[1]")
    assert "12.75 ms" in span and "micro-batch0" in span, span
    assert browser.run(f"{card('Why single lost')}.textContent.includes('3.2 ms a step longer')")
    change = tooltip_over(browser, f"{card('Why single lost')}.querySelectorAll('.mark')[1]")
    assert "+77" in change, change
    assert browser.run(f"{card('Difference to single')} !== undefined")


@check
def kernel_table_sorts(browser, pages):
    browser.open(pages["profile"])
    times = f"[...{card('Kernels')}.querySelectorAll('tbody tr')].map((row) => Number(row.children[6].textContent))"
    click = f"[...{card('Kernels')}.querySelectorAll('th button')].find((button) => button.textContent === 'total ms').click()"
    assert browser.run(times)[:2] == [57.13, 31.5]
    browser.run(click)
    assert browser.run(times) == [57.13, 31.5, 9.75, 3.25]
    browser.run(click)
    assert browser.run(times) == [3.25, 9.75, 31.5, 57.13]
    assert browser.run(f"{card('Kernels')}.querySelector('[aria-sort=ascending]').textContent") == "total ms"


@check
def kernel_table_filters(browser, pages):
    browser.open(pages["profile"])
    rows = f"{card('Kernels')}.querySelectorAll('tbody tr').length"
    assert browser.run(rows) == 4
    browser.run(f"(() => {{ const field = {card('Kernels')}.querySelector('input'); field.value = 'CONV input'; field.dispatchEvent(new Event('input')); }})()")
    assert browser.run(rows) == 1, browser.run(rows)
    assert browser.run(f"{card('Kernels')}.querySelector('[role=status]').textContent") == "1 of 4"


@check
def roofline_and_treemap_show_kernels(browser, pages):
    browser.open(pages["profile"])
    kernel = tooltip_over(browser, f"{card('Roofline')}.querySelectorAll('.mark')[0]")
    assert "101.5 GFLOP/s" in kernel and "57.125 ms" in kernel, kernel
    area = tooltip_over(browser, f"{card('Time by layer')}.querySelector('.mark')")
    assert "57.125 ms" in area, area
    assert browser.run(f"{card('Roofline')}.querySelectorAll('.roof').length") == 3


@check
def theme_switch_is_remembered(browser, pages):
    browser.open(pages["profile"])
    theme = lambda: browser.run("[document.documentElement.dataset.theme, getComputedStyle(document.body).backgroundColor]")
    before = theme()
    browser.run("document.getElementById('theme').click()")
    after = theme()
    assert before[0] != after[0] and before[1] != after[1], (before, after)
    browser.open(pages["profile"])
    assert theme() == after, "forgotten"
    browser.run("document.getElementById('theme').click()")


@check
def several_runs_are_tabs(browser, pages):
    browser.open(pages["all"])
    assert browser.run("document.querySelectorAll('[role=tab]').length") == 3
    browser.run("document.querySelectorAll('[role=tab]')[2].click()")
    assert browser.run("[...document.querySelectorAll('[role=tabpanel]')].map((panel) => panel.hidden)") == [True, True, False]
    browser.wait(f"{card('Roofline')}.querySelectorAll('.mark').length === 4")  # drawn once it has a width


@check
def charts_have_text_for_those_who_cannot_see_them(browser, pages):
    for name in ("train", "compare", "profile"):
        browser.open(pages[name])
        assert browser.run("[...document.querySelectorAll('svg.chart')].every((svg) => svg.getAttribute('role') === 'img' && svg.getAttribute('aria-label').length > 20)")
        assert browser.run("[...document.querySelectorAll('table')].every((table) => table.caption !== null)")
        assert browser.run("document.querySelectorAll('h1').length") == 1


@check
def a_phone_needs_no_sideways_scrolling(browser, pages):
    for name in ("train", "compare", "profile"):
        browser.resize(390, 800)
        browser.open(pages[name])
        width = browser.run("document.documentElement.scrollWidth")
        assert width <= 390, (name, width)
    browser.resize(1280, 900)


def main():
    program, folder = sys.argv[1:]
    if not find_chromium():
        skip("no chromium is installed (tools/setup --report installs it)")
    runs = {name: os.path.join(folder, name) for name in ("train", "compare", "profile")}
    sample_runs.train_run(runs["train"])
    sample_runs.compare_run(runs["compare"])
    sample_runs.profile_run(runs["profile"])
    pages = {name: os.path.join(path, "report.html") for name, path in runs.items()} | {"all": os.path.join(folder, "all.html")}
    for arguments in [[path] for path in runs.values()] + [[*runs.values(), "--out", pages["all"]]]:
        result = subprocess.run([program, "report", *arguments], capture_output=True, text=True)
        if "no d3" in result.stderr:
            skip("this build has no d3 (package node-d3)")
        assert result.returncode == 0, result.stderr
    browser = Browser()
    failed = 0
    try:
        for function in CHECKS:
            browser.events.clear()
            try:
                function(browser, pages)
                assert not browser.complaints(), browser.complaints()
                print(f"ok      {function.__name__}")
            except (AssertionError, RuntimeError) as error:
                failed += 1
                print(f"FAILED  {function.__name__}: {error}")
    finally:
        browser.close()
    print(f"{len(CHECKS) - failed} of {len(CHECKS)} checks passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
