#!/usr/bin/env python3
"""Writes reports, of hand-made runs and of real ones, and uses them as a reader does, in Chromium: check_page.py TRIFOLD
FOLDER. Pictures of every page go to a folder `screenshots` beside the program.

Ends with 77 and a sentence where there is no Chromium, or where the build has no d3."""
import os
import subprocess
import sys

import content_checks  # noqa: F401  they list their checks
import real_runs
import sample_runs
import screenshots
import usability_checks  # noqa: F401
from browser import Browser, find_chromium
from checks import CHECKS


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def write_pages(program, folder):
    runs = {name: os.path.join(folder, name) for name in ("train", "compare", "profile", "long")}
    for name, path in runs.items():
        getattr(sample_runs, f"{name}_run")(path)
    pages = {name: os.path.join(path, "report.html") for name, path in runs.items()} | {"all": os.path.join(folder, "all.html")}
    together = [runs[name] for name in ("train", "compare", "profile")]
    for arguments in [[path] for path in runs.values()] + [[*together, "--out", pages["all"]]]:
        result = subprocess.run([program, "report", *arguments], capture_output=True, text=True)
        if "no d3" in result.stderr:
            skip("this build has no d3 (package node-d3)")
        assert result.returncode == 0, result.stderr
    for name, path in real_runs.make(program, os.path.join(folder, "real")).items():
        pages[f"real {name}"] = path
    for name, path in pages.items():
        assert os.path.getsize(path) < 1_000_000, (name, os.path.getsize(path))
    return pages


def main():
    program, folder = sys.argv[1:]
    if not find_chromium():
        skip("no chromium is installed (tools/setup --tests installs it)")
    pages = write_pages(program, folder)
    browser = Browser()
    failed = 0
    try:
        for function in CHECKS:
            browser.events.clear()
            try:
                function(browser, pages)
                assert not browser.complaints(), browser.complaints()
                print(f"ok      {function.__name__}")
            except (AssertionError, RuntimeError, ValueError) as error:
                failed += 1
                print(f"FAILED  {function.__name__}: {error}")
        browser.events.clear()
        pictures = screenshots.take(browser, {name: pages[f"real {name}"] for name in ("train", "compare", "profile")},
                                    os.path.join(os.path.dirname(os.path.abspath(program)), "screenshots"))
        print(f"{len(pictures)} screenshots in {os.path.dirname(pictures[0])}")
    finally:
        browser.close()
    print(f"{len(CHECKS) - failed} of {len(CHECKS)} checks passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
