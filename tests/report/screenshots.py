"""Pictures of whole pages: each in both themes, on a desk's screen and on a phone's. For people to look at."""
import os

WIDTHS = {"desk": 1280, "phone": 390}


def set_theme(browser, theme):
    if browser.run("document.documentElement.dataset.theme") != theme:
        browser.run("document.getElementById('theme').click()")


def settle(browser):
    browser.run("new Promise((done) => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)), 60))")


def take(browser, pages, folder):
    """The files that it wrote; one that shows nothing is an error."""
    os.makedirs(folder, exist_ok=True)
    written = []
    for name, page in pages.items():
        for screen, width in WIDTHS.items():
            browser.resize(width, 900)
            browser.open(page)
            for theme in ("light", "dark"):
                set_theme(browser, theme)
                settle(browser)
                browser.resize(width, browser.run("document.documentElement.scrollHeight"))
                settle(browser)
                written.append(os.path.join(folder, f"{name}-{screen}-{theme}.png"))
                browser.screenshot(written[-1], full=False)
                assert os.path.getsize(written[-1]) > 40_000, (written[-1], "is empty")
                browser.resize(width, 900)
    assert not browser.complaints(), browser.complaints()
    return written
