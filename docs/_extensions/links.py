"""Every link between pages leads somewhere: a dead one, or a script from elsewhere, fails the
build."""

import re
from pathlib import Path
from urllib.parse import unquote, urldefrag

from sphinx.application import Sphinx
from sphinx.util import logging

LOGGER = logging.getLogger(__name__)
ANCHOR = re.compile(r'\b(?:id|name)="([^"]+)"')
LINK = re.compile(r'<a\b[^>]*?\bhref="([^"]+)"')
FETCHED = re.compile(r'<(?:script|img|link|source)\b[^>]*?\b(?:src|href)="((?:https?:)?//[^"]+)"')


def check(app: Sphinx, failed: Exception | None) -> None:
    """Look at every page that was written."""
    if failed or app.builder.name != "html":
        return
    root = Path(app.outdir)
    texts = {page: page.read_text(encoding="utf-8") for page in root.rglob("*.html")}
    anchors = {page: set(ANCHOR.findall(text)) for page, text in texts.items()}
    for page, text in texts.items():
        where = page.relative_to(root)
        for address in FETCHED.findall(text):
            LOGGER.warning("%s needs the network for %s", where, address)
        for address in set(LINK.findall(text)):
            if re.match(r"[a-z]+:", address):
                continue
            path, fragment = urldefrag(address)
            target = (page.parent / unquote(path)).resolve() if path else page
            known = anchors.get(target)
            if not target.exists() or (fragment and known is not None and fragment not in known):
                LOGGER.warning("%s links to %s, which does not exist", where, address)


def follow(app: Sphinx, module: str, name: str) -> str | None:
    """Where the source of a name is. Links from a source back to its pages all lead to one page:
    that of these modules describes the rest of them, so these names get no source."""
    return module if module == "deepwishart" and name in ("build", "load", "sample_prior") else None


def setup(app: Sphinx) -> dict[str, bool]:
    app.setup_extension("sphinx.ext.viewcode")
    app.connect("viewcode-follow-imported", follow)
    app.connect("build-finished", check)
    return {"parallel_read_safe": True}
