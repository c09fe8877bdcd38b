"""Take the picture of a report that the README shows, with the Chromium that is installed.

python tools/screenshot_report.py RUN/report.html docs/report.png
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
WIDTH, HEIGHT = 1120, 1000


def main(page: Path, picture: Path) -> None:
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        raise SystemExit(
            f"a picture of {page}: none of {', '.join(NAMES)} is installed. "
            "Run as root: sh tools/install_chromium.sh"
        )
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        opened = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        opened.goto(page.resolve().as_uri())
        opened.screenshot(path=picture)
        browser.close()
    print(f"{picture}: {picture.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
