# SPDX-License-Identifier: Apache-2.0
"""Tries the server's web page in headless Chromium and takes the picture of docs/serving.md.

Needs Debian's chromium and chromium-driver, PyPI's selenium, and a running `clover serve`.
Usage: page_screenshot.py URL PICTURE.png
"""

import sys
import time

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

QUESTION = "Repeat this four times: the quick brown fox jumps over the lazy dog."


def main(url, picture):
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.add_argument("--window-size=1000,700")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    page = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    try:
        page.get(url)
        deadline = time.time() + 300
        while "context of" not in page.find_element(By.ID, "model").text:
            assert time.time() < deadline, "the page does not reach its server"
            time.sleep(0.1)
        page.find_element(By.ID, "compare").click()
        page.find_element(By.ID, "question").send_keys(QUESTION + "\n")
        while page.find_element(By.ID, "send").get_attribute("disabled"):
            assert time.time() < deadline, "no answer"
            time.sleep(0.1)
        assert "The same text." in page.find_element(By.ID, "log").text
        assert page.find_elements(By.CSS_SELECTOR, ".text mark"), "nothing is shaded"
        assert not page.find_elements(By.CLASS_NAME, "error")
        # While the model is being loaded the server says 503.
        complaints = [line for line in page.get_log("browser") if " 503 " not in line["message"]]
        assert not complaints, complaints
        page.save_screenshot(picture)
        page.set_window_size(390, 800)  # a phone: nothing sticks out
        wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        assert not page.execute_script(f"return {wide}")
    finally:
        page.quit()


main(*sys.argv[1:])
