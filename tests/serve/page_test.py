# SPDX-License-Identifier: Apache-2.0
"""The server's page in headless Chromium. Usage: page_test.py CLOVER MODEL [SCREENSHOT]"""

import re
import sys
import time

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from server import Server

CLOVER, MODEL = sys.argv[1:3]
PHONE, DESK = (390, 844), (1100, 900)


def open_browser():
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options, webdriver.ChromeService("/usr/bin/chromedriver"))


class Page:
    def __init__(self, browser, server):
        self.browser = browser
        self.server = server

    def open(self, size):
        # The content's size, which windows have a smallest of.
        self.browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size == PHONE},
        )
        self.browser.get(f"http://127.0.0.1:{self.server.port}/")
        self.until(lambda: "context of" in self.id("model").text)

    def id(self, name):
        return self.browser.find_element(By.ID, name)

    def all(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def texts(self, selector):
        return [element.text for element in self.all(selector)]

    def until(self, condition, seconds=60):
        deadline = time.time() + seconds
        while not condition():
            assert time.time() < deadline, self.browser.find_element(By.TAG_NAME, "body").text
            time.sleep(0.05)

    def idle(self):
        return self.id("send").is_enabled()

    def focused(self):
        return self.browser.switch_to.active_element.get_attribute("id")

    def press(self, *keys):
        """To what has the focus; a modifier holds for the keys behind it, until Keys.NULL."""
        self.browser.switch_to.active_element.send_keys(*keys)

    def fits(self):
        """Nothing sticks out to the right."""
        return self.browser.execute_script(
            "return document.documentElement.scrollWidth <= window.innerWidth"
        )


def check_answer(page):
    page.open(DESK)
    page.id("question").send_keys("List five fruits, then list the same five fruits again.")
    page.id("send").click()
    page.until(lambda: page.idle() and page.texts(".text"))
    (text,) = page.texts(".text")
    assert len(text) > 20
    # It is what the API says, and what was drafted is shaded.
    messages = [{"role": "user", "content": "List five fruits, then list the same five fruits again."}]
    fields = {"messages": messages, "temperature": 0, "max_tokens": 256, "seed": 1}
    _, answer = page.server.post("/v1/chat/completions", {**fields, "speculation": {}})
    (choice,) = answer["choices"]
    assert page.browser.execute_script(
        "return document.querySelector('.text').textContent"
    ) == choice["message"]["content"]
    shaded = "".join(page.browser.execute_script(
        "return [...document.querySelectorAll('.text mark')].map(m => m.textContent)"
    ))
    assert 0 < len(shaded) < len(choice["message"]["content"])
    assert re.search(r"[\d.]+ tokens/s · first after \d+ ms · [\d.]+ extra tokens a step",
                     page.texts(".figures")[0]), page.texts(".figures")
    # Read out, and ready for the next question, which goes on with the conversation.
    assert page.id("status").get_attribute("textContent").endswith(choice["message"]["content"])
    assert page.id("status").get_attribute("aria-live") == "polite"
    assert page.focused() == "question"
    page.press("And again?", Keys.ENTER)
    page.until(lambda: page.idle() and len(page.texts(".text")) == 2)
    messages += [{"role": "assistant", "content": choice["message"]["content"]},
                 {"role": "user", "content": "And again?"}]
    _, answer = page.server.post("/v1/chat/completions", fields)
    assert page.browser.execute_script(
        "return [...document.querySelectorAll('.text')].pop().textContent"
    ) == answer["choices"][0]["message"]["content"]
    page.id("clear").click()
    assert page.texts(".turn") == []


def check_side_by_side(page, screenshot):
    page.open(DESK)
    page.id("compare").click()
    page.id("question").send_keys(
        "Explain to a child what a river is and where its water comes from."
    )
    page.id("send").click()
    page.until(lambda: page.idle() and len(page.texts(".text")) == 2, 120)
    one, two = page.texts(".text")
    assert one == two and "The same text." in page.texts(".answer")[1]
    assert page.texts("h2") == ["With speculation", "Without speculation"]
    left, right = page.all(".answer")
    assert left.rect["x"] + left.rect["width"] <= right.rect["x"]  # beside each other
    assert right.find_elements(By.CSS_SELECTOR, "mark") == []
    assert left.find_elements(By.CSS_SELECTOR, "mark") != []
    if screenshot:
        page.browser.save_screenshot(screenshot)
    # On a phone below each other.
    page.browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": PHONE[0], "height": PHONE[1], "deviceScaleFactor": 1, "mobile": True},
    )
    left, right = page.all(".answer")
    assert left.rect["y"] + left.rect["height"] <= right.rect["y"]
    assert page.fits()


