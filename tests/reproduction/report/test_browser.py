"""The page in a real browser: no errors, no requests, points that answer."""

import functools
import html
import http.server
import json
import re
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from deepwishart.reproduction.report import write_report
from deepwishart.reproduction.sweeps import ResultsStore, RunSpec

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        CHROMIUM is None, reason="chromium is not installed (Debian: apt-get install chromium)"
    ),
]

OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-extensions", "--disable-dev-shm-usage", "--no-proxy-server"),
    *("--enable-logging=stderr", "--virtual-time-budget=2000", "--dump-dom"),
)
EARS = """<script>
window.heard = [];
addEventListener("error", (event) => heard.push(`error: ${event.message}`));
addEventListener("securitypolicyviolation", (event) => heard.push(`blocked: ${event.blockedURI}`));
for (const name of ["error", "warn"]) console[name] = (text) => heard.push(`${name}: ${text}`);
</script>"""
HANDS = """<script>
addEventListener("load", () => {
  const seen = {};
  const point = (number) => {
    const element = [...document.querySelectorAll("svg g > title")][number].parentNode;
    element.scrollIntoView({block: "center", behavior: "instant"});
    const box = element.getBoundingClientRect();
    const top = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
    const group = top.closest("g:has(> title)");
    return group && group.querySelector("title").textContent;
  };
  const tips = [...document.querySelectorAll("svg g > title")].map((title) => title.textContent);
  const first = (start) => tips.findIndex((tip) => tip.startsWith(start));
  seen.points = Object.fromEntries(
    ["boston split 0 dwp depth 5\\ntraining time", "boston split 0 dwp depth 2\\nELBO",
     "DWP depth 2, boston, paper protocol, mean", "DWP depth 2, boston, published"]
      .map((start) => [tips[first(start)], point(first(start))]));
  seen.resources = performance.getEntriesByType("resource").map((entry) => entry.name);
  seen.heard = heard;
  const result = document.createElement("pre");
  result.id = "seen";
  result.textContent = JSON.stringify(seen);
  document.body.append(result);
});
</script>"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The page on a few runs."""
    store = ResultsStore(tmp_path_factory.mktemp("results"))
    with store.writing():
        for number, process in enumerate(("dwp", "dgp")):
            elbos = [-3.0, -0.5 - number, -0.4 - number]
            curve = {"step": [9, 4999, 9999], "elbo": elbos, "seconds": [1.0, 5e2, 1e3]}
            for depth, elbo in ((2, 10.0), (3, 9.0), (5, -2.0)):
                record = RunSpec("boston", 0, process, depth).to_dict()
                numbers = {"status": "ok", "elbo": elbo - number, "test_log_likelihood": -2.4}
                store.add({**record, **numbers}, curve)
    report = write_report(store.directory, tmp_path_factory.mktemp("report"))
    return next(path for path in report.files if path.suffix == ".html").read_text("utf-8")


def browse(page, folder):
    """The document as a page leaves it, what it logged, and what a server was asked for."""
    (folder / "report.html").write_text(page, "utf-8")
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_request(self, *_: object) -> None:
            asked.append(self.path)

        def log_error(self, *_: object) -> None:
            pass

    handler = functools.partial(Handler, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/report.html"
        command = [CHROMIUM, *OPTIONS, f"--user-data-dir={folder / 'profile'}", address]
        result = subprocess.run(command, capture_output=True, timeout=120)
        server.shutdown()
    logged = re.findall(r"CONSOLE.*", result.stderr.decode("utf-8", "replace"))
    return result.stdout.decode("utf-8"), logged, asked


@pytest.fixture(scope="module")
def seen(page, tmp_path_factory):
    """What a visitor sees who clicks and points, on a page with ears and hands."""
    allowed = page.replace("default-src 'none';", "default-src 'none'; script-src 'unsafe-inline';")
    assert allowed != page
    prepared = allowed.replace("<meta charset", f"{EARS}<meta charset", 1)
    prepared = prepared.replace("</body>", f"{HANDS}</body>", 1)
    document, _, _ = browse(prepared, tmp_path_factory.mktemp("profile"))
    found = re.search(r'<pre id="seen">(.*?)</pre>', document, re.DOTALL)
    assert found, document[-2000:]
    return json.loads(html.unescape(found[1]))


def test_the_page_as_it_is_logs_nothing_and_asks_for_nothing(page, tmp_path: Path):
    document, logged, asked = browse(page, tmp_path)
    assert document.count("<table") == 7
    assert logged == []
    assert asked == ["/report.html"]


def test_errors_and_requests_would_be_noticed(page, tmp_path: Path):
    bad = '<script>setTimeout(() => { throw new Error("ouch") })</script></body>'
    bare = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
    bad = f'<img alt="" src="/picture.png">{bad}'
    _, logged, asked = browse(bare.replace("</body>", bad), tmp_path)
    assert any("ouch" in line for line in logged)
    assert "/picture.png" in asked


def test_no_errors_and_no_resources(seen):
    assert seen["heard"] == []
    assert seen["resources"] == []


def test_pointing_at_a_point_shows_its_run(seen):
    """A browser shows the title of what is under the pointer."""
    assert len(seen["points"]) == 4
    for expected, under_the_pointer in seen["points"].items():
        assert under_the_pointer == expected
    assert any(
        tip.startswith(
            "boston split 0 dwp depth 2\nELBO per data point 10.0000\nTest log likelihood -2.4000"
        )
        for tip in seen["points"]
    )
