"""What pages show is what the runs hold: figures, tables and tooltips against the JSON."""
from checks import card, check, data_of, tooltip_over


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
    browser.wait(f"{card('Loss')}.querySelector('svg').textContent.includes('minutes')")
    assert browser.run(f"{card('Loss')}.querySelectorAll('path.line').length") == 2, "the test's line is there too"


@check
def compare_page_shows_plans(browser, pages):
    browser.open(pages["compare"])
    bar = tooltip_over(browser, f"{card('Throughput')}.querySelectorAll('.mark')[1]")
    assert "812.5" in bar, bar
    cell = tooltip_over(browser, f"{card('What ranks send each other')}.querySelectorAll('.mark')[1]")
    assert "4805632" in cell, cell
    rounds = tooltip_over(browser, f"{card('Throughput')}.querySelectorAll('.mark')[1]")
    assert "731.3 to 853.1" in rounds, rounds
    span = tooltip_over(browser, f"{card('One step of each plan')}.querySelectorAll('.mark')[1]")
    assert "12.75 ms" in span and "micro-batch0" in span, span
    assert browser.run(f"{card('Why single lost')}.textContent.includes('3.2 ms a step longer')")
    change = tooltip_over(browser, f"{card('Why single lost')}.querySelectorAll('.mark')[1]")
    assert "+77" in change, change
    assert browser.run(f"[...{card('Losses')}.querySelectorAll('h4')].some((head) => head.textContent === 'Difference to single')")
    ratio = tooltip_over(browser, f"[...{card('Predicted and measured')}.querySelectorAll('.mark')].pop()")
    assert "5.5 ms" in ratio and "110.0 %" in ratio, ratio


@check
def kernel_table_sorts(browser, pages):
    browser.open(pages["profile"])
    times = f"[...{card('Kernels')}.querySelectorAll('tbody tr')].map((row) => Number(row.children[3].textContent))"
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
def kernel_table_shows_the_columns_that_the_file_has(browser, pages):
    browser.open(pages["profile"])
    heads = browser.run(f"[...{card('Kernels')}.querySelectorAll('th button')].map((head) => head.textContent)")
    assert heads[:5] == ["kernel", "layer", "phase", "total ms", "share"], heads
    assert "occupancy percent" in heads, "a figure that this page does not know"
    assert "least ms" not in heads, "a figure that the file does not have"


def memory_totals(timeline):
    """Bytes held at each moment, added up here."""
    return [sum(life[4] for life in timeline["lives"] if life[1] <= moment <= life[2]) for moment in range(len(timeline["moments"]["node"]))]


@check
def memory_shows_the_owner_of_each_byte(browser, pages):
    browser.open(pages["profile"])
    memory = card("Memory over one step")
    timeline = data_of(browser)["runs"][0]["profile"]["memory"]["timelines"][0]
    assert memory_totals(timeline) == [6_000_000, 9_000_000]
    browser.run(f"{memory}.querySelector('svg').focus()")
    browser.run("document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: 'End', bubbles: true}))")
    text = browser.run("document.getElementById('tooltip').textContent")
    assert "9 MB of 10 MB" in text and text.index("conv.out") < text.index("scratch3 MB") < text.index("conv.weight"), text
    assert browser.run(f"{memory}.querySelector('svg').textContent.includes('peak 9 MB')")
    browser.run(f"{memory}.querySelector('summary').click()")
    browser.wait(f"{memory}.querySelectorAll('tbody tr').length === 3")
    rows = browser.run(f"[...{memory}.querySelectorAll('tbody tr')].map((row) => row.children[3].textContent)")
    assert rows == ["4,000,000", "3,000,000", "2,000,000"], rows
    browser.run(f"{memory}.querySelector('input[value=address]').click()")
    browser.wait(f"{memory}.querySelectorAll('.mark').length === 3")
    box = tooltip_over(browser, f"{memory}.querySelectorAll('.mark')[1]")
    assert "3,000,000" in box and "4,000,000 on" in box, box


@check
def memory_of_a_real_run_adds_up(browser, pages):
    browser.open(pages["real profile"])
    memory = card("Memory over one step")
    for i, timeline in enumerate(data_of(browser)["runs"][0]["profile"]["memory"]["timelines"]):
        totals = memory_totals(timeline)
        assert max(totals) == timeline["peak_bytes"] == totals[timeline["peak_moment"]] <= timeline["bytes"]
        browser.run(f"(() => {{ const rank = {memory}.querySelectorAll('fieldset')[0].querySelector('input[value=\"{i}\"]'); if (rank) rank.click(); }})()")
        browser.run(f"{memory}.querySelector('input[value=kernel]').click()")
        browser.wait(f"Boolean({memory}.querySelector('svg').stepped)")
        for moment in (0, len(totals) // 2, len(totals) - 1):
            shown = browser.run(f"(() => {{ const svg = {memory}.querySelector('svg'); svg.stepped(-1e9); svg.stepped({moment}); return document.getElementById('tooltip').textContent; }})()")
            assert f"held{bytes_text(totals[moment])} of" in shown, (moment, shown, totals[moment])


def bytes_text(value):
    for limit, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{float(f'{value / limit:.3g}'):g} {prefix}B"
    return f"{value} B"


@check
def real_runs_show_every_card(browser, pages):
    cards = {"real train": ["Loss", "Accuracy", "Learning rate", "Loss scale", "Images per second", "Confusion of classes", "Worst samples", "16 layers", "Environment", "Resolved job"],
             "real compare": ["Throughput", "Where a step's time goes", "One step of each plan", "Why single lost", "Memory of each rank", "What ranks send each other", "Losses", "Predicted and measured"],
             "real profile": ["Roofline", "Time by layer", "Memory over one step", "Kernels"]}
    for page, titles in cards.items():
        browser.open(pages[page])
        compare = data_of(browser)["runs"][0].get("compare", {})
        for title in titles:
            if title == "Why single lost" and compare.get("winner") == "single":
                continue
            assert browser.run(f"{card(title)} !== undefined"), (page, title)
            assert browser.run(f"[...{card(title)}.querySelectorAll('svg.chart')].every((svg) => svg.querySelectorAll('.line, .dot, .mark, .fill').length > 0)"), (page, title, "is empty")
        text = browser.run("document.body.innerText")
        for word in ("undefined", "NaN", "[object"):
            assert word not in text, (page, word, text[max(0, text.index(word) - 60):][:120])
    browser.open(pages["real train"])
    network = data_of(browser)["runs"][0]["network"]
    assert {layer["stage"] for layer in network["layers"] if "stage" in layer} == {0, 1} and any("split" in layer for layer in network["layers"]), network
