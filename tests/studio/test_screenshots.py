"""The pictures of docs/studio.md: `make test-studio ARGS=--screenshots=docs/images` makes them again."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from tests.studio.conftest import shown

IMAGES = Path(__file__).parents[2] / "docs" / "images"
NAMES = ("studio-threads", "studio-thread", "studio-differences", "studio-store", "studio-phone")
LARGEST = 200_000


def take(page: Any, folder: Path, name: str) -> None:
    """Write a picture with 256 colours, which is a third of the size and looks the same."""
    image = pytest.importorskip("PIL.Image", reason="pip install pillow")
    taken = image.open(io.BytesIO(page.screenshot(animations="disabled", caret="hide"))).convert("RGB")
    drawn = taken.quantize(256, method=image.Quantize.MEDIANCUT, dither=image.Dither.NONE)
    folder.mkdir(parents=True, exist_ok=True)
    drawn.save(folder / f"{name}.png", optimize=True)


def test_every_view_makes_a_good_picture(studio, tmp_path, request):
    folder = Path(request.config.getoption("--screenshots", None) or tmp_path / "images")
    page = studio.open(width=1280, height=760)
    page.locator(".rows li").nth(10).wait_for()
    shown(page, "Live", ".top")
    take(page, folder, "studio-threads")
    page.goto(f"{studio.address}/#/thread/trip-lisbon")
    shown(page, "Booked:", ".conversation")
    page.locator("[aria-labelledby=state] .tree").get_by_text("LX-20841").wait_for()
    take(page, folder, "studio-thread")
    page.locator(".checkpoint").nth(1).click()
    page.get_by_role("button", name="Compare with parent").click()
    page.locator(".change ins").first.wait_for()
    page.mouse.move(5, 5)
    take(page, folder, "studio-differences")
    page.goto(f"{studio.address}/#/store")
    page.get_by_role("button", name="Verify every record").click()
    shown(page, "No damage")
    page.mouse.move(5, 5)
    take(page, folder, "studio-store")
    phone = studio.open("#/thread/trip-lisbon", width=390, height=760, color_scheme="dark")
    shown(phone, "Booked:", ".conversation")
    take(phone, folder, "studio-phone")
    for name in NAMES:
        assert 5_000 < (folder / f"{name}.png").stat().st_size < LARGEST, name


def test_the_pictures_of_the_docs_are_small_and_used():
    text = (IMAGES.parent / "studio.md").read_text(encoding="utf-8")
    assert {path.stem for path in IMAGES.glob("studio-*.png")} == set(NAMES)
    for name in NAMES:
        assert f"images/{name}.png" in text
        assert (IMAGES / f"{name}.png").stat().st_size < LARGEST