def check_keyboard(page):
    """Everything without a mouse, in an order that makes sense."""
    page.open(DESK)
    seen = []
    for _ in range(6):
        page.press(Keys.TAB)
        seen.append(page.focused() or page.browser.switch_to.active_element.tag_name)
    order = ["summary", "question", "send", "clear", "drafts", "compare"]
    assert seen == order, seen
    outline = page.browser.execute_script(
        "document.getElementById('send').focus();"
        "return getComputedStyle(document.getElementById('send')).outlineStyle"
    )
    assert outline == "solid"
    page.open(DESK)
    page.press(Keys.TAB)
    page.press(Keys.ENTER)  # opens the settings
    page.until(lambda: page.id("max_tokens").is_displayed())
    page.browser.execute_script("arguments[0].focus()", page.id("max_tokens"))
    page.press(Keys.CONTROL, "a", Keys.NULL, "2000")
    page.browser.execute_script("arguments[0].focus()", page.id("question"))
    page.press("Tell me", Keys.SHIFT, Keys.ENTER, Keys.NULL, "a very long story.", Keys.ENTER)
    page.until(lambda: page.texts(".text") and len(page.texts(".text")[0]) > 20)
    assert not page.idle() and page.id("stop-button").is_enabled()
    assert "Tell me\na very long story." in page.texts(".user")[0]
    page.press(Keys.ESCAPE)
    page.until(page.idle, 5)
    assert "stopped" in page.texts(".figures")[0]
    page.server.quiet(5)  # the slot is free
    # Every control has a name for who cannot see it.
    names = page.browser.execute_script(
        "return [...document.querySelectorAll('input,textarea,button')].map("
        "e => e.labels && e.labels.length ? e.labels[0].textContent : e.textContent)"
    )
    assert all(name.strip() for name in names), names


def check_new_conversation(page):
    """A new conversation while an answer is being made has nothing of the old one."""
    page.open(DESK)
    page.id("question").send_keys("Tell me a very long story.", Keys.ENTER)
    page.until(lambda: page.texts(".text") and len(page.texts(".text")[0]) > 5)
    page.id("clear").click()
    page.until(page.idle, 10)
    assert page.texts(".turn") == []
    assert page.browser.execute_script("return turns.length") == 0


def check_phone(page):
    page.open(PHONE)
    assert page.fits()
    page.press(Keys.TAB)
    page.press(Keys.ENTER)
    page.until(lambda: page.id("max_tokens").is_displayed())
    assert page.fits()
    for name in ("send", "stop-button", "clear"):  # big enough for a finger
        assert page.id(name).rect["height"] >= 40
    page.id("question").send_keys("x" * 300 + " and say hello.", Keys.ENTER)
    page.until(lambda: page.idle() and page.texts(".figures"), 120)
    assert page.fits()


def check_errors(page):
    page.open(DESK)
    page.browser.execute_script("arguments[0].value = 'word '.repeat(9000)", page.id("question"))
    page.id("send").click()
    page.until(lambda: page.texts(".error"))
    assert "context" in page.texts(".error")[0]
    page.until(page.idle)
    # Text is text: nothing in it is markup.
    page.id("question").send_keys("<img src=x onerror='document.title=1'><b>hi</b>", Keys.ENTER)
    page.until(lambda: page.idle() and len(page.texts(".user")) == 2)
    assert page.all(".user b") == [] and page.all(".user img") == []
    assert page.browser.title == "Clover"


def check_resources(browser, server):
    """Nothing from elsewhere, and nothing that the page's own rules forbid."""
    asked = re.findall(r'"url":"(https?://[^"]+)"', str(browser.get_log("performance")))
    assert asked and all(url.startswith(f"http://127.0.0.1:{server.port}/") for url in asked), asked
    complaints = [
        entry for entry in browser.get_log("browser")
        if entry["level"] == "SEVERE" and "status of 400" not in entry["message"]
    ]
    assert complaints == [], complaints


def main():
    screenshot = sys.argv[3] if len(sys.argv) > 3 else None
    with Server(CLOVER, "-m", MODEL) as server:
        browser = open_browser()
        try:
            page = Page(browser, server)
            for check in (check_answer, check_keyboard, check_new_conversation, check_phone,
                          check_errors):
                begin = time.time()
                check(page)
                print(f"{check.__name__}: {time.time() - begin:.1f} s", flush=True)
            check_side_by_side(page, screenshot)
            check_resources(browser, server)
        finally:
            browser.quit()
        server.quiet()


main()
