"""The page in a real browser: no errors, no requests, tables that sort, points that answer."""

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
  const table = document.querySelector("#elbo table");
  const column = (number) => [...table.tBodies[0].rows].map((row) => row.cells[number].innerText);
  const headings = [...table.querySelectorAll("th")];
  const press = (number) => headings[number].querySelector("button").click();
  seen.headings = headings.map((heading) => heading.innerText);
  press(3);
  seen.ascending = column(3);
  seen.sort = headings[3].getAttribute("aria-sort");
  press(3);
  seen.descending = column(3);
  press(0);
  seen.names = column(0);
  seen.depths = column(1);
  seen.sorts = headings.map((heading) => heading.getAttribute("aria-sort"));

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


class Server:
    """Serves pages on this machine, and remembers what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.pages: dict[str, str] = {}
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked.append(self.path)
                body = server.pages.get(self.path, "").encode()
                self.send_response(200 if body else 404)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def address(self, path: str) -> str:
        return f"http://127.0.0.1:{self._server.server_port}{path}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


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


def browse(page, profile):
    """The document as a page leaves it, what it logged, and what the server was asked for."""
    server = Server()
    server.pages["/report.html"] = page
    try:
        command = [CHROMIUM, *OPTIONS, f"--user-data-dir={profile}", server.address("/report.html")]
        result = subprocess.run(command, capture_output=True, timeout=120)
    finally:
        server.close()
    logged = re.findall(r"CONSOLE.*", result.stderr.decode("utf-8", "replace"))
    return result.stdout.decode("utf-8"), logged, server.asked


@pytest.fixture(scope="module")
def seen(page, tmp_path_factory):
    """What a visitor sees who clicks and points, on a page with ears and hands."""
    prepared = page.replace("<meta charset", f"{EARS}<meta charset", 1)
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


def test_tables_sort_by_clicking_headings(seen):
    assert seen["headings"][:4] == ["data set", "depth", "DWP published", "DWP (paper)"]
    assert len(seen["ascending"]) == 36
    # as numbers, not as texts; rows without a number stay at the end
    assert [text.split()[0] for text in seen["ascending"][:4]] == ["-2.00", "9.00", "10.00", "—"]
    assert [text.split()[0] for text in seen["descending"][:4]] == ["10.00", "9.00", "-2.00", "—"]
    assert seen["sort"] == "ascending"
    assert seen["names"] == sorted(seen["names"])
    assert seen["depths"][:4] == ["2", "3", "5", "4"]  # ties keep the order they were in
    assert seen["sorts"] == ["ascending"] + [None] * (len(seen["headings"]) - 1)


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
