"""What checks of a page share: how they are listed, and how they look at it."""
import json

CHECKS = []


def check(function):
    """Lists a check: function(browser, pages)."""
    CHECKS.append(function)
    return function


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
